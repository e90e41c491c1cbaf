//! What verifiers are asked and what they answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a verifier found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The response's answer is right.
    Correct,
    /// The response has an answer, or gives up, and the answer is not right.
    Wrong,
    /// The response has no answer that can be read.
    Unparseable,
    /// The verifier ran out of time.
    TimedOut,
    /// The verifier failed, or the ground truth is not one that it can use.
    Fault,
}

impl Verdict {
    /// Whether the verdict is about the response, and its score may enter the loss.
    pub fn is_scored(self) -> bool {
        matches!(self, Self::Correct | Self::Wrong | Self::Unparseable)
    }
}

/// A verdict with its grounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What was found.
    pub verdict: Verdict,
    /// 1 for a correct response, else 0; without meaning unless [`Verdict::is_scored`].
    pub score: f64,
    /// The answer found in the response.
    pub extracted: Option<String>,
    /// Why, in one line.
    pub reason: String,
}

impl Judgement {
    /// A judgement with the verdict's own score.
    pub fn new(verdict: Verdict, extracted: Option<String>, reason: impl Into<String>) -> Self {
        let score = if verdict == Verdict::Correct { 1.0 } else { 0.0 };
        Self { verdict, score, extracted, reason: reason.into() }
    }
}

/// The problem that a response is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// What the verifier compares with; each verifier documents its form.
    pub ground_truth: &'a Value,
    /// The prompt as the data set has it, before any template.
    pub prompt: &'a str,
    /// The data set's name for where the problem is from; may be empty.
    pub data_source: &'a str,
    /// Whatever else the data set says of the problem.
    pub extra_info: &'a Value,
}

/// A judge of responses.
pub trait Verifier: Send + Sync {
    /// Judges the text of a response, end-of-sequence token cut off.
    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement;
}
