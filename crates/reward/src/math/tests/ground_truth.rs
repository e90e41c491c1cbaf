//! What may be a ground truth, and a response without an answer.

use serde_json::json;

use super::verify;
use crate::Verdict;

#[test]
fn lists_of_ground_truths_are_alternatives() {
    let gold = json!(["9.6\n", "\\frac{t}{m}", 7]);
    for (response, verdict) in [
        ("\\boxed{9.6}", Verdict::Correct),
        ("\\boxed{t/m}", Verdict::Correct),
        ("\\boxed{7}", Verdict::Correct),
        ("\\boxed{9.6, 7}", Verdict::Wrong),
        ("\\boxed{8}", Verdict::Wrong),
    ] {
        assert_eq!(verify(&gold, response).verdict, verdict, "{response}");
    }
}

#[test]
fn no_answer_is_unparseable_and_no_ground_truth_a_fault() {
    for response in ["", "I do not know what to say.", "\\boxed{}", "\\boxed{ }", "..//,,--", "/"] {
        assert_eq!(verify(&json!("34"), response).verdict, Verdict::Unparseable, "{response}");
    }
    for gold in [json!(null), json!(""), json!(" "), json!([]), json!([null]), json!({"a": 1}), json!("$$")] {
        let judgement = verify(&gold, "34");
        assert_eq!(judgement.verdict, Verdict::Fault, "{gold}");
        assert!(judgement.reason.contains("ground truth"), "{}", judgement.reason);
    }
}
