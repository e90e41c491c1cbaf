//! Speed of the grader: every answer of the sample as ground truth, with a response that boxes it.
//!
//! `cargo run --release -p isentrope-grader --example grading_bench`
#![allow(clippy::print_stdout, reason = "the terminal is what it is for")]

use std::time::Instant;

use isentrope_grader::{GroundTruth, Options, Outcome, grade};
use serde_json::Value;

fn main() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/benchmark_answers.jsonl");
    let lines = std::fs::read_to_string(sample).expect("the sample of answers");
    let rows: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let texts = |value: &Value| match value {
        Value::Array(values) => values[0].as_str().unwrap_or_default().to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let steps = "First we simplify $x^2 + 2x + 1 = (x+1)^2$ and divide by \\(x+1\\). ".repeat(20);
    let pairs: Vec<(Value, String)> = rows
        .iter()
        .flat_map(|row| {
            let answer = texts(&row["answer"]).replace('$', "");
            [answer.clone(), format!("{answer} + 1")].map(|given| {
                (row["answer"].clone(), format!("{steps}So the answer is $\\boxed{{{given}}}$."))
            })
        })
        .collect();
    let (mut graded, mut correct) = (0u32, 0u32);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 3.0 {
        for (gold, response) in &pairs {
            let gold = GroundTruth::from_value(gold).expect("a ground truth that can be read");
            correct +=
                u32::from(grade(&gold, response, &Options::default()).outcome == Outcome::Same);
            graded += 1;
        }
    }
    let rate = f64::from(graded) / start.elapsed().as_secs_f64();
    println!("{rate:.0} answers per second on one core; {correct} of {graded} correct");
}
