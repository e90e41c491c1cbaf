//! Statistics of the responses to a set of problems.
//!
//! An `Outcome` is the result of a response; a `Statistic` is a number about a set of them,
//! [`Evaluation`] all numbers that a run records, a [`Part`] the numbers of some of the problems;
//! `of_verifier.rs` has verifiers' own metrics. An [`Estimate`] is a number with its interval, a
//! [`PairedTest`] compares two policies, and votes find the answers that are equal, for maj@k.

mod bootstrap;
mod evaluation;
pub(crate) mod of_verifier;
mod outcome;
mod paired;
mod parts;
mod statistic;
mod votes;

pub use bootstrap::Estimate;
pub(crate) use bootstrap::resampled;
pub use evaluation::{ENTROPY_INITIAL_STATES, Evaluation, KL_INITIAL};
pub(crate) use outcome::{Outcome, accuracy, is_graded, mean_score};
pub use paired::PairedTest;
pub use parts::Part;
pub(crate) use parts::{parts, undivided};
pub(crate) use statistic::Statistic;
pub use statistic::ks;
pub(crate) use votes::{cast_votes, has_answers};
