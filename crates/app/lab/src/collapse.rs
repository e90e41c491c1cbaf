//! Finds the evaluation at which half of a change was over.

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

/// The step of the first point at which half of the growth is reached.
pub(crate) fn half_way(points: &[Point], quantity: Quantity) -> Option<u64> {
    let middle = quantity(points.first()?) + growth(points, quantity)? / 2.0;
    points.iter().find(|point| quantity(point) >= middle).map(|point| point.step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_change_is_over_at_a_point() {
        let points = |values: [(u64, f64, f64); 3]| {
            values.map(|(step, entropy, accuracy)| Point { step, entropy, accuracy })
        };
        let fell = points([(0, 2.0, 0.0), (10, 1.2, 0.25), (50, 0.2, 0.5)]);
        assert_eq!((half_way(&fell, SPENT), half_way(&fell, GAINED)), (Some(50), Some(10)));
        // A change of less than 2 % does not count.
        let still = points([(0, 1.0, 0.5), (5, 1.0, 0.4), (10, 0.985, 0.2)]);
        assert_eq!((half_way(&still, SPENT), half_way(&still, GAINED)), (None, None));
        assert_eq!((half_way(&[], SPENT), growth(&fell[..1], GAINED)), (None, None));
    }
}
