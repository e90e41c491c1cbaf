//! Tests of the options, of ground truths, and of explanations.

use isentrope_grader::{GroundTruth, Options, Outcome, explain, grade, same_answer};
use serde_json::{Value, json};

fn outcome(gold: &Value, response: &str, options: &Options) -> Outcome {
    grade(&GroundTruth::from_value(gold).expect("a ground truth"), response, options).outcome
}

#[test]
fn options_decide_what_is_the_same() {
    use Outcome::{Different, Same};
    let default = Options::default();
    let strict = Options { allow_set_relation: false, ..default };
    let undone = Options { allow_undone: true, ..default };
    let decimals = |decimals| Options { decimals, ..default };
    let digits = |significant_digits| Options { significant_digits, ..default };
    for (gold, response, options, found) in [
        ("x \\in [-2,7]", "\\boxed{-2 \\le x \\le 7}", default, Same),
        ("x \\in [-2,7]", "\\boxed{-2 \\le x \\le 7}", strict, Different),
        ("x \\in [-2,7]", "\\boxed{[-2, 7]}", strict, Same),
        ("4\\pi", "\\boxed{12.57}", decimals(4), Same),
        ("4\\pi", "\\boxed{12.57}", decimals(5), Different),
        ("0.143", "\\boxed{1/7}", digits(3), Same),
        ("0.143", "\\boxed{1/7}", digits(4), Different),
        ("137", "73 + 64", undone, Same),
        ("137", "73 + 64", default, Different),
        ("x = 3", "\\boxed{3x - 2 = 7}", undone, Same),
        ("x = 3", "\\boxed{3x - 2 = 7}", default, Different),
    ] {
        assert_eq!(
            outcome(&json!(gold), response, &options),
            found,
            "{gold} | {response} | {options:?}"
        );
    }
    let gold = GroundTruth::from_value(&json!("137")).unwrap();
    assert_eq!(
        grade(&gold, "73 + 64", &default).reason,
        "the whole text leaves something to be worked out"
    );
}

#[test]
fn lists_of_ground_truths_are_alternatives() {
    let gold = json!(["9.6\n", "\\frac{t}{m}", 7]);
    for (answer, found) in
        [("9.6", true), ("t/m", true), ("7", true), ("9.6, 7", false), ("8", false)]
    {
        let found = if found { Outcome::Same } else { Outcome::Different };
        assert_eq!(
            outcome(&gold, &format!("\\boxed{{{answer}}}"), &Options::default()),
            found,
            "{answer}"
        );
    }
}

#[test]
fn an_unreadable_text_is_no_answer_and_no_ground_truth() {
    for response in ["", "I do not know what to say.", "\\boxed{}", "\\boxed{ }", "..//,,--", "/"] {
        assert_eq!(
            outcome(&json!("34"), response, &Options::default()),
            Outcome::NoAnswer,
            "{response}"
        );
    }
    for gold in
        [json!(null), json!(""), json!(" "), json!([]), json!([null]), json!({"a": 1}), json!("$$")]
    {
        let reason = GroundTruth::from_value(&gold).expect_err("nothing that can be read");
        assert!(reason.contains("ground truth"), "{gold}: {reason}");
    }
}

#[test]
fn an_explanation_shows_both_answers() {
    let explanation = explain("$\\frac{1}{2}$", "so it is $\\boxed{x = 0.5}$", &Options::default());
    let seen = explanation.seen;
    for part in ["1/2", "x = 0.5", "the last box"] {
        assert!(seen.contains(part), "{seen}");
    }
    assert_eq!(explanation.grade.unwrap().outcome, Outcome::Same);
    let domains = r"\boxed{x = k\pi, k > 0}";
    let domains = explain(r"x = k\pi, k \in \mathbb{Z}", domains, &Options::default()).seen;
    assert!(domains.contains("for every integer k"), "{domains}");
    let seen = explain("5", "no idea at all, sorry", &Options::default()).seen;
    assert!(seen.contains("no answer"));
    assert!(explain("", "5", &Options::default()).grade.is_err());
}

#[test]
fn votes_count_equal_answers_together() {
    for (a, b, same) in [
        ("1/2", "0.5", true),
        ("x=3", "3", true),
        ("3", "x=3", true),
        ("2", "3", false),
        ("", "", false),
    ] {
        assert_eq!(same_answer(a, b, &Options::default()), same, "{a} {b}");
    }
}
