//! Explanations, and votes.

use crate::{Options, Outcome, explain, same_answer};

#[test]
fn an_explanation_says_what_was_seen() {
    let explanation = explain("$\\frac{1}{2}$", "so it is $\\boxed{x = 0.5}$", &Options::default());
    let seen = explanation.seen.to_string();
    for part in ["1/2", "x = 0.5", "the last box"] {
        assert!(seen.contains(part), "{seen}");
    }
    assert_eq!(explanation.grade.unwrap().outcome, Outcome::Same);
    let domains =
        explain(r"x = k\pi, k \in \mathbb{Z}", r"\boxed{x = k\pi, k > 0}", &Options::default()).seen;
    assert!(domains.to_string().contains("for every integer k"), "{domains}");
    let seen = explain("5", "no idea at all, sorry", &Options::default()).seen;
    assert!(seen.to_string().contains("no answer"));
    assert!(explain("", "5", &Options::default()).grade.is_err());
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
