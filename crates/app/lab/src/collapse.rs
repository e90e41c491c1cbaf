//! Finds the step at which half of a change was over, by linear interpolation between evaluations.

use crate::law::Point;

/// A change counts if it is at least this share of the first value.
const LEAST_CHANGE: f64 = 0.02;

/// One of the two quantities of a point.
pub(crate) type Quantity = fn(&Point) -> f64;

/// Entropy that was given up, as a quantity that grows.
pub(crate) const SPENT: Quantity = |point| -point.entropy;
/// Accuracy that was gained.
pub(crate) const GAINED: Quantity = |point| point.accuracy;

/// The growth of a quantity from the first to the last point; none if it did not grow.
pub(crate) fn growth(points: &[Point], quantity: Quantity) -> Option<f64> {
    let (first, last) = (quantity(points.first()?), quantity(points.last()?));
    let grown = last - first;
    (grown > LEAST_CHANGE * first.abs().max(f64::MIN_POSITIVE)).then_some(grown)
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

    #[test]
    fn half_of_a_change_is_over_between_points_in_a_line() {
        let points = |values: [(u64, f64, f64); 3]| {
            values.map(|(step, entropy, accuracy)| Point { step, entropy, accuracy })
        };
        let fell = points([(0, 2.0, 0.1), (10, 1.2, 0.3), (50, 0.2, 0.5)]);
        assert!((half_way(&fell, SPENT).unwrap() - 14.0).abs() < 1e-9);
        assert!((half_way(&fell, GAINED).unwrap() - 10.0).abs() < 1e-9);
        // A change of less than 2 % does not count.
        let still = points([(0, 1.0, 0.5), (5, 1.0, 0.4), (10, 0.985, 0.2)]);
        assert_eq!((half_way(&still, SPENT), half_way(&still, GAINED)), (None, None));
        assert_eq!((half_way(&[], SPENT), growth(&fell[..1], GAINED)), (None, None));
    }
}
