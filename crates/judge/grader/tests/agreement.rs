//! The grader against answers that others graded, and against the answers of the benchmarks.

use isentrope_grader::{GroundTruth, Options, Outcome, explain, grade};
use serde_json::{Value, json};

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn is_correct(gold: &Value, response: &str, options: &Options) -> bool {
    let gold = GroundTruth::from_value(gold).expect("a ground truth that can be read");
    grade(&gold, response, options).outcome == Outcome::Same
}

/// Math-Verify takes no formula between single dollars, or in \( \), that goes over several lines;
/// the answer there is plain to see all the same.
const FORMULA_OVER_LINES: [usize; 2] = [85, 94];
/// 3/3 for 1 leaves a division to be done.
const UNDONE: usize = 79;

#[test]
fn agrees_with_the_expectations_of_math_verify() {
    let rows = rows(include_str!("fixtures/math_verify_answers.jsonl"));
    let mut disagreements = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mut options = Options::default();
        if let Some(precision) = row.get("precision").and_then(Value::as_u64) {
            options.decimals = u32::try_from(precision).expect("few decimals");
        }
        if let Some(allow) = row.get("allow_set_relation_comp").and_then(Value::as_bool) {
            options.allow_set_relation = allow;
        }
        let response = row["pred"].as_str().expect("a response");
        if is_correct(&row["gold"], response, &options) != (row["expected"] == 1) {
            disagreements.push(index + 1);
            if !FORMULA_OVER_LINES.contains(&(index + 1)) && index + 1 != UNDONE {
                println!(
                    "line {}: {}",
                    index + 1,
                    explain(row["gold"].as_str().unwrap_or_default(), response, &options).seen
                );
            }
        }
    }
    let [first, second] = FORMULA_OVER_LINES;
    assert_eq!(disagreements, [UNDONE, first, second]);
}

/// Cases left open: `[2, 5[`, bold R for the reals, lists of intervals for their union, rows for
/// columns, unit vectors, congruences, "3 p.m." outside text, labels with a formula in them, other
/// bases behind the point, an equation without a box in an environment of its own, another
/// variable.
const MOST_LEFT_OPEN: usize = 20;

#[test]
fn judges_responses_as_a_reader_would() {
    let rows = rows(include_str!("fixtures/math_responses.jsonl"));
    let mut open = Vec::new();
    for row in &rows {
        let (response, expected) =
            (row["response"].as_str().expect("a response"), row["expected"] == 1);
        let correct = is_correct(&row["gold"], response, &Options::default());
        assert!(!correct || expected, "wrong, but graded as correct: {row}");
        if correct != expected {
            open.push(row.to_string());
        }
    }
    let (count, all) = (open.len(), rows.len());
    assert!(
        count <= MOST_LEFT_OPEN,
        "{count} right ones of {all} are graded as wrong:\n{}",
        open.join("\n")
    );
}

/// The accepted texts of an answer.
fn texts(answer: &Value) -> Vec<String> {
    match answer {
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::String(text) => vec![text.clone()],
        value => vec![value.to_string()],
    }
}

#[test]
fn every_answer_equals_itself_in_a_box() {
    for row in rows(include_str!("fixtures/benchmark_answers.jsonl")) {
        for text in texts(&row["answer"]) {
            for response in [
                format!("So it is $\\boxed{{{}}}$.", text.trim()),
                format!("The final answer is \\boxed{{{text}}}"),
            ] {
                assert!(
                    is_correct(&row["answer"], &response, &Options::default()),
                    "{}: {response}",
                    row["id"]
                );
            }
        }
    }
}

#[test]
fn every_answer_differs_from_a_perturbed_one() {
    for row in rows(include_str!("fixtures/benchmark_answers.jsonl")) {
        for text in texts(&row["answer"]) {
            let text = text.trim().replace('$', "");
            let mut perturbed = Vec::new();
            // Each digit in turn; of a number with many only the leading ones count.
            // Digits of a unit (cm^2) are left out with it.
            let number = text.find("\\mbox").or(text.find("\\text")).unwrap_or(text.len());
            for (place, digit) in
                text[..number].char_indices().filter(|(_, c)| c.is_ascii_digit()).take(6)
            {
                let other = (digit as u8 - b'0' + 1) % 10;
                perturbed.push(format!("{}{other}{}", &text[..place], &text[place + 1..]));
            }
            let is_zero = text.chars().all(|c| matches!(c, '0' | '.'));
            let is_formula = !text.contains("\\text") && !text.contains(" where ") && !is_zero;
            if is_formula {
                perturbed
                    .push(text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned));
                perturbed.push(format!("{text}, 17"));
                // A ground truth that is itself rounded to three digits is not changed by 1 in
                // 10^4.
                let is_large =
                    text.contains("10^") || text.parse::<f64>().is_ok_and(|value| value >= 1e4);
                if !(text.contains('.') && is_large) {
                    perturbed.push(format!("{text} + 1"));
                }
            }
            for perturbed in perturbed {
                let accepted = texts(&row["answer"]).iter().any(|text| text.trim() == perturbed);
                let response = format!("\\boxed{{{perturbed}}}");
                assert!(
                    accepted || !is_correct(&row["answer"], &response, &Options::default()),
                    "{}: {response}",
                    row["id"]
                );
            }
        }
    }
}

#[test]
fn numbers_are_ground_truths() {
    assert!(is_correct(&json!(142.0), "\\boxed{142}", &Options::default()));
    assert!(is_correct(&json!(-3), "it is $-3$.", &Options::default()));
    assert!(!is_correct(&json!(142.5), "\\boxed{142}", &Options::default()));
}
