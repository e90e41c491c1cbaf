//! How well an entropy is held at its target, and the accuracy of another run at that entropy.

use crate::law::Point;
use crate::log::{RunLog, Series};
use serde_json::Value;

/// The metric that a controller steers by default, with its default bounds
/// (docs/concepts/entropy.md).
const STEERED: [(&str, &str, [f64; 2]); 2] =
    [("fraction", "cov/fraction", [1e-5, 0.5]), ("coefficient", "cov/coefficient", [0.01, 100.0])];

/// |ln(H / H*)| below which entropy counts as held.
pub(super) const HELD: f64 = 0.1;
/// Within this share of the target it counts as reached.
const REACHED: f64 = 0.1;

/// Entropies of rollouts over their targets: (step, H / H*) of the steps that have both.
pub(super) fn ratios(log: &RunLog) -> Vec<(u64, f64)> {
    let (Some(targets), Some(entropies)) =
        (log.series("entropy/target"), log.series("policy/entropy"))
    else {
        return Vec::new();
    };
    let ratio = |(step, target): (u64, f64)| {
        let entropy = entropies.at(step)?;
        (target > 0.0 && entropy > 0.0).then(|| (step, entropy / target))
    };
    targets.iter().filter_map(ratio).collect()
}

/// The mean of a number over the last half of the steps, which ascend; none without any.
fn over_last_half(steps: impl Iterator<Item = (u64, f64)>) -> Option<f64> {
    let steps: Vec<(u64, f64)> = steps.collect();
    let (last, _) = steps.last()?;
    // Steps are far below 2^63.
    let late: Vec<f64> =
        steps.iter().filter(|(step, _)| 2 * step > *last).map(|(_, x)| *x).collect();
    (!late.is_empty()).then(|| late.iter().sum::<f64>() / late.len() as f64)
}

fn share(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

/// The mean of |ln(H / H*)| over the last half of the run.
pub(super) fn tracking_error(ratios: &[(u64, f64)]) -> Option<f64> {
    over_last_half(ratios.iter().map(|(step, ratio)| (*step, libm::log(*ratio).abs())))
}

/// The share of the last half's steps at which |ln(H / H*)| is below [`HELD`].
pub(super) fn share_held(ratios: &[(u64, f64)]) -> Option<f64> {
    over_last_half(
        ratios.iter().map(|(step, ratio)| (*step, share(libm::log(*ratio).abs() < HELD))),
    )
}

/// The first step at which entropy is within 10 % of the target; none where there is none.
pub(super) fn reached(ratios: &[(u64, f64)]) -> Option<u64> {
    // 0.9 and 1.1 count as within, whatever rounding does to them.
    ratios.iter().find(|(_, ratio)| (ratio - 1.0).abs() <= REACHED + 1e-12).map(|(step, _)| *step)
}

/// The least of H / H* from the step on at which the target is reached.
pub(super) fn least_after(ratios: &[(u64, f64)]) -> Option<f64> {
    let from = reached(ratios)?;
    ratios.iter().filter(|(step, _)| *step >= from).map(|(_, ratio)| *ratio).reduce(f64::min)
}

/// The metric that a run's controller steers, with its bounds; none where the recipe tells of no
/// controller.
pub(super) fn steered(recipe: &Value) -> Option<(&'static str, [f64; 2])> {
    let covariance = recipe.pointer("/objective/covariance")?;
    if covariance["target_entropy"].is_null() {
        return None;
    }
    let settings = &covariance["controller"];
    let steer = settings["steer"].as_str().unwrap_or("fraction");
    let (_, metric, [min, max]) = STEERED.into_iter().find(|(name, ..)| *name == steer)?;
    Some((
        metric,
        [settings["min"].as_f64().unwrap_or(min), settings["max"].as_f64().unwrap_or(max)],
    ))
}

/// The share of the last half's steps at which what is steered is at a bound.
pub(super) fn share_at_bound(steered: &Series, bounds: [f64; 2]) -> Option<f64> {
    let is_at = |x: f64| bounds.iter().any(|bound| (x - bound).abs() <= 1e-9 * bound.abs());
    over_last_half(steered.iter().map(|(step, x)| (step, share(is_at(x)))))
}

/// The accuracy at which the entropy of evaluations first falls to a target, in a straight line
/// between evaluations; none where it never does.
pub(super) fn accuracy_at(points: &[Point], target: f64) -> Option<f64> {
    let falls = |pair: &&[Point]| pair[0].entropy > target && pair[1].entropy <= target;
    let pair = points.windows(2).find(falls)?;
    let part = (pair[0].entropy - target) / (pair[0].entropy - pair[1].entropy);
    Some(pair[0].accuracy + part * (pair[1].accuracy - pair[0].accuracy))
}
