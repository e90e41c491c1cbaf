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
    /// Sentences about gaps in the trace.
    pub fn gaps(&self) -> impl Iterator<Item = String> {
        self.gaps_by_key().into_iter().map(|(_, _, gap)| gap)
    }

    /// The gaps of the trace: a key of the file, the time of the first gap, and a sentence.
    fn gaps_by_key(&self) -> Vec<(&'static str, Duration, String)> {
        let mut gaps = Vec::new();
        if self.dropped > 0 {
            let first = self.first_dropped.unwrap_or_default();
            let cut = format!(
                "the trace was cut: there is room for {} events, and {} more are not in it, the \
                 first of them after {:.3} s",
                self.limit,
                self.dropped,
                first.as_secs_f64()
            );
            gaps.push(("cut", first, cut));
        }
        if self.untimed > 0 {
            let untimed = format!(
                "{} launches and copies are not in the trace: the device did not say when they \
                 were done",
                self.untimed
            );
            gaps.push(("untimed", Duration::ZERO, untimed));
        }
        gaps
    }

    /// Writes the file, piece by piece.
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
        let gaps = self.gaps_by_key();
        for (key, _, gap) in &gaps {
            about[*key] = gap.as_str().into();
        }
        write(&format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[\n"))?;
        let mut lines = self.names(origin);
        lines.extend(gaps.iter().map(|(_, since, gap)| {
            let at = microseconds(*since);
            json!({ "ph": "i", "s": "g", "name": gap, "pid": origin.rank, "tid": 0, "ts": at })
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
    let argument = |(key, value): (&str, Argument)| match value {
        Argument::Number(number) => (key.to_owned(), Value::from(number)),
        Argument::Name(name) => (key.to_owned(), Value::from(name)),
    };
    let arguments: Map<String, Value> = arguments.into_iter().flatten().map(argument).collect();
    match kind {
        Kind::Counter => {
            json!({ "ph": "C", "name": name, "pid": rank, "tid": thread, "ts": began, "args": arguments })
        }
        _ => json!({
            "ph": "X", "cat": kind.name(), "name": name, "pid": rank, "tid": thread, "ts": began,
            "dur": microseconds(took), "args": arguments,
        }),
    }
}

/// To the nanosecond.
fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
