//! A line through autocorrelated points, and how far its coefficients may be off: a studentised
//! block bootstrap.
//!
//! Evaluations of one run are like their neighbours, and there are few of them. Blocks that are
//! long enough to keep the likeness leave too few blocks to draw from, so the residuals are
//! whitened first: each is reduced by what the one before it says of it (an autoregression of order
//! 1), blocks of what is left are drawn with replacement, and the likeness is put back
//! ("post-blackening", Davison and Hinkley 1997, Bootstrap Methods and their Application, section
//! 8.2). In every resample the coefficients are divided by the standard error that it suggests by
//! itself (studentised: Goetze and Kuensch 1996), and the 95 % point of the absolute quotients
//! (symmetric: Hall 1988) takes the place of Student's.
//!
//! The correlation of neighbours is the weak spot: that of residuals is far too low with few
//! points. What would be expected of residuals is known exactly for every true correlation, and is
//! inverted; and as few points cannot show that the correlation is not larger, 1.75 standard errors
//! are added, of 1 / sqrt(points) each. docs/concepts/entropy.md has the coverage that was
//! measured.

use super::Point;
use isentrope_random::{Draws, Purpose};

/// The number of resamples of the residuals.
const RESAMPLES: usize = 599;

/// The share of resamples whose quotient is smaller than the one that makes an interval.
const LEVEL: f64 = 0.95;

/// Standard errors that are added to the estimated correlation of neighbours.
const CAUTION: f64 = 1.75;

/// Largest correlation that is assumed: beyond it, a trend looks like drift.
const LARGEST: f64 = 0.9;

/// Correlations at which expectations are tabulated, from 0 to [`LARGEST`].
const TABLE: usize = 37;

/// A combination of a line's coefficients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contrast {
    /// Its slope.
    Slope,
    /// Its value at x.
    Level(f64),
}

/// A line by least squares through the points of one or several runs.
pub(super) struct Regression {
    /// Points of each run.
    lengths: Vec<usize>,
    /// The space of lines as two orthonormal vectors, `[points]`: constant and centred x.
    basis: [Vec<f64>; 2],
    /// The accuracies' coefficients in it.
    coefficients: [f64; 2],
    /// `[points]`.
    residuals: Vec<f64>,
    mean_x: f64,
    /// Root of the sum of squared deviations of x.
    spread_x: f64,
    /// Sum of squared deviations of the accuracies.
    total: f64,
}

impl Regression {
    /// The line through points (exp(H), R) of runs. None if the points do not determine it, or the
    /// accuracies are equal.
    pub(super) fn of(runs: &[&[Point]]) -> Option<Self> {
        let points = || runs.iter().copied().flatten();
        let n = points().count();
        if n < 3 || !points().all(Point::is_finite) {
            return None;
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n as f64;
        let xs: Vec<f64> = points().map(Point::x).collect();
        let ys: Vec<f64> = points().map(|p| p.accuracy).collect();
        let (mean_x, mean_y) = (mean(&xs), mean(&ys));
        let centred: Vec<f64> = xs.iter().map(|x| x - mean_x).collect();
        let spread_x = dot(&centred, &centred).sqrt();
        let total = ys.iter().map(|y| (y - mean_y) * (y - mean_y)).sum::<f64>();
        if spread_x <= 1e-12 * mean_x.abs() {
            return None;
        }
        let root = (n as f64).sqrt();
        let basis = [vec![1.0 / root; n], centred.iter().map(|x| x / spread_x).collect()];
        let coefficients = [mean_y * root, dot(&basis[1], &ys)];
        // Accuracies that differ by rounding alone count as equal.
        if total <= 1e-24 * coefficients[0] * coefficients[0] {
            return None;
        }
        let residuals = residuals(&ys, &basis, coefficients);
        let lengths = runs.iter().map(|run| run.len()).collect();
        Some(Self { lengths, basis, coefficients, residuals, mean_x, spread_x, total })
    }

    pub(super) fn slope(&self) -> f64 {
        self.coefficients[1] / self.spread_x
    }

    pub(super) fn at(&self, x: f64) -> f64 {
        let [u, v] = self.weights(Contrast::Level(x));
        u * self.coefficients[0] + v * self.coefficients[1]
    }

    pub(super) fn center(&self) -> f64 {
        self.mean_x
    }

    /// Root mean square of the residuals.
    pub(super) fn rms(&self) -> f64 {
        (dot(&self.residuals, &self.residuals) / self.count() as f64).sqrt()
    }

    pub(super) fn r_squared(&self) -> f64 {
        1.0 - dot(&self.residuals, &self.residuals) / self.total
    }

    fn count(&self) -> usize {
        self.residuals.len()
    }

    /// A contrast as a combination of the coefficients in the basis.
    fn weights(&self, contrast: Contrast) -> [f64; 2] {
        match contrast {
            Contrast::Slope => [0.0, 1.0 / self.spread_x],
            Contrast::Level(x) => {
                [1.0 / (self.count() as f64).sqrt(), (x - self.mean_x) / self.spread_x]
            }
        }
    }
}

/// Expected sums of residuals at a correlation of neighbours.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// Sum of the residuals' squares, for noise of variance 1.
    squares: f64,
    /// Sum of products of neighbours over sum of squares.
    neighbours: f64,
    /// Covariances of the coefficients in the basis: variance of the first, covariance, variance of
    /// the second.
    covariance: [f64; 3],
}

impl Expected {
    fn of(regression: &Regression, correlation: f64) -> Self {
        let Regression { lengths, basis, .. } = regression;
        // The correlation matrix C and the matrix L that averages both neighbours give C q, q'C q,
        // q'L q and q'L C q.
        let seen = basis.each_ref().map(|q| correlated(q, lengths, correlation));
        let of = |i: usize, j: usize| dot(&basis[i], &seen[j]);
        let covariance = [of(0, 0), of(0, 1), of(1, 1)];
        let near = |i: usize, j: usize| neighbours(&basis[i], &basis[j], lengths);
        let crossed = |i: usize| neighbours(&basis[i], &seen[i], lengths);
        let pairs = lengths.iter().map(|n| n.saturating_sub(1)).sum::<usize>() as f64;
        let squares = regression.count() as f64 - covariance[0] - covariance[2];
        let products = pairs * correlation - 2.0 * (crossed(0) + crossed(1))
            + near(0, 0) * covariance[0]
            + 2.0 * near(0, 1) * covariance[1]
            + near(1, 1) * covariance[2];
        Self { squares, neighbours: products / squares, covariance }
    }

    fn between(self, other: Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self {
            squares: mix(self.squares, other.squares),
            neighbours: mix(self.neighbours, other.neighbours),
            covariance: std::array::from_fn(|i| mix(self.covariance[i], other.covariance[i])),
        }
    }
}

/// The correlation matrix of an autoregression times a vector, run by run.
fn correlated(vector: &[f64], lengths: &[usize], correlation: f64) -> Vec<f64> {
    let mut product = vec![0.0; vector.len()];
    for (run, product) in runs(vector, lengths).zip(runs_mut(&mut product, lengths)) {
        let mut before = 0.0;
        for (value, product) in run.iter().zip(product.iter_mut()) {
            *product = value + before;
            before = correlation * (before + value);
        }
        let mut after = 0.0;
        for (value, product) in run.iter().zip(product.iter_mut()).rev() {
            *product += after;
            after = correlation * (after + value);
        }
    }
    product
}

/// Sum over neighbours within runs of the products of two vectors, both ways, halved.
fn neighbours(a: &[f64], b: &[f64], lengths: &[usize]) -> f64 {
    let both = runs(a, lengths).zip(runs(b, lengths));
    both.map(|(a, b)| 0.5 * (dot(&a[1.min(a.len())..], b) + dot(a, &b[1.min(b.len())..]))).sum()
}

fn runs<'a>(mut vector: &'a [f64], lengths: &'a [usize]) -> impl Iterator<Item = &'a [f64]> {
    lengths.iter().map(move |&length| {
        let (run, rest) = vector.split_at(length);
        vector = rest;
        run
    })
}

fn runs_mut<'a>(
    vector: &'a mut [f64],
    lengths: &'a [usize],
) -> impl Iterator<Item = &'a mut [f64]> {
    let mut rest = Some(vector);
    lengths.iter().filter_map(move |&length| {
        let (run, after) = rest.take()?.split_at_mut(length);
        rest = Some(after);
        Some(run)
    })
}

/// Sum of products, up to the shorter length.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn residuals(ys: &[f64], [constant, slope]: &[Vec<f64>; 2], [c, d]: [f64; 2]) -> Vec<f64> {
    ys.iter().zip(constant.iter().zip(slope)).map(|(y, (p, q))| y - c * p - d * q).collect()
}

/// The noise estimated from the residuals of one set of accuracies.
#[derive(Clone, Copy)]
struct Noise {
    correlation: f64,
    variance: f64,
    covariance: [f64; 3],
}

impl Noise {
    /// The standard error of a combination of the coefficients; with `apart`, of the distance of a
    /// new measurement from it.
    fn error(&self, [u, v]: [f64; 2], apart: bool) -> f64 {
        let [first, both, second] = self.covariance;
        let own = if apart { 1.0 } else { 0.0 };
        (self.variance * (own + u * u * first + 2.0 * u * v * both + v * v * second))
            .max(0.0)
            .sqrt()
    }
}

/// Residuals drawn anew, many times.
pub(super) struct Bootstrap<'a> {
    regression: &'a Regression,
    /// That of the points themselves.
    noise: Noise,
    /// Each resample's coefficients relative to the true ones, and its estimated noise.
    resamples: Vec<([f64; 2], Noise)>,
}

impl<'a> Bootstrap<'a> {
    /// Draws depend on the seed and the number of points alone.
    pub(super) fn of(regression: &'a Regression, seed: u64) -> Self {
        let n = regression.count();
        let tables = tables(regression);
        let noise = noise(&tables, &regression.residuals, &regression.lengths);
        let white =
            centred(&whitened(&regression.residuals, &regression.lengths, noise.correlation));
        let block = (libm::round(libm::cbrt(n as f64)) as usize).max(2).min(n);
        let mut draws = Draws::of(seed, Purpose::Bootstrap, n as u64, 0);
        let stationary = 1.0 / (1.0 - noise.correlation * noise.correlation).sqrt();
        let (mut position, mut drawn) = (0, vec![0.0; n]);
        let mut next = || {
            position += 1;
            draws.below(position - 1, n as u64) as usize
        };
        let mut resample = || {
            for block in drawn.chunks_mut(block) {
                let start = next();
                for (i, value) in block.iter_mut().enumerate() {
                    *value = white[(start + i) % n];
                }
            }
            for run in runs_mut(&mut drawn, &regression.lengths) {
                let mut before = None;
                for value in run {
                    *value =
                        before.map_or(*value * stationary, |b: f64| noise.correlation * b + *value);
                    before = Some(*value);
                }
            }
            let coefficients = regression.basis.each_ref().map(|q| dot(q, &drawn));
            let left = residuals(&drawn, &regression.basis, coefficients);
            (coefficients, self::noise(&tables, &left, &regression.lengths))
        };
        let resamples = (0..RESAMPLES).map(|_| resample()).collect();
        Self { regression, noise, resamples }
    }

    /// The correlation of neighbours that intervals assume.
    pub(super) fn autocorrelation(&self) -> f64 {
        self.noise.correlation
    }

    /// Half the width of a contrast's 95 % interval.
    pub(super) fn half_width(&self, contrast: Contrast) -> f64 {
        let weights = self.regression.weights(contrast);
        let quotients = self.resamples.iter().map(|([c, d], noise)| {
            (weights[0] * c + weights[1] * d).abs() / noise.error(weights, false)
        });
        quantile(quotients) * self.noise.error(weights, false)
    }
}

/// The standard error of a new measurement at each x around the line, without drawing anything.
pub(super) fn errors(regression: &Regression, xs: &[f64]) -> Vec<f64> {
    let noise = noise(&tables(regression), &regression.residuals, &regression.lengths);
    xs.iter().map(|x| noise.error(regression.weights(Contrast::Level(*x)), true)).collect()
}

/// Expectations at every correlation of the table.
fn tables(regression: &Regression) -> Vec<Expected> {
    let step = LARGEST / (TABLE - 1) as f64;
    let mut tables: Vec<Expected> =
        (0..TABLE).map(|i| Expected::of(regression, step * i as f64)).collect();
    for i in 1..TABLE {
        tables[i].neighbours = tables[i].neighbours.max(tables[i - 1].neighbours); // close to 1, with few points
    }
    tables
}

/// The noise that residuals suggest, with the assumed correlation of neighbours.
fn noise(tables: &[Expected], residuals: &[f64], lengths: &[usize]) -> Noise {
    let squares = dot(residuals, residuals);
    let seen =
        if squares > 0.0 { neighbours(residuals, residuals, lengths) / squares } else { 0.0 };
    let last = (TABLE - 1) as f64;
    let above = tables.iter().position(|expected| expected.neighbours > seen).unwrap_or(TABLE);
    let place = match above {
        0 => 0.0,
        TABLE => last,
        _ => {
            let (low, high) = (tables[above - 1].neighbours, tables[above].neighbours);
            (above - 1) as f64 + (seen - low) / (high - low)
        }
    };
    let caution = CAUTION / (residuals.len() as f64).sqrt();
    let place = (place + last * caution / LARGEST).min(last);
    let at = (place as usize).min(TABLE - 2);
    let expected = tables[at].between(tables[at + 1], place - at as f64);
    Noise {
        correlation: LARGEST * place / last,
        variance: squares / expected.squares,
        covariance: expected.covariance,
    }
}

/// The numbers of runs, each less its prediction from the number before it.
fn whitened(values: &[f64], lengths: &[usize], correlation: f64) -> Vec<f64> {
    let first = (1.0 - correlation * correlation).sqrt();
    let mut white = Vec::with_capacity(values.len());
    for run in runs(values, lengths) {
        white.extend(run.first().map(|value| first * value));
        white.extend(run.windows(2).map(|pair| pair[1] - correlation * pair[0]));
    }
    white
}

/// Numbers less their mean.
fn centred(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

/// The quotient below which [`LEVEL`] of the finite ones lies, or 0. Residuals without any noise
/// give 0 / 0.
fn quantile(quotients: impl Iterator<Item = f64>) -> f64 {
    let mut quotients: Vec<f64> = quotients.filter(|q| q.is_finite()).collect();
    let rank = libm::ceil(LEVEL * (quotients.len() + 1) as f64) as usize;
    let Some(last) = quotients.len().checked_sub(1) else { return 0.0 };
    let (_, found, _) =
        quotients.select_nth_unstable_by(rank.saturating_sub(1).min(last), f64::total_cmp);
    *found
}
