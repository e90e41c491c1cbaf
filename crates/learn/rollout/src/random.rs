//! The random numbers of a response.

use isentrope_random::Draws;

/// Coordinates that the samples of one prompt share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The run's seed.
    pub seed: u64,
    /// Step of training; 0 elsewhere.
    pub step: u64,
    /// Number of the prompt within the step.
    pub prompt: u64,
}

impl Key {
    /// A number uniform in [0, 1) with 53 random bits, for token `position` of response `sample`.
    pub fn uniform(self, sample: u64, position: u64) -> f64 {
        self.draws(sample).uniform(position)
    }

    /// The seed of the environment of response `sample`. No token has its position.
    pub fn environment_seed(self, sample: u64) -> u64 {
        self.draws(sample).bits(u64::MAX)
    }

    fn draws(self, sample: u64) -> Draws {
        Draws::new([self.seed, self.step, self.prompt, sample])
    }
}
