//! Pairs of answers that are the same, and that are not, by the kind of thing that makes the difference.

mod choice;
mod collection;
mod explain;
mod expression;
mod extract;
mod ground_truth;
mod matrix;
mod quantity;
mod reading;
mod relation;
mod spans;
mod tolerance;
mod undone;

use serde_json::{Value, json};

use crate::{Grade, GroundTruth, Options, Outcome, grade};

fn graded(ground_truth: &Value, response: &str) -> Grade {
    let ground_truth = GroundTruth::from_value(ground_truth).expect("a ground truth that can be read");
    grade(&ground_truth, response, &Options::default())
}

/// Asserts for each pair that the second, in a box, answers the first.
fn same(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let grade = graded(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(grade.outcome, Outcome::Same, "{gold} | {given}: {grade:?}");
    }
}

/// Asserts for each pair that the second, in a box, does not answer the first.
fn different(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let grade = graded(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(grade.outcome, Outcome::Different, "{gold} | {given}: {grade:?}");
    }
}

/// Responses, each as it is, of which all or none are correct.
#[track_caller]
fn assert_graded(correct: bool, cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        let grade = graded(&json!(gold), response);
        assert_eq!(grade.outcome == Outcome::Same, correct, "{gold} | {response} | {grade:?}");
    }
}
