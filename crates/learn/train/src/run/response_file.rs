//! Files of responses with their verdicts, a JSON line each.

use crate::error::Result;
use crate::group::Group;
use isentrope_data::Problem;
use isentrope_files::AtomicFile;
use isentrope_rollout::Response;
use isentrope_run::tokens::TokenRecord;
use serde_json::{Map, Value, json};
use std::path::Path;

/// JSON lines of responses with their verdicts; the file appears when it is complete. None on ranks
/// that do not write.
pub struct ResponseFile(Option<(AtomicFile, Durability)>);

/// When a file is certain to outlive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Once it is complete.
    AtOnce,
    /// With the next checkpoint, without which its step is made again: a step does not wait for the
    /// disk.
    AtCheckpoint,
}

impl ResponseFile {
    pub(super) fn create(path: &Path, durability: Durability) -> Result<Self> {
        let file = AtomicFile::create_as(path, path.with_extension("jsonl.partial"))?;
        Ok(Self(Some((file, durability))))
    }

    /// Takes everything and keeps nothing.
    pub(super) fn nowhere() -> Self {
        Self(None)
    }

    /// Writes a group's responses, then its greedy one, if it has one: the baseline of the others.
    pub fn group(&mut self, group: &Group) -> Result<()> {
        self.responses(&group.problem, &group.responses)?;
        let Some(greedy) = &group.greedy else { return Ok(()) };
        let mut line = greedy.line(&group.problem, group.responses.len());
        line.insert("greedy".into(), json!(true));
        self.line(line)
    }

    /// Writes the responses to a problem.
    pub fn responses(&mut self, problem: &Problem, responses: &[Response]) -> Result<()> {
        for (sample, response) in responses.iter().enumerate() {
            self.line(response.line(problem, sample))?;
        }
        Ok(())
    }

    /// Writes a response with the numbers of its tokens.
    pub fn record(&mut self, record: &TokenRecord) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |(file, _)| Ok(file.json_line(record)?))
    }

    fn line(&mut self, line: Map<String, Value>) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |(file, _)| Ok(file.json_line(&line)?))
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<()> {
        match self.0 {
            None => Ok(()),
            Some((file, Durability::AtOnce)) => Ok(file.commit()?),
            Some((file, Durability::AtCheckpoint)) => Ok(file.commit_unsynced()?),
        }
    }
}
