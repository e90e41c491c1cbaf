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

use serde_json::json;

use super::*;

fn verify(ground_truth: &Value, response: &str) -> Judgement {
    let item = Item { ground_truth, prompt: "", data_source: "", extra_info: &Value::Null };
    Math::default().verify(&item, response)
}

/// Asserts for each pair that the second, in a box, answers the first.
fn same(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let judgement = verify(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(judgement.verdict, Verdict::Correct, "{gold} | {given}: {judgement:?}");
    }
}

/// Asserts for each pair that the second, in a box, does not answer the first.
fn different(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let judgement = verify(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(judgement.verdict, Verdict::Wrong, "{gold} | {given}: {judgement:?}");
    }
}

/// Responses, each as it is, of which all or none are correct.
#[track_caller]
fn assert_graded(correct: bool, cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        let judgement = verify(&json!(gold), response);
        assert_eq!(judgement.verdict == Verdict::Correct, correct, "{gold} | {response} | {judgement:?}");
    }
}
