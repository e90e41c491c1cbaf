//! The recipe of reinforcement learning.

use super::prime::PrimeSettings;
use crate::collect;
use crate::error::{Error, Result};
use crate::settings::{
    self, CheckpointSettings, LabSettings, LoraSettings, ModelSource, OptimizerSettings,
    RanksSettings, RunSettings,
};
use crate::teacher::{HINT, TEACHER_PROMPT};
use crate::trainer::TrainingRecipe;
use isentrope_budget::memory::MemorySettings;
use isentrope_budget::memory::human;
use isentrope_environment::EnvironmentSettings;
use isentrope_evaluation::EvaluationSettings;
use isentrope_model::SHARING_TOKENS;
use isentrope_objective::{Method, SelfTeacher};
use isentrope_reward::Overlong;
use isentrope_rollout::{Prompter, Sampling, check_stop_texts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most responses of a rollout.
const RESPONSES: usize = 1 << 20;

/// A recipe for reinforcement learning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The run as a whole.
    pub run: RunSettings,
    /// The model that is trained.
    pub model: ModelSource,
    /// Low-rank adapters (LoRA), trained in place of the model's weights. Unset: all weights are
    /// trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// The data to train on: problems for `train`, examples for `sft`.
    pub data: isentrope_data::DataSettings,
    /// Responses that are sampled to learn from.
    pub rollout: collect::RolloutSettings,
    /// Responses of several turns: what answers the model between them (docs/guides/turns.md).
    /// Unset: a response has one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentSettings>,
    /// Rewards of responses; for `sft`, in evaluations.
    pub reward: isentrope_reward::RewardSettings,
    /// The loss.
    pub objective: isentrope_objective::ObjectiveSettings,
    /// PRIME: a second model that gives tokens rewards.
    pub prime: PrimeSettings,
    /// How a rollout is cut into updates.
    pub update: Update,
    /// AdamW, its schedule and gradient clipping.
    pub optimizer: OptimizerSettings,
    /// Evaluation on held-out problems during the run.
    pub eval: EvaluationSettings,
    /// Checkpoints, and how often they are saved.
    pub checkpoint: CheckpointSettings,
    /// Where the run computes, and what it keeps numbers as (docs/guides/gpus.md).
    pub device: settings::DeviceSettings,
    /// Memory that the run may use. Nothing here changes a result.
    pub memory: MemorySettings,
    /// Several processes that train together (docs/guides/several-machines.md). Nothing here
    /// changes a result.
    pub ranks: RanksSettings,
    /// Measurements beside training, for the laboratory. Nothing here changes a weight.
    pub lab: LabSettings,
}

/// How a rollout is cut into updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    /// Prompts of one minibatch, with all their responses: one optimizer update. Unset: all prompts
    /// of the rollout, so one update on the very policy that sampled.
    #[schemars(range(min = 1))]
    pub prompts: Option<usize>,
    /// How many times the updates go through a rollout.
    #[schemars(range(min = 1, max = 65536))]
    pub epochs: usize,
    /// Parts of a minibatch whose gradients are computed apart and then added, in an order that is
    /// fixed (docs/concepts/numerics.md, rule 6). What a run comes to depends on how many there
    /// are, as it does on the seed, but not on who computes them. Unset: as many as ranks train
    /// together (docs/guides/several-machines.md) when the run begins, so 1 of one process.
    #[schemars(range(min = 1, max = 65536))]
    pub shards: Option<usize>,
}

impl Default for Update {
    fn default() -> Self {
        Self { prompts: None, epochs: 1, shards: None }
    }
}

impl Recipe {
    /// Updates made from one rollout.
    pub fn updates_per_rollout(&self) -> usize {
        self.update.epochs.saturating_mul(self.rollout.prompts.div_ceil(self.prompts_per_update()))
    }

    pub(crate) fn prompts_per_update(&self) -> usize {
        self.update.prompts.unwrap_or(self.rollout.prompts)
    }

    /// Prompts of one update of the process model, if there is one.
    pub(super) fn prompts_per_process_update(&self) -> usize {
        self.prime.prompts.unwrap_or(self.prompts_per_update())
    }

    /// Fills in unset keys that follow from other keys. Not the covariance method's fraction, the
    /// controller's bounds and the bonus's rate, whose defaults are constants: written out, they
    /// would be taken by another `method`, or contradict another `steer` or a `delta`, when the
    /// resolved recipe is used again.
    pub(super) fn fill_in(&mut self) {
        self.update.prompts.get_or_insert(self.rollout.prompts);
        self.update.shards.get_or_insert(1);
        if self.objective.is_prime() {
            self.prime.prompts = Some(self.prompts_per_process_update());
        }
    }

    /// Checks every key and combinations of keys.
    pub fn check(&self) -> Result<()> {
        self.model.check()?;
        isentrope_settings::check("", self)?;
        if self.model.from_scratch {
            let what = "is true: random weights solve nothing to learn from; train them with \
                        `isentrope sft` first";
            return Err(Error::setting("model.from_scratch", what));
        }
        if self.rollout.prompts.saturating_mul(self.rollout.responses) > RESPONSES {
            let what = format!(
                "is {} and rollout.responses is {}: together they may ask for at most {RESPONSES} \
                 responses",
                self.rollout.prompts, self.rollout.responses
            );
            return Err(Error::setting("rollout.prompts", what));
        }
        check_stop_texts(&self.rollout.stop)
            .map_err(|what| Error::setting("rollout.stop", what))?;
        if let Some(prompts) = self.update.prompts
            && prompts > self.rollout.prompts
        {
            let most = self.rollout.prompts;
            let what = format!("is {prompts}: it must be from 1 to rollout.prompts ({most})");
            return Err(Error::setting("update.prompts", what));
        }
        if self.rollout.filter && self.rollout.responses == 1 {
            let what = "is true, and with rollout.responses = 1 every group has but one score: all \
                        would be dropped";
            return Err(Error::setting("rollout.filter", what));
        }
        if !self.objective.advantage.reads_rewards() && self.rollout.filter {
            let what = "is true, and objective.advantage is \"distill\", which learns from every \
                        response, whatever its reward: leave the filter out";
            return Err(Error::setting("rollout.filter", what));
        }
        if self.objective.needs_greedy_baseline() && self.reward.verifier.judges_groups() {
            let what = "has batch = \"group\", and objective.advantage compares with one greedy \
                        response, which has no group: take another objective.advantage, or leave \
                        batch out";
            return Err(Error::setting("reward.verifier", what));
        }
        self.check_accuracy_band()?;
        self.tables().check(self.rollout.max_tokens)?;
        self.objective.check()?;
        self.environment.as_ref().map_or(Ok(()), EnvironmentSettings::check)?;
        let rewards_itself =
            self.environment.as_ref().is_some_and(|e| !matches!(e, EnvironmentSettings::Tools(_)));
        if self.objective.advantage.reads_rewards()
            && self.reward.verifier.judges_nothing()
            && !rewards_itself
        {
            let what = "is \"none\", and all rewards are 0: there is nothing to learn from but a \
                        teacher, with objective.advantage = \"distill\"";
            return Err(Error::setting("reward.verifier", what));
        }
        self.check_hint()?;
        self.check_live_teacher()?;
        self.check_actuator()?;
        self.check_reference_kl()?;
        if self.objective.is_prime() {
            self.prime.check(self.rollout.prompts)?;
        }
        Ok(())
    }

    fn check_accuracy_band(&self) -> Result<()> {
        let Some([low, high]) = self.rollout.accuracy_band else { return Ok(()) };
        let what = if !(0.0 <= low && low <= high && high <= 1.0) {
            "it must be two shares from 0 to 1, the lower first, such as [0.2, 0.8]"
        } else if high == 0.0 || low == 1.0 {
            "it lets pass only prompts of whose responses none is correct, or all are: there is \
             nothing to learn from; [0.2, 0.8] is PRIME's"
        } else if !self.rollout.filter {
            "it says which prompts the filter lets pass, and rollout.filter is false: set that to \
             true, or leave the key out"
        } else {
            return Ok(());
        };
        Err(Error::setting("rollout.accuracy_band", format!("is [{low}, {high}]: {what}")))
    }

    /// Whether the model that training starts from is the teacher.
    pub(super) fn base_teaches(&self) -> bool {
        self.objective.distillation.self_teacher == Some(SelfTeacher::Base)
    }

    /// The question that a teacher is shown, if there is one and it is another than the policy's.
    pub(crate) fn teacher_prompt(&self) -> Option<&str> {
        let prompt = self.objective.distillation.teacher_prompt.as_deref();
        prompt.filter(|_| self.objective.has_teacher())
    }

    /// Whether a teacher is shown the problems' hints.
    fn shows_hints(&self) -> bool {
        self.teacher_prompt().is_some_and(|prompt| prompt.contains(HINT))
    }

    /// Refuses to show a teacher hints that no column has.
    fn check_hint(&self) -> Result<()> {
        if !self.shows_hints() {
            return Ok(());
        }
        let what = match (self.data.task, &self.data.columns.hint) {
            (Some(_), _) => "data.task is set, whose problems have no hints",
            (None, None) => "data.columns.hint names no column of hints",
            (None, Some(_)) => return Ok(()),
        };
        Err(Error::setting(TEACHER_PROMPT, format!("has {HINT}, and {what}")))
    }

    /// Refuses to compare distributions with the weights that sampled when these are gone: each
    /// update computes the teacher's distributions.
    fn check_live_teacher(&self) -> Result<()> {
        let is_live = self.objective.distillation.self_teacher == Some(SelfTeacher::Live);
        let updates = self.updates_per_rollout();
        if !(is_live && self.objective.has_reverse_kl() && updates > 1) {
            return Ok(());
        }
        let what = format!(
            "is \"live\", and objective.distillation.divergence = \"reverse-kl\" asks the teacher \
             in each of {updates} updates per rollout, of which the first changes its weights: \
             make one update per rollout (update.epochs = 1, and update.prompts as \
             rollout.prompts), or take \"base\" or divergence = \"sampled-token\""
        );
        Err(Error::setting("objective.distillation.self_teacher", what))
    }

    /// Refuses to hold entropy by KL-Cov if all updates are on-policy: its penalty has no gradient
    /// there, except for groups carried over by the filter.
    fn check_actuator(&self) -> Result<()> {
        let covariance = &self.objective.covariance;
        let has_target = covariance.target_entropy.is_some() && covariance.method == Method::KlCov;
        if has_target && self.updates_per_rollout() == 1 {
            let what = "is held by KL-Cov's penalty, which has no gradient with one update per \
                        rollout, and so cannot act: make several updates per rollout \
                        (update.epochs = 2, or update.prompts below rollout.prompts), or set \
                        objective.covariance.method to \"clip-cov\"";
            return Err(Error::setting("objective.covariance.target_entropy", what));
        }
        Ok(())
    }

    /// Refuses an estimator whose slope is not 0 where the policies agree, if sampling is
    /// truncated. The expected gradient of log pi is 0 over responses from the whole vocabulary.
    /// Over truncated ones it is the gradient of log pi(K), K being the kept tokens, which the
    /// estimator would lower.
    fn check_reference_kl(&self) -> Result<()> {
        let estimator = self.objective.reference_kl.estimator;
        if self.drawing().truncates()
            && self.objective.needs_reference()
            && !estimator.is_flat_at_zero()
        {
            let what = "is \"k1\", and rollout.top_k, top_p or min_p truncates sampling: its \
                        gradient would drive probability into the tokens that cannot be drawn; \
                        take \"k2\" or \"k3\", or sample from the whole vocabulary";
            return Err(Error::setting("objective.reference_kl.estimator", what));
        }
        Ok(())
    }

    /// Whether every update is on-policy: no group is carried over from an earlier step, and none
    /// is trained on after another update.
    pub(super) fn on_policy(&self) -> bool {
        self.updates_per_rollout() == 1 && !self.rollout.filter
    }

    /// Whether a term of the loss can reach tokens whose advantage is 0, in a step that begins with
    /// this weight of the entropy bonus. A bonus may get its weight from update to update, and
    /// KL-Cov's penalty acts where the policy is no longer the one that sampled.
    pub(super) fn has_terms_without_advantage(&self, bonus: f64) -> bool {
        let (covariance, entropy_bonus) =
            (&self.objective.covariance, &self.objective.entropy_bonus);
        let bonus_moves = entropy_bonus.target.is_some()
            && entropy_bonus.delta.is_none()
            && self.updates_per_rollout() > 1;
        let is_penalised = covariance.method == Method::KlCov
            && !(self.on_policy() && covariance.kl.is_flat_at_zero());
        let balances = self.objective.router_aux_coefficient != 0.0;
        let of_all =
            balances || self.objective.needs_reference() || self.objective.has_reverse_kl();
        bonus != 0.0 || of_all || bonus_moves || is_penalised
    }

    /// Warnings on settings that are allowed but hardly meant.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.objective.warnings(self.updates_per_rollout(), self.rollout.filter);
        warnings.extend(self.optimizer.warnings(settings::POLICY_OPTIMIZER, self.run.steps));
        let rate = self.optimizer.learning_rate;
        warnings.extend(self.lora.as_ref().and_then(|lora| lora.warning(rate)));
        warnings.extend(self.warnings_of_filter());
        warnings.extend(self.warning_of_overlong());
        warnings.extend(self.warning_of_checkpoints());
        warnings.extend(self.eval.warnings());
        warnings.extend(self.warnings_of_prime());
        let (of_policy, of_process_model) =
            (self.prompts_per_update(), self.prompts_per_process_update());
        warnings.extend(self.warning_of_remainder("update.prompts", of_policy));
        if self.objective.is_prime() && of_process_model != of_policy {
            warnings.extend(self.warning_of_remainder("prime.prompts", of_process_model));
        }
        warnings.extend(self.warning_of_shards());
        warnings.extend(self.warning_of_kept_tokens());
        if self.data.columns.hint.is_some() && !self.shows_hints() {
            let why = format!("no {TEACHER_PROMPT} has {HINT}");
            warnings.push(format!("data.columns.hint has no effect: {why}"));
        }
        warnings
    }

    fn warning_of_remainder(&self, key: &str, each: usize) -> Option<String> {
        let all = self.rollout.prompts;
        (!all.is_multiple_of(each)).then(|| {
            format!(
                "{key} = {each} does not divide rollout.prompts = {all}: the last update of a \
                 rollout has but {} of them, at the same learning rate",
                all % each
            )
        })
    }

    /// Each shard, even without sequences, costs an addition of whole gradients; and a rank without
    /// sequences waits for the others.
    fn warning_of_shards(&self) -> Option<String> {
        let shards = self.update.shards.unwrap_or(1);
        let prompts = self.prompts_per_update();
        let responses = prompts.saturating_mul(self.rollout.responses);
        if shards > responses {
            return Some(format!(
                "update.shards = {shards}, and an update has but {responses} responses: the other \
                 shards are empty, and cost the time of adding their gradients"
            ));
        }
        (shards > prompts).then(|| {
            format!(
                "update.shards = {shards}, and an update has but {prompts} prompts \
                 (update.prompts): short responses are learnt from together with their prompt, up \
                 to {SHARING_TOKENS} tokens, so that ranks may be left without anything to learn \
                 from; raise update.prompts, or take fewer shards"
            )
        })
    }

    /// Warnings on settings of a filter that is off.
    fn warnings_of_filter(&self) -> impl Iterator<Item = String> {
        let collect::RolloutSettings { filter, max_batches, when_short, .. } = self.rollout;
        let its = collect::RolloutSettings::default();
        let keys = [
            ("max_batches", max_batches != its.max_batches),
            ("when_short", when_short != its.when_short),
        ];
        keys.into_iter()
            .filter(move |(_, is_set)| *is_set && !filter)
            .map(|(key, _)| format!("rollout.{key} has no effect: rollout.filter is false"))
    }

    fn warning_of_overlong(&self) -> Option<String> {
        let Overlong { buffer, factor } = self.reward.overlong;
        (buffer == 0 && factor != Overlong::default().factor).then(|| {
            format!("reward.overlong.factor = {factor} has no effect: reward.overlong.buffer is 0")
        })
    }

    /// Only a checkpoint whose step is evaluated too can be the best.
    fn warning_of_checkpoints(&self) -> Option<String> {
        let (saved, evaluated) = (self.checkpoint.every, self.eval.every);
        let meet = |a: u64, b: u64| b == 0 || a.is_multiple_of(b);
        if meet(saved, evaluated) || meet(evaluated, saved) {
            return None;
        }
        let (mut common, mut rest) = (saved, evaluated); // their greatest common divisor in the end
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        Some(format!(
            "checkpoint.every = {saved} and eval.every = {evaluated}: the best checkpoint is \
             looked for only in steps that are both saved and evaluated, every {} and the last; \
             make one of the two a multiple of the other",
            (saved / common).saturating_mul(evaluated)
        ))
    }

    fn warnings_of_prime(&self) -> Vec<String> {
        if self.objective.is_prime() {
            let optimizer = &self.prime.optimizer;
            return optimizer.warnings(settings::PROCESS_OPTIMIZER, self.run.steps).collect();
        }
        let unread = "the table prime has no effect: objective.advantage is not \"prime\"";
        if self.prime == PrimeSettings::default() { vec![] } else { vec![unread.to_owned()] }
    }

    /// A warning if nothing bounds the tokens that truncated sampling keeps, and so their memory.
    fn warning_of_kept_tokens(&self) -> Option<String> {
        const TOKENS: usize = 1000;
        if self.rollout.top_k > 0 || !self.drawing().truncates() {
            return None;
        }
        let bytes = self.kept_bytes(TOKENS);
        Some(format!(
            "the tokens that rollout.top_p and rollout.min_p keep are remembered for the update, \
             and how many they will be is not in the memory plan: {TOKENS} of each distribution \
             would take {} for full responses; rollout.top_k bounds them",
            human(bytes)
        ))
    }

    /// Most bytes for the sets of tokens that top-k keeps; 0 if it is off.
    pub(super) fn most_kept_bytes(&self, vocabulary: usize) -> usize {
        match self.rollout.top_k {
            0 => 0,
            top_k => self.kept_bytes(top_k.min(vocabulary)),
        }
    }

    /// Most bytes for sets of `tokens` tokens per draw: once for the rollout's responses, and twice
    /// for an update's, in its minibatch and in its passes.
    fn kept_bytes(&self, tokens: usize) -> usize {
        let Self { rollout, .. } = self;
        let of_token =
            tokens.saturating_mul(size_of::<u32>()).saturating_add(size_of::<(usize, f32)>());
        let prompts = rollout.prompts.saturating_add(self.prompts_per_update().saturating_mul(2));
        prompts
            .saturating_mul(rollout.responses)
            .saturating_mul(rollout.max_tokens)
            .saturating_mul(of_token)
    }

    /// How a rollout's tokens are drawn.
    fn drawing(&self) -> Sampling {
        let collect::RolloutSettings { temperature, top_k, top_p, min_p, max_tokens, .. } =
            self.rollout;
        Sampling { temperature, top_k, top_p, min_p, max_tokens, ..Sampling::default() }
    }

    pub(super) fn sampling(&self, prompter: &Prompter) -> Sampling {
        let drawing = self.drawing();
        let sampling = Sampling { records_kept: drawing.truncates(), ..drawing };
        sampling.ending_at(&prompter.eos_tokens, &self.rollout.stop, Some(&prompter.tokenizer))
    }
}

#[cfg(test)]
mod tests;
