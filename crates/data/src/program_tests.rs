//! Where rows have the tests of a program.

use isentrope_code::Tests;
use serde_json::{Map, Value};

/// The columns that hold tests, as published sets have them. Those of a line belong together; the first of them must be there.
const COLUMNS: [&[&str]; 7] = [
    &["tests", "fn_name", "metadata"], // DeepCoder, and sets of one's own
    &["test_cases"],                   // AceCode
    &["input_output"],                 // APPS, TACO
    &["public_test_cases", "private_test_cases", "metadata"], // LiveCodeBench
    &["test_list", "test_imports", "test_setup_code"], // MBPP
    &["test", "entry_point", "prompt"], // HumanEval, LeetCodeDataset, KodCode
    &["inputs", "outputs", "fn_name"],
];

/// All columns that may hold tests.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().flat_map(|columns| columns.iter().copied())
}

/// The tests of a row that has them in columns of their own, as the verifier `code` reads them; where there is nothing but tests
/// that cannot be read, what is wrong with them, as part of a sentence.
pub fn program_tests(row: &Map<String, Value>) -> Option<Result<Value, String>> {
    let there = |column: &&str| row.get(*column).filter(|value| !value.is_null());
    let mut unreadable = None;
    for columns in COLUMNS {
        let Some(first) = there(&columns[0]) else { continue };
        let pairs = columns.iter().filter_map(|column| Some(((*column).to_owned(), there(column)?.clone())));
        let tests = Value::Object(pairs.collect());
        match Tests::from_value(&tests) {
            Ok(_) => return Some(Ok(tests)),
            // Columns of these names may be anything.
            Err(why) if Tests::is_form_of(first) => {
                unreadable.get_or_insert(Err(format!("in column {} {why}", columns[0])));
            }
            Err(_) => {}
        }
    }
    unreadable
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tests_are_found_in_the_columns_of_published_sets() {
        let found = |row: Value| program_tests(row.as_object().unwrap());
        for (row, tests) in [
            (
                json!({"problem": "p", "tests": {"functional": "assert f()"}, "solution": "s"}),
                json!({"tests": {"functional": "assert f()"}}),
            ),
            (json!({"question": "q", "test_cases": ["assert f()"]}), json!({"test_cases": ["assert f()"]})),
            (
                json!({
                    "prompt": "def f():\n", "test": "def check(candidate):\n    assert candidate()", "entry_point": "f", "id": 1
                }),
                json!({"test": "def check(candidate):\n    assert candidate()", "entry_point": "f", "prompt": "def f():\n"}),
            ),
            (
                json!({"question": "q", "test": "def test_f():\n    assert f()"}),
                json!({"test": "def test_f():\n    assert f()"}),
            ),
            (
                json!({"input_output": "{\"inputs\": [\"1\"], \"outputs\": [\"2\"]}", "fn_name": null}),
                json!({"input_output": "{\"inputs\": [\"1\"], \"outputs\": [\"2\"]}"}),
            ),
        ] {
            assert_eq!(found(row.clone()), Some(Ok(tests)), "{row}");
        }
        let damaged = json!({"tests": {"inputs": ["1"], "outputs": []}});
        assert_eq!(
            found(damaged),
            Some(Err("in column tests the tests have 1 inputs, but 0 outputs".into()))
        );
        let one_of_two = json!({"tests": {"inputs": ["1"], "outputs": []}, "test_cases": ["assert f()"]});
        assert_eq!(found(one_of_two), Some(Ok(json!({"test_cases": ["assert f()"]}))));
        for row in [
            json!({"problem": "p", "answer": "5"}),
            json!({"test": "0.5"}),
            json!({"tests": null}),
            json!({"test_cases": "12"}),
        ] {
            assert_eq!(found(row.clone()), None, "{row}");
        }
    }
}
