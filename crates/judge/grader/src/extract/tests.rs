//! The answers of responses of many shapes.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    extraction: Extraction,
    response: String,
    answer: Option<String>,
}

#[test]
fn answers_are_found_where_they_are() {
    for line in include_str!("../../tests/fixtures/extractions.jsonl").lines() {
        let Case { extraction, response, answer } = serde_json::from_str(line).expect("a case");
        let found = from_response(&response, extraction).map(|(answer, _)| answer);
        assert_eq!(found, answer, "{response}");
    }
}

#[test]
fn a_formula_that_is_cut_off_gives_no_number() {
    for response in [
        "The answer is $\\frac{137",
        "The answer is $\\frac{1}{137",
        "The answer is \\(137",
        "So it is \\[ x = 137",
        "So it is $$2 \\cdot 137",
        "So it is $x = 137",
        "So the point is then (1, 137",
        "So the set is then \\frac{1}{137",
    ] {
        let found = from_response(response, Extraction::Any).map(|(answer, _)| answer);
        assert_ne!(found.as_deref(), Some("137"), "{response}");
    }
}

#[test]
fn money_is_no_formula() {
    let text = "It costs $7.78 for her fudge and they share $10 of it, so $x+1$.";
    let contents: Vec<_> =
        segments(text).iter().map(|found| &text[found.content.0..found.content.1]).collect();
    assert_eq!(contents, ["x+1"]);
}

#[test]
fn ground_truths_may_be_solutions() {
    for (text, answer) in [
        ("5", "5"),
        ("$x$ is $\\boxed{5}$.", "5"),
        ("We add 2 and 3 to get five. The answer is $5$.", "5"),
        ("2 + 3 = 5\n#### 5", "2 + 3 = 5\n#### 5"),
        ("$f(x)=ax$, where $a$ is any integer", "$f(x)=ax$, where $a$ is any integer"),
        ("\\boxed{W(n) = 1", "W(n) = 1"),
    ] {
        assert_eq!(from_ground_truth(text).0, answer);
    }
}
