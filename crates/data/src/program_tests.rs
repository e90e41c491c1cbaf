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

/// The tests of a row that has them in columns of their own, as the verifier `code` reads them.
pub fn program_tests(row: &Map<String, Value>) -> Option<Value> {
    let there = |column: &&str| row.get(*column).filter(|value| !value.is_null());
    COLUMNS.iter().filter(|columns| there(&columns[0]).is_some()).find_map(|columns| {
        let pairs = columns.iter().filter_map(|column| Some(((*column).to_owned(), there(column)?.clone())));
        let tests = Value::Object(pairs.collect());
        Tests::from_value(&tests).is_ok().then_some(tests)
    })
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
            assert_eq!(found(row.clone()), Some(tests), "{row}");
        }
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
