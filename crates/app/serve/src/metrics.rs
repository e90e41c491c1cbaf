//! Counters, in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Answers by HTTP status. A streamed answer that fails later counts as 200.
    answers: Mutex<BTreeMap<u16, u64>>,
    /// Tokens of accepted prompts.
    pub prompt_tokens: AtomicU64,
    /// Sampled tokens.
    pub sampled_tokens: AtomicU64,
    /// Requests whose client left, or whose time was over.
    pub withdrawn: AtomicU64,
    /// Failures of the model or of a request in the engine.
    pub failures: AtomicU64,
    /// Sequences that are being decoded.
    pub running: AtomicUsize,
    /// Sequences that have not begun.
    pub waiting: AtomicUsize,
}

impl Metrics {
    /// Counts an answer.
    pub fn count_answer(&self, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status).or_default() += 1;
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = "# HELP isentrope_requests_total Answers by HTTP status.\n\
                        # TYPE isentrope_requests_total counter\n"
            .to_owned();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, count) in &*answers {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "isentrope_requests_total{{status=\"{status}\"}} {count}");
        }
        let counters = [
            ("prompt_tokens", "Tokens of accepted prompts.", &self.prompt_tokens),
            ("generation_tokens", "Sampled tokens.", &self.sampled_tokens),
            ("requests_withdrawn", "Requests whose client left or time was over.", &self.withdrawn),
            ("request_failures", "Requests that failed in the model.", &self.failures),
        ];
        let gauges = [
            ("sequences_running", "Sequences that are being decoded.", &self.running),
            ("sequences_waiting", "Sequences that have not begun.", &self.waiting),
        ];
        let mut add = |name: &str, help: &str, kind: &str, value: u64| {
            let _ = writeln!(
                text,
                "# HELP isentrope_{name} {help}\n# TYPE isentrope_{name} {kind}\nisentrope_{name} \
                 {value}"
            );
        };
        for (name, help, value) in counters {
            add(&format!("{name}_total"), help, "counter", value.load(Ordering::Relaxed));
        }
        for (name, help, value) in gauges {
            add(name, help, "gauge", value.load(Ordering::Relaxed) as u64);
        }
        text
    }
}
