//! Columns that hold the tests of a program.

use std::fmt;

use isentrope_code::Tests;
use serde_json::{Map, Value};

/// Columns of tests in published sets. A line's columns belong together, and the first must exist.
const COLUMNS: [&[&str]; 10] = [
    &["tests", "fn_name", "metadata"], // DeepCoder, and sets of one's own
    &["test_cases"],                   // AceCode
    &["input_output"],                 // APPS, TACO
    &["public_test_cases", "private_test_cases", "metadata"], // LiveCodeBench
    &["official_tests"],               // Codeforces
    &["test_list", "test_imports", "test_setup_code"], // MBPP
    &["verification_info"],            // SYNTHETIC-1, open-r1
    &["test", "entry_point", "prompt"], // HumanEval, LeetCodeDataset, KodCode
    &["inputs", "outputs", "fn_name"],
    &["examples"], // Codeforces, where it has no others
];

/// Columns whose names mean other things in other sets.
const OF_MANY_MEANINGS: [&str; 4] = ["verification_info", "test", "inputs", "examples"];

/// All columns that may hold tests.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().flat_map(|columns| columns.iter().copied())
}

/// A column of tests that cannot be used. `Display` is a sentence without a full stop.
#[derive(Clone, Debug, PartialEq)]
pub struct UnusableTests {
    column: &'static str,
    problem: String,
    /// The value, with the columns that belong to it.
    pub tests: Value,
}

impl fmt::Display for UnusableTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.problem)
    }
}

/// A row's tests of a program, from the first column that has usable ones, in the form that the
/// verifier `code` reads.
///
/// # Errors
/// The first unusable column if none is usable. A column whose name has other meanings too is no
/// error.
pub(crate) fn program_tests(row: &Map<String, Value>) -> Option<Result<Value, UnusableTests>> {
    let there = |column: &str| row.get(column).filter(|value| !value.is_null());
    let mut unusable = None;
    for columns in COLUMNS.iter().filter(|columns| there(columns[0]).is_some()) {
        let pairs = columns
            .iter()
            .filter_map(|column| Some(((*column).to_owned(), there(column)?.clone())));
        let tests = Value::Object(pairs.collect());
        match Tests::from_value(&tests) {
            Ok(_) => return Some(Ok(tests)),
            Err(_) if OF_MANY_MEANINGS.contains(&columns[0]) => {}
            Err(problem) => {
                unusable.get_or_insert(UnusableTests { column: columns[0], problem, tests });
            }
        }
    }
    unusable.map(Err)
}

/// Adds to `missing`, which says that a row has no ground truth, that it has no tests either. A
/// column that is null says enough.
pub(crate) fn without_tests(missing: &str) -> String {
    if missing.ends_with(" is null") {
        return missing.to_owned();
    }
    let names: Vec<&str> = COLUMNS.iter().map(|columns| columns[0]).collect();
    format!("{missing}, nor tests of a program in one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tests_are_found_in_the_columns_of_published_sets() {
        let found = |row: Value| program_tests(row.as_object().unwrap()).and_then(Result::ok);
        for (row, tests) in [
            (
                json!({"problem": "p", "tests": {"functional": "assert f()"}, "solution": "s"}),
                json!({"tests": {"functional": "assert f()"}}),
            ),
            (
                json!({"question": "q", "test_cases": ["assert f()"]}),
                json!({"test_cases": ["assert f()"]}),
            ),
            (
                json!({
                    "prompt": "def f():\n", "test": "def check(candidate):\n    assert \
                     candidate()", "entry_point": "f", "id": 1
                }),
                json!({"test": "def check(candidate):\n    assert \
                 candidate()", "entry_point": "f", "prompt": "def f():\n"}),
            ),
            (
                json!({"question": "q", "test": "def test_f():\n    assert f()"}),
                json!({"test": "def test_f():\n    assert f()"}),
            ),
            (
                json!({"input_output": "{\"inputs\": [\"1\"], \"outputs\": \
                 [\"2\"]}", "fn_name": null}),
                json!({"input_output": "{\"inputs\": [\"1\"], \"outputs\": [\"2\"]}"}),
            ),
        ] {
            assert_eq!(found(row.clone()), Some(tests), "{row}");
        }
        let pairs = json!([{"input": "1", "output": "2"}]);
        for column in ["official_tests", "examples", "tests"] {
            let row = json!({ column: pairs });
            assert_eq!(found(row.clone()), Some(row));
        }
        let of_open_r1 = json!({"verification_info": json!({"test_cases": pairs}).to_string()});
        assert_eq!(found(of_open_r1.clone()), Some(of_open_r1));
        for row in [
            json!({"problem": "p", "answer": "5"}),
            json!({"test": "0.5"}),
            json!({"tests": null}),
            json!({"verification_info": {"ground_truth": "5"}}),
            json!({"examples": ["1 + 1 = 2"], "inputs": "What is it?"}),
        ] {
            assert_eq!(program_tests(row.as_object().unwrap()), None, "{row}");
        }
    }

    #[test]
    fn tests_that_cannot_be_used_are_no_absent_ones() {
        let problem =
            |row: Value| program_tests(row.as_object().unwrap()).unwrap().unwrap_err().to_string();
        let said = problem(json!({"test_cases": "12", "input_output": "{", "answer": "5"}));
        assert_eq!(
            said,
            "column test_cases: the tests are a text that is neither JSON nor Python with \
             assertions"
        );
        assert_eq!(
            problem(json!({"tests": [], "answer": "5"})),
            "column tests: there are no tests"
        );
    }
}
