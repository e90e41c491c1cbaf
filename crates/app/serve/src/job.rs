//! Work for the engine, and the events that it sends back.

use crate::api_error::ApiError;
use crate::metrics::Metrics;
use isentrope_rollout::{Completion, Drawn, Sampling};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;

/// A message to the engine's thread.
pub(crate) enum Message {
    Job(Box<Job>),
    /// The running jobs fail now, because the server ends.
    End,
}

/// Prompts to score, to sample from, or both.
pub(crate) struct Job {
    /// Tokens of each prompt.
    pub prompts: Vec<Vec<u32>>,
    /// Samples of each prompt. Choice `i` is sample `i % samples` of prompt `i / samples`.
    pub samples: usize,
    /// How to draw them; none if nothing is sampled.
    pub sampling: Option<Arc<Sampling>>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The temperature at which to score the prompts; none if they are not scored.
    pub scoring: Option<f32>,
    /// When the job fails if it has not ended.
    pub deadline: Instant,
    /// Takes the events. The job is dropped when nobody receives them.
    pub updates: UnboundedSender<Update>,
    /// The sequences that have not begun.
    pub waiting: Waiting,
}

/// An event of a job.
pub(crate) enum Update {
    /// The engine has the job.
    Accepted,
    /// A prompt is scored.
    Scored { prompt: usize, scores: PromptScores },
    /// A choice has one token more.
    Token { choice: usize, drawn: Drawn, text: String },
    /// A choice has ended.
    Finished { choice: usize, completion: Box<Completion> },
    /// The job has failed. No event follows.
    Failed(ApiError),
}

/// Scores of a prompt's tokens, from the second on.
pub(crate) struct PromptScores {
    /// Log-prob of each token, in nats.
    pub logprobs: Vec<f32>,
    /// The most likely token at each place, and its log-prob.
    pub likeliest: Vec<(u32, f32)>,
}

/// Sequences in the count of those that wait, until they begin or their job is dropped.
pub(crate) struct Waiting {
    metrics: Arc<Metrics>,
    count: usize,
}

impl Waiting {
    /// Adds `count` sequences, unless more than `most` would wait then.
    pub fn enter(metrics: &Arc<Metrics>, count: usize, most: usize) -> Option<Self> {
        let add = |waiting: usize| Some(waiting + count).filter(|&waiting| waiting <= most);
        metrics.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { metrics: Arc::clone(metrics), count })
    }

    /// Takes out a sequence, which begins.
    pub fn begin_one(&mut self) {
        if self.count > 0 {
            self.count -= 1;
            self.metrics.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.metrics.waiting.fetch_sub(self.count, Ordering::Relaxed);
    }
}
