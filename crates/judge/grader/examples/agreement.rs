//! Agreement with graded answers: `agreement FILE.jsonl...`, lines {gold, pred | response,
//! expected}.
#![allow(clippy::print_stdout, reason = "the terminal is what it is for")]

use std::io::BufRead;

use isentrope_grader::{GroundTruth, Options, Outcome, explain, grade};
use serde_json::Value;

fn main() {
    for path in std::env::args().skip(1) {
        let file = std::io::BufReader::new(std::fs::File::open(&path).expect("a readable file"));
        let (mut count, mut agreed) = (0, 0);
        for (number, line) in file.lines().enumerate() {
            let row: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            let text = |key: &str| row.get(key).and_then(Value::as_str);
            let response = text("pred").or_else(|| text("response")).expect("pred or response");
            let mut options = Options::default();
            if let Some(precision) = row.get("precision").and_then(Value::as_u64) {
                options.decimals = precision as u32;
            }
            if let Some(allow) = row.get("allow_set_relation_comp").and_then(Value::as_bool) {
                options.allow_set_relation = allow;
            }
            let expected =
                row["expected"].as_i64().map_or(row["expected"] == true, |expected| expected == 1);
            let correct = GroundTruth::from_value(&row["gold"])
                .is_ok_and(|gold| grade(&gold, response, &options).outcome == Outcome::Same);
            count += 1;
            agreed += usize::from(correct == expected);
            if correct != expected {
                let gold = text("gold").map_or_else(|| row["gold"].to_string(), str::to_owned);
                println!(
                    "{path}:{}: expected {expected}\n{}\n",
                    number + 1,
                    explain(&gold, response, &options).seen
                );
            }
        }
        println!("{path}: {agreed} of {count} agree");
    }
}
