//! Questions to verifiers, and their answers.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::VerifierError;

/// A verifier's verdict on a response.
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
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Correct, Self::Wrong, Self::Unparseable, Self::TimedOut, Self::Fault];

    /// Its name in every file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Wrong => "wrong",
            Self::Unparseable => "unparseable",
            Self::TimedOut => "timed-out",
            Self::Fault => "fault",
        }
    }

    /// Whether the verdict is about the response, and its score may enter the loss.
    pub fn is_scored(self) -> bool {
        matches!(self, Self::Correct | Self::Wrong | Self::Unparseable)
    }
}

/// A verdict with its grounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The worth of the response: by the built-in verifiers 1 if it is correct, else 0; by others
    /// any finite number. Without meaning unless [`Verdict::is_scored`].
    pub score: f64,
    /// The answer found in the response.
    pub extracted: Option<String>,
    /// Why, in one line.
    pub reason: String,
    /// Further measurements of the verifier, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Whether the verifier is one for such problems. A sum leaves out a part that is not; alone it
    /// cannot judge.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub applies: bool,
    /// Whether the verifier fails at this response, whatever it was asked before. The response's
    /// score is 0, or the lowest of its group if that is less.
    #[serde(default, skip_serializing_if = "is_no")]
    pub failed: bool,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_yes(yes: &bool) -> bool {
    *yes
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_no(yes: &bool) -> bool {
    !yes
}

impl Judgement {
    /// A judgement with the verdict's own score.
    pub fn new(verdict: Verdict, extracted: Option<String>, reason: impl Into<String>) -> Self {
        let score = if verdict == Verdict::Correct { 1.0 } else { 0.0 };
        Self {
            verdict,
            score,
            extracted,
            reason: reason.into(),
            metrics: BTreeMap::new(),
            applies: true,
            failed: false,
        }
    }

    /// That the verifier fails at the response, and why.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { failed: true, ..Self::new(Verdict::Unparseable, None, reason) }
    }

    /// That the verifier is not one for such problems.
    pub fn inapplicable(reason: impl Into<String>) -> Self {
        Self { applies: false, ..Self::new(Verdict::Fault, None, reason) }
    }
}

/// The problem that a response is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The right answer; each verifier documents its form.
    pub ground_truth: &'a Value,
    /// The prompt as the data set has it, before any template.
    pub prompt: &'a str,
    /// The data set's name for where the problem is from; may be empty.
    pub data_source: &'a str,
    /// Whatever else the data set says of the problem.
    pub extra_info: &'a Value,
    /// The messages of the prompt, where it is a chat.
    pub messages: Option<&'a [Value]>,
    /// Further columns of the problem's row, where the verifier
    /// [takes them](crate::VerifierSettings::takes_columns).
    pub columns: Option<&'a Map<String, Value>>,
}

/// A problem without any information.
impl Default for Item<'_> {
    fn default() -> Self {
        Self {
            ground_truth: &Value::Null,
            prompt: "",
            data_source: "",
            extra_info: &Value::Null,
            messages: None,
            columns: None,
        }
    }
}

/// A judge of responses. Any number of threads may ask it at the same time. A judgement depends on
/// the problem and the response alone, or on the response's group if it
/// [judges groups](Self::judges_groups), not on what else is asked or when.
pub trait Verifier: Send + Sync {
    /// Judges the text of each response by its problem. The judgements are in the order of the
    /// batch.
    ///
    /// # Errors
    /// When the verifier cannot judge any more. A single response that could not be judged is not
    /// an error: its judgement says so.
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError>;

    /// How many responses it judges at the same time in processes of its own. That many threads
    /// then ask it about one response each, as soon as the response is complete. 0 for a verifier
    /// that computes in the threads that ask: it gains nothing from being asked early.
    fn workers(&self) -> usize {
        0
    }

    /// Whether each batch must be a group: all responses to one problem, in their order.
    fn judges_groups(&self) -> bool {
        false
    }

    /// Notes for users before it judges, as sentences without a full stop.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether two answers found in responses to the problem are one, whatever their spelling.
    fn same_answer(&self, _item: &Item<'_>, a: &str, b: &str) -> bool {
        a == b
    }
}

/// Fewest responses that are worth a thread.
const PER_THREAD: usize = 64;

/// Judges each response with `verify`, on as many threads as are worth it. The judgements are in
/// the order of the batch.
pub fn in_threads(
    batch: &[(Item<'_>, &str)],
    verify: impl Fn(&Item<'_>, &str) -> Judgement + Sync,
) -> Vec<Judgement> {
    let verify = |part: &[(Item<'_>, &str)]| -> Vec<Judgement> {
        part.iter().map(|(item, response)| verify(item, response)).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = batch.len().div_ceil(threads).max(PER_THREAD);
    // The calling thread has a share too, which of a small batch is all.
    let (own, rest) = batch.split_at(share.min(batch.len()));
    thread::scope(|scope| {
        let verify = &verify;
        let others: Vec<_> =
            rest.chunks(share).map(|part| scope.spawn(move || verify(part))).collect();
        let mut judgements = verify(own);
        for other in others {
            judgements.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        judgements
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_written_by_its_name() {
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }

    #[test]
    fn small_batches_are_judged_where_they_are_asked_for_and_large_ones_in_order() {
        let item = Item::default();
        let here = format!("{:?}", thread::current().id());
        for count in [0, 1, PER_THREAD, PER_THREAD + 1, 1000] {
            let responses: Vec<String> = (0..count).map(|i| i.to_string()).collect();
            let batch: Vec<_> =
                responses.iter().map(|response| (item, response.as_str())).collect();
            let judgements = in_threads(&batch, |_, response| {
                let thread = format!("{:?}", thread::current().id());
                Judgement::new(Verdict::Wrong, Some(response.to_owned()), thread)
            });
            assert_eq!(judgements.len(), count);
            for (i, (judgement, response)) in judgements.iter().zip(&responses).enumerate() {
                assert_eq!(judgement.extracted.as_ref(), Some(response));
                assert!(i >= PER_THREAD || judgement.reason == here, "{i} of {count}");
            }
        }
    }
}
