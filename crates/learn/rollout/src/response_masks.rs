//! The tokens that truncated sampling kept of the distributions that a response was drawn from.

use crate::response::bits;
use isentrope_kernels::{SamplingMask, SamplingMasks};
use isentrope_run::tokens::GivenRanges;
use serde::{Deserialize, Serialize};

/// The tokens that could have been drawn in the place of each token of a response, `[tokens]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseMasks {
    /// The kept tokens of each draw.
    #[serde(rename = "masks", with = "lists")]
    pub tokens: SamplingMasks,
    /// Logarithm of the kept tokens' total probability, under the model at the temperature, in
    /// nats; 0 for the whole vocabulary. A token's log-prob less this is its log-prob under the
    /// distribution that it was drawn from.
    #[serde(with = "bits")]
    pub log_masses: Vec<f32>,
}

impl ResponseMasks {
    /// Appends the mask of one token; none for the whole vocabulary.
    pub(crate) fn push(&mut self, mask: Option<&SamplingMask>) {
        self.tokens.push(mask.map_or(&[], |mask| &mask.tokens));
        self.log_masses.push(mask.map_or(0.0, |mask| mask.log_mass));
    }

    /// The probability that was kept of each distribution.
    pub fn masses(&self) -> impl Iterator<Item = f64> + '_ {
        self.log_masses.iter().map(|&log_mass| libm::exp(f64::from(log_mass)))
    }

    /// The mean of [`masses`](Self::masses) over tokens that were not given; 1 if there are none.
    pub fn mean_mass(&self, given: &GivenRanges) -> f64 {
        match self.log_masses.len() - given.count() {
            0 => 1.0,
            tokens => {
                let sampled =
                    self.masses().enumerate().filter(|(place, _)| !given.contains(*place));
                sampled.map(|(_, mass)| mass).sum::<f64>() / tokens as f64
            }
        }
    }
}

/// Masks written as a list of tokens for each draw.
mod lists {
    use isentrope_kernels::SamplingMasks;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        masks: &SamplingMasks,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..masks.len()).map(|draw| masks.of(draw)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SamplingMasks, D::Error> {
        let mut masks = SamplingMasks::default();
        Vec::<Vec<u32>>::deserialize(deserializer)?.iter().for_each(|tokens| masks.push(tokens));
        Ok(masks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_from_a_file_to_the_last_bit() {
        let mut masks = ResponseMasks::default();
        let mut given = GivenRanges::default();
        assert_eq!(masks.mean_mass(&given), 1.0, "nothing was cut");
        masks.push(Some(&SamplingMask { tokens: vec![3, 7], log_mass: -0.1 }));
        (0..2).for_each(|_| masks.push(None));
        let text = serde_json::to_string(&masks).unwrap();
        assert!(text.starts_with(r#"{"masks":[[3,7],[],[]],"log_masses":["#), "{text}");
        assert_eq!(serde_json::from_str::<ResponseMasks>(&text).unwrap(), masks);
        let cut = f64::from(-0.1f32).exp();
        assert!((masks.mean_mass(&given) - (cut + 2.0) / 3.0).abs() < 1e-15);
        given.push(1..2);
        assert!((masks.mean_mass(&given) - (cut + 1.0) / 2.0).abs() < 1e-15);
    }
}
