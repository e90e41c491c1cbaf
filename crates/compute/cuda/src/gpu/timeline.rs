//! Times of the GPU's work, while a trace is recorded. The driver's events stand around each launch
//! and copy. Their times are read after the host has waited for the stream for other reasons.
//!
//! Nothing here fails. If the driver has no time for some work, the trace lacks and counts it. An
//! earlier kernel's error is reported by the measured call, as without a trace.

use super::calls::Calls;
use super::stream::Stream;
use cudarc::driver::sys::CUevent;
use isentrope_trace::{Argument, is_on, on_device, untimed};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most measured work before the host waits for its times, which makes a traced step slower.
const MOST: usize = 1 << 16;
/// After this time the two clocks are compared again, as soon as no work waits for its time. So
/// errors add up no longer than this, and over no more work than [`MOST`].
const RENEWED: Duration = Duration::from_secs(1);

/// Times of a stream's work.
#[derive(Default)]
pub(super) struct Timeline(Mutex<State>);

#[derive(Default)]
struct State {
    /// An event whose time is known on the host's clock.
    base: Option<(Event, Instant)>,
    /// Measured work whose times are not read yet, in the order of the stream.
    waiting: Vec<Measured>,
    /// Events for further use.
    free: Vec<Event>,
}

/// An event of the driver, which stays as long as the stream.
#[derive(Clone, Copy)]
struct Event(CUevent);

// SAFETY: the driver's functions take its events on any thread that has the context, and only the
// lock's holder uses them.
unsafe impl Send for Event {}

struct Measured {
    name: &'static str,
    bytes: Option<usize>,
    began: Event,
    ended: Event,
}

/// Work that is being put into the stream. Dropping this ends the measurement.
pub(super) struct Timed<'a>(Option<(&'a Stream, &'static str, Option<usize>, Event)>);

impl Stream {
    /// Measures, if a trace is recorded, the work that is put into the stream until the result is
    /// dropped: a kernel, or a copy of `bytes` bytes.
    pub fn timed(&self, name: &'static str, bytes: Option<usize>) -> Timed<'_> {
        Timed(if is_on() && self.is_timed { self.begin(name, bytes) } else { None })
    }

    #[cold]
    fn begin(
        &self,
        name: &'static str,
        bytes: Option<usize>,
    ) -> Option<(&Self, &'static str, Option<usize>, Event)> {
        let begun = self.begun();
        if begun.is_none() {
            untimed(1);
        }
        begun.map(|began| (self, name, bytes, began))
    }

    /// The event that work begins with.
    fn begun(&self) -> Option<Event> {
        let mut state = self.timeline.state();
        if state.waiting.len() >= MOST {
            drop(state);
            // SAFETY: the stream lives as long as this.
            self.call(|calls| unsafe { (calls.cuStreamSynchronize)(self.handle) }).ok()?;
            self.report_times();
            state = self.timeline.state();
            if state.waiting.len() >= MOST {
                // The driver gives no times. Later work is not measured, because every try would
                // wait.
                return None;
            }
        }
        let is_old = |(_, at): (Event, Instant)| at.elapsed() > RENEWED;
        if state.waiting.is_empty() && state.base.is_none_or(is_old) {
            let old = state.base.take();
            state.free.extend(old.map(|(event, _)| event));
            state.base = Some(self.base(&mut state)?);
        }
        self.record(&mut state)
    }

    /// An event that the stream has passed, with the time when it did.
    fn base(&self, state: &mut State) -> Option<(Event, Instant)> {
        let event = self.record(state)?;
        // SAFETY: the event was recorded in this context.
        self.call(|calls| unsafe { (calls.cuEventSynchronize)(event.0) }).ok()?;
        Some((event, Instant::now()))
    }

    /// Puts an event into the stream.
    fn record(&self, state: &mut State) -> Option<Event> {
        let event = match state.free.pop() {
            Some(event) => event,
            None => {
                let mut event = ptr::null_mut();
                // SAFETY: the driver writes the event. With flags 0 it has a time.
                self.call(|calls| unsafe { (calls.cuEventCreate)(&raw mut event, 0) }).ok()?;
                Event(event)
            }
        };
        // SAFETY: event and stream are of this context, and live as long as it.
        match self.call(|calls| unsafe { (calls.cuEventRecord)(event.0, self.handle) }) {
            Ok(()) => Some(event),
            Err(_) => {
                state.free.push(event);
                None
            }
        }
    }

    /// Reports the times of finished work. Call it after the host has waited for the stream.
    pub(super) fn report_times(&self) {
        let mut state = self.timeline.state();
        let State { base, waiting, free } = &mut *state;
        let Some((mut event, mut at)) = *base else { return };
        let mut known = 0;
        for Measured { name, bytes, began, ended } in &*waiting {
            // Another thread may have added this work after the host waited.
            let (Some(until), Some(took)) =
                (self.between(event, *began), self.between(*began, *ended))
            else {
                break;
            };
            let bytes = bytes.map(|bytes| ("bytes", Argument::Number(bytes as u64)));
            on_device(name, at + until, took, [bytes, None]);
            // The next times count from the end of this work, because the driver's long times are
            // inexact.
            free.extend([event, *began]);
            (event, at) = (*ended, at + until + took);
            known += 1;
        }
        waiting.drain(..known);
        *base = Some((event, at));
    }

    fn between(&self, began: Event, ended: Event) -> Option<Duration> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events were recorded, and the driver writes one number.
        let asked = self.call(|calls| unsafe {
            (calls.cuEventElapsedTime)(&raw mut milliseconds, began.0, ended.0)
        });
        asked.ok().map(|()| {
            Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or_default()
        })
    }
}

impl Timeline {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the events back to the driver, in their context.
    pub(super) fn destroy(&self, calls: &Calls) {
        let State { base, waiting, free } = std::mem::take(&mut *self.state());
        let measured = waiting.into_iter().flat_map(|measured| [measured.began, measured.ended]);
        for event in base.map(|(event, _)| event).into_iter().chain(free).chain(measured) {
            // SAFETY: the event is of the context that is current, and is not used again.
            unsafe { (calls.cuEventDestroy_v2)(event.0) };
        }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let Some((stream, name, bytes, began)) = self.0.take() else { return };
        let mut state = stream.timeline.state();
        match stream.record(&mut state) {
            Some(ended) => state.waiting.push(Measured { name, bytes, began, ended }),
            None => {
                state.free.push(began);
                untimed(1);
            }
        }
    }
}
