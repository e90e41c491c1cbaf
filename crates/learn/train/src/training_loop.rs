//! The loop of every run, RL or SFT: collect, learn, evaluate, record, save.

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::models::{Models, check_kind_of, checksum_with_base};
use crate::observer::Observer;
use crate::optimizer::{Optimizer, UpdateCounts};
use crate::ranks::TrainingRanks;
use crate::run::{
    Ending, Example, FoundCheckpoint, Learners, OpenedRun, Run, RunLocation, RunSummary,
    SavedMoments, StepRecord,
};
use crate::settings::{POLICY_OPTIMIZER, PROCESS_OPTIMIZER};
use crate::teacher::Teacher;
use crate::trainer::{CollectContext, LearnContext, Prepared, Tables, Trainer};
use isentrope_budget::PassLimits;
use isentrope_budget::memory::Plan;
use isentrope_evaluation::{Error as CommonError, EvaluationSet, Evaluator};
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_model::adapter::AdapterConfig;
use isentrope_ranks::World;
use isentrope_rollout::Turns;
use isentrope_run::WEIGHTS;
use isentrope_run::tokens::TokenRecord;
use isentrope_trace::span;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Runs to the last step, or until the observer asks to stop: from the start, or from the
/// checkpoint that is to be resumed.
///
/// All ranks of a world call it alike, and the results are the same for any number of them. The
/// first writes the run directory, except checkpoints and the journals of responses, which all
/// write.
///
/// # Errors
/// A sentence that says what happened and what to do; checkpoints made until then stay.
pub fn train<T: Trainer>(
    prepared: Prepared<T>,
    plan: &Plan,
    location: &RunLocation,
    world: Arc<World>,
    backend: Arc<dyn Backend>,
    manifest: Value,
    observer: &mut dyn Observer,
) -> Result<RunSummary> {
    let Prepared { trainer, model_dir, prompter, judge, environment, .. } = prepared;
    let Prepared { sets, eval_stop, demand, teacher, .. } = prepared;
    let tables = trainer.tables();
    let ranks = TrainingRanks::new(world, tables.shards)?;
    for set in &sets {
        let problems: Vec<_> =
            set.problems.iter().map(|(problem, tokens)| (tokens, &problem.ground_truth)).collect();
        ranks.note(&format!("the problems of {}", set.name), &problems)?;
    }

    let (checkpoints, track_states) = (tables.checkpoint, tables.track_states);
    let opened = OpenedRun::open(location, checkpoints, track_states, &ranks, &manifest, observer)?;
    let found = opened.found.as_ref();
    if let Some(found) = found {
        check_resumable(found, &trainer)?;
    }
    let saved = found.map(|found| &*found.dir);
    let models = Models::open(&model_dir, tables, saved, &ranks, backend.clone())?;
    let reference = demand.sets.reference.then(|| models.reference()).transpose()?;
    let load = |teacher: Teacher| Model::load_frozen(&teacher.dir, backend);
    let teacher = teacher.map(load).transpose()?;
    let learner = |model: Model, saved: Option<SavedMoments>, table, settings, limits| {
        let moment = |elements| demand.sets.moment(elements);
        let optimizer = Optimizer::new(&model, table, settings, &ranks, moment)?;
        let mut learner = Learner::new(model, optimizer, limits, ranks.clone())?;
        if let Some((moments, progress)) = saved {
            learner.read_moments(&moments, progress)?;
        }
        Ok::<_, Error>(learner)
    };
    let process_model = match tables.process_model {
        Some(table) => {
            let (model, saved) = match found {
                Some(found) => {
                    found.process_model(&models).map(|(model, saved)| (model, Some(saved)))?
                }
                None => (models.first(table.model)?, None),
            };
            let limits = PassLimits { activation_slots: 0, ..plan.passes() }; // it never samples
            Some(learner(model, saved, PROCESS_OPTIMIZER, table.optimizer.clone(), limits)?)
        }
        None => None,
    };
    let (model, saved) = match found {
        Some(found) => found.policy(&models).map(|(model, saved)| (model, Some(saved)))?,
        None => (models.first(None)?, None),
    };
    let adapter = models.adapter().cloned();
    let settings = tables.optimizer.clone();
    let learner = learner(model, saved, POLICY_OPTIMIZER, settings, plan.passes())?;
    let (run, state) = opened.begin(location, tables.run.steps, ranks, &manifest, observer)?;
    let state = trainer.begin(state);

    // Each set's decoding overrides part of it.
    let sampling = tables.eval.sampling().ending_at(
        &prompter.eos_tokens,
        &eval_stop,
        Some(&prompter.tokenizer),
    );
    let seed = tables.run.seed;
    let (prompter, judge, limits) = (&prompter, &judge, plan.sampling());
    let turns = environment.as_ref();
    let turns = turns.map(|(environment, limits)| Turns::new(&**environment, limits, prompter));
    let evaluator = Evaluator { sampling, seed, prompter, judge, limits, turns };
    let example = Example::of(&sets, &evaluator);
    let mut training = TrainingLoop {
        trainer,
        state,
        learner,
        process_model,
        run,
        reference,
        teacher,
        evaluator,
        sets: &sets,
        plan,
        model_dir: &model_dir,
        adapter,
        observer,
    };
    let ending = match training.all_steps() {
        Ok(ending) => ending,
        Err(Failure { error, unsaved }) => {
            let error = error.or_free_space(); // the other ranks hear of this too
            training.save_before_failing(&error, unsaved);
            return Err(error);
        }
    };
    let (evaluated, latest) = training.run.evaluations();
    let laws = training.trainer.laws(&training.state, evaluated, latest);
    Ok(training.run.summary(ending, example, laws))
}

/// Refuses before anything is planned what [`train`] would refuse behind it: to go on from the
/// checkpoint in `saved` with a model in `model_dir`, or adapters, of another kind. A checkpoint
/// that cannot be read is no error here: an earlier one may be whole.
///
/// # Errors
/// [`Setting`](isentrope_evaluation::Error::Setting), naming the key.
pub fn check_kind(tables: Tables<'_>, model_dir: &Path, saved: &Path) -> Result<()> {
    let own = tables.lora.map(|lora| lora.config(None));
    match check_kind_of(model_dir, own.as_ref(), saved) {
        Err(error @ Error::Common(CommonError::Setting { .. })) => Err(error),
        _ => Ok(()),
    }
}

/// Checks that the run can go on from a checkpoint with the present recipe.
fn check_resumable<T: Trainer>(found: &FoundCheckpoint<T::State>, trainer: &T) -> Result<()> {
    trainer.check(&found.state.trainer)?;
    if trainer.tables().process_model.is_none() && found.state.process_optimizer.is_some() {
        let what = "was \"prime\" until there, and the run's process model would be lost: start \
                    anew in another run.out with model.path set to the checkpoint";
        return Err(Error::setting("objective.advantage", what));
    }
    Ok(())
}

/// The error that ends a run early, and the part of the run that may be saved.
struct Failure {
    error: Error,
    unsaved: Unsaved,
}

/// The part of a run that may be saved after a failure.
enum Unsaved {
    /// Nothing: the step's updates are not complete.
    Nothing,
    /// The weights after a whole step. If recording or saving that step has failed, its record.
    Step(Option<Box<StepRecord>>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, unsaved: Unsaved::Nothing }
    }
}

/// A rank's vote on whether to save before the run ends with an error.
#[derive(PartialEq, Serialize, Deserialize)]
struct Vote {
    /// Whether this rank has steps to save.
    saves: bool,
    /// Whether damaged weights may be the cause.
    doubts: bool,
    /// The number of updates in each learner's moments.
    progress: Vec<UpdateCounts>,
}

/// A run under way.
struct TrainingLoop<'a, T: Trainer> {
    // These change from step to step.
    trainer: T,
    state: T::State,
    learner: Learner,
    process_model: Option<Learner>,
    run: Run,
    // These stay.
    reference: Option<Model>,
    teacher: Option<Model>,
    evaluator: Evaluator<'a>,
    sets: &'a [EvaluationSet],
    plan: &'a Plan,
    /// The directory that tokenizer and chat template come from.
    model_dir: &'a Path,
    /// The configuration of adapters, if adapters are trained.
    adapter: Option<AdapterConfig>,
    observer: &'a mut dyn Observer,
}

impl<T: Trainer> TrainingLoop<'_, T> {
    /// Makes all remaining steps.
    fn all_steps(&mut self) -> Result<Ending, Failure> {
        self.trim_if_tight();
        let mut stop = self.begin()?;
        while !stop && self.run.step < self.run.steps {
            self.observer.begins(self.run.step + 1, self.run.steps);
            stop = self.step()?;
            self.observer.is_over();
        }
        Ok(if stop { Ending::Interrupted } else { Ending::Complete })
    }

    /// Evaluates the model before the first step, or completes the record of the checkpoint's step.
    /// Returns whether to stop before the last step.
    fn begin(&mut self) -> Result<bool, Failure> {
        if self.run.step == 0 {
            let mut record = StepRecord::default();
            self.evaluate(&mut record)?;
            self.run.record(record, self.observer)?;
            // There is nothing to save.
            return Ok(self.learner.ranks.any(self.observer.stop_requested())?);
        }
        match self.run.take_unrecorded() {
            Some(record) => self.finish_step(record),
            None => Ok(false),
        }
    }

    /// One step: collect, learn, evaluate, record, save. Returns whether to stop before the last
    /// step.
    fn step(&mut self) -> Result<bool, Failure> {
        self.run.begin_step();
        let _span = span("step").with("number", self.run.step as usize);
        let mut record = StepRecord::default();
        let ready = self.learner.checksum().and_then(|before| {
            if self.trainer.samples() {
                record.clock.time("rollout", || self.learner.make_whole())?;
            }
            Ok(before)
        });
        let before = match ready {
            Ok(before) => before,
            Err(error) => return Err(self.undo_step(error)),
        };
        let mut context = CollectContext {
            step: self.run.step,
            model: &self.learner.model,
            checksum: checksum_with_base(before, self.adapter.as_ref()),
            activation_cache: self.learner.activation_cache.as_mut(),
            ranks: &self.learner.ranks,
            prompter: self.evaluator.prompter,
            judge: self.evaluator.judge,
            turns: self.evaluator.turns,
            limits: self.plan.sampling(),
            directory: &self.run.directory,
            record: &mut record,
            observer: self.observer,
        };
        let collected = self.trainer.collect(&self.state, &mut context);
        self.trim_if_tight();
        let ready = collected.and_then(|collected| self.allocate_gradients().map(|()| collected));
        let collected = match ready {
            Ok(collected) => collected,
            Err(error) => return Err(self.undo_step(error)),
        };
        let skipped_before = self.learner.optimizer.progress.skipped;
        let learning_rate = self.trainer.tables().optimizer.rate(self.run.step, self.run.steps);
        let mut context = LearnContext {
            step: self.run.step,
            learner: &mut self.learner,
            process_model: self.process_model.as_mut(),
            reference: self.reference.as_ref(),
            teacher: self.teacher.as_ref(),
            prompter: self.evaluator.prompter,
            is_tight: self.plan.is_tight(),
            learning_rate,
            record: &mut record,
            observer: self.observer,
        };
        self.trainer.learn(collected, &mut self.state, &mut context)?;
        record.metrics.set("optimizer/learning_rate", learning_rate);
        let has_gradient = record.metrics.get("grad/norm").is_some_and(|norm| norm > 0.0);
        if has_gradient && self.learner.checksum()? == before {
            self.observer.note(&format!(
                "step {} has changed next to no weight: their norm is what it was, and the learning \
                 rate, {learning_rate:e}, too small for single precision",
                self.run.step
            ));
        }
        self.record_skipped(skipped_before, &mut record);
        self.end_update();
        self.finish_step(record)
    }

    /// Undoes a step that has failed before its updates: neither weights nor state have changed
    /// since the step before.
    fn undo_step(&mut self, error: Error) -> Failure {
        self.run.undo_step();
        Failure { error, unsaved: Unsaved::Step(None) }
    }

    /// Allocates the gradients, whose memory may have been freed, on all ranks before any of them
    /// changes a weight: a lack of memory then ends the run between two steps, not within one. By
    /// layer these are the slices; each layer's memory is taken within the update.
    fn allocate_gradients(&mut self) -> Result<()> {
        self.learner.allocate_gradient()?;
        self.process_model.as_mut().map_or(Ok(()), Learner::allocate_gradient)?;
        self.learner.ranks.any(false)?; // an error where another rank has failed
        Ok(())
    }

    /// Records the number of updates left out so far, and notes those beyond `before`.
    fn record_skipped(&mut self, before: u32, record: &mut StepRecord) {
        let skipped = self.learner.optimizer.progress.skipped;
        record.metrics.set("optimizer/skipped", f64::from(skipped));
        if let Some(note) = self.learner.optimizer.skipped_since(before, "") {
            self.observer.note(&note);
        }
    }

    /// Evaluates, records and saves. Returns whether to stop before the last step.
    fn finish_step(&mut self, mut record: StepRecord) -> Result<bool, Failure> {
        let tokens = std::mem::take(&mut record.tokens);
        let measured =
            StepRecord { metrics: record.metrics.clone(), tokens, ..StepRecord::default() };
        if let Err(error) = self.record_step(record, &measured.tokens) {
            return Err(Failure { error, unsaved: Unsaved::Step(Some(Box::new(measured))) });
        }
        let mut learners = Learners {
            policy: &mut self.learner,
            process_model: self.process_model.as_mut(),
            adapter: self.adapter.as_ref(),
        };
        let stop =
            self.run.save_if_due(&mut learners, self.model_dir, &self.state, self.observer)?;
        self.trim_if_tight();
        Ok(stop)
    }

    /// Records a step whose updates are made. If it fails, it can be done again with the same
    /// result.
    fn record_step(&mut self, mut record: StepRecord, tokens: &[TokenRecord]) -> Result<()> {
        self.run.write_tokens(tokens, &self.evaluator.prompter.tokenizer, &mut record.clock)?;
        self.evaluate(&mut record)?;
        self.run.record(record, self.observer)
    }

    /// Measures the model on held-out data, where due.
    fn evaluate(&mut self, record: &mut StepRecord) -> Result<()> {
        if !self.trainer.tables().eval.due(self.run.step, self.run.steps) {
            return Ok(());
        }
        self.trainer.evaluate(&self.learner, record)?;
        let checksum = record.clock.time("eval", || self.learner.weights_checksum())?;
        record.metrics.set(WEIGHTS, f64::from(checksum));
        if !self.sets.is_empty() {
            record.clock.time("eval", || self.learner.make_whole())?;
        }
        self.learner.note_rounded_weights()?;
        self.trim_if_tight();
        if self.sets.is_empty() {
            return Ok(()); // a mean over nothing would pass for a score
        }
        let model = &self.learner.model;
        self.run.evaluate(&self.evaluator, model, self.sets, record, self.observer)?;
        self.trim_if_tight();
        self.run.measure_initial_states(&self.learner, record)?;
        let (step, evaluations) = self.run.evaluations();
        self.trainer.evaluated(step, evaluations, &mut self.state, record, self.observer);
        self.trim_if_tight();
        Ok(())
    }

    /// Saves the run before it ends with this error, unless the error leaves the weights in doubt.
    /// All ranks come here, from wherever in the step they were: the first must have something to
    /// save, and the moments of all must have seen the same updates.
    fn save_before_failing(&mut self, error: &Error, unsaved: Unsaved) {
        let ranks = self.learner.ranks.clone();
        self.end_update();
        let mut learners = Learners {
            policy: &mut self.learner,
            process_model: self.process_model.as_mut(),
            adapter: self.adapter.as_ref(),
        };
        let own = Vote {
            saves: matches!(unsaved, Unsaved::Step(_)) && self.run.has_unsaved(),
            doubts: error.doubts_weights(),
            progress: learners.iter().map(|learner| learner.optimizer.progress).collect(),
        };
        let votes = ranks.vote(error, &own);
        let agreed = votes.first().is_some_and(|first| {
            first.saves && votes.iter().all(|vote| !vote.doubts && vote.progress == first.progress)
        });
        if agreed {
            let unrecorded = match unsaved {
                Unsaved::Step(unrecorded) => unrecorded.map(|record| *record),
                Unsaved::Nothing => None,
            };
            ranks.end_vote(self.run.save_before_failing(
                &mut learners,
                self.model_dir,
                &self.state,
                unrecorded,
                self.observer,
            ));
        } else {
            ranks.stop_again();
        }
    }

    /// Returns an update's memory, the gradient's too, to the system if the next phase would not
    /// fit beside it. Otherwise the gradient keeps its memory, because allocating it again costs
    /// page faults on a CPU.
    fn end_update(&mut self) {
        if self.plan.is_tight() {
            self.learner.free_gradient();
            self.process_model.as_mut().into_iter().for_each(Learner::free_gradient);
        }
        self.trim_if_tight();
    }

    /// Returns freed memory to the system if the next phase would not fit beside it.
    fn trim_if_tight(&self) {
        if self.plan.is_tight() {
            self.learner.model.backend.trim();
        }
    }
}
