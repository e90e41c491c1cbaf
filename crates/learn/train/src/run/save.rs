//! Decides when a run saves a checkpoint, and which it keeps.

use super::checkpoint::{Learners, RunState, Standing};
use super::directory::step_of;
use super::{Run, StepRecord};
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::observer::{Observer, Phase, Progress};
use isentrope_trace::span;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

impl Run {
    /// Saves a checkpoint if one is due after this step, the last one is too old, or the observer
    /// asks to stop. Returns whether to stop before the last step. No result depends on time: a
    /// checkpoint that is saved only for its age is not the best, and the next takes its place.
    pub(crate) fn save_if_due<S: Serialize>(
        &mut self,
        learners: &mut Learners<'_>,
        source: &Path,
        trainer: &S,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let stop = self.ranks.any(observer.stop_requested())?;
        let due = self.directory.checkpoints.due(self.step, self.steps);
        let is_late = self.directory.checkpoints.is_late(self.saved_at.elapsed());
        let is_late = self.ranks.any(is_late)?; // the ranks' clocks differ
        if !stop && !due && !is_late {
            return Ok(false);
        }
        // Damaged weights must not replace good ones.
        let step = self.step;
        let probed = learners.iter().map(|learner| Ok((learner, learner.is_finite()?)));
        let probed = probed.collect::<Result<Vec<_>>>()?;
        if let Some((damaged, _)) = probed.into_iter().find(|(_, is_finite)| !is_finite) {
            let why = format!(
                "step {step} is not saved: after it the model's numbers are not finite; \
                 checkpoints before it stay. Lower {}.learning_rate and --resume",
                damaged.optimizer.table
            );
            if stop || step == self.steps {
                // The run ends with an error, so that its last checkpoint is not taken for the end.
                return Err(Error::Run(why));
            }
            observer.note(&why);
            return Ok(false);
        }
        // If the last gradient was not finite, the weights may be damaged soon, so they are not
        // saved either, unless the run is asked to stop.
        let left_out = |learner: &Learner| learner.optimizer.progress.skipped_in_a_row > 0;
        let is_doubtful = step < self.steps && learners.iter().any(left_out);
        if is_doubtful && !stop {
            observer.note(&format!(
                "step {step} is not saved: its last update was left out, since the gradient was \
                 not finite; checkpoints before it stay"
            ));
            return Ok(false);
        }
        // A checkpoint that is saved only because the run was stopped cannot be the best: stopping
        // changes no result.
        if let Some(score) = self.score
            && due
            && !is_doubtful
            && self.best().is_none_or(|best| score > best)
        {
            self.standing.best = Some((self.step, score));
            self.standing.best_on = self.sets.clone();
        }
        let before = self.interim;
        self.interim = (!stop && !due).then_some(step);
        self.save(learners, source, trainer, None, observer)?;
        self.directory.remove_journals(step)?;
        if !is_doubtful {
            if let Some(before) = before.filter(|&before| before != step && self.log.is_some()) {
                self.directory.checkpoints.remove_step(before)?;
            }
            self.retire()?;
        }
        Ok(stop && self.step < self.steps)
    }

    /// The mean accuracy of the best checkpoint, if it is still there and was evaluated on the sets
    /// of today.
    fn best(&self) -> Option<f64> {
        let Standing { best, best_on, .. } = &self.standing;
        let (step, accuracy) = (*best)?;
        let is_comparable = best_on.is_null() || *best_on == self.sets;
        (is_comparable && self.directory.checkpoints.path(step).exists()).then_some(accuracy)
    }

    /// Whether no checkpoint has the last step.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.step > 0 && self.saved.as_ref() != Some(&self.directory.checkpoints.path(self.step))
    }

    /// Saves a checkpoint of the last step because the run is about to end with an error. If the
    /// step failed after its updates, `unrecorded` has its measurements. No earlier checkpoint is
    /// removed. The checkpoint, or a failure to save, is reported to the observer.
    pub(crate) fn save_before_failing<S: Serialize>(
        &mut self,
        learners: &mut Learners<'_>,
        source: &Path,
        trainer: &S,
        unrecorded: Option<StepRecord>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let (step, target) = (self.step, self.directory.checkpoints.path(self.step));
        let saved = self.save(learners, source, trainer, unrecorded, observer);
        observer.note(&match &saved {
            Ok(()) => {
                format!("step {step} is saved in {}; --resume goes on from there", target.display())
            }
            Err(e) => format!("step {step}, the last that was made, could not be saved: {e}"),
        });
        saved.and_then(|()| self.directory.remove_journals(step))
    }

    fn save<S: Serialize>(
        &mut self,
        learners: &mut Learners<'_>,
        source: &Path,
        trainer: &S,
        unrecorded: Option<StepRecord>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let _span = span("checkpoint");
        observer.progress(Progress { phase: Phase::Checkpoint, done: 0, total: 1, tokens: 0 });
        // If the base model has been removed, its files are copied from the last checkpoint.
        let has_model = |dir: &&Path| dir.join("tokenizer.json").is_file();
        let source = [Some(source), self.saved.as_deref()]
            .into_iter()
            .flatten()
            .find(has_model)
            .unwrap_or(source);
        let (unrecorded, unwritten) =
            unrecorded.map(|StepRecord { metrics, tokens, .. }| (metrics, tokens)).unzip();
        let state = RunState {
            step: self.step,
            optimizer: learners.policy.optimizer.progress,
            process_optimizer: learners
                .process_model
                .as_ref()
                .map(|learner| learner.optimizer.progress),
            standing: self.standing.clone(),
            unrecorded,
            unwritten: unwritten.unwrap_or_default(),
            is_interim: self.interim == Some(self.step),
            initial_states: self.initial_states.sha256().cloned(),
            trainer,
        };
        if let Some(log) = &mut self.log {
            for path in [self.directory.restore()?, log.restore()?].concat() {
                observer.note(&format!(
                    "{}: it was removed or changed while the run went on, and is restored from \
                     what this process has written",
                    path.display()
                ));
            }
            log.sync()?;
            // From the step of the checkpoint before on, whose record may have come after it.
            let before = self.saved.as_deref().and_then(Path::file_name).and_then(step_of);
            self.directory.sync_responses(before.unwrap_or(0))?;
        }
        self.directory.checkpoints.save(learners, source, &state)?;
        self.saved = Some(self.directory.checkpoints.path(self.step));
        self.saved_at = Instant::now();
        Ok(())
    }

    /// Removes checkpoints that need not be kept.
    pub(super) fn retire(&self) -> Result<()> {
        if self.log.is_none() {
            return Ok(());
        }
        let best = self.standing.best.map(|(step, _)| step);
        self.directory.checkpoints.retire(self.step, best, self.interim)
    }
}
