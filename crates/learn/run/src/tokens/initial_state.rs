//! A line of `initial-states.jsonl`.

use super::{GivenRanges, numbers};
use serde::{Deserialize, Serialize};

/// A response that a run's policy has given before the first step. The run measures its entropy on
/// these states again and again; `isentrope score --in` reads the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialState {
    /// The evaluation set.
    pub set: String,
    /// Place of the problem in the set, from 0.
    pub problem: usize,
    /// The response's number among those to the problem, from 0.
    pub sample: usize,
    /// Divisor of the logits for scoring: the evaluation's temperature, or 1 for a greedy response.
    pub temperature: f32,
    /// The number of prompt tokens at the start of `tokens`.
    pub prompt_tokens: usize,
    /// Token ids of the prompt and of the response.
    pub tokens: Vec<u32>,
    /// Which of the response's tokens were given, in a response of several turns.
    #[serde(default, skip_serializing_if = "GivenRanges::is_empty")]
    pub given: GivenRanges,
    /// Log-prob of each token of the response under the policy that has given it, of the whole
    /// vocabulary at the temperature, in nats, `[tokens]`.
    #[serde(with = "numbers")]
    pub logprobs: Vec<f32>,
}
