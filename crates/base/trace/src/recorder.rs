//! The recorder of a process.

use crate::event::{Argument, Arguments, DEVICE_THREAD, Event, Kind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Whether a trace is being recorded.
static ON: AtomicBool = AtomicBool::new(false);
/// Number of the recording, which keeps events of an earlier one out.
static RECORDING: AtomicU64 = AtomicU64::new(0);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
/// Number of the next thread that records an event.
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// Number of this thread; 0 if it has none yet.
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// Name of this thread, if it was named here.
    static NAME: RefCell<Option<&'static str>> = const { RefCell::new(None) };
}

/// Phases to record beyond the limit. They are few and hold the others together.
const PHASES_BEYOND: usize = 10_000;

struct Recorder {
    began: Instant,
    /// Events that are recorded or under way.
    reserved: usize,
    trace: Trace,
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its start.
    pub began: SystemTime,
    /// Its duration.
    pub took: Duration,
    /// Events, in the order of their ends.
    pub events: Vec<Event>,
    /// Names of threads, by number.
    pub threads: BTreeMap<u32, String>,
    /// Number of events beyond the limit.
    pub dropped: u64,
    /// Start of the first event beyond the limit.
    pub first_dropped: Option<Duration>,
    /// Number of pieces of device work with unknown times, which are left out.
    pub untimed: u64,
    /// Limit on events, phases excepted.
    pub limit: usize,
}

/// Whether a trace is being recorded.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts recording. An earlier recording that was not [ended](end) is lost. At most `events`
/// events are kept, and some more phases; further events are counted.
pub fn begin(limit: usize) {
    let mut recorder = recorder();
    RECORDING.fetch_add(1, Ordering::Relaxed);
    *recorder = Some(Recorder {
        began: Instant::now(),
        reserved: 0,
        trace: Trace {
            began: SystemTime::now(),
            took: Duration::ZERO,
            events: Vec::new(),
            threads: BTreeMap::new(),
            dropped: 0,
            first_dropped: None,
            untimed: 0,
            limit,
        },
    });
    ON.store(true, Ordering::Relaxed);
}

/// Ends the recording, if there is one. Open spans are left out.
pub fn end() -> Option<Trace> {
    let Recorder { began, trace, .. } = recorder().take()?;
    ON.store(false, Ordering::Relaxed);
    Some(Trace { took: began.elapsed(), ..trace })
}

/// The events recorded so far, in the order of their ends.
pub fn events() -> Vec<Event> {
    recorder().as_ref().map(|recorder| recorder.trace.events.clone()).unwrap_or_default()
}

/// Records a new value of a counter.
#[inline]
pub fn count(name: &'static str, value: u64) {
    if is_on() {
        let value = [Some(("value", Argument::Number(value))), None];
        let now = Instant::now();
        add(Kind::Counter, name, this_thread(), now, Duration::ZERO, value);
    }
}

/// Records work of the device, if there is a recording.
pub fn on_device(name: &'static str, began: Instant, took: Duration, arguments: Arguments) {
    add(Kind::Device, name, DEVICE_THREAD, began, took, arguments);
}

/// Counts work of the device with unknown times, if there is a recording.
pub fn untimed(count: usize) {
    if let Some(recorder) = recorder().as_mut() {
        recorder.trace.untimed += count as u64;
    }
}

/// Names this thread in traces, unless it has a name.
pub fn name_thread(name: &'static str) {
    NAME.set(Some(name));
}

fn add(
    kind: Kind,
    name: &'static str,
    thread: u32,
    began: Instant,
    took: Duration,
    arguments: Arguments,
) {
    if let Some(recording) = reserve(kind, began) {
        push(Reserved { recording, kind, name, thread, began, took, arguments });
    }
}

/// An event within the limit.
pub(crate) struct Reserved {
    pub recording: u64,
    pub kind: Kind,
    pub name: &'static str,
    pub thread: u32,
    pub began: Instant,
    pub took: Duration,
    pub arguments: Arguments,
}

/// Reserves room for an event before the events inside it take it. Returns the recording's number.
pub(crate) fn reserve(kind: Kind, began: Instant) -> Option<u64> {
    let mut recorder = recorder();
    let recorder = recorder.as_mut()?;
    let Recorder { began: start, reserved, trace } = recorder;
    let beyond = if kind.is_fine() { 0 } else { PHASES_BEYOND };
    if *reserved >= trace.limit.saturating_add(beyond) {
        trace.dropped += 1;
        trace.first_dropped.get_or_insert(began.saturating_duration_since(*start));
        return None;
    }
    *reserved += 1;
    Some(RECORDING.load(Ordering::Relaxed))
}

/// Records an event with reserved room, unless its recording is over.
pub(crate) fn push(event: Reserved) {
    let mut recorder = recorder();
    let Some(recorder) = recorder.as_mut() else { return };
    let Reserved { recording, kind, name, thread, began, took, arguments } = event;
    if recording != RECORDING.load(Ordering::Relaxed) {
        return;
    }
    recorder.trace.threads.entry(thread).or_insert_with(|| {
        let own = thread::current();
        match (thread, NAME.with_borrow(|name| *name)) {
            (DEVICE_THREAD, _) => "device".to_owned(),
            (_, Some(name)) => name.to_owned(),
            (thread, None) => own.name().map_or_else(|| format!("thread {thread}"), str::to_owned),
        }
    });
    let began = began.saturating_duration_since(recorder.began);
    recorder.trace.events.push(Event { kind, name, thread, began, took, arguments });
}

/// The number of this thread.
pub(crate) fn this_thread() -> u32 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}
