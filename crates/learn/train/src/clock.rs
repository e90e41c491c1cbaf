//! The time of a step, by phase.

use crate::metrics::Metrics;
use isentrope_trace::span;
use std::time::{Duration, Instant};

/// The time that each phase of a step took, and its tokens.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    /// Time of steps that are over.
    before: Duration,
    times: Vec<(&'static str, Duration)>,
    tokens: Vec<(&'static str, usize)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            before: Duration::ZERO,
            times: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

impl Clock {
    /// Times a phase, which is a span of a trace as well.
    pub fn time<R>(&mut self, phase: &'static str, work: impl FnOnce() -> R) -> R {
        let _span = span(phase);
        let started = Instant::now();
        let result = work();
        self.add(phase, started.elapsed());
        result
    }

    /// Adds to a phase's time.
    pub fn add(&mut self, phase: &'static str, time: Duration) {
        match self.times.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += time,
            None => self.times.push((phase, time)),
        }
    }

    /// Adds to the tokens that went through a phase.
    pub fn count(&mut self, phase: &'static str, tokens: usize) {
        match self.tokens.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += tokens,
            None => self.tokens.push((phase, tokens)),
        }
    }

    /// Adds a step that is over.
    pub fn merge(&mut self, step: &Self) {
        self.before += step.started.elapsed();
        for &(phase, time) in &step.times {
            self.add(phase, time);
        }
        for &(phase, tokens) in &step.tokens {
            self.count(phase, tokens);
        }
    }

    /// `time/*_s` and `throughput/*_tokens_per_s`.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        let whole = if self.before.is_zero() { self.started.elapsed() } else { self.before };
        metrics.set("time/step_s", whole.as_secs_f64());
        for (phase, time) in &self.times {
            metrics.set(format!("time/{phase}_s"), time.as_secs_f64());
        }
        for (phase, tokens) in &self.tokens {
            let time = self
                .times
                .iter()
                .find(|(name, _)| name == phase)
                .map_or(0.0, |(_, t)| t.as_secs_f64());
            if time > 0.0 && *tokens > 0 {
                metrics.set(format!("throughput/{phase}_tokens_per_s"), *tokens as f64 / time);
            }
        }
        metrics
    }
}
