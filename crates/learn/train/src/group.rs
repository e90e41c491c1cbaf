//! The judged responses to one prompt.

use isentrope_data::Problem;
use isentrope_objective::Baseline;
use isentrope_reward::Verdict;
use isentrope_rollout::Response;
use serde::{Deserialize, Serialize};

/// A prompt with its responses. Unknown fields are refused, so that no field of another version's
/// checkpoint is silently dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Step that sampled it.
    pub step: u64,
    /// The position of the group's problem in the sequence of problems.
    pub position: u64,
    /// The problem.
    pub problem: Problem,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Its responses.
    pub responses: Vec<Response>,
    /// The most likely response, if the advantage needs its reward.
    pub greedy: Option<Response>,
}

impl Group {
    /// Responses with a reward.
    pub fn judged(&self) -> impl Iterator<Item = &Response> {
        self.responses.iter().filter(|r| r.is_judged())
    }

    /// Reward of the most likely response, if there is one and it could be judged.
    pub fn greedy_reward(&self) -> Option<f64> {
        self.greedy.as_ref().filter(|r| r.is_judged()).map(|r| r.reward)
    }

    /// Whether its responses have a baseline. A single judged response of several has none, since
    /// the others could not be judged; the reward of a response that was sampled alone needs none.
    pub fn has_baseline(&self, baseline: Baseline) -> bool {
        match baseline {
            Baseline::None => true,
            Baseline::Group => self.responses.len() < 2 || self.judged().nth(1).is_some(),
            Baseline::Greedy => self.greedy_reward().is_some(),
        }
    }

    /// Share of the judged responses that are correct; none if none could be judged.
    pub fn accuracy(&self) -> Option<f64> {
        let (mut correct, mut all) = (0usize, 0usize);
        for response in self.judged() {
            correct += usize::from(response.judgement.verdict == Verdict::Correct);
            all += 1;
        }
        (all > 0).then(|| correct as f64 / all as f64)
    }

    /// Whether scores differ, so that the comparison teaches something. Penalties do not count.
    pub fn informative(&self) -> bool {
        let mut scores = self.judged().map(|r| r.judgement.score);
        scores.next().is_some_and(|first| scores.any(|score| score != first))
    }
}
