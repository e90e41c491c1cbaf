//! What every run has, whatever it trains: a place, a step, a log, evaluations, checkpoints and an end.

use crate::checkpoint::{Found, State};
use crate::error::Result;
use crate::evaluation::{Evaluation, EvaluationSet};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::observer::{Observer, Phase, Progress, StepReport};
use crate::run_directory::{Existing, Log, Place, RunDirectory};
use crate::settings::{self, Checkpoints};
use isentrope_kernels::Backend;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A run under way.
pub struct Run {
    /// Where it is kept.
    pub directory: RunDirectory,
    /// Steps made, the one under way included.
    pub step: u64,
    steps: u64,
    log: Log,
    /// Before the first step.
    first: Vec<Evaluation>,
    last: Vec<Evaluation>,
    last_step: u64,
    /// Mean accuracy after this very step, where it was evaluated.
    score: Option<f64>,
    best: Option<(u64, f64)>,
    saved: Option<PathBuf>,
    started: Instant,
    /// Work of this process, over all steps.
    total: Clock,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At its last step.
    Complete,
    /// Before, because it was asked to.
    Interrupted,
}

/// What to tell the user at the end.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How it ended.
    pub ending: Ending,
    /// Steps made.
    pub step: u64,
    /// Evaluations before the first step and after the last evaluated one.
    pub first: Vec<Evaluation>,
    /// After the last evaluated step.
    pub last: Vec<Evaluation>,
    /// The last evaluated step.
    pub last_step: u64,
    /// The best evaluated checkpoint: step and mean accuracy.
    pub best: Option<(u64, f64)>,
    /// The last checkpoint, if this process saved one.
    pub checkpoint: Option<PathBuf>,
    /// The run's directory.
    pub directory: PathBuf,
    /// A held-out prompt to try the model on.
    pub example: Option<String>,
    /// Time of this process.
    pub elapsed: Duration,
    /// What it was spent on, and speeds.
    pub timings: Metrics,
}

impl Run {
    /// Opens the run's directory, and what is to be trained: from the latest checkpoint or from the start.
    ///
    /// # Errors
    /// As [`RunDirectory::open`], and what `learner` returns.
    pub fn open<B: Backend, S: Serialize + DeserializeOwned>(
        place: &Place,
        run: &settings::Run,
        checkpoints: &Checkpoints,
        manifest: Value,
        start: S,
        observer: &mut dyn Observer,
        learner: impl FnOnce(Option<&Found<S>>) -> Result<Learner<B>>,
    ) -> Result<(Self, Learner<B>, S)> {
        let directory =
            RunDirectory::open(place, checkpoints.clone(), &mut |text: &str| observer.note(text))?;
        let found = match place.existing {
            Existing::Resume => directory.checkpoints.latest::<S>(&mut |text: &str| observer.note(text))?,
            Existing::Refuse | Existing::Overwrite => None,
        };
        let learner = learner(found.as_ref())?;
        directory.write_manifest(&manifest, &mut |text: &str| observer.note(text))?;
        let log = directory.log(found.as_ref().map(|f| f.state.step))?;
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
            Some(Found { dir, state }) => {
                observer.note(&format!("resuming after step {} from {}", state.step, dir.display()));
                opened.directory.checkpoints.retire(&state)?; // what a kill may have kept from being removed
                if state.step >= run.steps {
                    observer.note(&format!(
                        "the run has made {} of {} steps: a larger run.steps trains on",
                        state.step, run.steps
                    ));
                }
                opened.step = state.step;
                (opened.first, opened.last) = (state.first, state.last);
                opened.last_step = state.last_step;
                opened.best = state.best;
                opened.saved = Some(dir);
                state.trainer
            }
        };
        Ok((opened, learner, state))
    }

    /// Takes in the evaluations made after this step.
    pub fn evaluated(&mut self, evaluations: Vec<Evaluation>) {
        let count = evaluations.len().max(1) as f64;
        self.score = Some(evaluations.iter().map(|e| e.mean).sum::<f64>() / count);
        if self.step == 0 {
            self.first.clone_from(&evaluations);
        }
        self.last = evaluations;
        self.last_step = self.step;
    }

    /// Writes the numbers of this step.
    ///
    /// # Errors
    /// As [`Log::write`].
    pub fn record(&mut self, record: Record, observer: &mut dyn Observer) -> Result<()> {
        let Record { metrics, clock } = record;
        let timings = clock.metrics();
        self.total.merge(&clock);
        self.log.write(self.step, &metrics, &timings)?;
        observer.step(&StepReport {
            step: self.step,
            steps: self.steps,
            metrics: &metrics,
            timings: &timings,
        });
        Ok(())
    }

    /// Saves a checkpoint if one is due after this step or the observer asks to stop. Returns whether to stop before the
    /// last step.
    ///
    /// # Errors
    /// As [`CheckpointStore::save`](crate::checkpoint::CheckpointStore::save).
    pub fn save_if_due<B: Backend, S: Serialize>(
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
        observer.progress(Progress { phase: Phase::Checkpoint, done: 0, total: 1, tokens: 0 });
        // One that is only there because the run was stopped cannot be the best, so that stopping changes nothing.
        if let Some(score) = self.score
            && due
            && self.best.is_none_or(|(_, best)| score > best)
        {
            self.best = Some((self.step, score));
        }
        let state = State {
            step: self.step,
            optimizer: learner.optimizer.progress,
            best: self.best,
            first: self.first.clone(),
            last: self.last.clone(),
            last_step: self.last_step,
            trainer,
        };
        self.log.sync()?;
        self.saved = Some(self.directory.checkpoints.save(learner, source, &state)?);
        Ok(stop && self.step < self.steps)
    }

    /// Before a step's work.
    pub fn begin_step(&mut self) {
        self.step += 1;
        self.score = None;
    }

    /// What to tell the user at the end.
    pub fn summary(self, ending: Ending, sets: &[EvaluationSet]) -> Summary {
        let problem = sets.first().and_then(|set| set.problems.first());
        Summary {
            ending,
            example: problem.and_then(|(problem, _)| problem.prompt.question()).map(str::to_owned),
            step: self.step,
            first: self.first,
            last: self.last,
            last_step: self.last_step,
            best: self.best,
            checkpoint: self.saved,
            directory: self.directory.dir,
            elapsed: self.started.elapsed(),
            timings: self.total.metrics(),
        }
    }
}

/// What is measured of a step.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What follows from the recipe alone.
    pub metrics: Metrics,
    /// How long things take.
    pub clock: Clock,
}

/// Where a step's time goes, and how many tokens it bought.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    /// Time of steps that are over.
    before: Duration,
    times: Vec<(&'static str, Duration)>,
    tokens: Vec<(&'static str, usize)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now(), before: Duration::ZERO, times: Vec::new(), tokens: Vec::new() }
    }
}

impl Clock {
    /// Times a phase.
    pub fn time<R>(&mut self, phase: &'static str, work: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        let result = work();
        self.add(phase, started.elapsed());
        result
    }

    /// Adds to a phase's time.
    pub fn add(&mut self, phase: &'static str, time: Duration) {
        match self.times.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += time,
            None => self.times.push((phase, time)),
        }
    }

    /// Adds to the tokens that went through a phase.
    pub fn count(&mut self, phase: &'static str, tokens: usize) {
        match self.tokens.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += tokens,
            None => self.tokens.push((phase, tokens)),
        }
    }

    fn merge(&mut self, step: &Self) {
        self.before += step.started.elapsed();
        for &(phase, time) in &step.times {
            self.add(phase, time);
        }
        for &(phase, tokens) in &step.tokens {
            self.count(phase, tokens);
        }
    }

    /// `time/*_s` and `throughput/*_tokens_per_s`.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        let whole = if self.before.is_zero() { self.started.elapsed() } else { self.before };
        metrics.set("time/step_s", whole.as_secs_f64());
        for (phase, time) in &self.times {
            metrics.set(format!("time/{phase}_s"), time.as_secs_f64());
        }
        for (phase, tokens) in &self.tokens {
            let time =
                self.times.iter().find(|(name, _)| name == phase).map_or(0.0, |(_, t)| t.as_secs_f64());
            if time > 0.0 {
                metrics.set(format!("throughput/{phase}_tokens_per_s"), *tokens as f64 / time);
            }
        }
        metrics
    }
}
