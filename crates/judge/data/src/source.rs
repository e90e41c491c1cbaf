//! Supplies of problems and examples by position: data files or a built-in task.

use isentrope_reward::{Item, VerifierSettings};

use crate::file_hash::FileHash;
use crate::file_records::{FileRecords, Longest, RowReader, read_rows};
use crate::location::Split;
use crate::rows::Row;
use crate::schema::Record;
use crate::tasks::{EndlessRecords, Task};
use crate::{DataSettings, Example, Finding, Findings, Problem, Prompts, Report, Result};

/// Training problems by position.
pub type Source = Records<Problem>;

/// Examples to imitate, by position.
pub type Examples = Records<Example>;

/// Records by position. A record depends on its position alone, so a run resumes from a position.
#[derive(Debug)]
pub struct Records<T> {
    supply: Supply<T>,
    prefix: String,
    suffix: String,
}

#[derive(Debug)]
enum Supply<T> {
    Files(FileRecords<T>),
    Task(EndlessRecords<T>),
}

impl<T: Record> Records<T> {
    /// Reads all files, or takes the task's records by `of_task`. The report of a task is empty.
    fn read(
        settings: &DataSettings,
        seed: u64,
        of_task: impl FnOnce(&dyn Task) -> EndlessRecords<T>,
        from_row: &dyn Fn(&Row, String) -> Result<T, String>,
        further: Option<Vec<&'static str>>,
    ) -> Result<(Self, Report)> {
        let (supply, report) = match settings.open_task()? {
            Some(task) => (Supply::Task(of_task(&*task)), Report::default()),
            None => {
                let found = settings.found(Split::Train, &())?;
                let (files, report) =
                    FileRecords::read(&found, seed, &RowReader::usual(from_row, further))?;
                (Supply::Files(files), report)
            }
        };
        let (prefix, suffix) = (settings.prompt_prefix.clone(), settings.prompt_suffix.clone());
        Ok((Self { supply, prefix, suffix }, report))
    }

    /// Number of records; None for a task, which is endless.
    #[allow(clippy::len_without_is_empty, reason = "there is always a record")]
    pub fn len(&self) -> Option<usize> {
        match &self.supply {
            Supply::Files(files) => Some(files.len()),
            Supply::Task(_) => None,
        }
    }

    /// The files with their hashes; empty for a task.
    pub fn files(&self) -> &[FileHash] {
        match &self.supply {
            Supply::Files(files) => files.hashes(),
            Supply::Task(_) => &[],
        }
    }

    /// The prompts of the rows in use, with prefix and suffix. Empty for a task, whose test
    /// problems are never trained on, and for chats, which have no separate prompt.
    pub fn prompts(&self) -> Prompts {
        let Supply::Files(files) = &self.supply else { return Prompts::default() };
        let prompt = |row: &T| {
            let mut prompt = row.prompt()?.clone();
            prompt.surround(&self.prefix, &self.suffix);
            // Chats that an environment is to write have nothing to tell them apart by.
            Some(prompt).filter(|prompt| !prompt.is_empty_chat())
        };
        files.rows().iter().filter_map(prompt).collect()
    }

    /// Keeps the first rows of files that fit `longest`, up to `data.limit`. `tokens` counts the
    /// tokens of a record with prefix and suffix; an error is the row's defect, and the row counts
    /// as bad. A task has no rows.
    ///
    /// # Errors
    /// When none is left.
    pub fn retain(
        &mut self,
        report: &mut Report,
        longest: &Longest,
        mut tokens: impl FnMut(&T) -> Result<usize, String>,
    ) -> Result<()> {
        let Supply::Files(files) = &mut self.supply else { return Ok(()) };
        files.retain(report, longest, |row| {
            let mut record = row.clone();
            record.surround(&self.prefix, &self.suffix);
            tokens(&record)
        })
    }

    fn record(&mut self, position: u64) -> T {
        let mut record = match &mut self.supply {
            Supply::Files(files) => files.at(position),
            Supply::Task(records) => records.at(position),
        };
        record.surround(&self.prefix, &self.suffix);
        record
    }
}

impl Records<Problem> {
    /// Reads all files or prepares the task. Rows whose ground truth the verifier cannot use are
    /// among the report's bad rows; the report of a task is empty.
    ///
    /// # Errors
    /// Settings that are out of range, files that cannot be read, and files without a usable row.
    pub fn open(
        settings: &DataSettings,
        seed: u64,
        verifier: &VerifierSettings,
    ) -> Result<(Self, Report)> {
        let of_task = |task: &dyn Task| task.problems(seed);
        let from_row =
            |row: &Row, origin| Problem::from_row(row, &settings.columns, origin, verifier);
        let (source, mut report) =
            Self::read(settings, seed, of_task, &from_row, Problem::further_columns(verifier))?;
        if let Supply::Files(files) = &source.supply {
            report.doubtful = doubtful(files.rows(), verifier);
        }
        Ok((source, report))
    }

    /// The problem at a position.
    pub fn problem(&mut self, position: u64) -> Problem {
        self.record(position)
    }
}

impl Records<Example> {
    /// Reads all files or prepares the task, with examples of problems of `split`. The report of a
    /// task is empty.
    ///
    /// # Errors
    /// Settings that are out of range, files that cannot be read, and files without a usable row.
    pub fn open(settings: &DataSettings, split: Split, seed: u64) -> Result<(Self, Report)> {
        let from_row = |row: &Row, origin| Example::from_row(row, &settings.columns, origin);
        let of_task = |task: &dyn Task| task.demonstrations(split, seed);
        Self::read(settings, seed, of_task, &from_row, Some(Vec::new()))
    }

    /// The example at a position.
    pub fn example(&mut self, position: u64) -> Example {
        self.record(position)
    }
}

/// At most `n` problems for evaluation: a task's test problems, or the first usable rows of files.
///
/// # Errors
/// As [`Source::open`]; of a task also when it has fewer than `n` test problems.
pub fn evaluation_set(
    settings: &DataSettings,
    n: usize,
    verifier: &VerifierSettings,
) -> Result<(Vec<Problem>, Report)> {
    let (mut problems, mut report) = match settings.open_task()? {
        Some(task) => (task.test_problems(n)?, Report::default()),
        None => {
            let found = settings.found(Split::Test, &())?;
            let read =
                |row: &Row, origin| Problem::from_row(row, &settings.columns, origin, verifier);
            let most = n.min(settings.limit.unwrap_or(usize::MAX));
            read_rows(&found, most, &RowReader::usual(&read, Problem::further_columns(verifier)))?
        }
    };
    problems.truncate(n);
    report.doubtful = doubtful(&problems, verifier);
    for problem in &mut problems {
        problem.prompt.surround(&settings.prompt_prefix, &settings.prompt_suffix);
    }
    Ok((problems, report))
}

/// The problems whose right responses may be judged wrong or not at all.
fn doubtful(problems: &[Problem], verifier: &VerifierSettings) -> Findings {
    let finding = |problem: &Problem| {
        let Problem { ground_truth, data_source, extra_info, origin, .. } = problem;
        let item = Item { ground_truth, data_source, extra_info, ..Item::default() };
        Some(Finding { origin: origin.clone(), problem: verifier.concern(&item)? })
    };
    problems.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ground_truth_that_is_damaged_is_found_with_its_row() {
        let problem = |ground_truth: &str, origin: &str| Problem {
            prompt: crate::Prompt::Text("?".into()),
            ground_truth: ground_truth.into(),
            data_source: String::new(),
            extra_info: serde_json::Value::Null,
            columns: Row::new(),
            hint: None,
            origin: origin.into(),
        };
        let problems =
            [problem("\\frac12", "train.jsonl row 1"), problem("\\frac{1}{", "train.jsonl row 2")];
        let report = Report {
            rows: 2,
            usable: 2,
            doubtful: doubtful(&problems, &VerifierSettings::default()),
            ..Report::default()
        };
        let said = report.to_string();
        assert!(
            said.contains(
                "1 whose right answers may not be found right\n  train.jsonl row 2: the ground \
                 truth"
            ),
            "{said}"
        );
        assert!(
            said.ends_with(
                "cannot be read as a formula: only a response with the same text is right"
            ),
            "{said}"
        );
    }
}
