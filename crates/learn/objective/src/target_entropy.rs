//! The key `target_entropy`: an entropy to hold, in three forms.

use crate::error::{Result, refuse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest entropy that may be asked for, in nats: a vocabulary of ten million tokens has no more
/// than ln(10^7) = 16.
const MOST_NATS: f64 = 20.0;
/// Smallest entropy that may be asked for. Below it a policy is deterministic as far as can be
/// measured.
const LEAST_NATS: f64 = 1e-6;
const RANGE: &str = "it must be an entropy that a policy can have, from 1e-6 to 20 nats: that of a \
                     vocabulary is at most the logarithm of its size, 12 for 151936 tokens";
/// An entropy of the policy to hold: that of `policy/entropy`, the mean over a rollout's responses
/// of the mean over their tokens, in nats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TargetEntropy {
    /// This entropy, in nats, from 1e-6 to 20.
    Nats(#[schemars(extend("exclusiveMinimum" = 0.0))] f64),
    /// A fraction of the entropy that the run began with.
    OfInitial(FractionOfInitial),
    /// An entropy that changes with the steps.
    Scheduled(Schedule),
}

/// A fraction of the entropy that the run began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FractionOfInitial {
    /// Fraction of the entropy of the run's first rollout, before any filter and any update.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 10.0))]
    pub fraction_of_initial: f64,
}

/// An entropy that changes with the steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Pairs of a step and an entropy in nats, steps ascending: straight lines between them,
    /// constant before the first and after the last.
    pub schedule: Vec<[f64; 2]>,
}

impl TargetEntropy {
    /// The entropy to hold in a step, in nats. `initial` is the entropy of the run's first rollout;
    /// if it is needed and not known, the target is NaN.
    pub fn at(&self, step: u64, initial: Option<f64>) -> f64 {
        match self {
            Self::Nats(nats) => *nats,
            Self::OfInitial(of) => {
                initial.map_or(f64::NAN, |initial| of.fraction_of_initial * initial)
            }
            Self::Scheduled(Schedule { schedule }) => interpolated(schedule, step as f64),
        }
    }

    /// Checks what no key's range can express.
    pub(crate) fn check(&self, key: &str) -> Result<()> {
        let above_0 = |nats: f64| nats.is_finite() && nats > 0.0;
        let is_entropy = |nats: f64| (LEAST_NATS..=MOST_NATS).contains(&nats);
        match self {
            Self::Nats(nats) if !above_0(*nats) => refuse(
                key,
                self,
                "it must be an entropy above 0, in nats; leave the key out to hold none",
            ),
            Self::Nats(nats) if !is_entropy(*nats) => refuse(key, self, RANGE),
            Self::OfInitial(FractionOfInitial { fraction_of_initial: fraction })
                if !above_0(*fraction) =>
            {
                refuse(
                    &format!("{key}.fraction_of_initial"),
                    fraction,
                    "it must be a fraction above 0 of the entropy that the run begins with (a half \
                     is 0.5)",
                )
            }
            Self::Scheduled(Schedule { schedule }) => {
                let key = format!("{key}.schedule");
                let whole = |step: f64| step >= 0.0 && step.fract() == 0.0;
                if schedule.is_empty() {
                    return refuse(
                        &key,
                        "[]",
                        "it must have a pair of a step and an entropy, such as [[0, 0.6], [100, \
                         0.3]]",
                    );
                }
                if let Some(pair) =
                    schedule.iter().find(|[step, nats]| !(whole(*step) && above_0(*nats)))
                {
                    let expected = "each pair must be a step, a whole number from 0 on, and an \
                                    entropy above 0, in nats";
                    return refuse(&key, format!("{schedule:?}, with {pair:?} in it"), expected);
                }
                if let Some([_, nats]) = schedule.iter().find(|[_, nats]| !is_entropy(*nats)) {
                    return refuse(&key, format!("{schedule:?}, with {nats} in it"), RANGE);
                }
                if !schedule.is_sorted_by(|[a, _], [b, _]| a < b) {
                    return refuse(
                        &key,
                        format!("{schedule:?}"),
                        "each step must be later than the one before (a jump takes two steps: [99, \
                         0.6], [100, 0.3])",
                    );
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// As recipes write it.
impl fmt::Display for TargetEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nats(nats) => write!(f, "{nats:?}"),
            Self::OfInitial(of) => {
                write!(f, "{{ fraction_of_initial = {:?} }}", of.fraction_of_initial)
            }
            Self::Scheduled(scheduled) => write!(f, "{{ schedule = {:?} }}", scheduled.schedule),
        }
    }
}

/// The value at x of the polyline through points of ascending x, constant beyond its ends.
fn interpolated(points: &[[f64; 2]], x: f64) -> f64 {
    match points.iter().position(|[at, _]| *at > x) {
        None => points.last().map_or(f64::NAN, |[_, y]| *y),
        Some(0) => points[0][1],
        Some(next) => {
            let ([x0, y0], [x1, y1]) = (points[next - 1], points[next]);
            y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
        }
    }
}
