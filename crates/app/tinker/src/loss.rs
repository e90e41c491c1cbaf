//! The losses, as Tinker defines them (tinker-docs.thinkingmachines.ai, "Loss Functions"): sums
//! over tokens, without a mean. Each is a pure function of the targets' log-probs.
//!
//! With log-prob l of a target, that of the sampler q, advantage A and ratio r = exp(l - q):
//!
//! | loss | of each target |
//! |---|---|
//! | `cross_entropy` | -w l |
//! | `importance_sampling` | -r A |
//! | `ppo` | -min(r A, clip(r) A) |
//! | `cispo` | -clip(r) A l, where clip(r) is held constant |
//! | `dro` | -(A l - beta / 2 (l - q)^2) |
//! | `gspo` | as `ppo` with r of the sequence: exp of the mean of l - q, held constant but for l |

use crate::error::{Failure, Result};
use std::collections::{BTreeMap, HashMap};

/// Losses by name.
pub(crate) const ALL: [&str; 6] =
    ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"];
const LOW: &str = "clip_low_threshold";
const HIGH: &str = "clip_high_threshold";
const BETA: &str = "beta";
/// Tinker's bounds of ppo.
const PPO: (f64, f64) = (0.8, 1.2);
/// Tinker's bounds of cispo.
const CISPO: (f64, f64) = (0.0, 4.0);
/// The input of `cross_entropy` beside the targets.
pub(crate) const WEIGHTS: &str = "weights";
/// The sampler's log-probs.
pub(crate) const LOGPROBS: &str = "logprobs";
/// The advantages.
pub(crate) const ADVANTAGES: &str = "advantages";
/// Nonzero where a target's ratio counts for its sequence's.
pub(crate) const RATIO_MASK: &str = "sequence_ratio_mask";

/// A loss with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    CrossEntropy,
    ImportanceSampling,
    Ppo { low: f64, high: f64 },
    Cispo { low: f64, high: f64 },
    Dro { beta: f64 },
    Gspo { low: f64, high: f64 },
}

/// An example's loss, and its derivative by each target's log-prob.
#[derive(Debug, PartialEq)]
pub(crate) struct Terms {
    pub loss: f64,
    pub d_logprobs: Vec<f64>,
}

impl Loss {
    /// The loss of a name, with these settings.
    ///
    /// # Errors
    /// Names the losses that there are, or the setting that is wrong.
    pub fn of(name: &str, mut config: BTreeMap<String, f64>) -> Result<Self> {
        let mut take = |key| config.remove(key);
        let loss = match name {
            "cross_entropy" => Self::CrossEntropy,
            "importance_sampling" => Self::ImportanceSampling,
            "ppo" | "cispo" | "gspo" => {
                let (low, high) = (take(LOW), take(HIGH));
                let (low, high) = match name {
                    "ppo" => (low.unwrap_or(PPO.0), high.unwrap_or(PPO.1)),
                    "cispo" => (low.unwrap_or(CISPO.0), high.unwrap_or(CISPO.1)),
                    _ => low.zip(high).ok_or_else(|| {
                        Failure::user(format!("gspo needs {LOW} and {HIGH} in loss_fn_config"))
                    })?,
                };
                if !(low >= 0.0 && low <= high && high.is_finite()) {
                    let what = format!("{LOW} {low} and {HIGH} {high} are not 0 <= low <= high");
                    return Err(Failure::user(what));
                }
                match name {
                    "ppo" => Self::Ppo { low, high },
                    "cispo" => Self::Cispo { low, high },
                    _ => Self::Gspo { low, high },
                }
            }
            "dro" => {
                let beta = take(BETA)
                    .ok_or_else(|| Failure::user(format!("dro needs {BETA} in loss_fn_config")))?;
                if !(beta >= 0.0 && beta.is_finite()) {
                    return Err(Failure::user(format!("{BETA} is {beta}, not a number from 0")));
                }
                Self::Dro { beta }
            }
            "stable_reinforce" => {
                return Err(Failure::user(format!(
                    "the loss stable_reinforce is not published; there are {}",
                    ALL.join(", ")
                )));
            }
            _ => {
                let all = ALL.join(", ");
                return Err(Failure::user(format!("there is no loss {name:?}; there are {all}")));
            }
        };
        match config.keys().next() {
            None => Ok(loss),
            Some(key) => Err(Failure::user(format!("{name} has no setting {key:?}"))),
        }
    }

    /// The names of its inputs, besides the targets; those with true may be left out.
    pub fn inputs(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::CrossEntropy => &[(WEIGHTS, true)],
            Self::Gspo { .. } => &[(LOGPROBS, false), (ADVANTAGES, false), (RATIO_MASK, false)],
            _ => &[(LOGPROBS, false), (ADVANTAGES, false)],
        }
    }

    /// The loss of an example. All arrays are `[targets]`; weights that are not there are 1.
    pub fn terms(self, logprobs: &[f32], inputs: &HashMap<&'static str, Vec<f32>>) -> Terms {
        let input = |name| inputs.get(name).map_or(&[][..], Vec::as_slice);
        if self == Self::CrossEntropy {
            let weight = |i: usize| input(WEIGHTS).get(i).map_or(1.0, |&w| f64::from(w));
            return sum(logprobs.iter().enumerate().map(|(i, &l)| {
                let weight = weight(i);
                (-weight * f64::from(l), -weight)
            }));
        }
        let (old, advantages) = (input(LOGPROBS), input(ADVANTAGES));
        let log_ratio = |i: usize| f64::from(logprobs[i]) - f64::from(old[i]);
        let of_sequence = match self {
            Self::Gspo { .. } => {
                let mask = input(RATIO_MASK);
                let counted = (0..logprobs.len()).filter(|&i| mask[i] != 0.0);
                let (count, total) =
                    counted.fold((0, 0.0), |(count, sum), i| (count + 1, sum + log_ratio(i)));
                if count == 0 { 1.0 } else { f64::exp(total / f64::from(count)) }
            }
            _ => 1.0,
        };
        sum((0..logprobs.len()).map(|i| {
            let (l, a) = (f64::from(logprobs[i]), f64::from(advantages[i]));
            // A target without advantage has no gradient but DRO's, even where its ratio, such as
            // that of a padded target, is beyond f64.
            if a == 0.0 && !matches!(self, Self::Dro { .. }) {
                return (0.0, 0.0);
            }
            match self {
                Self::CrossEntropy | Self::ImportanceSampling => {
                    let ratio = log_ratio(i).exp();
                    (-ratio * a, -ratio * a)
                }
                Self::Ppo { low, high } => clipped(log_ratio(i).exp(), a, low, high),
                Self::Gspo { low, high } => clipped(of_sequence, a, low, high),
                Self::Cispo { low, high } => {
                    let weight = log_ratio(i).exp().clamp(low, high) * a;
                    (-weight * l, -weight)
                }
                Self::Dro { beta } => {
                    let distance = log_ratio(i);
                    (-(l * a - 0.5 * beta * distance * distance), -(a - beta * distance))
                }
            }
        }))
    }
}

/// -min(r A, clip(r) A), and its derivative by log r.
fn clipped(ratio: f64, advantage: f64, low: f64, high: f64) -> (f64, f64) {
    let (free, bound) = (ratio * advantage, ratio.clamp(low, high) * advantage);
    if bound < free { (-bound, 0.0) } else { (-free, -free) }
}

fn sum(terms: impl Iterator<Item = (f64, f64)>) -> Terms {
    let mut all = Terms { loss: 0.0, d_logprobs: Vec::new() };
    for (loss, derivative) in terms {
        all.loss += loss;
        all.d_logprobs.push(derivative);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn floats(values: &Value) -> Vec<f64> {
        values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }

    #[test]
    fn losses_are_those_of_pytorch() {
        let cases = include_str!("../tests/fixtures/losses.json");
        let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
        for case in &cases {
            let name = case["loss_fn"].as_str().unwrap();
            let config = serde_json::from_value(case["config"].clone()).unwrap();
            let loss = Loss::of(name, config).unwrap();
            let narrow = |values| floats(values).into_iter().map(|v| v as f32).collect();
            let inputs = loss.inputs().iter().map(|(key, _)| (*key, narrow(&case["inputs"][key])));
            let logprobs: Vec<f32> = narrow(&case["log_probs"]);
            let terms = loss.terms(&logprobs, &inputs.collect());
            let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            assert!(is_near(terms.loss, case["loss"].as_f64().unwrap()), "{loss:?}");
            let expected = floats(&case["derivatives"]);
            let pairs = terms.d_logprobs.iter().zip(&expected);
            assert!(pairs.clone().all(|(&a, &b)| is_near(a, b)), "{loss:?}: {pairs:?}");
        }
        let named = |name: &str| cases.iter().any(|case| case["loss_fn"] == name);
        assert!(ALL.iter().all(|name| named(name)));
    }

    #[test]
    fn targets_without_advantage_have_no_loss_whatever_their_ratio() {
        let inputs =
            HashMap::from([(LOGPROBS, vec![-2000.0, -1.0]), (ADVANTAGES, vec![0.0, -2.0])]);
        let terms = Loss::ImportanceSampling.terms(&[-1.0, -1.0], &inputs);
        assert_eq!(terms, Terms { loss: 2.0, d_logprobs: vec![-0.0, 2.0] });
    }

    #[test]
    fn settings_are_checked() {
        let of = |name: &str, config: &[(&str, f64)]| {
            let config = config.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
            Loss::of(name, config).map_err(|failure| failure.message)
        };
        for (name, config, what) in [
            ("ppo", &[(LOW, 1.5)][..], "0 <= low <= high"),
            ("ppo", &[(LOW, f64::NAN)], "0 <= low <= high"),
            ("ppo", &[("epsilon", 0.2)], "no setting \"epsilon\""),
            ("cross_entropy", &[(BETA, 1.0)], "no setting"),
            ("gspo", &[(LOW, 0.9)], "gspo needs"),
            ("dro", &[], "dro needs beta"),
            ("dro", &[(BETA, -1.0)], "beta is -1"),
            ("stable_reinforce", &[], "not published"),
            ("other", &[], "there are cross_entropy"),
        ] {
            let message = of(name, config).unwrap_err();
            assert!(message.contains(what), "{name}: {message}");
        }
        assert_eq!(of("cispo", &[(HIGH, 2.0)]), Ok(Loss::Cispo { low: 0.0, high: 2.0 }));
    }
}
