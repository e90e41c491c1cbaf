//! The directory of an evaluation, and the comparison of two.
//!
//! [`Results`] is the directory: a manifest, a [`ResponseLog`] for each benchmark, a [`Report`] of
//! their numbers. [`Comparisons`] sets two directories side by side; `setting_changes.rs` says what
//! differs in how they were made.

mod comparisons;
mod directory;
mod manifest;
mod report;
mod response_log;
mod setting_changes;

pub use comparisons::{BenchmarkComparison, Comparisons};
pub use directory::Results;
pub use report::{BenchmarkSummary, Report};
pub use response_log::ResponseLog;
