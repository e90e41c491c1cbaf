//! Layouts of published benchmarks of code: their columns, and how a row is asked and judged.

use std::path::PathBuf;

use isentrope_reward::VerifierSettings;
use serde_json::Value;

use super::{human_eval, leet_code, live_code_bench, mbpp};
use crate::file_records::{RowReader, read_rows};
use crate::rows::Row;
use crate::{DataSettings, Problem, Report, Result};

/// Layout of a benchmark of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLayout {
    /// HumanEval for chat models: an instruction and the beginning of a program.
    HumanEval,
    /// HumanEval for base models: the beginning of a program, to be continued.
    HumanEvalCompletion,
    /// MBPP, whole or sanitized: a task in a sentence, with assertions.
    Mbpp,
    /// LiveCodeBench: problems of contests, with inputs and outputs.
    LiveCodeBench,
    /// LeetCodeDataset: a query, and tests as HumanEval has them.
    LeetCode,
}

/// Columns to read, and the function that makes a problem of a row.
type Reading = (&'static [&'static str], fn(&Row, String) -> Result<Problem, String>);

impl CodeLayout {
    fn reading(self) -> Reading {
        match self {
            Self::HumanEval => (human_eval::COLUMNS, human_eval::problem),
            Self::HumanEvalCompletion => (human_eval::COLUMNS, human_eval::completion),
            Self::Mbpp => (mbpp::COLUMNS, mbpp::problem),
            Self::LiveCodeBench => (live_code_bench::COLUMNS, live_code_bench::problem),
            Self::LeetCode => (leet_code::COLUMNS, leet_code::problem),
        }
    }

    /// Reads the first `n` problems of files.
    ///
    /// # Errors
    /// Files that cannot be read or have no usable row.
    pub(super) fn read(
        self,
        files: Vec<PathBuf>,
        n: usize,
        verifier: &VerifierSettings,
    ) -> Result<(Vec<Problem>, Report)> {
        let (columns, problem) = self.reading();
        let read = |row: &Row, origin: String| {
            let problem = problem(row, origin)?;
            verifier.check_ground_truth(&problem.ground_truth, &problem.data_source)?;
            Ok(problem)
        };
        let settings = DataSettings { files, deduplicate: false, ..DataSettings::default() };
        let row_bytes = (self == Self::LiveCodeBench).then_some(live_code_bench::ROW_BYTES);
        let reader = RowReader {
            columns: columns.to_vec(),
            further: Some(Vec::new()),
            expected: &columns.join(", "),
            row_bytes,
            read: &read,
        };
        read_rows(&settings, n, &reader)
    }
}

/// The text in a column.
pub(super) fn text<'a>(row: &'a Row, column: &str) -> Result<&'a str, String> {
    match row.get(column) {
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(format!("column {column} is empty"))
        }
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(format!("column {column} is missing")),
        Some(_) => Err(format!("column {column} is not text")),
    }
}

/// The columns of a row that hold its tests.
pub(super) fn tests(row: &Row, columns: &[&str]) -> Value {
    let there = |column: &&str| {
        Some(((*column).to_owned(), row.get(*column).filter(|value| !value.is_null())?.clone()))
    };
    Value::Object(columns.iter().filter_map(there).collect())
}

/// The source of problems of one difficulty, by which evaluations divide them.
pub(super) fn source(benchmark: &str, difficulty: Option<&Value>) -> String {
    match difficulty.and_then(Value::as_str) {
        Some(difficulty) => format!("{benchmark}-{}", difficulty.to_lowercase()),
        None => benchmark.to_owned(),
    }
}
