//! The grader against wrong answers that are made to deceive it, and right ones that are oddly
//! written.

use std::collections::BTreeMap;
use std::fmt::Write;

use isentrope_grader::{GroundTruth, Options, Outcome, grade};
use serde::Deserialize;

/// A line of the fixture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    truth: String,
    response: String,
    right: bool,
    kind: String,
}

#[test]
fn nothing_that_is_made_to_deceive_is_called_right() {
    judge(include_str!("fixtures/deceptive_answers.jsonl"), 7);
}

#[test]
fn nor_is_what_the_end_of_a_solution_says_in_deceit() {
    judge(include_str!("fixtures/deceptive_solutions.jsonl"), 8);
}

#[test]
fn each_rule_decides_its_cases() {
    judge(include_str!("fixtures/rules.jsonl"), 0);
}

/// Judges every case. At most `not_read` right ones may be refused: those that transpose or invert
/// products, name triangles from another corner, swap the sides of a congruence, write binomials as
/// C_5^2, or begin with the answer ("5 is the answer", "(B) as ...").
fn judge(cases: &str, not_read: usize) {
    let cases: Vec<Case> =
        cases.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    // By kind: wrong ones, wrong ones called right, right ones, right ones refused.
    let mut counts = BTreeMap::<&str, [usize; 4]>::new();
    let mut disagreements = String::new();
    for Case { truth, response, right, kind } in &cases {
        let gold = GroundTruth::from_value(&truth.as_str().into())
            .expect("a ground truth that can be read");
        let grade = grade(&gold, response, &Options::default());
        let (called_right, count) =
            (grade.outcome == Outcome::Same, counts.entry(kind).or_default());
        let place = if *right { 2 } else { 0 };
        count[place] += 1;
        if called_right != *right {
            count[place + 1] += 1;
            let verb = if *right { "refused" } else { "accepted" };
            let _ = writeln!(
                disagreements,
                "{kind}: {verb} {response}   for {truth}   ({})",
                grade.reason
            );
        }
    }
    let table: String = counts
        .iter()
        .map(|(kind, [wrong, accepted, right, refused])| {
            format!(
                "{kind}: {accepted} of {wrong} wrong ones accepted, {refused} of {right} right ones refused\n"
            )
        })
        .collect();
    let total = |place: usize| counts.values().map(|count| count[place]).sum::<usize>();
    let (accepted, refused) = (total(1), total(3));
    assert!(
        accepted == 0 && refused <= not_read,
        "{disagreements}{table}{accepted} accepted, {refused} refused"
    );
}
