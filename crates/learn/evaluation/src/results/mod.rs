//! The directory of an evaluation, and the comparison of two.
//!
//! [`Results`] is the directory: a manifest, a [`ResponseLog`] for each benchmark, a [`Report`] of
//! their numbers. [`Comparisons`] compares two directories; `setting_changes.rs` finds the
//! differences of their settings.

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
