//! The files of responses to benchmarks. They are written problem by problem, continued after an
//! interruption or when responses could not be judged, and read for the numbers.

use crate::error::{Error, Result};
use crate::statistics::Outcome;
use isentrope_data::Problem;
use isentrope_files::AtomicFile;
use isentrope_reward::Verdict;
use isentrope_rollout::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file of a benchmark's responses once they are complete.
pub(super) fn responses(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("responses/{name}.jsonl"))
}

/// The part of a line that has its problem and sample, and whether it is final.
#[derive(Deserialize)]
struct Position {
    problem: usize,
    sample: usize,
    verdict: Verdict,
    #[serde(default)]
    failed: bool,
}

/// Moves a complete file back among the unfinished ones, if it has responses that could not be
/// judged, or at which the verifier or the environment failed.
pub(super) fn reopen(complete: &Path, partial: &Path) -> Result<bool> {
    let mut is_final = true;
    read_lines(complete, &mut |line| {
        is_final &= line.outcome.verdict.is_scored() && !line.outcome.failed;
    })?;
    if !is_final {
        fs::rename(complete, partial).map_err(|e| Error::io(complete, e))?;
    }
    Ok(!is_final)
}

/// The responses to a benchmark that is not complete.
pub struct ResponseLog {
    complete: PathBuf,
    partial: PathBuf,
    file: File,
    length: u64,
    problems: usize,
    /// Offset and length of each finished problem's lines.
    places: BTreeMap<usize, (u64, u64)>,
    /// The number of responses that could not be judged, by problem, when the file was opened.
    unjudged: BTreeMap<usize, usize>,
}

impl ResponseLog {
    /// Opens the file that an earlier process left. A torn last line and an incomplete last problem
    /// are removed. A problem with responses that could not be judged counts as missing: its new
    /// lines come after its old ones, and replace them.
    pub(super) fn open(
        complete: PathBuf,
        partial: PathBuf,
        problems: usize,
        samples: usize,
    ) -> Result<Self> {
        let failed = |e| Error::io(&partial, e);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&partial);
        let file = file.map_err(failed)?;
        let mut reader = BufReader::new(&file);
        let (mut places, mut end, mut offset) = (BTreeMap::new(), 0, 0);
        let (mut unjudged, mut faults) = (BTreeMap::new(), 0);
        let mut line = Vec::new();
        for number in 0.. {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(failed)?;
            let whole = line.last() == Some(&b'\n');
            let position: Option<Position> = serde_json::from_slice(&line).ok().filter(|_| whole);
            // Lines of a problem stand together, in the order of its samples.
            let Some(position) =
                position.filter(|p| p.sample == number % samples && p.problem < problems)
            else {
                break;
            };
            offset += read as u64;
            faults += usize::from(!position.verdict.is_scored() || position.failed);
            if position.sample + 1 == samples {
                if faults == 0 {
                    places.insert(position.problem, (end, offset - end));
                    unjudged.remove(&position.problem);
                } else {
                    unjudged.insert(position.problem, faults);
                }
                (end, faults) = (offset, 0);
            }
        }
        file.set_len(end).map_err(failed)?;
        let mut log = Self { complete, file, length: end, problems, places, unjudged, partial };
        log.file.seek(SeekFrom::End(0)).map_err(|e| Error::io(&log.partial, e))?;
        Ok(log)
    }

    /// The number of responses that could not be judged when the file was opened. Their problems
    /// count as missing.
    pub fn unjudged(&self) -> usize {
        self.unjudged.values().sum()
    }

    /// The problems that have no responses yet, or had some that could not be judged.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.problems).filter(|problem| !self.places.contains_key(problem)).collect()
    }

    /// Adds all responses to a problem.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(&mut self, place: usize, problem: &Problem, responses: &[Response]) -> Result<()> {
        let mut text = String::new();
        for (sample, response) in responses.iter().enumerate() {
            let mut line = Map::from_iter([("problem".to_owned(), json!(place))]);
            if !problem.data_source.is_empty() {
                line.insert("data_source".to_owned(), json!(problem.data_source));
            }
            line.extend(response.line(problem, sample));
            text.push_str(&Value::Object(line).to_string());
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(|e| Error::io(&self.partial, e))?;
        self.places.insert(place, (self.length, text.len() as u64));
        self.length += text.len() as u64;
        Ok(())
    }

    /// Writes the lines in the order of problems, under the final name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn finish(mut self) -> Result<()> {
        let failed = |e| Error::io(&self.complete, e);
        let temporary = self.complete.with_extension("jsonl.sorted");
        let mut sorted = AtomicFile::create_as(&self.complete, temporary)?;
        for &(offset, length) in self.places.values() {
            let mut lines = vec![0; length as usize];
            self.file.seek(SeekFrom::Start(offset)).map_err(failed)?;
            self.file.read_exact(&mut lines).map_err(failed)?;
            sorted.write(&lines)?;
        }
        sorted.commit()?;
        fs::remove_file(&self.partial).map_err(failed)
    }
}

/// The part of a line of a complete file that numbers and comparisons need.
#[derive(Deserialize)]
struct Line {
    problem: usize,
    prompt: Option<String>,
    ground_truth: Value,
    #[serde(default)]
    data_source: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Gives `each` every line of a complete file.
fn read_lines(path: &Path, each: &mut dyn FnMut(Line)) -> Result<()> {
    let file = isentrope_files::open_regular(path)?;
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|e| Error::io(path, e))?;
        each(serde_json::from_str(&line).map_err(|e| {
            Error::invalid(
                path,
                format!("line {number} is no response ({e}); remove the file to sample anew"),
            )
        })?);
    }
    Ok(())
}

/// A problem of a complete file, and the responses to it.
#[derive(Clone)]
pub(super) struct AnsweredProblem {
    pub prompt: Option<String>,
    /// The ground truth that the verifier compared with.
    pub ground_truth: Value,
    /// The problem's source; empty if it has none.
    pub data_source: String,
    pub outcomes: Vec<Outcome>,
}

/// The problems of a complete file, in order.
pub(super) fn problems(path: &Path) -> Result<Vec<AnsweredProblem>> {
    let mut problems: BTreeMap<usize, AnsweredProblem> = BTreeMap::new();
    read_lines(path, &mut |line| {
        let Line { problem, prompt, ground_truth, data_source, outcome } = line;
        let asked = || AnsweredProblem { prompt, ground_truth, data_source, outcomes: Vec::new() };
        problems.entry(problem).or_insert_with(asked).outcomes.push(outcome);
    })?;
    Ok(problems.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_log_that_was_cut_off_meanwhile_is_not_taken_for_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (complete, partial) = (dir.path().join("a.jsonl"), dir.path().join("a.jsonl.partial"));
        let line = |problem: usize| {
            format!("{}\n", json!({"problem": problem, "sample": 0, "verdict": "correct"}))
        };
        fs::write(&partial, line(1) + &line(0)).unwrap();
        let open = || ResponseLog::open(complete.clone(), partial.clone(), 2, 1).unwrap();
        let log = open();
        assert_eq!(log.missing(), [0; 0]);
        File::options()
            .write(true)
            .open(&partial)
            .unwrap()
            .set_len(line(1).len() as u64 + 5)
            .unwrap();
        let error = log.finish().unwrap_err();
        let Error::File(isentrope_files::Error::Io { path, source }) = &error else {
            panic!("{error}")
        };
        assert_eq!((path, source.kind()), (&complete, ErrorKind::UnexpectedEof));
        // Whole lines stay, and the next process goes on from them.
        assert!(!complete.exists());
        assert_eq!(open().missing(), [0]);
    }
}
