//! What every run has, whatever it trains: a place, a step, a log, evaluations, checkpoints and an end.
//!
//! [`Place`] is where a run is to be kept, [`RunDirectory`] the directory once it is open. In it are the metrics (`log.rs`,
//! which writes to the [`sinks`]), [`ResponseFile`]s, and the checkpoints that a run goes on from (`checkpoint.rs`). A
//! [`StepRecord`] is what is measured of a step, a [`RunSummary`] what is told at the end.

mod checkpoint;
mod directory;
mod log;
mod place;
mod record;
mod response_file;
pub mod sinks;
mod summary;

pub use directory::RunDirectory;
pub use place::{Existing, Place};
pub use record::StepRecord;
pub use response_file::ResponseFile;
pub use summary::{Ending, Example, RunSummary};

use self::checkpoint::{FoundCheckpoint, RunState};
use self::log::Log;
use crate::clock::Clock;
use crate::error::Result;
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::observer::{Observer, Phase, Progress, StepReport};
use crate::settings::{self, Checkpoints};
use isentrope_evaluation::{Evaluation, EvaluationSet, Evaluator};
use isentrope_kernels::Backend;
use isentrope_lab::alarms::Alarms;
use isentrope_lab::log::Origin;
use isentrope_model::Model;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A run under way.
pub struct Run {
    /// Where it is kept.
    pub directory: RunDirectory,
    /// Steps made, the one under way included.
    pub step: u64,
    /// Steps to make in all.
    pub steps: u64,
    log: Log,
    /// Evaluations before the first step.
    first: Vec<Evaluation>,
    /// The latest evaluations, and the step after which they were made.
    last: Vec<Evaluation>,
    last_step: u64,
    /// Mean accuracy after this step, if it was evaluated and every set could be judged.
    score: Option<f64>,
    best: Option<(u64, f64)>,
    alarms: Alarms,
    /// What the step measured that the run goes on from, if it is still to be evaluated.
    unrecorded: Option<Metrics>,
    saved: Option<PathBuf>,
    started: Instant,
    /// Work of this process, over all steps.
    total: Clock,
}

impl Run {
    /// Opens the run's directory, and what is to be trained: from the latest checkpoint or from the start.
    ///
    /// # Errors
    /// As [`RunDirectory::open`], and what `learner` returns.
    pub(crate) fn open<B: Backend, S: Serialize + DeserializeOwned>(
        place: &Place,
        run: &settings::Run,
        checkpoints: &Checkpoints,
        manifest: Value,
        start: S,
        observer: &mut dyn Observer,
        learner: impl FnOnce(Option<&FoundCheckpoint<S>>) -> Result<Learner<B>>,
    ) -> Result<(Self, Learner<B>, S)> {
        let directory = RunDirectory::open(place, checkpoints.clone())?;
        let found = directory.resumed::<S>(place, &mut |text: &str| observer.note(text))?;
        // Before anything is written, so that a run that cannot start changes nothing.
        let learner = learner(found.as_ref())?;
        let recorded = found.as_ref().map(|f| f.state.recorded());
        let goes_on = recorded
            .map(|step| directory.log(Some(step), &mut |text: &str| observer.note(text)))
            .transpose()?;
        directory.begin(place, &mut |text: &str| observer.note(text))?;
        directory.write_manifest(&manifest, &mut |text: &str| observer.note(text))?;
        directory.remove_responses(found.as_ref().map(|f| f.state.step))?;
        let log = match goes_on {
            Some(log) => log,
            None => directory.log(None, &mut |_: &str| {})?,
        };
        let mut opened = Self {
            directory,
            step: 0,
            steps: run.steps,
            log,
            first: Vec::new(),
            last: Vec::new(),
            last_step: 0,
            score: None,
            best: None,
            alarms: Alarms::default(),
            unrecorded: None,
            saved: None,
            started: Instant::now(),
            total: Clock::default(),
        };
        let state = match found {
            None => {
                if place.existing == Existing::Resume {
                    let dir = opened.directory.dir.display();
                    observer
                        .note(&format!("{dir} has no checkpoint to resume from: starting at the beginning"));
                }
                start
            }
            Some(FoundCheckpoint { dir, state }) => {
                observer.note(&format!("resuming after step {} from {}", state.step, dir.display()));
                opened.best = state.best;
                opened.step = state.step;
                opened.retire()?; // a kill may have come before it
                if state.step >= run.steps {
                    observer.note(&format!(
                        "the run has made {} of {} steps: a larger run.steps trains on",
                        state.step, run.steps
                    ));
                }
                (opened.first, opened.last) = (state.first, state.last);
                opened.last_step = state.last_step;
                opened.alarms = state.alarms;
                opened.unrecorded = state.unrecorded;
                opened.saved = Some(dir);
                state.trainer
            }
        };
        Ok((opened, learner, state))
    }

    /// Evaluates the model after this step on every set. The responses are kept in the run's directory, the numbers in the
    /// record.
    ///
    /// # Errors
    /// As sampling's and writing's.
    pub(crate) fn evaluate<B: Backend>(
        &mut self,
        evaluator: &Evaluator<'_>,
        model: &Model<B>,
        sets: &[EvaluationSet],
        record: &mut StepRecord,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut evaluations = Vec::with_capacity(sets.len());
        for set in sets {
            let mut file = self.directory.evaluation(self.step, &set.name)?;
            let responses = record.clock.time("eval", || evaluator.responses(model, set, observer))?;
            for ((problem, _), responses) in set.problems.iter().zip(&responses) {
                file.responses(problem, responses)?;
            }
            file.finish()?;
            evaluations.push(Evaluation::of_responses(set, &responses));
        }
        for (name, value) in Evaluation::metrics(&evaluations) {
            record.metrics.set(name, value);
        }
        self.score = Evaluation::mean_of_sets(&evaluations);
        if self.step == 0 {
            self.first.clone_from(&evaluations);
        }
        self.last = evaluations;
        self.last_step = self.step;
        Ok(())
    }

    /// The latest evaluations.
    pub(crate) fn evaluations(&self) -> &[Evaluation] {
        &self.last
    }

    /// Writes the numbers of this step, and tells the observer of them and of what they give the alarm for.
    ///
    /// # Errors
    /// As [`Log::write`].
    pub(crate) fn record(&mut self, record: StepRecord, observer: &mut dyn Observer) -> Result<()> {
        let StepRecord { metrics, clock, remarks } = record;
        let timings = clock.metrics();
        self.total.merge(&clock);
        self.log.write(self.step, &metrics, &timings)?;
        observer.step(&StepReport {
            step: self.step,
            steps: self.steps,
            metrics: &metrics,
            timings: &timings,
            remarks: &remarks,
        });
        for alarm in self.alarms.after_step(Origin::Isentrope, self.step, &|name| metrics.get(name)) {
            observer.note(&alarm.text);
        }
        Ok(())
    }

    /// Saves a checkpoint if one is due after this step or the observer asks to stop. Returns whether to stop before the
    /// last step.
    ///
    /// # Errors
    /// As [`CheckpointStore::save`](checkpoint::CheckpointStore::save).
    pub(crate) fn save_if_due<B: Backend, S: Serialize>(
        &mut self,
        learner: &Learner<B>,
        source: &Path,
        trainer: &S,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let stop = observer.stop_requested();
        let due = self.directory.checkpoints.due(self.step, self.steps);
        if !stop && !due {
            return Ok(false);
        }
        // Damaged weights, or weights whose gradients are not finite, must not replace good ones.
        let step = self.step;
        let lost = learner.optimizer.progress.skipped_in_a_row > 0 && step < self.steps;
        if lost || !learner.tells_probabilities() {
            observer.note(&format!(
                "step {step} is not saved: after it the model's numbers are not finite; checkpoints before it stay. Lower \
                 optimizer.learning_rate and --resume"
            ));
            return Ok(stop && step < self.steps);
        }
        // A checkpoint that is saved only because the run was stopped cannot be the best: stopping changes no result.
        if let Some(score) = self.score
            && due
            && self.best.is_none_or(|(_, best)| score > best)
        {
            self.best = Some((self.step, score));
        }
        self.save(learner, source, trainer, None, observer)?;
        self.retire()?;
        Ok(stop && self.step < self.steps)
    }

    /// The record of the step that the run goes on from, if it is still to be evaluated.
    pub(crate) fn take_unrecorded(&mut self) -> Option<StepRecord> {
        self.unrecorded.take().map(|metrics| StepRecord { metrics, ..StepRecord::default() })
    }

    /// Saves a checkpoint of the last step, unless there is one, because the run is about to end with an error. If the step's
    /// evaluation is what failed, `unrecorded` is what the step measured. No earlier checkpoint is removed. The observer is
    /// told of it, and of a failure to save.
    pub(crate) fn save_before_failing<B: Backend, S: Serialize>(
        &mut self,
        learner: &Learner<B>,
        source: &Path,
        trainer: &S,
        unrecorded: Option<Metrics>,
        observer: &mut dyn Observer,
    ) {
        let (step, target) = (self.step, self.directory.checkpoints.path(self.step));
        if step == 0 || self.saved.as_ref() == Some(&target) {
            return;
        }
        let said = match self.save(learner, source, trainer, unrecorded, observer) {
            Ok(()) => format!("step {step} is saved in {}; --resume goes on from there", target.display()),
            Err(e) => format!("step {step}, the last that was made, could not be saved: {e}"),
        };
        observer.note(&said);
    }

    fn save<B: Backend, S: Serialize>(
        &mut self,
        learner: &Learner<B>,
        source: &Path,
        trainer: &S,
        unrecorded: Option<Metrics>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        observer.progress(Progress { phase: Phase::Checkpoint, done: 0, total: 1, tokens: 0 });
        // If the base model is gone by now, the last checkpoint has the files that are copied from it.
        let has_model = |dir: &&Path| dir.join("config.json").is_file();
        let source =
            [Some(source), self.saved.as_deref()].into_iter().flatten().find(has_model).unwrap_or(source);
        let state = RunState {
            step: self.step,
            optimizer: learner.optimizer.progress,
            best: self.best,
            first: self.first.clone(),
            last: self.last.clone(),
            last_step: self.last_step,
            alarms: self.alarms.clone(),
            unrecorded,
            trainer,
        };
        self.log.sync()?;
        self.saved = Some(self.directory.checkpoints.save(learner, source, &state)?);
        Ok(())
    }

    /// Removes checkpoints that need not be kept.
    fn retire(&self) -> Result<()> {
        self.directory.checkpoints.retire(self.step, self.best.map(|(step, _)| step))
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

    /// What to tell the user at the end.
    pub(crate) fn summary(self, ending: Ending, example: Option<Example>, laws: Vec<String>) -> RunSummary {
        RunSummary {
            ending,
            example,
            laws,
            step: self.step,
            first: self.first,
            last: self.last,
            last_step: self.last_step,
            // A run that went on from an earlier checkpoint may have a best one that was removed since.
            best: self.best.filter(|&(step, _)| self.directory.checkpoints.path(step).exists()),
            checkpoint: self.saved,
            directory: self.directory.dir,
            elapsed: self.started.elapsed(),
            timings: self.total.metrics(),
        }
    }
}
