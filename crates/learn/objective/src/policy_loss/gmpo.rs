//! GMPO, geometric-mean policy optimization (arXiv:2507.20673).

use super::{Clipped, Term};
use crate::catalogue::{About, FREE, Kind};
use crate::kl::MAX_LOG_RATIO;
use crate::treatment::ClipRange;

pub(super) const ABOUT: About = About {
    name: "GMPO",
    kind: Kind::Loss,
    equation: "-A exp(mean over the response of log rho, clipped where it helps A: \
               min(log rho, clip_high) if A > 0, max(log rho, -clip_low) if A < 0)",
    source: "arXiv:2507.20673",
    setting: "objective.loss = \"gmpo\"",
    cost: FREE,
};

/// The terms of a response's tokens, `[tokens]` as its log-ratios, advantages and clip ranges. The
/// loss of a response is its mean advantage times the geometric mean; each token bears an equal
/// share of it.
pub(super) fn terms(log_ratios: &[f64], advantages: &[f64], ranges: &[ClipRange]) -> Vec<Term> {
    let tokens = log_ratios.len() as f64;
    let bounded: Vec<(f64, bool, Option<Clipped>)> = log_ratios
        .iter()
        .zip(advantages)
        .zip(ranges)
        .map(|((&log_ratio, &advantage), range)| {
            if advantage > 0.0 && log_ratio > range.high {
                (range.high, true, Some(Clipped::High))
            } else if advantage < 0.0 && log_ratio < -range.low {
                (-range.low, true, Some(Clipped::Low))
            } else {
                let within = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
                (within, within != log_ratio, None)
            }
        })
        .collect();
    let mean = libm::exp(bounded.iter().map(|(log_ratio, ..)| log_ratio).sum::<f64>() / tokens);
    let value = -(advantages.iter().sum::<f64>() / tokens) * mean;
    let term = |(_, is_constant, clipped)| Term {
        value,
        slope: if is_constant { 0.0 } else { value },
        clipped,
    };
    bounded.into_iter().map(term).collect()
}
