//! Token records: the numbers of every token of some responses of each step, in
//! `tokens/step-N.jsonl`. An [`InitialState`] is a response from before the first step.
//!
//! A line is a [`TokenRecord`]; the trainer writes it, [`read()`] reads it, and `isentrope score
//! --in` reads the file too.

mod given;
mod initial_state;
mod numbers;
mod read;

pub use given::GivenRanges;
pub use initial_state::InitialState;
pub use read::{TokenFile, read, read_from};

use serde::{Deserialize, Serialize};

/// One response with its numbers. Arrays have an entry for each token of the response, `[tokens]`;
/// log-probs and entropies are in nats, of the whole vocabulary at the temperature; a number that
/// is not finite is null in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// The step whose file has this record.
    pub step: u64,
    /// The step that sampled the response; an earlier one if the filter carried it over.
    pub sampled_step: u64,
    /// The problem's position in the sequence of problems.
    pub position: u64,
    /// File and row of the problem.
    pub origin: String,
    /// The response's number among those to the problem, from 0.
    pub sample: usize,
    /// The verifier's verdict.
    pub verdict: String,
    /// Score with penalties.
    pub reward: f64,
    /// Whether the response was truncated at the greatest length.
    pub truncated: bool,
    /// Divisor of the logits, in sampling and in training.
    pub temperature: f32,
    /// The prompt as the model has seen it, special tokens included.
    pub prompt_text: String,
    /// The number of prompt tokens at the start of `tokens`.
    pub prompt_tokens: usize,
    /// Token ids of the prompt and of the response.
    pub tokens: Vec<u32>,
    /// Which of the response's tokens were given, in a response of several turns. Their numbers are
    /// 0 and mean nothing.
    #[serde(default, skip_serializing_if = "GivenRanges::is_empty")]
    pub given: GivenRanges,
    /// Text that each token completes: empty for special tokens and for parts of a character that a
    /// later token completes. Joined, they are the response's text.
    pub pieces: Vec<String>,
    /// Log-prob of each token when it was sampled.
    #[serde(with = "numbers")]
    pub logprobs: Vec<f32>,
    /// Entropy of the whole policy at each token when it was sampled, even if sampling was
    /// truncated.
    #[serde(with = "numbers")]
    pub entropies: Vec<f32>,
    /// Log-prob of each token after the step's last update.
    #[serde(with = "numbers")]
    pub logprobs_after: Vec<f32>,
    /// Entropy at each token after the step's last update; missing where it made none, and where
    /// the log-probs after it are not known.
    #[serde(default, with = "numbers", skip_serializing_if = "Vec::is_empty")]
    pub entropies_after: Vec<f32>,
    /// Slope of that entropy along the gradient of the token's log-prob, by the logits over the
    /// temperature, in nats; missing like it.
    #[serde(default, with = "numbers", skip_serializing_if = "Vec::is_empty")]
    pub entropy_slopes_after: Vec<f32>,
    /// The step's first update with this response, from 1. None if it was not trained on; then the
    /// fields below are missing too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<usize>,
    /// The tokens' advantages: one number if all are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advantages: Option<Advantages>,
    /// Mean advantage of the update's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_advantage: Option<f64>,
    /// Mean log-prob of the update's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_logprob: Option<f64>,
    /// (log-prob - mean) (advantage - mean) of each token, means over the tokens of the update.
    #[serde(default, with = "numbers", skip_serializing_if = "Vec::is_empty")]
    pub covariances: Vec<f32>,
    /// Places in the response of the tokens that Clip-Cov or KL-Cov picked, from 0, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected: Vec<usize>,
    /// Places in the response of the tokens whose ratio was clipped, from 0, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clipped: Vec<usize>,
}

/// Whether a verdict of this name is about the response, so that its reward counts, as
/// `isentrope_reward::Verdict` says. An unknown verdict is not.
pub fn is_scored(verdict: &str) -> bool {
    matches!(verdict, "correct" | "wrong" | "unparseable")
}

/// Advantages of the tokens of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Advantages {
    /// All have this one.
    Same(f64),
    /// `[tokens]`.
    Each(Vec<f64>),
}

impl Advantages {
    /// One number where all are equal.
    pub fn of(advantages: Vec<f64>) -> Self {
        match advantages.first() {
            Some(&first)
                if advantages.iter().all(|advantage| advantage.to_bits() == first.to_bits()) =>
            {
                Self::Same(first)
            }
            _ => Self::Each(advantages),
        }
    }

    /// Whether all are 0.
    pub fn are_zero(&self) -> bool {
        match self {
            Self::Same(advantage) => *advantage == 0.0,
            Self::Each(advantages) => advantages.iter().all(|&advantage| advantage == 0.0),
        }
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Same(advantage) => *advantage,
            Self::Each(advantages) => {
                advantages.iter().sum::<f64>() / advantages.len().max(1) as f64
            }
        }
    }

    /// The advantage of a token.
    pub fn at(&self, token: usize) -> f64 {
        match self {
            Self::Same(advantage) => *advantage,
            Self::Each(advantages) => advantages[token],
        }
    }
}

impl TokenRecord {
    /// Tokens of the response.
    pub fn len(&self) -> usize {
        self.tokens.len().saturating_sub(self.prompt_tokens)
    }

    /// Whether the response has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places of the response's tokens that the model sampled, from 0.
    pub fn sampled(&self) -> impl Iterator<Item = usize> + '_ {
        self.given.sampled(self.len())
    }

    /// Whether the response was trained on, so that its tokens have advantages and covariances.
    pub fn is_trained_on(&self) -> bool {
        self.advantages.is_some()
    }

    /// Checks that arrays have the response's length, and places lie inside it.
    ///
    /// # Errors
    /// Names the key.
    pub fn check(&self) -> Result<(), String> {
        if self.prompt_tokens == 0 || self.prompt_tokens > self.tokens.len() {
            return Err(format!(
                "\"prompt_tokens\" is {}: it must be from 1 to the number of tokens, {}",
                self.prompt_tokens,
                self.tokens.len()
            ));
        }
        let length = |key: &str, found: usize| match found == self.len() {
            true => Ok(()),
            false => Err(format!(
                "\"{key}\" has {found} entries, and the response has {} tokens (tokens less \
                 prompt_tokens)",
                self.len()
            )),
        };
        if !self.given.fits(self.len()) {
            return Err("\"given\" must be ranges of tokens of the response, ascending, with \
                        others before, between and behind them"
                .into());
        }
        length("pieces", self.pieces.len())?;
        length("logprobs", self.logprobs.len())?;
        length("entropies", self.entropies.len())?;
        length("logprobs_after", self.logprobs_after.len())?;
        for (key, numbers) in [
            ("entropies_after", &self.entropies_after),
            ("entropy_slopes_after", &self.entropy_slopes_after),
        ] {
            if !numbers.is_empty() {
                length(key, numbers.len())?;
            }
        }
        if let Some(advantages) = &self.advantages {
            if let Advantages::Each(advantages) = advantages {
                length("advantages", advantages.len())?;
            }
            length("covariances", self.covariances.len())?;
        } else if !self.covariances.is_empty() {
            return Err("has \"covariances\" and no \"advantages\"".into());
        }
        for (key, places) in [("selected", &self.selected), ("clipped", &self.clipped)] {
            if !places.is_sorted_by(|a, b| a < b)
                || places.last().is_some_and(|&last| last >= self.len())
            {
                return Err(format!("\"{key}\" must be ascending places in the response, from 0"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_of_tokens_are_one_number_where_they_are_equal() {
        let each = |values: &[f64]| Advantages::of(values.to_vec());
        assert_eq!(each(&[0.5, 0.5]), Advantages::Same(0.5));
        assert_eq!(each(&[0.5, -0.5]), Advantages::Each(vec![0.5, -0.5]));
        assert!(matches!(each(&[f64::NAN, f64::NAN]), Advantages::Same(nan) if nan.is_nan()));
        assert!(
            each(&[]).are_zero() && each(&[0.0, -0.0]).are_zero() && !each(&[0.0, 0.1]).are_zero()
        );
        assert_eq!(
            (each(&[1.0, 2.0]).mean(), each(&[3.0]).mean(), each(&[]).mean()),
            (1.5, 3.0, 0.0)
        );
        assert_eq!((each(&[1.0, 2.0]).at(1), each(&[3.0, 3.0]).at(1)), (2.0, 3.0));
    }
}
