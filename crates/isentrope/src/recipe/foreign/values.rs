//! What TRL and verl call the values of our choices, and what stands for them here, of several keys where it takes several.

use super::{elsewhere, ends};
use isentrope_settings::Shape;

/// A value of another trainer's setting.
pub struct Foreign {
    /// The settings that take it: names of other trainers, and our own where it is written under them.
    pub keys: &'static [&'static str],
    /// What it is called.
    pub values: &'static [&'static str],
    /// What it is here: keys with their values as TOML; nothing where there is no such thing.
    pub here: &'static [(&'static str, &'static str)],
    /// What else there is to say, as a sentence without a full stop; empty if nothing.
    pub note: &'static str,
}

impl Foreign {
    /// What to write instead, as it follows a semicolon.
    pub fn advice(&self, root: &Shape) -> String {
        let settings: Vec<String> =
            self.here.iter().map(|(key, value)| format!("`{key} = {value}`")).collect();
        let mut text = match &settings[..] {
            [] => return format!("absent here, because {}", self.note),
            [only] => format!("here it is {only}"),
            [rest @ .., last] => format!("here it is {} and {last}", rest.join(", ")),
        };
        text += &elsewhere(self.here[0].0, root);
        if !self.note.is_empty() {
            text += &format!("; {}", self.note);
        }
        text
    }
}

/// The value as another trainer's setting takes it.
pub fn of_foreign_key(path: &str, value: &str) -> Option<&'static Foreign> {
    FOREIGN.iter().find(|entry| {
        entry.keys.iter().any(|key| ends(path, key)) && entry.values.contains(&plain(value).as_str())
    })
}

/// The value where it was written under a key of ours.
pub fn of_own_key(path: &str, value: &str) -> Option<&'static Foreign> {
    FOREIGN.iter().find(|entry| entry.keys.contains(&path) && entry.values.contains(&plain(value).as_str()))
}

/// A value as the table spells it.
fn plain(value: &str) -> String {
    value.trim().to_lowercase().replace(['-', ' ', '.'], "_")
}

/// Where the kind of policy loss is said.
const LOSS: &[&str] = &["objective.loss", "loss_type", "loss_mode"];
/// Where the kind of advantage is said, or an algorithm named as a whole.
const ADVANTAGE: &[&str] = &["objective.advantage", "adv_estimator", "advantage_estimator"];
const ANY: &[&str] = &["objective.loss", "loss_type", "loss_mode", "objective.advantage", "adv_estimator"];
const AGGREGATION: &[&str] = &["objective.aggregation", "loss_agg_mode", "loss_type"];
const KL: &[&str] = &["objective.reference_kl.estimator", "kl_loss_type", "kl_penalty"];
const SCHEDULE: &[&str] = &["optimizer.schedule", "lr_scheduler_type", "warmup_style"];
const VERIFIER: &[&str] = &["reward.verifier", "reward_funcs", "reward_manager", "reward_manager.name"];
const FORMAT: &[&str] = &["checkpoint.dtype"];
const DEVICE: &[&str] = &["device.kind"];
const NUMBERS: &[&str] = &["device.dtype"];

const CLIP: (&str, &str) = ("objective.loss", "\"clip\"");
const GSPO: (&str, &str) = ("objective.loss", "\"gspo\"");
const GROUP: (&str, &str) = ("objective.advantage", "\"grpo\"");
const UNDIVIDED: (&str, &str) = ("objective.advantage", "\"dr-grpo\"");
const TOKEN_MEAN: (&str, &str) = ("objective.aggregation", "\"token-mean\"");
const SEQ_TOKEN_SUM: (&str, &str) = ("objective.aggregation", "\"seq-mean-token-sum\"");
const SEQ_TOKEN_MEAN: (&str, &str) = ("objective.aggregation", "\"seq-mean-token-mean\"");

const NO_CRITIC: &str = "there is no value model; the advantages here compare responses to one prompt";
const NOT_LENGTH: &str = "the sum is not divided by the longest length: AdamW takes such a factor out again, but \
                          optimizer.clip_norm sees it";

const fn is(
    keys: &'static [&'static str],
    values: &'static [&'static str],
    here: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> Foreign {
    Foreign { keys, values, here, note }
}

/// The first entry that fits is meant.
pub const FOREIGN: &[Foreign] = &[
    // Whole algorithms, as TRL's `loss_type` names them.
    is(
        &["objective.loss", "loss_type", "loss_mode", "objective.aggregation"],
        &["grpo"],
        &[CLIP, GROUP, SEQ_TOKEN_MEAN],
        "",
    ),
    is(
        &[
            "objective.loss",
            "loss_type",
            "loss_mode",
            "objective.advantage",
            "objective.aggregation",
            "adv_estimator",
        ],
        &["dapo"],
        &[CLIP, GROUP, TOKEN_MEAN],
        "DAPO's paper also has `objective.clip_high = 0.28`, `rollout.filter = true` and `reward.overlong`",
    ),
    is(
        &[
            "objective.loss",
            "loss_type",
            "loss_mode",
            "objective.advantage",
            "objective.aggregation",
            "adv_estimator",
        ],
        &["bnpo"],
        &[CLIP, GROUP, TOKEN_MEAN],
        "means are over the whole minibatch, however it is cut, so it is the same as dapo",
    ),
    is(
        &["objective.loss", "loss_type", "loss_mode", "objective.aggregation"],
        &["dr_grpo", "drgrpo"],
        &[CLIP, UNDIVIDED, SEQ_TOKEN_SUM],
        "the advantage is TRL's scale_rewards = \"none\"; the sum is not divided by the longest length: AdamW takes such a \
         factor out again, but optimizer.clip_norm sees it",
    ),
    is(
        ADVANTAGE,
        &["dr_grpo", "drgrpo"],
        &[UNDIVIDED],
        "with `objective.aggregation = \"seq-mean-token-sum\"` as in the paper",
    ),
    is(
        ANY,
        &["cispo"],
        &[("objective.loss", "\"cispo\"")],
        "`objective.clip_high` is a distance from 1 (TRL's epsilon_high, less 1), and `objective.clip_low = 1` switches \
         the lower side off",
    ),
    is(
        ANY,
        &["gspo", "gspo_token"],
        &[GSPO, SEQ_TOKEN_MEAN],
        "with `objective.clip_low = 3e-4` and `objective.clip_high = 4e-4` as in the paper",
    ),
    is(ANY, &["luspo"], &[GSPO, SEQ_TOKEN_SUM], ""),
    is(LOSS, &["vanilla", "ppo", "ppo_clip", "clip"], &[CLIP], ""),
    is(
        LOSS,
        &["clip_cov", "clipcov"],
        &[CLIP, ("objective.covariance.method", "\"clip-cov\"")],
        "its published runs also have `objective.clip_low = 1` and `objective.clip_high = 1`",
    ),
    is(
        LOSS,
        &["kl_cov", "klcov"],
        &[("objective.loss", "\"importance\""), ("objective.covariance.method", "\"kl-cov\"")],
        "",
    ),
    is(
        LOSS,
        &["gpg"],
        &[("objective.loss", "\"policy-gradient\""), UNDIVIDED],
        "GPG's factor for prompts that are solved always or never is `rollout.filter = true` here",
    ),
    is(
        ADVANTAGE,
        &["gpg"],
        &[UNDIVIDED, ("objective.loss", "\"policy-gradient\"")],
        "GPG's factor for prompts that are solved always or never is `rollout.filter = true` here",
    ),
    is(LOSS, &["reinforce", "policy_gradient", "pg"], &[("objective.loss", "\"policy-gradient\"")], ""),
    is(LOSS, &["is", "importance_sampling", "no_clip"], &[("objective.loss", "\"importance\"")], ""),
    is(
        ANY,
        &["sapo", "vespo", "geo_mean", "gmpo", "dppo_tv", "dppo_kl", "dro", "dpo", "ipo", "kto"],
        &[],
        "the losses are \"clip\", \"importance\", \"gspo\", \"cispo\" and \"policy-gradient\"",
    ),
    is(ANY, &["bypass_mode"], &[], "sampled log-probs are the trainer's own, so none need replacing"),
    is(&["loss_type"], &["dft"], &[], "the loss of `isentrope sft` is the cross-entropy"),
    is(&["loss_type"], &["nll", "chunked_nll"], &[], "it is the only loss of `isentrope sft`"),
    // Advantages.
    is(ADVANTAGE, &["grpo_vectorized", "group"], &[GROUP], ""),
    is(&["adv_estimator", "advantage_estimator", "objective.loss"], &["grpo"], &[GROUP], ""),
    is(ADVANTAGE, &["rloo", "rloo_vectorized"], &[("objective.advantage", "\"rloo\"")], ""),
    is(LOSS, &["rloo"], &[("objective.advantage", "\"rloo\"")], ""),
    is(
        ANY,
        &["reinforce_plus_plus", "reinforcepp", "reinforce++"],
        &[("objective.advantage", "\"reinforce++\"")],
        "",
    ),
    is(
        ANY,
        &["reinforce_plus_plus_baseline", "reinforce++_baseline"],
        &[("objective.advantage", "\"reinforce++-baseline\"")],
        "",
    ),
    is(ANY, &["remax"], &[("objective.advantage", "\"remax\"")], ""),
    is(ANY, &["opo"], &[("objective.advantage", "\"opo\"")], ""),
    is(ANY, &["gae", "ppo", "vapo", "vc_ppo"], &[], NO_CRITIC),
    is(
        ADVANTAGE,
        &["reinforce"],
        &[],
        "a response is always compared with something; \"reinforce++\" has no group",
    ),
    is(
        ANY,
        &["grpo_passk", "gdpo", "optimal_token_baseline", "tir_optimal_token_baseline"],
        &[],
        "the advantages are \"grpo\", \"dr-grpo\", \"rloo\", \"reinforce++\", \"reinforce++-baseline\", \"remax\", \"opo\" and \
         \"prime\"",
    ),
    is(&["scale_rewards", "norm_adv_by_std_in_grpo"], &["group", "true"], &[GROUP], ""),
    is(&["scale_rewards", "norm_adv_by_std_in_grpo"], &["none", "false"], &[UNDIVIDED], ""),
    is(
        &["scale_rewards", "objective.advantage"],
        &["batch"],
        &[("objective.advantage", "\"reinforce++-baseline\"")],
        "it divides by the deviation of what is left of rewards after the group mean, over the tokens of all responses",
    ),
    is(&["scale_rewards", "objective.advantage"], &["none"], &[UNDIVIDED], ""),
    is(
        &["importance_sampling_level", "objective.loss"],
        &["sequence", "sequence_token"],
        &[GSPO, SEQ_TOKEN_MEAN],
        "with far smaller clip_low and clip_high (3e-4, 4e-4)",
    ),
    is(&["importance_sampling_level", "objective.loss"], &["token"], &[CLIP], ""),
    // Aggregation.
    is(AGGREGATION, &["token_mean"], &[TOKEN_MEAN], ""),
    is(AGGREGATION, &["seq_mean_token_mean"], &[SEQ_TOKEN_MEAN], ""),
    is(AGGREGATION, &["seq_mean_token_sum"], &[SEQ_TOKEN_SUM], ""),
    is(AGGREGATION, &["seq_mean_token_sum_norm"], &[SEQ_TOKEN_SUM], NOT_LENGTH),
    is(
        AGGREGATION,
        &["token_sum", "sum"],
        &[],
        "a sum over tokens grows with the minibatch; \"token-mean\" does not",
    ),
    is(AGGREGATION, &["mean"], &[TOKEN_MEAN], ""),
    is(
        &["objective.covariance.method"],
        &["clip_cov", "clipcov"],
        &[("objective.covariance.method", "\"clip-cov\"")],
        "",
    ),
    is(
        &["objective.covariance.method"],
        &["kl_cov", "klcov"],
        &[("objective.covariance.method", "\"kl-cov\"")],
        "",
    ),
    is(
        &["objective.covariance.method"],
        &["vanilla", "off", "false", "null"],
        &[("objective.covariance.method", "\"none\"")],
        "",
    ),
    // Estimators of the divergence.
    is(&["objective.covariance.kl"], &["kl"], &[("objective.covariance.kl", "\"k1\"")], ""),
    is(&["objective.covariance.kl"], &["mse"], &[("objective.covariance.kl", "\"k2\"")], ""),
    is(&["objective.covariance.kl"], &["low_var_kl"], &[("objective.covariance.kl", "\"k3\"")], ""),
    is(
        &["kl_penalty"],
        &["kl", "k1"],
        &[("objective.reference_kl.estimator", "\"k2\"")],
        "k1 in the reward has the gradient of k2 in the loss",
    ),
    is(
        KL,
        &["kl", "k1"],
        &[("objective.reference_kl.estimator", "\"k1\"")],
        "in the loss it penalises nothing; \"k2\" has the gradient of the divergence",
    ),
    is(KL, &["abs", "abs+"], &[("objective.reference_kl.estimator", "\"abs\"")], ""),
    is(
        KL,
        &["mse", "k2", "kl+", "k1+", "k2+", "k3+", "low_var_kl+", "mse+"],
        &[("objective.reference_kl.estimator", "\"k2\"")],
        "a name with + has the gradient of k2, whatever value it reports",
    ),
    is(KL, &["low_var_kl", "k3"], &[("objective.reference_kl.estimator", "\"k3\"")], ""),
    is(KL, &["full"], &[], "only the sampled token's log-prob enters it; \"k3\" is the usual estimator"),
    // The optimizer.
    is(
        SCHEDULE,
        &["constant", "constant_with_warmup"],
        &[("optimizer.schedule", "\"constant\"")],
        "optimizer.warmup_steps is the warm-up of each schedule",
    ),
    is(SCHEDULE, &["linear"], &[("optimizer.schedule", "\"linear\"")], ""),
    is(SCHEDULE, &["cosine"], &[("optimizer.schedule", "\"cosine\"")], ""),
    is(
        SCHEDULE,
        &["cosine_with_min_lr", "cosine_warmup_with_min_lr"],
        &[("optimizer.schedule", "\"cosine\"")],
        "optimizer.final_fraction is where it ends, as a fraction of the learning rate",
    ),
    is(
        SCHEDULE,
        &[
            "cosine_with_restarts",
            "polynomial",
            "inverse_sqrt",
            "reduce_lr_on_plateau",
            "warmup_stable_decay",
            "wsd",
            "greedy",
            "exponential",
        ],
        &[],
        "the schedules are \"constant\", \"cosine\" and \"linear\"",
    ),
    // Rewards.
    is(
        VERIFIER,
        &[
            "math_verify",
            "math_dapo",
            "math_reward",
            "accuracy_reward",
            "reasoning_accuracy_reward",
            "gsm8k",
            "naive",
            "dapo",
            "prime",
            "prime_math",
        ],
        &[("reward.verifier", "\"math\"")],
        "",
    ),
    is(
        VERIFIER,
        &["get_soft_overlong_punishment", "soft_overlong"],
        &[("reward.overlong.buffer", "256")],
        "buffer is its soft_punish_cache",
    ),
    is(
        VERIFIER,
        &["think_format_reward"],
        &[("reward.verifier", "{ python = \"trl.rewards:think_format_reward\" }")],
        "it needs TRL for the Python that `interpreter` names",
    ),
    is(
        VERIFIER,
        &["sandbox_fusion", "prime_code", "code_reward", "binary_code"],
        &[("reward.verifier", "\"code\"")],
        "programs run on this machine, each in a sandbox: docs/guides/data-and-rewards.md",
    ),
    is(
        VERIFIER,
        &["format_reward", "reward_model"],
        &[],
        "only answers are judged here; a function or a program of your own can judge anything: docs/guides/data-and-rewards.md",
    ),
    // The device.
    is(DEVICE, &["gpu", "nvidia"], &[("device.kind", "\"cuda\"")], ""),
    is(DEVICE, &["mps", "npu", "xpu", "rocm"], &[], "GPUs are NVIDIA's here, and the CPU does without any"),
    is(NUMBERS, &["bfloat16", "torch_bfloat16"], &[("device.dtype", "\"bf16\"")], ""),
    is(NUMBERS, &["float32", "fp32", "float", "torch_float32"], &[("device.dtype", "\"f32\"")], ""),
    is(
        NUMBERS,
        &["float16", "fp16", "f16", "half", "torch_float16", "fp8"],
        &[],
        "gradients would leave the range of such numbers; bf16 has the range of f32",
    ),
    // Checkpoints.
    is(FORMAT, &["bf16", "torch_bfloat16"], &[("checkpoint.dtype", "\"bfloat16\"")], ""),
    is(FORMAT, &["fp16", "f16", "half", "torch_float16"], &[("checkpoint.dtype", "\"float16\"")], ""),
    is(
        FORMAT,
        &["fp32", "f32", "float", "auto", "torch_float32"],
        &[("checkpoint.dtype", "\"float32\"")],
        "",
    ),
    is(
        FORMAT,
        &["float64", "fp64", "float8", "fp8", "int8", "int4"],
        &[],
        "checkpoints are in 32 or 16 bits",
    ),
];
