//! Combines tokens' losses into the loss of a minibatch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the losses of tokens become the loss of a minibatch, normalised over the whole minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Mean over the tokens of all responses (DAPO, arXiv:2503.14476): long responses weigh more.
    #[default]
    TokenMean,
    /// Mean over responses of the sum over tokens: the policy gradient of whole responses.
    SeqMeanTokenSum,
    /// Mean over responses of the mean over tokens, as in the first GRPO: tokens of long responses
    /// weigh less.
    SeqMeanTokenMean,
}

/// Added to a response's length under `seq-mean-token-mean`, as in the reference.
const LENGTH_EPSILON: f64 = 1e-8;

impl Aggregation {
    /// Every aggregation.
    pub const ALL: [Self; 3] = [Self::TokenMean, Self::SeqMeanTokenSum, Self::SeqMeanTokenMean];

    /// The weight of each token's loss in the sum, `[tokens]`, from each response's length.
    /// Responses without
    /// tokens do not count.
    pub(crate) fn weights(self, lengths: &[usize]) -> Vec<f64> {
        let tokens = lengths.iter().sum::<usize>() as f64;
        let responses = lengths.iter().filter(|&&n| n > 0).count() as f64;
        let weight = |length: usize| match self {
            Self::TokenMean => 1.0 / tokens,
            Self::SeqMeanTokenSum => 1.0 / responses,
            Self::SeqMeanTokenMean => 1.0 / ((length as f64 + LENGTH_EPSILON) * responses),
        };
        lengths.iter().flat_map(|&length| std::iter::repeat_n(weight(length), length)).collect()
    }
}
