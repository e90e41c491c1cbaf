//! Files of responses with their verdicts, a JSON line each.

use crate::error::{Error, Result};
use crate::group::{Group, Response};
use isentrope_data::Problem;
use isentrope_files::AtomicFile;
use serde_json::{Map, Value, json};
use std::path::Path;

/// JSON lines of responses with their verdicts; the file appears when it is complete.
pub struct ResponseFile(AtomicFile);

impl ResponseFile {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let temporary = path.with_extension("jsonl.partial");
        let file = AtomicFile::create_as(path, temporary.clone());
        Ok(Self(file.map_err(|e| Error::io(&temporary, e.into()))?))
    }

    /// Writes a group's responses, and last its greedy one, which the others are compared with, if it has one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn group(&mut self, group: &Group) -> Result<()> {
        self.responses(&group.problem, &group.responses)?;
        let Some(greedy) = &group.greedy else { return Ok(()) };
        let mut line = response_line(&group.problem, group.responses.len(), greedy);
        line.insert("greedy".into(), json!(true));
        self.line(line)
    }

    /// Writes the responses to a problem.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn responses(&mut self, problem: &Problem, responses: &[Response]) -> Result<()> {
        for (sample, response) in responses.iter().enumerate() {
            self.line(response_line(problem, sample, response))?;
        }
        Ok(())
    }

    fn line(&mut self, line: Map<String, Value>) -> Result<()> {
        Ok(self.0.json_line(&line)?)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(self) -> Result<()> {
        Ok(self.0.commit()?)
    }
}

/// What is kept of a response.
pub(crate) fn response_line(problem: &Problem, sample: usize, response: &Response) -> Map<String, Value> {
    let fields = [
        ("origin", json!(problem.origin)),
        ("prompt", json!(problem.prompt.question())),
        ("ground_truth", problem.ground_truth.clone()),
        ("sample", json!(sample)),
        ("response", json!(response.text)),
        ("tokens", json!(response.tokens.len())),
        ("truncated", json!(response.truncated)),
        ("verdict", json!(response.judgement.verdict)),
        ("extracted", json!(response.judgement.extracted)),
        ("reason", json!(response.judgement.reason)),
        ("reward", json!(response.reward)),
        ("entropy", json!(response.entropy())),
    ];
    let mut line: Map<String, Value> =
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    if !response.judgement.metrics.is_empty() {
        line.insert("metrics".into(), json!(response.judgement.metrics));
    }
    if let Some(vote) = &response.vote {
        line.insert("vote".into(), json!(vote));
    }
    line
}
