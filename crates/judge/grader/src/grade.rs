//! Grading a response.

use super::equal::{CompareOutcome, compare};
use super::extract::{Origin, from_response};
use super::ground_truth::GroundTruth;
use super::options::{Extraction, Options};
use super::reading::Reading;

/// Result of comparing a response with the ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response's answer equals the ground truth.
    Same,
    /// The response has another answer.
    Different,
    /// The response has no answer that can be read.
    NoAnswer,
    /// The answer takes more work to compare than is allowed, far more than a person would do.
    OutOfFuel,
}

/// The grade of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grade {
    /// The comparison of the response's answer with the ground truth.
    pub outcome: Outcome,
    /// The response's answer; none if no answer could be read.
    pub extracted: Option<String>,
    /// Why, in one line.
    pub reason: String,
}

impl Grade {
    fn no_answer(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::NoAnswer, extracted: None, reason: reason.into() }
    }
}

/// Finds a response's answer and compares it with each accepted answer.
pub fn grade(ground_truth: &GroundTruth, response: &str, options: &Options) -> Grade {
    let Some((answer, origin)) = from_response(response, options.extraction) else {
        return Grade::no_answer(match options.extraction {
            Extraction::Boxed => "the response has no complete \\boxed{...}",
            Extraction::Stated => "the response neither boxes nor states an answer",
            Extraction::Any => "the response has neither a box, nor a formula, nor a number",
        });
    };
    let given = match Reading::of(&answer) {
        Ok(given) => Reading { is_boxed: origin == Origin::Box, ..given },
        Err(error) => {
            let origin = origin.describe();
            return Grade::no_answer(format!(
                "{origin} of the response cannot be read: it {error}"
            ));
        }
    };
    let mut outcome = Outcome::Different;
    let mut reason = format!("{} differs from the ground truth", origin.describe());
    for gold in &ground_truth.0 {
        match compare(gold, &given, options) {
            Ok(CompareOutcome::Different) => {}
            Ok(CompareOutcome::Undone) => {
                reason = format!("{} leaves something to be worked out", origin.describe());
            }
            Ok(CompareOutcome::Same(rule)) => {
                (outcome, reason) = (Outcome::Same, format!("{} is {rule}", origin.describe()));
                break;
            }
            Err(error) => {
                (outcome, reason) =
                    (Outcome::OutOfFuel, format!("{}: {error}, and is wrong", origin.describe()));
            }
        }
    }
    Grade { outcome, extracted: Some(given.source), reason }
}
