//! A run's storage, for RL and SFT: a directory, a log, evaluations, checkpoints and a summary.
//!
//! [`RunLocation`] names the directory, [`RunDirectory`] is the open directory. The directory has
//! the metrics (`log.rs`, which writes to the [`sinks`]), [`ResponseFile`]s, and the checkpoints
//! that a run goes on from (`checkpoint.rs`; `save.rs` decides when they are made). A rollout under
//! way has a [`Journal`]. `initial_states.rs` measures the policy on states that stay the same. A
//! step's measurements are in a [`StepRecord`], the end of a run in a [`RunSummary`].

mod checkpoint;
mod directory;
mod initial_states;
mod journal;
mod location;
mod log;
mod record;
mod response_file;
mod save;
pub mod sinks;
mod summary;

pub use directory::RunDirectory;
pub use journal::{Heading, Journal, ResponseKey, checksum_of};
pub use location::{Existing, RunLocation};
pub use record::StepRecord;
pub use response_file::ResponseFile;
pub use summary::{Ending, Example, RunSummary, word};

use self::checkpoint::Standing;
pub(crate) use self::checkpoint::{FoundCheckpoint, Learners, SavedMoments, most_of_a_rank};
use self::initial_states::InitialStates;
use self::log::Log;
use crate::clock::Clock;
use crate::error::Result;
use crate::learner::Learner;
use crate::observer::{Observer, StepReport};
use crate::ranks::TrainingRanks;
use crate::settings::CheckpointSettings;
use crate::token_records;
use isentrope_evaluation::{Evaluation, EvaluationSet, Evaluator};
use isentrope_model::Model;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_ranks::Traffic;
use isentrope_run::Origin;
use isentrope_run::tokens::TokenRecord;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

/// A run under way.
pub struct Run {
    /// Its directory.
    pub directory: RunDirectory,
    /// Steps made, the one under way included.
    pub step: u64,
    /// Steps to make in all.
    pub steps: u64,
    /// None on ranks that do not write.
    log: Option<Log>,
    ranks: TrainingRanks,
    /// The run's evaluations, best checkpoint and alarms so far.
    standing: Standing,
    /// Mean accuracy after this step, if it was evaluated and every set could be judged.
    score: Option<f64>,
    /// The hashes of the evaluation sets, by name.
    sets: Value,
    initial_states: InitialStates,
    /// The record of the step that the run goes on from, if it has not been written.
    unrecorded: Option<StepRecord>,
    saved: Option<PathBuf>,
    /// When the last checkpoint was saved, or the process began.
    saved_at: Instant,
    /// The step of the interim checkpoint, if there is one.
    interim: Option<u64>,
    started: Instant,
    /// Work of this process, over all steps.
    total: Clock,
    /// The traffic of this rank's exchanges when the step began.
    traffic: Traffic,
}

/// A run's open directory, before anything is written: a run that cannot start changes nothing.
pub(crate) struct OpenedRun<S> {
    directory: RunDirectory,
    initial_states: InitialStates,
    /// The checkpoint to go on from; none if the run starts at the beginning.
    pub found: Option<FoundCheckpoint<S>>,
}

impl<S: DeserializeOwned> OpenedRun<S> {
    /// Opens the run's directory and looks for the checkpoint to go on from.
    pub fn open(
        location: &RunLocation,
        checkpoints: &CheckpointSettings,
        track_states: bool,
        ranks: &TrainingRanks,
        manifest: &Value,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let directory = RunDirectory::open(location, checkpoints.clone(), ranks, manifest)?;
        let mut note = |text: &str| observer.note(text);
        let found = directory.resumed::<S>(location, ranks, &mut note)?;
        let sha256 = found.as_ref().map(|found| found.state.initial_states.clone());
        let initial_states = InitialStates::open(&directory.dir, track_states, sha256, &mut note)?;
        Ok(Self { directory, initial_states, found })
    }

    /// Begins the run once its learners exist: writes the recipe and the manifest, and removes
    /// files of later steps. Returns the run, and the trainer's state of the checkpoint, if there
    /// is one.
    pub fn begin(
        self,
        location: &RunLocation,
        steps: u64,
        ranks: TrainingRanks,
        manifest: &Value,
        observer: &mut dyn Observer,
    ) -> Result<(Run, Option<S>)> {
        let Self { mut directory, initial_states, found } = self;
        ranks.any(false)?; // nor may a run start that cannot start on another rank
        let mut note = |text: &str| observer.note(text);
        let recorded = found.as_ref().map(|found| found.state.recorded());
        let resumed_log = recorded.map(|step| directory.log(Some(step), &mut note)).transpose()?;
        // A process that makes no step keeps the recipe and the manifest of the steps made.
        let makes_steps = recorded.is_none_or(|step| step < steps);
        directory.begin(location, makes_steps)?;
        let saved = found.as_ref().map(|found| found.state.step);
        if makes_steps {
            directory.write_manifest(manifest, saved.unwrap_or(0), &mut note)?;
        }
        directory.remove_responses(saved)?;
        let log = match resumed_log {
            Some(log) => log,
            None => directory.log(None, &mut |_: &str| {})?,
        };
        let mut run = Run {
            directory,
            step: 0,
            steps,
            log,
            ranks,
            standing: Standing::default(),
            score: None,
            sets: manifest["evaluation"]["sha256"].clone(),
            initial_states,
            unrecorded: None,
            saved: None,
            saved_at: Instant::now(),
            interim: None,
            started: Instant::now(),
            total: Clock::default(),
            traffic: Traffic::default(),
        };
        let Some(FoundCheckpoint { dir, state }) = found else {
            if run.directory.is_written() {
                run.initial_states.remove()?;
            }
            if location.existing == Existing::Resume {
                let dir = run.directory.dir.display();
                observer.note(&format!(
                    "{dir} has no checkpoint to resume from: starting at the beginning"
                ));
            }
            return Ok((run, None));
        };
        observer.note(&format!("resuming after step {} from {}", state.step, dir.display()));
        (run.step, run.standing) = (state.step, state.standing);
        run.interim = state.is_interim.then_some(state.step);
        run.directory.remove_journals(run.step)?; // a kill may have come before it
        run.retire()?;
        if state.step >= steps {
            observer.note(&format!(
                "the run has made {} of {steps} steps: a larger run.steps trains on",
                state.step
            ));
        }
        run.unrecorded = state.unrecorded.map(|metrics| StepRecord {
            metrics,
            tokens: state.unwritten,
            ..StepRecord::default()
        });
        run.saved = Some(dir);
        Ok((run, Some(state.trainer)))
    }
}

impl Run {
    /// Evaluates the model after this step on every set. The responses are kept in the run's
    /// directory, the numbers in the record.
    pub(crate) fn evaluate(
        &mut self,
        evaluator: &Evaluator<'_>,
        model: &Model,
        sets: &[EvaluationSet],
        record: &mut StepRecord,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut evaluations = Vec::with_capacity(sets.len());
        for set in sets {
            let mut file = self.directory.evaluation(self.step, &set.name)?;
            let own = self.ranks.own(&vec![1; set.problems.len()]);
            let responses =
                record.clock.time("eval", || evaluator.responses(model, set, own, observer))?;
            let responses = self.ranks.gather(responses)?;
            evaluator.tell_faults(set, &responses, observer);
            for ((problem, _), responses) in set.problems.iter().zip(&responses) {
                file.responses(problem, responses)?;
            }
            file.finish()?;
            self.initial_states.keep(self.step, set, &responses, &self.ranks)?;
            let evaluation = Evaluation::of_responses(set, &responses);
            evaluation.note.iter().for_each(|note| observer.note(&format!("{}: {note}", set.name)));
            evaluations.push(evaluation);
        }
        self.initial_states.complete(&self.ranks)?;
        for (name, value) in Evaluation::metrics(&evaluations) {
            record.metrics.set(name, value);
        }
        self.score = Evaluation::mean_of_sets(&evaluations);
        if self.step == 0 {
            self.standing.first.clone_from(&evaluations);
        }
        (self.standing.last, self.standing.last_step) = (evaluations, self.step);
        Ok(())
    }

    /// Measures the present policy on the states from before the first step, if they are tracked.
    pub(crate) fn measure_initial_states(
        &self,
        learner: &Learner,
        record: &mut StepRecord,
    ) -> Result<()> {
        let StepRecord { metrics, clock, .. } = record;
        if !self.initial_states.are_measured() {
            return Ok(());
        }
        clock.time("states", || self.initial_states.measure(learner, metrics))
    }

    /// The latest evaluations, and the step after which they were made.
    pub(crate) fn evaluations(&self) -> (u64, &[Evaluation]) {
        (self.standing.last_step, &self.standing.last)
    }

    /// Writes the token records of this step, if there are any.
    pub(crate) fn write_tokens(
        &self,
        records: &[TokenRecord],
        tokenizer: &Tokenizer,
        clock: &mut Clock,
    ) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        clock.time("records", || {
            token_records::write(records, tokenizer, self.directory.tokens(self.step)?)
        })
    }

    /// Writes this step's numbers, and passes them and their alarms to the observer.
    pub(crate) fn record(&mut self, record: StepRecord, observer: &mut dyn Observer) -> Result<()> {
        let StepRecord { metrics, mut clock, moved_responses, remarks, .. } = record;
        let before = std::mem::replace(&mut self.traffic, self.ranks.traffic());
        let has_others = self.ranks.count() > 1;
        if has_others {
            clock.add("wait", self.traffic.waited.saturating_sub(before.waited));
        }
        let mut timings = clock.metrics();
        if has_others {
            let sent = self.traffic.sent_bytes - before.sent_bytes;
            timings.set("throughput/sent_mb", sent as f64 / 1e6);
            timings.set("throughput/moved_responses", moved_responses as f64);
        }
        self.total.merge(&clock);
        self.ranks.note("the metrics of the step", &metrics)?;
        if let Some(log) = &mut self.log {
            log.write(self.step, &metrics, &timings)?;
        }
        observer.step(&StepReport {
            step: self.step,
            steps: self.steps,
            metrics: &metrics,
            timings: &timings,
            remarks: &remarks,
        });
        let value = |name: &str| metrics.get(name);
        for alarm in self.standing.alarms.after_step(Origin::Isentrope, self.step, &value) {
            observer.note(&alarm.text);
        }
        Ok(())
    }

    /// Takes the record of the step that the run goes on from, if it has not been written.
    pub(crate) fn take_unrecorded(&mut self) -> Option<StepRecord> {
        self.unrecorded.take()
    }

    /// Begins a step.
    pub(crate) fn begin_step(&mut self) {
        self.step += 1;
        self.score = None;
    }

    /// Undoes [`begin_step`](Self::begin_step), for a step that has changed nothing.
    pub(crate) fn undo_step(&mut self) {
        self.step -= 1;
    }

    /// The summary for the user.
    pub(crate) fn summary(
        self,
        ending: Ending,
        example: Option<Example>,
        laws: Vec<String>,
    ) -> RunSummary {
        let Standing { best, first, last, last_step, .. } = self.standing;
        RunSummary {
            ending,
            example,
            laws,
            step: self.step,
            first,
            last,
            last_step,
            // After resuming from an earlier checkpoint, the best one may have been removed.
            best: best.filter(|&(step, _)| self.directory.checkpoints.path(step).exists()),
            checkpoint: self.saved,
            directory: self.directory.dir,
            elapsed: self.started.elapsed(),
            timings: self.total.metrics(),
        }
    }
}
