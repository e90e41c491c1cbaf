//! Runs that are made up: an entropy that is spent, an accuracy that follows it or does not, and
//! noise.

use isentrope_lab::law::Point;
use isentrope_random::{Draws, Purpose};

/// The law that is planted.
pub const A: f64 = 0.17;
pub const B: f64 = 0.8;

/// Noise of an autoregression of order 1, of standard deviation 1.
pub fn noise(seed: u64, n: usize, correlation: f64) -> Vec<f64> {
    let mut draws = Draws::of(seed, Purpose::Weights, n as u64, 0);
    let new = (1.0 - correlation * correlation).sqrt();
    let mut values = Vec::with_capacity(n);
    for i in 0..n {
        let [normal, _] = draws.normals(i as u64);
        values.push(values.last().map_or(normal, |before| correlation * before + new * normal));
    }
    values
}

/// An entropy from 1.2 to about 0.15 nats that falls by a factor of e^`decay` of its excess over
/// the run.
pub fn falling(n: usize, decay: f64) -> Vec<f64> {
    (0..n).map(|i| 0.15 + 1.05 * libm::exp(-decay * i as f64 / (n - 1) as f64)).collect()
}

/// Points every five steps.
pub fn points(entropies: &[f64], accuracy: impl Fn(usize, f64) -> f64) -> Vec<Point> {
    let at = |(i, &entropy): (usize, &f64)| Point {
        step: 5 * i as u64,
        entropy,
        accuracy: accuracy(i, entropy),
    };
    entropies.iter().enumerate().map(at).collect()
}

/// A run that obeys the law, but for noise of this size.
pub fn lawful(seed: u64, n: usize, decay: f64, correlation: f64, size: f64) -> Vec<Point> {
    let noise = noise(seed, n, correlation);
    points(&falling(n, decay), |i, entropy| B - A * libm::exp(entropy) + size * noise[i])
}
