//! The policy-gradient loss of each token, and its derivative by the token's log-prob.

use crate::ObjectiveSettings;
use crate::kl::MAX_LOG_RATIO;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy-gradient loss of a token with advantage A; rho = pi / pi_old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// -min(rho A, clip(rho) A): PPO's (arXiv:1707.06347).
    #[default]
    Clip,
    /// -rho A, unclipped. The published KL-Cov runs use it; clip_low and clip_high are not used.
    Importance,
    /// As clip, with the geometric mean of the response's ratios in place of rho
    /// (arXiv:2507.18071). Wants clip_low = 3e-4, clip_high = 4e-4 and aggregation =
    /// "seq-mean-token-mean".
    Gspo,
    /// -clip(rho) A log pi with clip(rho) held constant: clipped tokens keep a gradient
    /// (arXiv:2506.13585).
    Cispo,
    /// -A log pi without correction for the age of the samples (arXiv:2504.02546); meant for one
    /// update per rollout.
    PolicyGradient,
}

impl Loss {
    /// Every loss.
    pub const ALL: [Self; 5] =
        [Self::Clip, Self::Importance, Self::Gspo, Self::Cispo, Self::PolicyGradient];

    /// Whether the clip range has an effect.
    pub(crate) fn clips(self) -> bool {
        match self {
            Self::Clip | Self::Gspo | Self::Cispo => true,
            Self::Importance | Self::PolicyGradient => false,
        }
    }
}

/// Which bound took effect on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clipped {
    Low,
    High,
    Dual,
}

/// A token's policy loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub value: f64,
    /// Derivative by the token's log-prob.
    pub slope: f64,
    pub clipped: Option<Clipped>,
}

impl Term {
    /// Whether clipping took the token's gradient away. CISPO clips without doing so.
    pub fn is_silenced(&self) -> bool {
        self.clipped.is_some() && self.slope == 0.0
    }
}

/// Largest logarithm of GSPO's ratio, as in the reference.
const MAX_SEQUENCE_LOG_RATIO: f64 = 10.0;

/// exp of a log-ratio within ±20.
pub(crate) fn ratio(log_ratio: f64) -> f64 {
    libm::exp(log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
}

/// The policy loss of every token, `[tokens]`, from log-probs, log-ratios log pi - log pi_old and
/// advantages, each `[tokens]`, of responses with these lengths.
pub(crate) fn terms(
    settings: &ObjectiveSettings,
    lengths: &[usize],
    logprobs: &[f64],
    log_ratios: &[f64],
    advantages: &[f64],
) -> Vec<Term> {
    let each = |term: &dyn Fn(usize) -> Term| (0..logprobs.len()).map(term).collect();
    let with_ratio = |term: &dyn Fn(Ratio, f64) -> Term| {
        each(&|t| term(Ratio::of_token(log_ratios[t]), advantages[t]))
    };
    match settings.loss {
        Loss::Clip => with_ratio(&|ratio, advantage| {
            let term = clip(settings, ratio, advantage);
            settings.dual_clip.map_or(term, |bound| dual_clip(term, bound, advantage))
        }),
        Loss::Importance => with_ratio(&unclipped),
        Loss::Gspo => {
            let mut terms = Vec::with_capacity(logprobs.len());
            for &length in lengths {
                let tokens = terms.len()..terms.len() + length;
                let ratio = Ratio::of_response(&log_ratios[tokens.clone()]);
                terms.extend(tokens.map(|t| clip(settings, ratio, advantages[t])));
            }
            terms
        }
        Loss::Cispo => each(&|t| {
            let (weight, clipped) = clamp(settings, ratio(log_ratios[t]));
            let slope = -weight * advantages[t];
            Term { value: slope * logprobs[t], slope, clipped }
        }),
        Loss::PolicyGradient => each(&|t| Term {
            value: -advantages[t] * logprobs[t],
            slope: -advantages[t],
            clipped: None,
        }),
    }
}

/// A probability ratio.
#[derive(Clone, Copy)]
struct Ratio {
    value: f64,
    /// Whether its logarithm was beyond the numerical limit, so that it is constant.
    is_limited: bool,
}

impl Ratio {
    fn of_token(log_ratio: f64) -> Self {
        Self { value: ratio(log_ratio), is_limited: log_ratio.abs() > MAX_LOG_RATIO }
    }

    /// The geometric mean over a response's tokens (GSPO, arXiv:2507.18071).
    fn of_response(log_ratios: &[f64]) -> Self {
        let mean = log_ratios.iter().sum::<f64>() / log_ratios.len() as f64;
        Self {
            value: libm::exp(mean.min(MAX_SEQUENCE_LOG_RATIO)),
            is_limited: mean > MAX_SEQUENCE_LOG_RATIO,
        }
    }
}

/// As a token's log-prob changes, so does its ratio, and d rho / d log pi = rho.
fn unclipped(ratio: Ratio, advantage: f64) -> Term {
    let value = -advantage * ratio.value;
    Term { value, slope: if ratio.is_limited { 0.0 } else { value }, clipped: None }
}

fn clip(settings: &ObjectiveSettings, ratio: Ratio, advantage: f64) -> Term {
    let unclipped = unclipped(ratio, advantage);
    let (bounded, clipped) = clamp(settings, ratio.value);
    let value = -advantage * bounded;
    if value > unclipped.value { Term { value, slope: 0.0, clipped } } else { unclipped }
}

/// The ratio within the clip range, and the side on which it was outside.
fn clamp(settings: &ObjectiveSettings, ratio: f64) -> (f64, Option<Clipped>) {
    let (low, high) = (1.0 - settings.clip_low, 1.0 + settings.clip_high);
    if ratio < low {
        (low, Some(Clipped::Low))
    } else if ratio > high {
        (high, Some(Clipped::High))
    } else {
        (ratio, None)
    }
}

fn dual_clip(term: Term, bound: f64, advantage: f64) -> Term {
    let value = -advantage * bound;
    if advantage < 0.0 && term.value > value {
        Term { value, slope: 0.0, clipped: Some(Clipped::Dual) }
    } else {
        term
    }
}
