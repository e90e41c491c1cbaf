//! The policy-gradient loss of each token, and its derivative by the token's log-prob. Losses of
//! more than a line have a file of their own here.

mod ce_gppo;
mod dppo;
mod gmpo;
mod sapo;
mod vespo;

pub use ce_gppo::CeGppo;
pub use dppo::{Divergence, Dppo};
pub use sapo::Sapo;
pub use vespo::Vespo;

use crate::ObjectiveSettings;
use crate::catalogue::{About, FREE, Kind};
use crate::kl::MAX_LOG_RATIO;
use crate::treatment::{ClipRange, Tokens, Treatment};
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
    /// (arXiv:2506.13585), which has no lower bound: clip_low = 1.
    Cispo,
    /// -A log pi without correction for the age of the samples (arXiv:2504.02546); meant for one
    /// update per rollout.
    PolicyGradient,
    /// -(4 / tau) sigmoid(tau (rho - 1)) A: a soft gate in place of clipping (arXiv:2511.20347);
    /// settings in `sapo`. Wants aggregation = "seq-mean-token-mean".
    Sapo,
    /// -A times the geometric mean of the response's ratios, each clipped by itself, in its
    /// logarithm, at -clip_low and clip_high (arXiv:2507.20673). Wants clip_low = clip_high = 0.4
    /// and aggregation = "seq-mean-token-mean".
    Gmpo,
    /// -rho A, but nothing for a token whose probability has gone farther than a divergence allows
    /// the way its advantage drives it (arXiv:2602.04879); settings in `dppo`.
    Dppo,
    /// As clip, but clipped tokens keep the gradient of their bound, beta (1 -+ clip) A
    /// (arXiv:2509.20712); settings in `ce_gppo`.
    CeGppo,
    /// -phi(w) A log pi, w the ratio of the whole response: phi, held constant, fades as w leaves 1
    /// (arXiv:2602.10693); settings in `vespo`.
    Vespo,
}

impl Loss {
    /// Every loss.
    pub const ALL: [Self; 10] = [
        Self::Clip,
        Self::Importance,
        Self::Gspo,
        Self::Cispo,
        Self::PolicyGradient,
        Self::Sapo,
        Self::Gmpo,
        Self::Dppo,
        Self::CeGppo,
        Self::Vespo,
    ];

    /// Whether the clip range has an effect.
    pub(crate) fn clips(self) -> bool {
        match self {
            Self::Clip | Self::Gspo | Self::Cispo | Self::Gmpo | Self::CeGppo => true,
            Self::Importance | Self::PolicyGradient | Self::Sapo | Self::Dppo | Self::Vespo => {
                false
            }
        }
    }

    /// Whether the loss is defined with the aggregation `seq-mean-token-mean`.
    pub(crate) fn weighs_responses_alike(self) -> bool {
        matches!(self, Self::Gspo | Self::Sapo | Self::Gmpo)
    }

    /// The loss as the catalogue lists it.
    pub(crate) fn about(self) -> About {
        let about = |name, equation, source, setting| About {
            name,
            kind: Kind::Loss,
            equation,
            source,
            setting,
            cost: FREE,
        };
        match self {
            Self::Clip => about(
                "PPO-clip",
                "-min(rho A, clip(rho) A)",
                "arXiv:1707.06347, equation 7",
                "objective.loss = \"clip\"",
            ),
            Self::Importance => about(
                "Importance-weighted policy gradient",
                "-rho A",
                "arXiv:1707.06347, equation 6",
                "objective.loss = \"importance\"",
            ),
            Self::Gspo => about(
                "GSPO",
                "-min(s A, clip(s) A), s = exp(mean of log rho over the response)",
                "arXiv:2507.18071",
                "objective.loss = \"gspo\"",
            ),
            Self::Cispo => about(
                "CISPO",
                "-sg(clip(rho)) A log pi",
                "arXiv:2506.13585",
                "objective.loss = \"cispo\"",
            ),
            Self::PolicyGradient => about(
                "GPG",
                "-A log pi",
                "arXiv:2504.02546",
                "objective.loss = \"policy-gradient\"",
            ),
            Self::Sapo => sapo::ABOUT,
            Self::Gmpo => gmpo::ABOUT,
            Self::Dppo => dppo::ABOUT,
            Self::CeGppo => ce_gppo::ABOUT,
            Self::Vespo => vespo::ABOUT,
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

    /// The term times a weight; a weight of 0 takes it away, whatever it is.
    fn weighted(self, weight: f64) -> Self {
        let times = |number: f64| if weight == 0.0 { 0.0 } else { weight * number };
        Self { value: times(self.value), slope: times(self.slope), ..self }
    }
}

/// Largest logarithm of GSPO's ratio, as in the reference.
const MAX_SEQUENCE_LOG_RATIO: f64 = 10.0;

/// exp of a log-ratio within ±20.
pub(crate) fn ratio(log_ratio: f64) -> f64 {
    libm::exp(log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
}

/// The weighted policy loss of every token under a treatment, `[tokens]`.
pub(crate) fn terms(
    settings: &ObjectiveSettings,
    tokens: &Tokens,
    treatment: &Treatment,
) -> Vec<Term> {
    let Tokens { acting_logprobs: logprobs, log_ratios, .. } = *tokens;
    let Treatment { advantages, clip: ranges, .. } = treatment;
    let each = |term: &dyn Fn(usize) -> Term| (0..logprobs.len()).map(term).collect();
    let ratio_of = |t: usize| Ratio::of_token(log_ratios[t]);
    let mut terms: Vec<Term> = match settings.loss {
        Loss::Clip => each(&|t| {
            let term = clip(ranges[t], ratio_of(t), advantages[t]);
            settings.dual_clip.map_or(term, |bound| dual_clip(term, bound, advantages[t]))
        }),
        Loss::Importance => each(&|t| unclipped(ratio_of(t), advantages[t])),
        Loss::Gspo => by_response(tokens, &|response| {
            let ratio = Ratio::of_response(&log_ratios[response.clone()]);
            response.map(|t| clip(ranges[t], ratio, advantages[t])).collect()
        }),
        Loss::Cispo => each(&|t| {
            let (weight, clipped) = clamp(ranges[t], ratio(log_ratios[t]));
            let slope = -weight * advantages[t];
            Term { value: slope * logprobs[t], slope, clipped }
        }),
        Loss::PolicyGradient => each(&|t| Term {
            value: -advantages[t] * logprobs[t],
            slope: -advantages[t],
            clipped: None,
        }),
        Loss::Sapo => each(&|t| settings.sapo.term(ratio_of(t), advantages[t])),
        Loss::Gmpo => by_response(tokens, &|response| {
            let its = response.clone();
            gmpo::terms(&log_ratios[response], &advantages[its.clone()], &ranges[its])
        }),
        Loss::Dppo => each(&|t| {
            let probabilities = [tokens.old_logprob(t), logprobs[t]].map(libm::exp);
            settings.dppo.term(ratio_of(t), probabilities, advantages[t])
        }),
        Loss::CeGppo => each(&|t| settings.ce_gppo.term(ranges[t], ratio_of(t), advantages[t])),
        Loss::Vespo => by_response(tokens, &|response| {
            let its = response.clone();
            let log_ratios = &log_ratios[response.clone()];
            settings.vespo.terms(log_ratios, &logprobs[response], &advantages[its])
        }),
    };
    for (t, term) in terms.iter_mut().enumerate() {
        *term = term.weighted(treatment.weights[t]);
        let added = treatment.added[t];
        if added != 0.0 {
            let Term { value, slope, .. } = unclipped(ratio_of(t), added);
            (term.value, term.slope) = (term.value + value, term.slope + slope);
        }
    }
    terms
}

/// Terms that are computed response by response.
fn by_response(
    tokens: &Tokens,
    of_response: &dyn Fn(std::ops::Range<usize>) -> Vec<Term>,
) -> Vec<Term> {
    let mut terms = Vec::with_capacity(tokens.logprobs.len());
    for &length in tokens.lengths {
        terms.extend(of_response(terms.len()..terms.len() + length));
    }
    terms
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

fn clip(range: ClipRange, ratio: Ratio, advantage: f64) -> Term {
    let unclipped = unclipped(ratio, advantage);
    let (bounded, clipped) = clamp(range, ratio.value);
    let value = -advantage * bounded;
    if value > unclipped.value { Term { value, slope: 0.0, clipped } } else { unclipped }
}

/// The ratio within the clip range, and the side on which it was outside.
fn clamp(range: ClipRange, ratio: f64) -> (f64, Option<Clipped>) {
    let (low, high) = (1.0 - range.low, 1.0 + range.high);
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
