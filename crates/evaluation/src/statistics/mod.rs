//! What the responses to a set of problems amount to.
//!
//! An [`Outcome`] is what counts of a response; a [`Statistic`] is a number about a set of them, [`Evaluation`] all that a run
//! records. [`resampled`] gives their intervals, a [`PairedTest`] compares two policies, and [`cast_votes`] finds the
//! answers that are equal, for maj@k.

mod bootstrap;
mod evaluation;
mod outcome;
mod paired;
mod statistic;
mod votes;

pub use bootstrap::{Estimate, resampled};
pub use evaluation::Evaluation;
pub use outcome::{Outcome, accuracy, is_graded, mean_score};
pub use paired::PairedTest;
pub use statistic::{Statistic, ks};
pub use votes::cast_votes;
