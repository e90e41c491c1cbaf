//! Responses to one prompt, judged.

use isentrope_data::Problem;
use isentrope_objective::Baseline;
use isentrope_reward::{Judgement, Verdict};
use serde::{Deserialize, Serialize};

/// A prompt with its responses. One of another version that says more is refused: what it says would be lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Step that sampled it.
    pub step: u64,
    /// Where its problem stands in the sequence of problems.
    pub position: u64,
    /// The problem.
    pub problem: Problem,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Its responses.
    pub responses: Vec<Response>,
    /// The most likely response, where the advantage needs its reward.
    pub greedy: Option<Response>,
}

/// A response and what became of it. Vectors are `[tokens]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Text without special tokens.
    pub text: String,
    /// Tokens, a final end-of-sequence token included.
    pub tokens: Vec<u32>,
    /// Log-prob of each when it was sampled, in nats.
    #[serde(with = "bits")]
    pub logprobs: Vec<f32>,
    /// Entropy of the policy at each, in nats.
    #[serde(with = "bits")]
    pub entropies: Vec<f32>,
    /// Whether it was cut off at the longest length.
    pub truncated: bool,
    /// What the verifier said.
    pub judgement: Judgement,
    /// Its score with penalties.
    pub reward: f64,
    /// Where the recording of its step's rollout has each token of prompt and response but the last, if it has them all.
    #[serde(skip)]
    pub slots: Option<Vec<u32>>,
    /// The spelling under which its answer has votes, where an earlier response to the problem gave the same answer in
    /// another; only evaluations vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<String>,
}

impl Response {
    /// Whether there is a reward to learn from: a fault of the verifier says nothing about the response.
    pub fn counts(&self) -> bool {
        self.judgement.verdict.is_scored()
    }

    /// Mean entropy over its tokens, in nats (the paper's equation 5, inner mean).
    pub fn entropy(&self) -> f64 {
        self.entropies.iter().map(|&h| f64::from(h)).sum::<f64>() / self.entropies.len().max(1) as f64
    }
}

impl Group {
    /// Responses with a reward.
    pub fn counted(&self) -> impl Iterator<Item = &Response> {
        self.responses.iter().filter(|r| r.counts())
    }

    /// Reward of the most likely response, if there is one and it could be judged.
    pub fn greedy_reward(&self) -> Option<f64> {
        self.greedy.as_ref().filter(|r| r.counts()).map(|r| r.reward)
    }

    /// Whether its responses have what they are compared with. A response that is left of several, because the others could
    /// not be judged, has nothing to be compared with; one that was sampled alone is taken as it is.
    pub fn has_baseline(&self, baseline: Baseline) -> bool {
        match baseline {
            Baseline::None => true,
            Baseline::Group => self.responses.len() < 2 || self.counted().nth(1).is_some(),
            Baseline::Greedy => self.greedy_reward().is_some(),
        }
    }

    /// Share of the counted responses that are correct; none without any.
    pub fn accuracy(&self) -> Option<f64> {
        let (mut correct, mut all) = (0usize, 0usize);
        for response in self.counted() {
            correct += usize::from(response.judgement.verdict == Verdict::Correct);
            all += 1;
        }
        (all > 0).then(|| correct as f64 / all as f64)
    }

    /// Whether scores differ, so that there is something to learn from the comparison. Penalties do not count.
    pub fn informative(&self) -> bool {
        let mut scores = self.counted().map(|r| r.judgement.score);
        scores.next().is_some_and(|first| scores.any(|score| score != first))
    }
}

/// f32 as the number of its bits, since text of a number need not come back as the same number everywhere.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|v| v.to_bits()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        Ok(Vec::<u32>::deserialize(deserializer)?.into_iter().map(f32::from_bits).collect())
    }
}
