//! Counter-based random numbers: a draw is a function of its coordinates, not of earlier draws.
//!
//! So there is no generator state to save, and draws do not depend on the order of work.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Purpose of random numbers. Streams of different purposes never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Responses sampled for evaluation.
    Evaluation = 1,
    /// The order of a data set.
    Shuffle = 2,
    /// The problems of a built-in task.
    Problem = 3,
    /// Worked examples of a built-in task.
    Demonstration = 4,
    /// Weights before any training.
    Weights = 5,
    /// Which tokens Clip-Cov detaches.
    ClipCov = 6,
    /// Resampling of results for their uncertainty.
    Bootstrap = 7,
    /// Random policies on which the theory of covariance is checked.
    Theory = 8,
    /// Which responses of a step are recorded token by token.
    Records = 9,
    /// An adapter before any training.
    Adapter = 11,
}

impl Purpose {
    /// The purpose's word in the key. Samples have their training step there, which is never this
    /// large.
    pub fn word(self) -> u64 {
        u64::MAX - self as u64
    }
}

/// Random numbers by position: position p is block p of the ChaCha8 stream of a 256-bit key.
#[derive(Clone, Debug)]
pub struct Draws(ChaCha8Rng);

/// 32-bit words in a ChaCha block.
const BLOCK_WORDS: u128 = 16;

impl Draws {
    /// The numbers of a key.
    pub fn new(key: [u64; 4]) -> Self {
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_exact_mut(8).zip(key) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// The numbers of a run's seed for a purpose, with two coordinates of the purpose's own.
    pub fn of(seed: u64, purpose: Purpose, a: u64, b: u64) -> Self {
        Self::new([seed, purpose.word(), a, b])
    }

    /// 64 random bits.
    pub fn bits(&mut self, position: u64) -> u64 {
        self.0.set_word_pos(u128::from(position) * BLOCK_WORDS);
        self.0.next_u64()
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn uniform(&mut self, position: u64) -> f64 {
        unit(self.bits(position))
    }

    /// Uniform in 0..n. `n` is at least 1; the probabilities differ by less than n / 2^64.
    pub fn below(&mut self, position: u64, n: u64) -> u64 {
        ((u128::from(self.bits(position)) * u128::from(n)) >> 64) as u64
    }

    /// Two independent numbers of the standard normal distribution (Box and Muller 1958).
    pub fn normals(&mut self, position: u64) -> [f64; 2] {
        // In (0, 1], for the logarithm.
        let (u, v) = (1.0 - self.uniform(position), unit(self.0.next_u64()));
        let radius = (-2.0 * libm::log(u)).sqrt();
        let angle = std::f64::consts::TAU * v;
        [radius * libm::cos(angle), radius * libm::sin(angle)]
    }

    /// The numbers 0..n in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        self.choose(n, n)
    }

    /// `k` different numbers of 0..n in random order; all if there are fewer.
    pub fn choose(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        let k = k.min(n);
        for i in 0..k {
            let j = i + self.below(i as u64, (n - i) as u64) as usize;
            all.swap(i, j);
        }
        all.truncate(k);
        all
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coordinate_counts_and_draws_are_uniform() {
        let base = Draws::new([1, 2, 3, 4]).uniform(5);
        assert_eq!(base, Draws::new([1, 2, 3, 4]).uniform(5));
        for (key, position) in [
            ([0, 2, 3, 4], 5),
            ([1, 0, 3, 4], 5),
            ([1, 2, 0, 4], 5),
            ([1, 2, 3, 0], 5),
            ([1, 2, 3, 4], 6),
        ] {
            assert_ne!(base, Draws::new(key).uniform(position));
        }
        let mut bins = [0u32; 16];
        for i in 0..16_000 {
            bins[(Draws::new([1, 2, 3, i % 100]).uniform(i / 100) * 16.0) as usize] += 1;
        }
        // Chi-square with 15 degrees of freedom exceeds 37.7 for one seed in a thousand.
        let chi: f64 = bins.iter().map(|&b| (f64::from(b) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 37.7, "{bins:?}");
    }

    #[test]
    fn normals_have_mean_0_variance_1_and_the_right_tails() {
        let mut draws = Draws::of(1, Purpose::Weights, 0, 0);
        let numbers: Vec<f64> = (0..50_000).flat_map(|p| draws.normals(p)).collect();
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let variance = numbers.iter().map(|x| x * x).sum::<f64>() / n;
        let beyond_two = numbers.iter().filter(|x| x.abs() > 2.0).count() as f64 / n;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((beyond_two - 0.0455).abs() < 0.003, "{beyond_two}");
    }

    #[test]
    fn choices_are_distinct_and_every_order_is_as_likely() {
        let mut counts = std::collections::HashMap::new();
        for i in 0..6000 {
            let order = Draws::of(1, Purpose::Shuffle, i, 0).permutation(3);
            *counts.entry(order).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&c| (880..1120).contains(&c)), "{counts:?}");
        assert_eq!(Draws::new([0; 4]).choose(2, 5).len(), 2);
    }
}
