//! The tokens that a step has spent the policy's entropy on: its token records as tables and as a
//! page.
//!
//! [`Inspection`] has a step's records, with the log's numbers of the whole step. [`tables()`] are
//! shown on a terminal and at the head of the page (`web.rs`), which has every response token by
//! token.

mod kinds;
mod method_view;
mod tables;
mod token;
mod web;

pub use crate::table::Table;
pub use kinds::Kind;
pub use method_view::MethodView;
pub(crate) use tables::quoted;
pub use tables::{PAPER, TOP_FRACTIONS, tables};
pub use token::{Quadrant, Token};

use crate::log::RunLog;
use crate::number::number;
use crate::run_files::{METRICS, RunFiles};
use crate::terminal::wrapped;
use crate::tokens::{TokenRecord, read};
use crate::visible::visible;
use crate::{Error, Result};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

/// Which step is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepChoice {
    /// The last that has records.
    Last,
    /// This one.
    Step(u64),
}

impl FromStr for StepChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            number => {
                number.parse().map(Self::Step).map_err(|_| "a step's number, or last".to_owned())
            }
        }
    }
}

/// The token records of one step of a run.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The run's name.
    pub run: String,
    /// The step.
    pub step: u64,
    /// In the order of the file.
    pub records: Vec<TokenRecord>,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
    /// Mean covariance of the whole step's top tokens, by [`TOP_FRACTIONS`], in nats; none if the
    /// log lacks it.
    pub whole_step: [Option<f64>; TOP_FRACTIONS.len()],
    /// Responses and tokens that the step has sampled; none if the log lacks them.
    pub sampled: Option<(f64, f64)>,
    /// Another objective on these tokens, if one was asked for ([`Inspection::add_method`], which
    /// stands with the methods).
    pub method: Option<MethodView>,
    files: RunFiles,
}

impl Inspection {
    /// Reads the records of a step of the run in a directory.
    ///
    /// # Errors
    /// When there are no records, with what to do; when they cannot be read, or are malformed.
    pub fn open(dir: &Path, step: StepChoice) -> Result<Self> {
        let files = RunFiles::new(dir);
        let steps = files.token_steps()?;
        let Some(&last) = steps.last() else { return Err(no_records(&files)?) };
        let step = match step {
            StepChoice::Last => last,
            StepChoice::Step(step) if steps.contains(&step) => step,
            StepChoice::Step(step) => {
                let (dir, count, first) = (dir.display(), steps.len(), steps[0]);
                let what = format!(
                    "{dir} has no token records of step {step}; it has those of steps {first} to \
                     {last}, {count} in all"
                );
                return Err(Error::Refused(what));
            }
        };
        let path = files.tokens(step);
        let file = read(&path)?;
        let mut notes = Vec::new();
        if let Some(limit) = &file.cut_at {
            notes.push(format!(
                "{} has more than {limit}: what follows is of its first {} responses. A smaller \
                 lab.record_tokens makes shorter files; a part of the lines in a file of the same \
                 name shows the others.",
                path.display(),
                file.records.len()
            ));
        }
        if let Some((at, record)) =
            file.records.iter().enumerate().find(|(_, record)| record.step != step)
        {
            let what = format!(
                "response {}: \"step\" is {}, and the file is that of step {step}",
                at + 1,
                record.step
            );
            return Err(Error::invalid(&path, what));
        }
        // A run that was killed in its first step has no log yet.
        let log = if dir.join(METRICS).exists() { Some(RunLog::open(dir)?) } else { None };
        let of_log = |name: &str| log.as_ref()?.series(name)?.at(step);
        if log.is_some() && of_log("update/count").is_none() {
            notes.push(format!(
                "metrics.jsonl has nothing of step {step}: the run ended before it was written"
            ));
        }
        let name = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        Ok(Self {
            run: name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned(),
            step,
            records: file.records,
            notes,
            whole_step: tables::METRICS.map(of_log),
            sampled: of_log("rollout/responses").zip(of_log("rollout/tokens")),
            method: None,
            files,
        })
    }

    /// Responses that the run samples to each prompt; none if it has no recipe.
    ///
    /// # Errors
    /// When the recipe cannot be read.
    pub(crate) fn responses(&self) -> Result<Option<usize>> {
        let recipe = self.files.recipe()?.unwrap_or_default();
        let responses = recipe.pointer("/rollout/responses").and_then(Value::as_u64);
        Ok(responses.map(|responses| responses as usize))
    }

    /// All sampled tokens of the recorded responses, in order. Tokens that were given between turns
    /// are no choice of the policy.
    pub fn tokens(&self) -> Vec<Token<'_>> {
        let of_record = |(index, record)| {
            Token::all(index, record).filter(|token| !record.given.contains(token.place.0))
        };
        self.records.iter().enumerate().flat_map(of_record).collect()
    }

    /// The tables, for a terminal of `width` columns.
    pub fn text(&self, width: usize) -> String {
        let heading = format!("{}, step {}: {}", visible(&self.run), self.step, self.summary());
        let mut text = wrapped(&heading, width).join("\n") + "\n";
        for table in &tables(self) {
            let _ = write!(text, "\n{}", table.text(width));
        }
        text
    }

    /// The number of recorded responses and tokens, in a sentence.
    pub fn summary(&self) -> String {
        let of =
            |all: Option<f64>| all.map_or_else(String::new, |all| format!(" of {}", number(all)));
        let (responses, tokens) = self.sampled.unzip();
        let learnt = self.records.iter().filter(|record| record.is_trained_on()).count();
        let trained = match self.records.len() {
            0 => String::new(),
            all if learnt == all => ", all trained on".to_owned(),
            _ => format!(", {learnt} trained on"),
        };
        format!(
            "{}{} responses recorded{trained}; {}{} tokens",
            self.records.len(),
            of(responses),
            self.records.iter().map(|record| record.sampled().count()).sum::<usize>(),
            of(tokens)
        )
    }
}

/// The error for a directory without records, with the remedy.
fn no_records(files: &RunFiles) -> Result<Error> {
    let shown = files.dir.display();
    if !files.dir.is_dir() {
        return Ok(Error::Refused(format!(
            "{shown}: there is no such directory; name that of a run"
        )));
    }
    let recipe = files.recipe()?;
    if recipe.is_none() && !files.dir.join(METRICS).exists() {
        return Ok(Error::Refused(format!(
            "{shown} is not the directory of a run: it has no metrics.jsonl"
        )));
    }
    let recipe = recipe.unwrap_or_default();
    let recorded = recipe.pointer("/lab/record_tokens").and_then(Value::as_u64);
    let why = match recorded {
        _ if recipe.get("sft").is_some() => {
            "it is one of SFT, which samples no responses to learn from"
        }
        Some(0) | None => {
            "its recipe has no lab.record_tokens, or 0. `isentrope train ... --resume --set \
             lab.record_tokens=1024` records the steps that are still to be made; the same recipe \
             run anew with it records all, of the very same numbers"
        }
        Some(_) => "none of its steps has come to its end",
    };
    Ok(Error::Refused(format!("{shown} has no token records: {why}")))
}
