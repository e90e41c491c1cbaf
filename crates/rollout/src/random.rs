//! Counter-based random numbers: a draw is a function of its coordinates, not of the draws before it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Coordinates that the samples of one prompt share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Of the run.
    pub seed: u64,
    /// Step of training; 0 elsewhere.
    pub step: u64,
    /// Number of the prompt within the step.
    pub prompt: u64,
}

impl Key {
    /// A number uniform in [0, 1) with 53 random bits, for token `position` of response `sample`.
    ///
    /// The first 64 bits of block `position` of the ChaCha8 stream whose 256-bit key is (seed, step, prompt, sample).
    pub fn uniform(self, sample: u64, position: u64) -> f64 {
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_exact_mut(8).zip([self.seed, self.step, self.prompt, sample]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut stream = ChaCha8Rng::from_seed(seed);
        stream.set_word_pos(u128::from(position) * 16);
        (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coordinate_counts_and_draws_are_uniform() {
        let key = Key { seed: 1, step: 2, prompt: 3 };
        let base = key.uniform(4, 5);
        assert_eq!(base, key.uniform(4, 5));
        for other in [
            Key { seed: 2, ..key }.uniform(4, 5),
            Key { step: 1, ..key }.uniform(4, 5),
            Key { prompt: 2, ..key }.uniform(4, 5),
            key.uniform(3, 5),
            key.uniform(4, 6),
        ] {
            assert_ne!(base, other);
        }
        let mut bins = [0u32; 16];
        for i in 0..16_000 {
            bins[(key.uniform(i % 100, i / 100) * 16.0) as usize] += 1;
        }
        // Chi-square with 15 degrees of freedom: above 37.7 once in a thousand seeds.
        let chi: f64 = bins.iter().map(|&b| (f64::from(b) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 37.7, "{bins:?}");
    }
}
