//! Benchmarks and the files that their problems come from.

use crate::error::{Error, Result};
use isentrope_data::benchmark::{Benchmark, Choice};
use isentrope_data::{FileHash, Problem, Report, Split};
use isentrope_hub as hub;
use isentrope_reward::VerifierSettings;
use isentrope_rollout::check_problem;
use std::path::PathBuf;

/// A benchmark with its files on this machine.
#[derive(Clone, Debug)]
pub struct BenchmarkFiles {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The benchmark's files; none for a built-in task.
    pub files: Vec<PathBuf>,
}

impl BenchmarkFiles {
    /// Finds the files of a benchmark, downloading those that are on the hub.
    ///
    /// # Errors
    /// When the hub does not deliver them.
    pub fn find(choice: Choice, progress: &dyn hub::Progress) -> Result<Self> {
        let Choice { benchmark, place } = choice;
        let name = &benchmark.name;
        let files = match &place {
            None => Vec::new(), // it is a built-in task
            Some(place) => place.files(Split::Test, progress).map_err(|e| match e {
                isentrope_data::Error::Hub(what) => Error::Refused(format!(
                    "benchmark {name}: {what}; a file of it can be given as {name}=FILE"
                )),
                other => Error::Refused(format!("benchmark {name}: {}", plainly(&other))),
            })?,
        };
        Ok(Self { benchmark, files })
    }

    /// The first `n` problems, and the report on the files.
    ///
    /// # Errors
    /// When a file cannot be read or has no usable row.
    pub fn problems(
        &self,
        n: usize,
        verifier: &VerifierSettings,
    ) -> Result<(Vec<Problem>, Report)> {
        let name = &self.benchmark.name;
        let (problems, report) = self
            .benchmark
            .problems(&self.files, n, verifier)
            .map_err(|e| Error::Refused(format!("benchmark {name}: {}", plainly(&e))))?;
        problems.iter().try_for_each(|problem| check_problem(problem, verifier))?;
        Ok((problems, report))
    }

    /// The contents of the files now.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn hashes(&self) -> Result<Vec<FileHash>> {
        let hash = |path: &PathBuf| {
            let sha256 = isentrope_files::sha256_of_file(path)?;
            Ok(FileHash { path: path.clone(), sha256 })
        };
        self.files.iter().map(hash).collect()
    }
}

/// The message of a failure to read data, without the recipe's keys, which name the training data.
pub(super) fn plainly(error: &isentrope_data::Error) -> String {
    match error {
        isentrope_data::Error::Io { path, source } => {
            format!("{} cannot be read: {source}", path.display())
        }
        isentrope_data::Error::NoUsableRow { path, problem } => {
            format!(
                "{}: {problem}; columns of other names are named by --prompt-column and \
                 --answer-column of `isentrope eval`, and in a recipe by data.columns for files in \
                 eval.files",
                path.display()
            )
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_read_from_files_and_blamed_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.jsonl");
        std::fs::write(&path, "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n").unwrap();
        let found = |place: &str| {
            BenchmarkFiles::find(Choice::parse(&format!("math500={place}")).unwrap(), &()).unwrap()
        };
        let here = found(path.to_str().unwrap());
        let (problems, report) = here.problems(9, &VerifierSettings::default()).unwrap();
        assert_eq!((problems.len(), report.usable), (1, 1));
        assert!(
            problems[0].prompt.question().unwrap().starts_with("1+1?\nPlease reason step by step")
        );
        assert_eq!(here.hashes().unwrap()[0].sha256.len(), 64);
        let table = dir.path().join("m.csv");
        std::fs::write(&table, "question,result\n1+1?,2\n").unwrap();
        let mut other = found(table.to_str().unwrap());
        let error = other.problems(9, &VerifierSettings::default()).unwrap_err().to_string();
        assert!(error.contains("result") && error.contains("--answer-column"), "{error}");
        other.benchmark.columns.answer = Some("result".into());
        assert_eq!(other.problems(9, &VerifierSettings::default()).unwrap().1.usable, 1);
        let error = found("absent.jsonl")
            .problems(9, &VerifierSettings::default())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("benchmark math500: absent.jsonl cannot be read: "), "{error}");
    }
}
