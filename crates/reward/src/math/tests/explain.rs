//! Explanations, and votes.

use crate::math::{Options, explain, same_answer};

#[test]
fn an_explanation_says_what_was_seen() {
    let explained = explain("$\\frac{1}{2}$", "so it is $\\boxed{x = 0.5}$", &Options::default()).to_string();
    for part in ["1/2", "x = 0.5", "the last box", "Correct"] {
        assert!(explained.contains(part), "{explained}");
    }
    assert!(explain("5", "no idea at all, sorry", &Options::default()).to_string().contains("no answer"));
}

#[test]
fn votes_count_equal_answers_together() {
    let options = Options::default();
    for (a, b, same) in
        [("1/2", "0.5", true), ("x=3", "3", true), ("3", "x=3", true), ("2", "3", false), ("", "", false)]
    {
        assert_eq!(same_answer(a, b, &options), same, "{a} {b}");
    }
}
