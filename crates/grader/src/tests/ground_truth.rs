//! What may be a ground truth, and a response without an answer.

use serde_json::json;

use super::graded;
use crate::{GroundTruth, Outcome};

#[test]
fn lists_of_ground_truths_are_alternatives() {
    let gold = json!(["9.6\n", "\\frac{t}{m}", 7]);
    for (response, outcome) in [
        ("\\boxed{9.6}", Outcome::Same),
        ("\\boxed{t/m}", Outcome::Same),
        ("\\boxed{7}", Outcome::Same),
        ("\\boxed{9.6, 7}", Outcome::Different),
        ("\\boxed{8}", Outcome::Different),
    ] {
        assert_eq!(graded(&gold, response).outcome, outcome, "{response}");
    }
}

#[test]
fn what_cannot_be_read_is_no_answer_and_no_ground_truth() {
    for response in ["", "I do not know what to say.", "\\boxed{}", "\\boxed{ }", "..//,,--", "/"] {
        assert_eq!(graded(&json!("34"), response).outcome, Outcome::NoAnswer, "{response}");
    }
    for gold in [json!(null), json!(""), json!(" "), json!([]), json!([null]), json!({"a": 1}), json!("$$")] {
        let reason = GroundTruth::from_value(&gold).expect_err("nothing that can be read");
        assert!(reason.contains("ground truth"), "{gold}: {reason}");
    }
}
