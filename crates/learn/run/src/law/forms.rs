//! The law and the forms that it is compared with, because two series that fall and rise together
//! fit many curves.

use super::Point;
use serde::Serialize;

/// A form of dependence, fitted by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// R = -a exp(H) + b.
    Law,
    /// R = c - d H.
    Linear,
    /// The last value stays.
    Constant,
    /// R = c - d exp(-step / tau), which does not use the entropy. Steps count from the first
    /// point, so that a run that goes on from step 100 000 has the same curve as one from 0.
    Saturating,
}

/// A form with its coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    form: Form,
    offset: f64,
    slope: f64,
    /// The time constant in steps, and the step that they count from; only for
    /// [`Form::Saturating`].
    tau: f64,
    first: u64,
}

/// Fewest points that a saturating curve, of three coefficients, is fitted to.
const LEAST_SATURATING: usize = 5;

/// Values of tau that are tried, from a fiftieth of the steps' span to ten times it, evenly in
/// their logarithm.
const TAUS: i32 = 120;

impl Form {
    /// All of them, the law first.
    pub const ALL: [Self; 4] = [Self::Law, Self::Linear, Self::Constant, Self::Saturating];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Law => "the law, -a exp(H) + b",
            Self::Linear => "a line in H",
            Self::Constant => "the last value stays",
            Self::Saturating => "c - d exp(-step / tau)",
        }
    }

    /// Fits the form to finite points of one run in the order of steps; None if they do not
    /// determine it.
    pub(super) fn fit(self, points: &[Point]) -> Option<Curve> {
        let last = points.last()?;
        match self {
            Self::Law | Self::Linear => line(self, 1.0, points),
            Self::Constant => {
                Some(Curve { offset: last.accuracy, ..Curve::flat(self, 1.0, points) })
            }
            Self::Saturating if points.len() < LEAST_SATURATING => None,
            Self::Saturating => {
                let span = last.step.checked_sub(points[0].step).filter(|span| *span > 0)? as f64;
                let fits = (0..TAUS).filter_map(|i| {
                    let share = f64::from(i) / f64::from(TAUS - 1);
                    let tau = span * libm::exp(share * libm::log(500.0)) / 50.0;
                    line(self, tau, points).map(|curve| (curve.squares(points), curve))
                });
                fits.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, curve)| curve)
            }
        }
    }

    /// The final accuracy that the form predicts, fitted to all points: without entropy, or after
    /// all steps.
    pub(super) fn end(self, points: &[Point]) -> Option<f64> {
        self.fit(points).map(|curve| curve.offset)
    }

    /// R squared: the share of the accuracies' variance that the form explains when it is fitted to
    /// all points; none for a form without coefficients.
    pub(super) fn r_squared(self, points: &[Point]) -> Option<f64> {
        if self == Self::Constant {
            return None;
        }
        let mean = points.iter().map(|p| p.accuracy).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|p| (p.accuracy - mean) * (p.accuracy - mean)).sum();
        (total > 0.0).then_some(1.0 - self.fit(points)?.squares(points) / total)
    }
}

/// The line through (z, R), where z is the form's transform of a point.
fn line(form: Form, tau: f64, points: &[Point]) -> Option<Curve> {
    let curve = Curve::flat(form, tau, points);
    let n = points.len() as f64;
    let zs: Vec<f64> = points.iter().map(|p| curve.z(p)).collect();
    let (mz, my) = (zs.iter().sum::<f64>() / n, points.iter().map(|p| p.accuracy).sum::<f64>() / n);
    let szz: f64 = zs.iter().map(|z| (z - mz) * (z - mz)).sum();
    let szy: f64 = zs.iter().zip(points).map(|(z, p)| (z - mz) * (p.accuracy - my)).sum();
    if points.len() < 2 || szz <= 1e-24 * mz * mz * n || szz <= 0.0 {
        return None;
    }
    let slope = szy / szz;
    Some(Curve { offset: my - slope * mz, slope, ..curve })
}

impl Curve {
    fn flat(form: Form, tau: f64, points: &[Point]) -> Self {
        Self {
            form,
            offset: 0.0,
            slope: 0.0,
            tau,
            first: points.first().map_or(0, |point| point.step),
        }
    }

    /// The form's value at a point's entropy or step.
    pub(super) fn accuracy(&self, point: &Point) -> f64 {
        self.offset + if self.slope == 0.0 { 0.0 } else { self.slope * self.z(point) }
    }

    fn z(&self, point: &Point) -> f64 {
        match self.form {
            Form::Law => point.x(),
            Form::Linear => point.entropy,
            Form::Constant => 0.0,
            Form::Saturating => {
                libm::exp(-(point.step.saturating_sub(self.first) as f64) / self.tau)
            }
        }
    }

    /// The form's value at H = 0.
    pub(super) fn at_no_entropy(&self) -> f64 {
        self.accuracy(&Point { step: 0, entropy: 0.0, accuracy: 0.0 })
    }

    /// Sum of squared errors.
    pub(super) fn squares(&self, points: &[Point]) -> f64 {
        points
            .iter()
            .map(|p| (p.accuracy - self.accuracy(p)) * (p.accuracy - self.accuracy(p)))
            .sum()
    }
}
