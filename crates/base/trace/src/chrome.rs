//! A trace as a file in Chrome's trace event format, which Perfetto and chrome://tracing open: one
//! JSON object, times in microseconds
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>).

use crate::event::{Argument, DEVICE_THREAD, Event, Kind};
use crate::recorder::Trace;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime};

/// Description of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Rank, which numbers the process in the file.
    pub rank: usize,
    /// Name of the process.
    pub process: &'a str,
    /// Name of the device.
    pub device: &'a str,
}

impl Trace {
    /// Sentences about what the trace lacks.
    pub fn gaps(&self) -> impl Iterator<Item = String> {
        [self.cut(), self.without_times()].into_iter().flatten()
    }

    fn without_times(&self) -> Option<String> {
        (self.untimed > 0).then(|| {
            format!(
                "{} launches and copies are not in the trace: the device did not say when they were done",
                self.untimed
            )
        })
    }

    fn cut(&self) -> Option<String> {
        (self.dropped > 0).then(|| {
            format!(
                "the trace was cut: there is room for {} events, and {} more are not in it, the first of them after {:.3} s",
                self.limit,
                self.dropped,
                self.first_dropped.unwrap_or_default().as_secs_f64()
            )
        })
    }

    /// Writes the file, piece by piece.
    ///
    /// # Errors
    /// Errors of `write`.
    pub fn write<E>(
        &self,
        origin: Origin<'_>,
        write: &mut dyn FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let since = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut about = json!({
            "program": "isentrope",
            "version": env!("CARGO_PKG_VERSION"),
            "rank": origin.rank,
            "began_unix_us": since.as_micros() as u64,
        });
        if let Some(cut) = self.cut() {
            about["cut"] = cut.into();
        }
        if let Some(untimed) = self.without_times() {
            about["untimed"] = untimed.into();
        }
        write(&format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[\n"))?;
        let mut lines = self.names(origin);
        lines.extend(self.cut().map(|cut| {
            let at = microseconds(self.first_dropped.unwrap_or_default());
            json!({ "ph": "i", "s": "g", "name": cut, "pid": origin.rank, "tid": 0, "ts": at })
        }));
        lines.extend(self.without_times().map(|untimed| {
            json!({ "ph": "i", "s": "g", "name": untimed, "pid": origin.rank, "tid": 0, "ts": 0.0 })
        }));
        for line in lines {
            write(&format!("{line},\n"))?;
        }
        for event in &self.events {
            write(&format!("{},\n", line(event, origin.rank)))?;
        }
        // The last event has no comma.
        let end = json!({ "ph": "i", "s": "p", "name": "end", "pid": origin.rank, "tid": 0, "ts": microseconds(self.took) });
        write(&format!("{end}\n]}}\n"))
    }

    /// The names of the process and its threads.
    fn names(&self, origin: Origin<'_>) -> Vec<Value> {
        let pid = origin.rank;
        let of = |what: &str, tid: u32, args: Value| json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": args });
        let mut names = vec![of("process_name", 0, json!({ "name": origin.process }))];
        for (&thread, name) in &self.threads {
            let name = if thread == DEVICE_THREAD {
                format!("device: {}", origin.device)
            } else {
                name.clone()
            };
            names.push(of("thread_name", thread, json!({ "name": name })));
            names.push(of("thread_sort_index", thread, json!({ "sort_index": thread })));
        }
        names
    }
}

fn line(event: &Event, rank: usize) -> Value {
    let Event { kind, name, thread, began, took, arguments } = *event;
    let began = microseconds(began);
    let said: Map<String, Value> = arguments
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let value = match value {
                Argument::Number(number) => number.into(),
                Argument::Name(name) => name.into(),
            };
            (key.to_owned(), value)
        })
        .collect();
    match kind {
        Kind::Counter => {
            json!({ "ph": "C", "name": name, "pid": rank, "tid": thread, "ts": began, "args": said })
        }
        _ => json!({
            "ph": "X", "cat": kind.name(), "name": name, "pid": rank, "tid": thread, "ts": began,
            "dur": microseconds(took), "args": said,
        }),
    }
}

/// To the nanosecond.
fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
