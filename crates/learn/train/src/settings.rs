//! The tables of a recipe that reinforcement learning and SFT share.

mod device;
mod lora;

pub use device::{DeviceKind, DeviceSettings, NumberType};
pub(crate) use lora::count;
pub(crate) use lora::first_change;
pub use lora::{AllLinear, LoraSettings, Targets};

use crate::error::{Error, Result};
use isentrope_budget::memory::Shard;
use isentrope_kernels::AdamW;
use isentrope_model::ModelConfig;
use isentrope_model::checkpoint::WeightDtype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Directory of the run: resolved recipe, metrics, responses, checkpoints. Unset: `runs/NAME`
    /// for a recipe `NAME.toml`, and for a `recipe.toml` in a folder NAME.
    pub out: Option<PathBuf>,
    /// Seed of everything random: order of the data, sampling, Clip-Cov's draw, initial weights.
    /// One seed gives one result, to the last bit.
    pub seed: u64,
    /// Steps to train: rollouts with their updates, or single updates for SFT.
    #[schemars(range(min = 1))]
    pub steps: u64,
}

/// Refuses a load-balancing loss of experts for a model without them. `key` names its weight.
pub(crate) fn check_router_aux(
    key: &'static str,
    coefficient: f64,
    config: &ModelConfig,
) -> Result<()> {
    if coefficient != 0.0 && config.experts.is_none() {
        let what = "balances the experts of a mixture, and this model has none; leave the key out";
        return Err(Error::setting(key, what));
    }
    Ok(())
}

impl Default for RunSettings {
    fn default() -> Self {
        Self { out: None, seed: 0, steps: 100 }
    }
}

/// The model that is trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSource {
    /// A Hugging Face model directory, or a hub id such as `Qwen/Qwen2.5-0.5B`. Must be set.
    pub path: String,
    /// Start from random weights: of the directory, only config.json, the tokenizer and the chat
    /// template are used. For SFT alone.
    pub from_scratch: bool,
}

impl ModelSource {
    pub(crate) fn check(&self) -> Result<()> {
        if self.path.is_empty() {
            let what = "is not set: name a Hugging Face model directory or a hub id";
            return Err(Error::setting("model.path", what));
        }
        Ok(())
    }
}

/// The table of the policy's optimizer.
pub const POLICY_OPTIMIZER: &str = "optimizer";
/// The table of the process model's optimizer.
pub(crate) const PROCESS_OPTIMIZER: &str = "prime.optimizer";

/// AdamW (arXiv:1711.05101), its schedule and gradient clipping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerSettings {
    /// Learning rate after warm-up.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// How the learning rate goes on after warm-up. A run that goes on with another `run.steps`
    /// takes the rates of that number of steps from there on.
    pub schedule: Schedule,
    /// Steps over which the learning rate rises linearly from 0; step k of w has k/w of it.
    pub warmup_steps: u64,
    /// The fraction of `learning_rate` that the schedules `cosine` and `linear` fall towards: they
    /// would reach it in the step after the last.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub final_fraction: f64,
    /// Decay rate of the mean of gradients.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub beta1: f64,
    /// Decay rate of the mean of squared gradients.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub beta2: f64,
    /// Added to the root of the mean of squared gradients, at least 1.2e-38: smaller numbers are 0
    /// in single precision.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub eps: f64,
    /// Decoupled weight decay, on all parameters, as in verl.
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// Gradients whose norm over all parameters is larger are scaled down to this norm.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub clip_norm: f64,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self {
            learning_rate: 1e-6,
            schedule: Schedule::Constant,
            warmup_steps: 0,
            final_fraction: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            clip_norm: 1.0,
        }
    }
}

/// The learning rate's course after warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The rate stays.
    Constant,
    /// Falls along half a cosine towards `final_fraction`, as transformers' `cosine` does.
    Cosine,
    /// Falls along a line towards `final_fraction`, as transformers' `linear` does: of three steps
    /// the last has a third of the rate.
    Linear,
}

impl OptimizerSettings {
    /// The learning rate of `step` (from 1) of `steps`: above 0 in every step. With w steps of
    /// warm-up, k = `step` - 1 and N = `steps`, the decay is that of transformers' schedules
    /// (`tests/fixtures/schedules`): linear (N - k) / (N - w), cosine (1 + cos(pi (k - w) / (N -
    /// w))) / 2. Warm-up is a step ahead of theirs, whose first step has the rate 0.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        let warm = self.warmup_steps;
        if step <= warm {
            return self.learning_rate * step as f64 / warm as f64;
        }
        let (before, all) = (step - 1 - warm, steps.saturating_sub(warm).max(1));
        let left = match self.schedule {
            Schedule::Constant => return self.learning_rate,
            Schedule::Cosine => {
                0.5 * (1.0
                    + libm::cos(std::f64::consts::PI * (before as f64 / all as f64).min(1.0)))
            }
            Schedule::Linear => all.saturating_sub(before) as f64 / all as f64,
        };
        self.learning_rate * (self.final_fraction + (1.0 - self.final_fraction) * left)
    }

    /// Checks what the types' ranges cannot: that AdamW's numbers, in single precision, stay in
    /// range. `table` is the recipe's of these settings.
    ///
    /// # Errors
    /// [`Range`](isentrope_evaluation::Error::Range) naming the first that is too small or too
    /// large.
    pub(crate) fn check(&self, table: &str) -> Result<()> {
        let Self { learning_rate, beta1, beta2, eps, weight_decay, .. } = *self;
        // The first update has the largest numbers.
        let adamw =
            AdamW { learning_rate, beta1, beta2, eps, weight_decay, step: 1, gradient_scale: 1.0 };
        let factors = adamw.factors();
        let too_large = "that is too large for weights in single precision";
        let (key, value, expected) = if factors.eps < f32::MIN_POSITIVE {
            ("eps", eps, "it is 0 in single precision, and must be at least 1.2e-38")
        } else if !factors.eps.is_finite() {
            ("eps", eps, too_large)
        } else if !factors.rate.is_finite() {
            ("learning_rate", learning_rate, too_large)
        } else if !factors.keep.is_finite() || !(weight_decay as f32).is_finite() {
            ("weight_decay", weight_decay, too_large)
        } else {
            return Ok(());
        };
        let (key, value) = (format!("{table}.{key}"), format!("{value:e}"));
        Err(isentrope_settings::Error { key, value, expected: expected.into() }.into())
    }

    /// Warnings on settings that are allowed but hardly meant, for a run of `steps` steps. `table`
    /// is the recipe's.
    pub(crate) fn warnings(&self, table: &str, steps: u64) -> impl Iterator<Item = String> {
        let Self { warmup_steps: warm, final_fraction, .. } = *self;
        let rises = (warm >= steps && warm > 1).then(|| {
            format!(
                "{table}.warmup_steps = {warm} with run.steps = {steps}: the learning rate rises \
                 to the end of the run, and {table}.schedule has no effect"
            )
        });
        let stays = (self.schedule == Schedule::Constant
            && final_fraction != Self::default().final_fraction)
            .then(|| {
                format!(
                    "{table}.final_fraction = {final_fraction} has no effect: {table}.schedule is \
                     \"constant\""
                )
            });
        let Self { learning_rate: rate, weight_decay: decay, .. } = *self;
        let keeps_all = (decay > 0.0 && (1.0 - rate * decay) as f32 == 1.0).then(|| {
            format!(
                "{table}.weight_decay = {decay} has no effect: with {table}.learning_rate = \
                 {rate:e} an update would take {:e} of a weight, and single precision has nothing \
                 so near below 1",
                rate * decay
            )
        });
        rises.into_iter().chain(stays).chain(keeps_all)
    }
}

/// Checkpoints, and how often they are saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSettings {
    /// Saves a checkpoint every this many steps and at the end; 0: at the end only.
    pub every: u64,
    /// Also saves a checkpoint after a step when the last one is this many minutes old, so that an
    /// interruption costs no more than that and a step; 0: never. Only the latest of these is kept,
    /// in addition to `keep`, and only until the next checkpoint.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub minutes: f64,
    /// How many of the latest checkpoints are kept. The best one by mean accuracy in evaluations is
    /// kept as well.
    #[schemars(range(min = 1))]
    pub keep: usize,
    /// Number format of the weights in checkpoints. A 16-bit format keeps the exact weights beside
    /// it in `trainer/`.
    pub dtype: Dtype,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self { every: 20, minutes: 10.0, keep: 2, dtype: Dtype::Float32 }
    }
}

/// A number format of weights, as config.json names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32 bits: the trained weights themselves.
    Float32,
    /// The upper half of float32, rounded.
    Bfloat16,
    /// IEEE binary16, rounded.
    Float16,
}

impl From<Dtype> for WeightDtype {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float32 => Self::F32,
            Dtype::Bfloat16 => Self::Bf16,
            Dtype::Float16 => Self::F16,
        }
    }
}

/// Several processes that train together (docs/guides/several-machines.md). Nothing here changes a
/// result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RanksSettings {
    /// Seconds without a sign of life after which a rank (stopped, or cut off from the network) is
    /// given up, and all ranks end. At least 2, since ranks give such a sign every second; 0:
    /// never. It is also the longest time of one exchange between GPUs by NCCL, 600 if this is 0.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub timeout_s: f64,
    /// The way of gradients and weights between GPUs of several ranks. CPUs always use the hosts.
    pub transport: Transport,
    /// The numbers that each rank holds only a slice of. Gradients in slices are complete layer by
    /// layer, while activations of all passes of a rank wait, most of which are computed again.
    /// Weights in slices are gathered layer by layer while an update learns, and whole while the
    /// model samples.
    pub shard: Shard,
}

/// The way of bytes between GPUs of several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// By NCCL if it is found and has moved known numbers rightly before the run, else through the
    /// hosts.
    #[default]
    Auto,
    /// Through the hosts, over TCP or MPI.
    Host,
    /// By NCCL, or the run does not begin.
    Nccl,
}

impl Default for RanksSettings {
    fn default() -> Self {
        Self { timeout_s: 600.0, transport: Transport::default(), shard: Shard::default() }
    }
}

impl RanksSettings {
    /// Checks what the schema cannot say.
    pub fn check(&self) -> Result<()> {
        if self.timeout_s > 0.0 && self.timeout_s < 2.0 {
            let what = format!(
                "is {}: it must be at least 2, since ranks give a sign of life every second; 0 \
                 waits for ever",
                self.timeout_s
            );
            return Err(Error::setting("ranks.timeout_s", what));
        }
        Ok(())
    }

    /// Longest silence of a rank; None if it may be silent for ever.
    pub fn patience(&self) -> Option<Duration> {
        (self.timeout_s > 0.0).then(|| Duration::from_secs_f64(self.timeout_s))
    }

    /// Longest time of one exchange between GPUs. It has an end even if ranks may be silent for
    /// ever: a message that is lost never comes, while all ranks give signs of life.
    pub fn exchange_patience(&self) -> Duration {
        self.patience().unwrap_or(Duration::from_secs(600))
    }

    /// Longest time of one exchange of the trial before the run, and for the GPUs to connect: the
    /// numbers are few, and without the links the run goes on all the same.
    pub fn trial_patience(&self) -> Duration {
        self.exchange_patience().min(Duration::from_secs(120))
    }
}

/// Measurements beside training, for the laboratory. Nothing here changes a weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabSettings {
    /// Whether each step's change of entropy is measured on the very states that it has sampled,
    /// and compared with what the theory of covariance predicts (`theory/*` in
    /// docs/reference/metrics.md). It costs two more forward passes over the rollout.
    pub track_theory: bool,
    /// Whether each evaluation also measures the policy on the states of the evaluation before the
    /// first step, which are the same all along: entropy, and KL divergence from the policy that
    /// the run began with (`eval/<set>/entropy_initial_states` and `eval/<set>/kl_initial` in
    /// docs/reference/metrics.md). It costs an evaluation one more forward pass over its responses.
    /// Their tokens are kept in initial-states.jsonl, so a run has them from its start or not at
    /// all.
    pub track_states: bool,
    /// Most response tokens of a step whose numbers are kept in tokens/ for `isentrope inspect` and
    /// `isentrope score`, in whole responses; 0 keeps none, and as many as a rollout has keep them
    /// all. Their log-probs after the step's updates are computed for at most a sixty-fourth of
    /// the rollout's tokens; with `track_theory`, for all.
    pub record_tokens: usize,
}

impl Default for LabSettings {
    fn default() -> Self {
        Self { track_theory: false, track_states: false, record_tokens: 1024 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_single_precision_does_not_have_are_refused() {
        let rate =
            |learning_rate| OptimizerSettings { learning_rate, ..OptimizerSettings::default() };
        let eps = |eps| OptimizerSettings { eps, ..OptimizerSettings::default() };
        for (optimizer, parts) in [
            (eps(1e-60), ["prime.optimizer.eps is 1e-60: ", "1.2e-38"]),
            (eps(1e-46), ["prime.optimizer.eps is 1e-46: ", "1.2e-38"]),
            (eps(1e-39), ["prime.optimizer.eps is 1e-39: ", "1.2e-38"]),
            (eps(1e39), ["prime.optimizer.eps is 1e39: ", "too large"]),
            (rate(1e300), ["prime.optimizer.learning_rate is 1e300: ", "too large"]),
            // Bias correction multiplies the rate by ten.
            (rate(1e38), ["prime.optimizer.learning_rate is 1e38: ", "too large"]),
            (
                OptimizerSettings { weight_decay: 1e39, ..OptimizerSettings::default() },
                ["prime.optimizer.weight_decay is 1e39: ", "too large"],
            ),
        ] {
            let error = optimizer.check(PROCESS_OPTIMIZER).unwrap_err().to_string();
            assert!(error.starts_with(parts[0]) && error.contains(parts[1]), "{error}");
        }
        for sound in [eps(1.2e-38), rate(1.0)] {
            sound.check(PROCESS_OPTIMIZER).unwrap();
        }
    }

    #[test]
    fn settings_without_effect_are_warned_of() {
        let of = |learning_rate, weight_decay, warmup_steps, schedule, final_fraction| {
            OptimizerSettings {
                learning_rate,
                weight_decay,
                warmup_steps,
                schedule,
                final_fraction,
                ..OptimizerSettings::default()
            }
        };
        use Schedule::{Constant, Cosine};
        for (optimizer, steps, parts) in [
            (of(1e-6, 0.0, 10, Constant, 0.0), 10, "optimizer.warmup_steps = 10 with run.steps"),
            (of(1e-6, 0.0, 11, Constant, 0.0), 10, "optimizer.warmup_steps = 11 with run.steps"),
            (of(1e-6, 0.0, 0, Constant, 0.1), 10, "final_fraction = 0.1 has no effect"),
            (of(1e-6, 0.01, 0, Constant, 0.0), 10, "weight_decay = 0.01 has no effect"),
            (of(1e-6, 0.0, 0, Constant, 0.0), 10, ""),
            (of(1e-6, 0.0, 9, Constant, 0.0), 10, ""),
            (of(1e-6, 0.0, 1, Constant, 0.0), 1, ""), // it has no rise
            (of(1e-6, 0.0, 0, Cosine, 0.1), 10, ""),
            (of(1e-6, 0.1, 0, Constant, 0.0), 10, ""),
            (of(1e-5, 0.01, 0, Constant, 0.0), 10, ""),
        ] {
            let warnings: Vec<String> = optimizer.warnings("optimizer", steps).collect();
            assert_eq!(warnings.len(), usize::from(!parts.is_empty()), "{warnings:?}");
            assert!(warnings.iter().all(|warning| warning.contains(parts)), "{warnings:?}");
        }
    }

    #[derive(Deserialize)]
    struct Schedules {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        schedule: Schedule,
        final_fraction: f64,
        warmup: u64,
        steps: u64,
        /// Pairs of a step number, from 0, and the rate of the step.
        rates: Vec<(u64, f64)>,
    }

    /// No step has the rate 0, and decay has transformers' rates.
    #[test]
    fn learning_rates_fall_as_those_of_transformers() {
        let text = include_str!("../tests/fixtures/schedules/schedules.json");
        let Schedules { cases } = serde_json::from_str(text).unwrap();
        assert_eq!(cases.len(), 24);
        for Case { schedule, final_fraction, warmup: warmup_steps, steps, rates } in cases {
            let learning_rate = 1.0;
            let optimizer = OptimizerSettings {
                learning_rate,
                schedule,
                warmup_steps,
                final_fraction,
                ..OptimizerSettings::default()
            };
            for (step, theirs) in rates {
                let ours = optimizer.rate(step + 1, steps);
                let what = format!("{schedule:?}, step {step} of {steps}, {warmup_steps} warm");
                assert!(ours > 0.0, "{what}");
                if step < warmup_steps {
                    // Theirs of the step after.
                    assert!((ours - theirs - 1.0 / warmup_steps as f64).abs() < 1e-15, "{what}");
                } else {
                    assert!((ours - theirs).abs() < 1e-15, "{what}: {ours} and {theirs}");
                }
            }
        }
        let linear = OptimizerSettings {
            learning_rate: 1.0,
            schedule: Schedule::Linear,
            ..OptimizerSettings::default()
        };
        let rates = |steps: u64| (1..=steps).map(|step| linear.rate(step, steps)).sum::<f64>();
        assert!((rates(3) - 2.0).abs() < 1e-15, "1, 2/3 and 1/3");
        // A run of three steps that is extended to four uses the schedule of four steps.
        assert_eq!(linear.rate(4, 4), 0.25);
        assert_eq!(OptimizerSettings::default().rate(1, 1), 1e-6);
    }
}
