//! The law's coefficients by least squares, with their intervals.

use super::bootstrap::{Bootstrap, Contrast, Regression};
use super::{Interval, Point};
use serde::Serialize;

/// The law as fitted to points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// How much accuracy exp(H) costs.
    pub a: Interval,
    /// Accuracy where exp(H) would be 0.
    pub b: Interval,
    /// b - a: accuracy where the entropy is spent, H = 0.
    pub ceiling: Interval,
    /// Share of the accuracies' variance that the law explains.
    pub r_squared: f64,
    /// Correlation of neighbouring residuals that the intervals allow for.
    pub autocorrelation: f64,
    /// Mean of exp(H), where the line is best known.
    #[serde(skip)]
    center: f64,
    /// Half the width of the line's interval at the center and of the slope's interval, and their
    /// covariance in the same units.
    #[serde(skip)]
    band: [f64; 3],
}

impl Fit {
    /// Fits points of one or several runs, each in the order of its steps. None if the coefficients
    /// cannot be computed: with fewer than three points, one entropy, one accuracy, or numbers that
    /// are not finite.
    pub fn of(runs: &[&[Point]], seed: u64) -> Option<Self> {
        let regression = Regression::of(runs)?;
        let bootstrap = Bootstrap::of(&regression, seed);
        let interval = |value: f64, contrast: Contrast| {
            let half = bootstrap.half_width(contrast);
            Interval { value, low: value - half, high: value + half }
        };
        let slope = regression.slope();
        let (a, b) = (-slope, regression.at(0.0));
        let center = regression.center();
        let [level, of_slope] = [Contrast::Level(center), Contrast::Slope]
            .map(|contrast| bootstrap.half_width(contrast));
        // Var(level at center + 1) = Var(level) + Var(slope) + 2 Cov.
        let beside = bootstrap.half_width(Contrast::Level(center + 1.0));
        let covariance = (beside * beside - level * level - of_slope * of_slope) / 2.0;
        Some(Self {
            a: interval(a, Contrast::Slope),
            b: interval(b, Contrast::Level(0.0)),
            ceiling: interval(regression.at(1.0), Contrast::Level(1.0)),
            r_squared: regression.r_squared(),
            autocorrelation: bootstrap.autocorrelation(),
            center,
            band: [level, of_slope, covariance],
        })
    }

    /// R at an entropy.
    pub fn accuracy(&self, entropy: f64) -> f64 {
        self.b.value - self.a.value * libm::exp(entropy)
    }

    /// R at an entropy, with the interval of the fitted curve there (not of single evaluations,
    /// which scatter around it).
    pub fn curve(&self, entropy: f64) -> Interval {
        let (value, away) = (self.accuracy(entropy), libm::exp(entropy) - self.center);
        let [level, slope, covariance] = self.band;
        let half =
            (level * level + 2.0 * away * covariance + away * away * slope * slope).max(0.0).sqrt();
        Interval { value, low: value - half, high: value + half }
    }
}
