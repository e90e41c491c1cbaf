//! What truncated sampling has kept of the distributions that a response was drawn from.

use crate::response::bits;
use isentrope_kernels::{Drawn, SamplingMasks};
use serde::{Deserialize, Serialize};

/// The tokens that could have been drawn in the place of each token of a response, `[tokens]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptTokens {
    /// Those of each.
    #[serde(with = "lists")]
    pub masks: SamplingMasks,
    /// Logarithm of their probability together, under the model at the temperature, in nats; 0 for the whole vocabulary. A
    /// token's log-prob less this is its log-prob under the distribution that it was drawn from.
    #[serde(with = "bits")]
    pub log_masses: Vec<f32>,
}

impl KeptTokens {
    /// Of a response's draws.
    pub(crate) fn of(drawn: &[Drawn]) -> Self {
        let mut all = Self::default();
        for kept in drawn.iter().map(|drawn| drawn.kept.as_ref()) {
            all.masks.push(kept.map_or(&[], |kept| &kept.tokens));
            all.log_masses.push(kept.map_or(0.0, |kept| kept.log_mass));
        }
        all
    }

    /// The probability that was kept of each distribution.
    pub fn masses(&self) -> impl Iterator<Item = f64> + '_ {
        self.log_masses.iter().map(|&log_mass| f64::from(log_mass).exp())
    }

    /// The mean of [`masses`](Self::masses).
    pub fn mean_mass(&self) -> f64 {
        self.masses().sum::<f64>() / self.log_masses.len().max(1) as f64
    }
}

/// Masks written as a list of tokens for each draw.
mod lists {
    use isentrope_kernels::SamplingMasks;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(masks: &SamplingMasks, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..masks.len()).map(|draw| masks.of(draw)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SamplingMasks, D::Error> {
        let mut masks = SamplingMasks::default();
        Vec::<Vec<u32>>::deserialize(deserializer)?.iter().for_each(|tokens| masks.push(tokens));
        Ok(masks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_kernels::Kept;

    #[test]
    fn what_was_kept_comes_back_from_a_file_to_the_last_bit() {
        let drawn = |kept| Drawn { token: 7, logprob: -1.0, sampling_logprob: None, entropy: 1.0, kept };
        let kept = Kept { tokens: vec![3, 7], log_mass: -0.1 };
        let kept = KeptTokens::of(&[drawn(Some(kept)), drawn(None), drawn(None)]);
        let text = serde_json::to_string(&kept).unwrap();
        assert!(text.starts_with(r#"{"masks":[[3,7],[],[]],"log_masses":["#), "{text}");
        assert_eq!(serde_json::from_str::<KeptTokens>(&text).unwrap(), kept);
        assert!((kept.mean_mass() - (f64::from(-0.1f32).exp() + 2.0) / 3.0).abs() < 1e-15);
    }
}
