//! Other trainers' names for the quantities of docs/reference/metrics.md, whose last two columns
//! these tables are.
//!
//! `<set>`, `<function>` and `<k>` stand for what a run names or counts. Where several of our names
//! are the nearest to one of theirs, the table has the one that is the same quantity under that
//! trainer's defaults.

use super::{ENTROPIES, Origin, Series};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A name of theirs, and ours; in a report's charts a metric, and its name in legends.
pub type Pair = (&'static str, &'static str);

/// verl's names.
pub const VERL: &[Pair] = &[
    ("critic/rewards/mean", "reward/mean"),
    ("critic/score/mean", "reward/score"),
    ("response_length/mean", "response/length_mean"),
    ("response_length/max", "response/length_max"),
    ("response_length/clip_ratio", "response/truncated"),
    // verl's entropy under its default loss_agg_mode = token-mean, with dynamic sampling and
    // without.
    ("actor/entropy", "policy/entropy_token_mean_filtered"),
    ("actor/entropy_loss", "policy/entropy_token_mean_filtered"),
    ("actor/pg_loss", "policy/loss"),
    ("actor/pg_clipfrac", "policy/clip_fraction"),
    ("actor/pg_clipfrac_lower", "policy/dual_clip_fraction"),
    ("actor/ppo_kl", "policy/kl_old"),
    ("actor/kl_loss", "kl/reference"),
    ("actor/grad_norm", "grad/norm"),
    ("actor/lr", "optimizer/learning_rate"),
    ("val-core/<set>/acc/mean@<k>", "eval/<set>/mean@<k>"),
    // Names if a verifier returns only a number, and from versions without several samples.
    ("val-core/<set>/reward/mean@<k>", "eval/<set>/mean@<k>"),
    ("val/test_score/<set>", "eval/<set>/mean@1"),
    ("val-core/<set>/acc/best@<k>/mean", "eval/<set>/pass@<k>"),
    ("val-core/<set>/acc/maj@<k>/mean", "eval/<set>/maj@<k>"),
    ("val-aux/<set>/reward/mean@<k>", "eval/<set>/score"),
    ("reward_model/dpo_loss", "prime/loss"),
    ("reward_model/dpo_acc_before", "prime/auc_within_prompts"),
    ("reward_model/grad_norm", "prime/grad_norm"),
    ("rm/lr", "prime/learning_rate"),
    ("train/loss", "sft/loss"),
    ("timing_s/step", "time/step_s"),
    ("timing_s/gen", "time/rollout_s"),
    ("timing_s/reward", "time/verify_s"),
    ("timing_s/ref", "time/reference_s"),
    ("timing_s/update_actor", "time/update_s"),
    ("timing_s/testing", "time/eval_s"),
];

/// Names of TRL's `GRPOTrainer`. If there is one evaluation set, `<set>_` is left out, and the set
/// is called [`ONE_SET`].
pub const TRL: &[Pair] = &[
    ("reward", "reward/mean"),
    ("rewards/<function>/mean", "reward/score"), // of several functions, reward/part_<i>
    ("frac_reward_zero_std", "update/groups_without_signal"),
    ("completions/mean_length", "response/length_mean"),
    ("completions/max_length", "response/length_max"),
    ("completions/clipped_ratio", "response/truncated"),
    ("entropy", "policy/entropy_token_mean"),
    ("loss", "policy/loss"),
    ("clip_ratio/region_mean", "policy/clip_fraction"),
    ("clip_ratio/low_mean", "policy/clip_fraction_low"),
    ("clip_ratio/high_mean", "policy/clip_fraction_high"),
    ("kl", "kl/reference"),
    ("entropy_coef", "entropy/bonus_coefficient"),
    ("grad_norm", "grad/norm"),
    ("learning_rate", "optimizer/learning_rate"),
    ("eval_<set>_reward", "eval/<set>/score"),
    ("eval_<set>_entropy", "eval/<set>/entropy"),
    ("eval_<set>_completions/mean_length", "eval/<set>/length_mean"),
    ("eval_<set>_completions/clipped_ratio", "eval/<set>/truncated"),
    ("step_time", "time/step_s"),
];

/// Names of TRL's `SFTTrainer` and of Hugging Face's `Trainer`.
pub const TRL_SFT: &[Pair] = &[
    ("loss", "sft/loss"),
    ("entropy", "sft/entropy"),
    ("grad_norm", "grad/norm"),
    ("learning_rate", "optimizer/learning_rate"),
    ("eval_loss", "eval/loss"),
];

/// Names in docs/reference/metrics.md that are not translated, because the quantity is too far from
/// ours: a sum from the start, a rate over another time.
pub const UNTRANSLATED: &[&str] = &["num_tokens", "perf/throughput"];

/// The evaluation set of a trainer that has only one and does not name it.
pub const ONE_SET: &str = "held-out";

/// TRL's name for the mean of a reward function.
const OF_FUNCTION: &str = "rewards/<function>/mean";

/// Beginnings of names that only verl has.
const SIGNS_OF_VERL: [&str; 12] = [
    "actor/",
    "critic/",
    "val-core/",
    "val-aux/",
    "val/test_score/",
    "timing_s/",
    "timing_per_token_ms/",
    "response_length/",
    "training/global_step",
    "train/lr",
    "train/time(s)",
    "perf/mfu/",
];

/// Beginnings of names that only this program has, beside [`ENTROPIES`]. TRL's PPO has
/// `policy/entropy_avg`, so that entropies are compared whole.
const SIGNS_OF_OURS: [&str; 4] =
    ["optimizer/learning_rate", "rollout/responses", "time/step_s", "optimizer/skipped"];

/// Beginnings of names of trainers of preferences, whose loss is no cross-entropy.
const SIGNS_OF_PREFERENCES: [&str; 3] = ["rewards/", "logps/", "logits/"];

/// Names of the Trainer's callbacks that few other scripts use, unlike `train/reward`.
const SIGNS_OF_CALLBACK: [&str; 7] = [
    "train/epoch",
    "train/num_tokens",
    "train/reward_std",
    "train/step_time",
    "train/clip_ratio/region_mean",
    "train/clip_ratio/low_mean",
    "train/clip_ratio/high_mean",
];

/// A log under our names.
pub(super) struct Translated {
    pub(super) origin: Origin,
    pub(super) series: BTreeMap<String, Series>,
    pub(super) notes: Vec<String>,
}

/// Renames series, in the order of their first numbers, to our names. Series without one keep
/// theirs.
pub(super) fn translate(series: Vec<(String, Series)>) -> Translated {
    let origin = origin(&series);
    let functions: Vec<String> =
        series.iter().map(|(name, _)| trl(name)).filter(|name| is_function(name)).collect();
    let is_rl = series.iter().map(|(name, _)| trl(name)).any(|name| is_of_rl(&name));
    let is_of_preferences = series.iter().any(|(name, _)| {
        let name = trl(name);
        SIGNS_OF_PREFERENCES.iter().any(|sign| name.starts_with(sign))
    });
    let ours = |name: &str, values: &Series| match origin {
        Origin::Isentrope | Origin::Unknown => None,
        Origin::Verl => {
            let ours = counterpart(VERL, name)?;
            // The mean reward is a share of correct responses only if all rewards are 0 or 1.
            let is_share = values.values.iter().all(|value| (0.0..=1.0).contains(value));
            let is_reward = name.contains("/reward/") || name.starts_with("val/");
            match ours.rsplit_once("/mean@") {
                Some((set, _)) if is_reward && !is_share => Some(format!("{set}/score")),
                _ => Some(ours),
            }
        }
        Origin::Trl if is_rl => {
            let name = trl(name);
            match functions.iter().position(|function| *function == name) {
                Some(place) if functions.len() > 1 => Some(format!("reward/part_{}", place + 1)),
                _ => counterpart(TRL, &name).or_else(|| {
                    counterpart(TRL, &format!("eval_{ONE_SET}_{}", name.strip_prefix("eval_")?))
                }),
            }
        }
        Origin::Trl => {
            let name = trl(name);
            let ours = counterpart(TRL_SFT, &name)?;
            Some(if is_of_preferences && ours.ends_with("loss") { name } else { ours })
        }
    };
    let mut translated = Translated { origin, series: BTreeMap::new(), notes: Vec::new() };
    let mut kept = Vec::new();
    for (name, values) in series {
        match ours(&name, &values) {
            Some(ours) if !translated.series.contains_key(&ours) => {
                translated.series.insert(ours, values);
            }
            _ => kept.push((name, values)),
        }
    }
    if origin == Origin::Verl
        && translated.series.contains_key("policy/entropy_token_mean_filtered")
    {
        translated.notes.push(
            "the entropy is verl's actor/entropy, taken for a mean over tokens, which it is with \
             the default loss_agg_mode, token-mean"
                .to_owned(),
        );
    }
    if let (Origin::Verl | Origin::Trl, [(first, _), ..]) = (origin, &kept[..]) {
        let (count, verb) = (
            kept.len(),
            if kept.len() == 1 { "metric keeps its name" } else { "metrics keep their names" },
        );
        translated
            .notes
            .push(format!("{count} {verb}, such as {first}: there is none of ours for it"));
    }
    let mut left_out = Vec::new();
    for (name, values) in kept {
        match translated.series.entry(name) {
            Entry::Vacant(place) => drop(place.insert(values)),
            Entry::Occupied(place) => left_out.push(place.key().clone()),
        }
    }
    if let [first, ..] = &left_out[..] {
        let (count, verb) =
            (left_out.len(), if left_out.len() == 1 { "metric is" } else { "metrics are" });
        translated.notes.push(format!(
            "{count} {verb} left out, such as {first}: another one has become what goes by that \
             name here"
        ));
    }
    translated
}

/// Who uses such names.
fn origin(series: &[(String, Series)]) -> Origin {
    let names = || series.iter().map(|(name, _)| name.as_str());
    if has_sign_of_ours(names()) {
        return Origin::Isentrope;
    }
    if names().any(|name| SIGNS_OF_VERL.iter().any(|sign| name.starts_with(sign))) {
        return Origin::Verl;
    }
    // The Trainer's callbacks for TensorBoard and W&B put train/ before its names.
    let has = |wanted: &str| {
        names().any(|name| name == wanted || name.strip_prefix("train/") == Some(wanted))
    };
    let of_trainer = has("epoch") && (has("loss") || has("eval_loss") || has("train_loss"));
    let is_there = |signs: &[&str]| signs.iter().any(|sign| names().any(|name| name == *sign));
    let of_callback =
        is_there(&["train/reward", "train/entropy", "train/kl"]) && is_there(&SIGNS_OF_CALLBACK);
    if of_trainer || of_callback || names().any(is_of_grpo) {
        return Origin::Trl;
    }
    Origin::Unknown
}

/// Whether one of the names is used by this program alone.
pub(super) fn has_sign_of_ours(names: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
    names.into_iter().any(|name| {
        let name = name.as_ref();
        ENTROPIES.contains(&name) || SIGNS_OF_OURS.iter().any(|sign| name.starts_with(sign))
    })
}

/// Whether no other trainer has this name.
fn is_of_grpo(name: &str) -> bool {
    let name = trl(name);
    let is_evaluation = name.starts_with("eval_") && name.contains("completions/");
    let is_sign = name.starts_with("completions/") || name.ends_with("frac_reward_zero_std");
    is_sign || is_evaluation || is_function(&name)
}

/// Whether a name is one of reinforcement learning.
fn is_of_rl(name: &str) -> bool {
    let name = name.strip_prefix("eval_").unwrap_or(name);
    name == "reward" || name == "kl" || is_of_grpo(name)
}

fn is_function(name: &str) -> bool {
    filled(OF_FUNCTION, name).is_some()
}

/// A name of the Trainer as it stands in `trainer_state.json`.
fn trl(name: &str) -> String {
    match (name.strip_prefix("train/"), name.strip_prefix("eval/")) {
        (Some(name), _) => name.to_owned(),
        (_, Some(name)) => format!("eval_{name}"),
        _ => name.to_owned(),
    }
}

/// Our name for one of theirs, by a table.
pub fn counterpart(table: &[Pair], name: &str) -> Option<String> {
    table.iter().find_map(|(theirs, ours)| {
        let filled = filled(theirs, name)?;
        Some(
            filled
                .into_iter()
                .fold((*ours).to_owned(), |ours, (mark, text)| ours.replace(mark, text)),
        )
    })
}

/// The texts in a name for the placeholders of a pattern, if the name matches. `<k>` is a number,
/// other placeholders any text.
fn filled<'a>(pattern: &'static str, name: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
    let (mut pattern, mut name, mut found) = (pattern, name, Vec::new());
    while let Some((before, rest)) = pattern.split_once('<') {
        let (_, behind) = rest.split_once('>')?;
        let mark = &pattern[before.len()..pattern.len() - behind.len()];
        name = name.strip_prefix(before)?;
        let literal = behind.split('<').next().unwrap_or_default();
        let end = if literal.is_empty() { name.len() } else { name.rfind(literal)? };
        let (text, after) = name.split_at(end);
        let is_right =
            !text.is_empty() && (mark != "<k>" || text.bytes().all(|byte| byte.is_ascii_digit()));
        is_right.then(|| found.push((mark, text)))?;
        (pattern, name) = (behind, after);
    }
    (pattern == name).then_some(found)
}
