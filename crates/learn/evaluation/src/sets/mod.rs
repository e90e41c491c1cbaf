//! Sets of problems to measure on: [`EvaluationSet`], from a benchmark's files or from a recipe's
//! `[eval]`.

mod benchmark_files;
mod evaluation_set;
mod held_out;

pub use benchmark_files::BenchmarkFiles;
pub use evaluation_set::EvaluationSet;
pub use held_out::{check_held_out_files, held_out_sets};
