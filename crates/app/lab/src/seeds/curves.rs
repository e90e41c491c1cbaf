//! Means over seeds as curves with bands.

use super::Mean;
use crate::log::Series;
use serde::Serialize;

/// Most points of a curve. With more steps, means over stretches are taken first.
pub(crate) const MOST: usize = 300;

/// The mean of a metric over seeds with its 95 % interval, all `[points]`. If all seeds have the
/// same number, the interval has no width.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeanCurve {
    /// The steps; a stretch of steps is placed at its mean.
    pub steps: Vec<f64>,
    /// Means over seeds.
    pub mean: Vec<f64>,
    /// Lower ends of the intervals.
    pub low: Vec<f64>,
    /// Upper ends of the intervals.
    pub high: Vec<f64>,
}

impl MeanCurve {
    /// The curve of two or more series at their common steps; none if there are none. Intervals are
    /// clamped to `range`, unless numbers lie outside because another trainer means something else
    /// by the name.
    pub(crate) fn of(series: &[&Series], range: [f64; 2], most: usize) -> Option<Self> {
        let (first, others) = series.split_first()?;
        if others.is_empty() {
            return None;
        }
        let is_common = |step: &u64| {
            let is_drawn = |series: &&Series| series.at(*step).is_some_and(is_drawable);
            series.iter().all(is_drawn)
        };
        let steps: Vec<u64> = first.steps.iter().copied().filter(is_common).collect();
        let curve = |series: &&Series| -> Vec<(f64, f64)> {
            let at = |step: &u64| Some((*step, series.at(*step)?));
            let points: Vec<(u64, f64)> = steps.iter().filter_map(at).collect();
            match points.len() > most {
                true => stretches(&points, most),
                false => points.iter().map(|p| (p.0 as f64, p.1)).collect(),
            }
        };
        let curves: Vec<Vec<(f64, f64)>> = series.iter().map(curve).collect();
        let [least, greatest] = range;
        let is_within = curves.iter().flatten().all(|(_, x)| (least..=greatest).contains(x));
        let cut = |end: f64| if is_within { end.clamp(least, greatest) } else { end };
        let mut all = Self::default();
        for (i, (step, _)) in curves.first()?.iter().enumerate() {
            let mean = Mean::of(curves.iter().filter_map(|curve| Some(curve.get(i)?.1)).collect())?;
            let [low, high] = mean.interval.unwrap_or([mean.value; 2]);
            all.steps.push(rounded(*step));
            all.mean.push(rounded(mean.value));
            all.low.push(rounded(cut(low)));
            all.high.push(rounded(cut(high)));
        }
        (!all.steps.is_empty()).then_some(all)
    }
}

/// Means over `count` stretches of steps, each at its mean step.
pub(crate) fn stretches(points: &[(u64, f64)], count: usize) -> Vec<(f64, f64)> {
    let stretch = |i: usize| &points[i * points.len() / count..(i + 1) * points.len() / count];
    let mean = |stretch: &[(u64, f64)]| {
        let n = stretch.len() as f64;
        let add = |(x, y), point: &(u64, f64)| (x + point.0 as f64 / n, y + point.1 / n);
        (!stretch.is_empty()).then(|| stretch.iter().fold((0.0, 0.0), add))
    };
    (0..count).filter_map(|i| mean(stretch(i))).collect()
}

/// Whether a number is small enough to draw.
pub(crate) fn is_drawable(value: f64) -> bool {
    value.abs() < 1e30
}

/// A number with as many digits as can be seen.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::range_of;

    const SHARE: [f64; 2] = [0.0, 1.0];
    const ANY: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

    fn series(points: &[(u64, f64)]) -> Series {
        let (steps, values) = points.iter().copied().unzip();
        Series { steps, values }
    }

    #[test]
    fn means_are_at_the_steps_that_all_have() {
        let one = series(&[(0, 0.2), (5, 0.4), (10, 0.5)]);
        let two = series(&[(0, 0.4), (10, 0.5), (15, 0.9)]);
        let curve = MeanCurve::of(&[&one, &two], SHARE, 100).unwrap();
        assert_eq!((curve.steps, curve.mean), (vec![0.0, 10.0], vec![0.3, 0.5]));
        // Student's t of one degree: 12.706 standard errors of 0.1, cut off at 0 and 1.
        assert_eq!((curve.low, curve.high), (vec![0.0, 0.5], vec![1.0, 0.5]));
        let curve = MeanCurve::of(&[&one, &two], ANY, 100).unwrap();
        assert!((curve.low[0] - (0.3 - 1.2706)).abs() < 1e-3);
        assert!((curve.high[0] - (0.3 + 1.2706)).abs() < 1e-3);
        assert!(MeanCurve::of(&[&one], SHARE, 100).is_none());
        assert!(MeanCurve::of(&[&one, &series(&[(7, 0.1)])], SHARE, 100).is_none());
    }

    #[test]
    fn bands_end_where_intervals_of_tables_do() {
        let (one, two) = (series(&[(0, 0.01), (5, 0.5)]), series(&[(0, 0.03), (5, 0.5)]));
        let low = |other, range| MeanCurve::of(&[&one, other], range, 100).unwrap().low[0];
        assert_eq!(low(&two, range_of("eval/a/entropy")), 0.0);
        assert!(low(&two, range_of("policy/loss")) < 0.0);
        assert!(low(&two, range_of("theory/entropy_change")) < 0.0);
        // Another trainer's loss may be negative.
        assert!(low(&series(&[(0, -0.03), (5, 0.5)]), range_of("loss")) < -0.01);
    }

    #[test]
    fn long_curves_are_of_stretches() {
        let long = |add: f64| series(&(0..1000).map(|i| (i, i as f64 + add)).collect::<Vec<_>>());
        let curve = MeanCurve::of(&[&long(0.0), &long(2.0)], ANY, 100).unwrap();
        assert_eq!((curve.steps.len(), curve.steps[0], curve.mean[0]), (100, 4.5, 5.5));
        let points: Vec<(u64, f64)> =
            (0..100).map(|i| (i, f64::from(1 + 2 * (i as u8 % 2)))).collect();
        for ((step, mean), expected) in stretches(&points, 2).into_iter().zip([24.5, 74.5]) {
            assert!((step - expected).abs() < 1e-9 && (mean - 2.0).abs() < 1e-9, "{step} {mean}");
        }
        assert_eq!((stretches(&points[..2], 5).len(), stretches(&[], 3)), (2, vec![]));
    }
}
