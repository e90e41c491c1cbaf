//! The law R = -a exp(H) + b between accuracy and policy entropy (arXiv:2505.22617, section 2): its
//! fit, and whether it holds.
//!
//! [`Study::of`] is all of it for one series of evaluations: the [`Fit`] with its intervals
//! (`bootstrap.rs`), the forms it is held against (`forms.rs`), what a prefix predicts of the rest
//! (`prediction.rs`), whether accuracy has left the law (`departure.rs`), and why it must not be
//! relied on (`refusals.rs`). All arithmetic is the same on every machine. docs/concepts/entropy.md
//! has it in words.

mod bootstrap;
mod departure;
mod fit;
mod forms;
mod prediction;
mod refusals;
mod study;

pub use departure::Departure;
pub use fit::Fit;
pub use forms::Form;
pub use prediction::{Prediction, Scored};
pub use refusals::LEAST_POINTS;
pub use study::Study;

use serde::{Deserialize, Serialize};

/// Default seed of the bootstrap, so that the same points have the same intervals in every command
/// and during training.
pub const SEED: u64 = 0;

/// The numbers of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The step after which the evaluation was made.
    pub step: u64,
    /// H: entropy in nats.
    pub entropy: f64,
    /// R: accuracy, from 0 to 1.
    pub accuracy: f64,
}

impl Point {
    /// exp(H), in which the law is a line.
    fn x(&self) -> f64 {
        libm::exp(self.entropy)
    }

    /// Whether it can be calculated with.
    fn is_finite(&self) -> bool {
        self.x().is_finite() && self.accuracy.is_finite()
    }
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval with its ends clamped to `low` and `high`.
    #[must_use]
    pub fn cut(self, low: f64, high: f64) -> Self {
        Self { low: self.low.clamp(low, high), high: self.high.clamp(low, high), ..self }
    }
}
