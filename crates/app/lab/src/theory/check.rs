//! Whether a claim is right to first order: whether its error falls with the square of the step.

use super::case::Case;
use super::claim::Claim;
use serde::Serialize;

/// Step sizes, two to a decade, small enough that the second order shows alone.
pub const STEPS: [f64; 7] = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2];
/// How far the power of the step that errors fall with may be from 2, between any two neighbouring
/// steps.
const TOLERANCE: f64 = 0.1;

/// The check of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The claim's name.
    pub name: &'static str,
    /// The change of the policy.
    pub update: &'static str,
    /// The claimed change of its entropy.
    pub formula: &'static str,
    /// In the order of step sizes.
    pub steps: Vec<Step>,
    /// The power of the step that the errors fall with, over all steps: 2 for a claim that is right
    /// to first order, 1 for others.
    pub slope: f64,
    /// Whether the claim is right to first order: the power is 2 between any two neighbouring
    /// steps.
    pub holds: bool,
}

/// Predictions for one step size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// eta.
    pub size: f64,
    /// The change of the first case's entropy as predicted, in nats.
    pub predicted: f64,
    /// And as it is.
    pub actual: f64,
    /// Mean |actual - predicted| over all cases.
    pub error: f64,
    /// The power of the step that the errors fall with from this step size to the one before; none
    /// for the first.
    pub power: Option<f64>,
}

/// Checks a claim on these cases.
pub fn check(claim: &Claim, cases: &[Case]) -> Check {
    let Claim { name, update, formula, direction, prediction } = *claim;
    let each: Vec<_> = cases.iter().map(|case| (case, direction(case), prediction(case))).collect();
    let mut steps: Vec<Step> = Vec::new();
    for size in STEPS {
        let pairs: Vec<[f64; 2]> = each
            .iter()
            .map(|(case, direction, prediction)| {
                [size * prediction, case.policy.entropy_change(size, direction)]
            })
            .collect();
        let error =
            pairs.iter().map(|[p, a]| (a - p).abs()).sum::<f64>() / pairs.len().max(1) as f64;
        let power = steps.last().map(|before| power([before.size, size], [before.error, error]));
        let [predicted, actual] = pairs.first().copied().unwrap_or([f64::NAN; 2]);
        steps.push(Step { size, predicted, actual, error, power });
    }
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    let slope = power([first.size, last.size], [first.error, last.error]);
    let holds =
        steps.iter().filter_map(|step| step.power).all(|power| (power - 2.0).abs() < TOLERANCE);
    Check { name, update, formula, slope, holds, steps }
}

/// The slope in a plot of both logarithms.
fn power(sizes: [f64; 2], errors: [f64; 2]) -> f64 {
    let rise = |[low, high]: [f64; 2]| libm::log(high) - libm::log(low);
    rise(errors) / rise(sizes)
}
