//! Measuring a policy on held-out problems: during a run, and by the command `eval`.
//!
//! [`EvaluationSet`]s hold the problems, from files, benchmarks and the built-in task. An
//! [`Evaluator`] samples and judges the responses to them. [`statistics`] has the numbers, their
//! intervals and the comparison of two policies. [`results`] is the directory that the command
//! keeps. Everything here returns values and knows no run: the trainer writes them down.

mod error;
mod evaluator;
pub mod results;
mod sets;
mod settings;
pub mod statistics;
mod temperature;
mod weights;

pub use error::{Error, Result};
pub use evaluator::Evaluator;
pub use sets::{BenchmarkFiles, EvaluationSet, check_held_out_files, held_out_sets};
pub use settings::{EvaluationSettings, PROBLEMS};
pub use statistics::Evaluation;
pub use temperature::Temperature;
pub use weights::{TensorChecksum, joined_checksum, weights_checksum};
