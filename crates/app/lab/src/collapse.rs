//! How early a run spent its entropy and made its gain, as shares of the whole run; between
//! evaluations in a straight line.

use crate::law::Point;

/// The paper's shares of entropy and gain, by twelfth: means of 11 models over 2400 updates
/// (arXiv:2505.22617, section 2).
pub(crate) const PAPER: [(u32, f64, f64); 2] = [(1, 0.73, 0.76), (4, 0.94, 0.93)];
/// A change counts if it is at least this share of the first value.
const LEAST_CHANGE: f64 = 0.02;
/// Parts that a run is cut into.
pub(crate) const TWELFTHS: u32 = 12;

/// One of the two quantities of a point.
pub(crate) type Quantity = fn(&Point) -> f64;

/// Entropy that was given up, as a quantity that grows.
pub(crate) const SPENT: Quantity = |point| -point.entropy;
/// Accuracy that was gained.
pub(crate) const GAINED: Quantity = |point| point.accuracy;

/// A quantity at a step between the first and the last point, in a straight line between points.
pub(crate) fn at(points: &[Point], quantity: Quantity, step: f64) -> Option<f64> {
    let after = points.partition_point(|point| (point.step as f64) < step);
    let Some(next) = points.get(after) else { return points.last().map(quantity) };
    let Some(before) = after.checked_sub(1).map(|i| &points[i]) else {
        return Some(quantity(next));
    };
    let part = (step - before.step as f64) / (next.step - before.step) as f64;
    Some(quantity(before) + part * (quantity(next) - quantity(before)))
}

/// How much a quantity grew from the first to the last point; none where it did not.
pub(crate) fn growth(points: &[Point], quantity: Quantity) -> Option<f64> {
    let (first, last) = (quantity(points.first()?), quantity(points.last()?));
    let grown = last - first;
    (grown > LEAST_CHANGE * first.abs().max(f64::MIN_POSITIVE)).then_some(grown)
}

/// Whether a quantity is more at the end than at the beginning, however little.
pub(crate) fn is_more(points: &[Point], quantity: Quantity) -> bool {
    points.first().zip(points.last()).is_some_and(|(first, last)| quantity(last) > quantity(first))
}

/// The share of its growth that is reached at a step.
pub(crate) fn share(points: &[Point], quantity: Quantity, step: f64) -> Option<f64> {
    let grown = growth(points, quantity)?;
    Some((at(points, quantity, step)? - quantity(points.first()?)) / grown)
}

/// The step by which so many twelfths of a run are over, between its first and its last point.
pub(crate) fn step_by(points: &[Point], twelfths: u32) -> Option<f64> {
    let (first, last) = (points.first()?.step, points.last()?.step);
    Some(
        first as f64
            + last.saturating_sub(first) as f64 * f64::from(twelfths) / f64::from(TWELFTHS),
    )
}

/// The first step at which half of the growth is reached.
pub(crate) fn half_way(points: &[Point], quantity: Quantity) -> Option<f64> {
    let middle = quantity(points.first()?) + growth(points, quantity)? / 2.0;
    let pair = points.windows(2).find(|pair| quantity(&pair[1]) >= middle)?;
    let (before, after) = (quantity(&pair[0]), quantity(&pair[1]));
    let part =
        if after > before { ((middle - before) / (after - before)).clamp(0.0, 1.0) } else { 0.0 };
    Some(pair[0].step as f64 + part * (pair[1].step - pair[0].step) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(u64, f64, f64)]) -> Vec<Point> {
        values.iter().map(|&(step, entropy, accuracy)| Point { step, entropy, accuracy }).collect()
    }

    #[test]
    fn shares_are_of_the_whole_change_and_between_points_in_a_line() {
        let points = points(&[(0, 2.0, 0.1), (10, 1.0, 0.3), (40, 0.0, 0.5)]);
        let of = |quantity, step| share(&points, quantity, step).unwrap();
        assert!((of(SPENT, 5.0) - 0.25).abs() < 1e-12 && (of(SPENT, 25.0) - 0.75).abs() < 1e-12);
        assert!(
            (of(GAINED, 10.0) - 0.5).abs() < 1e-12
                && of(GAINED, 40.0) == 1.0
                && of(GAINED, 99.0) == 1.0
        );
        assert_eq!(half_way(&points, SPENT), Some(10.0));
    }

    #[test]
    fn what_did_not_fall_or_rise_has_no_shares() {
        let points = points(&[(0, 1.0, 0.5), (10, 1.001, 0.2)]);
        assert!(share(&points, SPENT, 5.0).is_none() && share(&points, GAINED, 5.0).is_none());
        assert_eq!(
            (half_way(&points, SPENT), half_way(&[], SPENT), growth(&points[..1], GAINED)),
            (None, None, None)
        );
    }
}
