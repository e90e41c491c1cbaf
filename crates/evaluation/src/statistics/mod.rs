//! What the responses to a set of problems amount to.
//!
//! An `Outcome` is what counts of a response; a `Statistic` is a number about a set of them, [`Evaluation`] all that a run
//! records. An [`Estimate`] is a number with its interval, a [`PairedTest`] compares two policies, and votes find the answers
//! that are equal, for maj@k.

mod bootstrap;
mod by_size;
mod evaluation;
mod outcome;
mod paired;
mod statistic;
mod votes;

pub use bootstrap::Estimate;
pub(crate) use bootstrap::resampled;
pub(crate) use by_size::{by_size, name_of_size};
pub use evaluation::Evaluation;
pub(crate) use outcome::{Outcome, accuracy, is_graded, mean_score};
pub use paired::PairedTest;
pub(crate) use statistic::Statistic;
pub use statistic::ks;
pub(crate) use votes::{are_told as answers_are_told, cast_votes};
