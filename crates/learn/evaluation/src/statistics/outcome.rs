//! The outcome of a response, and of the responses to one problem.

use isentrope_reward::Verdict;
use isentrope_rollout::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the verifier or the environment failed at it.
    #[serde(default)]
    pub failed: bool,
    /// The verifier's score. Files call it the reward. The command `eval` has no penalties, so the
    /// two are the same there.
    #[serde(rename = "reward")]
    pub score: f64,
    /// The answer found.
    pub extracted: Option<String>,
    /// The spelling under which the answer is counted, if it differs from the answer's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<String>,
    /// Length, in tokens that were sampled.
    pub tokens: usize,
    /// Whether it was cut off.
    pub truncated: bool,
    /// Mean entropy over those tokens, in nats.
    pub entropy: f64,
    /// The verifier's other metrics, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

impl From<&Response> for Outcome {
    fn from(response: &Response) -> Self {
        Self {
            verdict: response.judgement.verdict,
            failed: response.judgement.failed,
            score: response.judgement.score,
            extracted: response.judgement.extracted.clone(),
            vote: response.vote.clone(),
            tokens: response.sampled_tokens(),
            truncated: response.truncated,
            entropy: response.entropy(),
            metrics: response.judgement.metrics.clone(),
        }
    }
}

impl Outcome {
    /// A response of two tokens with this verdict.
    #[cfg(test)]
    pub(crate) fn of_verdict(verdict: Verdict) -> Self {
        Self {
            verdict,
            failed: false,
            score: f64::from(u8::from(verdict == Verdict::Correct)),
            extracted: None,
            vote: None,
            tokens: 2,
            truncated: false,
            entropy: 1.0,
            metrics: BTreeMap::new(),
        }
    }

    pub(super) fn is_correct(&self) -> bool {
        self.verdict == Verdict::Correct
    }

    pub(super) fn is_scored(&self) -> bool {
        self.verdict.is_scored()
    }
}

/// The correct share of the responses to a problem that could be judged; none if no response could.
pub fn accuracy(responses: &[Outcome]) -> Option<f64> {
    let counted = responses.iter().filter(|r| r.is_scored()).count();
    let right = responses.iter().filter(|r| r.is_correct()).count();
    (counted > 0).then(|| right as f64 / counted as f64)
}

/// The mean score of the responses to a problem that could be judged; none if no response could.
pub fn mean_score(responses: &[Outcome]) -> Option<f64> {
    let scores: Vec<f64> = responses.iter().filter(|r| r.is_scored()).map(|r| r.score).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}

/// Whether some score is neither 0 nor 1: only then does their mean differ from the share of
/// correct responses.
pub fn is_graded<'a>(responses: impl IntoIterator<Item = &'a Outcome>) -> bool {
    responses.into_iter().any(|r| r.is_scored() && r.score != 0.0 && r.score != 1.0)
}
