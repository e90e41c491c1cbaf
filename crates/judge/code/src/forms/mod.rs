//! The tests of a problem, in the forms that data sets have them.
//!
//! [`Tests::from_value`] reads them all: `pairs` reads inputs with expected outputs, of standard
//! streams and of functions; `live_code_bench` that benchmark's packed tests; `assertions`
//! assertion code.

mod assertions;
mod live_code_bench;
mod pairs;

use serde_json::{Map, Value};

use crate::AssertionTest;
use crate::json::{self, ReadError};
pub(crate) use assertions::defines;

/// Most tests of a problem.
pub const MOST_TESTS: usize = 10_000;

/// Most bytes of a problem's tests together, unpacked.
pub const MOST_BYTES: usize = 256 << 20;

/// Longest input of a script, in bytes. The input is a file in a jail's temporary directory, which
/// must have room for more.
pub const MOST_INPUT: usize = 48 << 20;

/// Most values of a problem's tests, and most items of a list of inputs and outputs that are texts.
/// In memory each takes about a hundred bytes, and a byte of a packed text may unpack to a thousand
/// values.
const MOST_VALUES: usize = 8 << 20;
const MOST_LISTED: usize = 1 << 20;

/// Most layers around tests: a JSON text that holds a JSON text, or an object whose only key is one
/// of [`WRAPPERS`].
const DEPTH: usize = 6;

/// Keys that may wrap the tests: `{"test_cases": TESTS}`.
const WRAPPERS: [&str; 6] =
    ["input_output", "test_cases", "tests", "verification_info", "official_tests", "examples"];

/// The tests that a program is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Tests {
    /// The tests themselves.
    pub kind: Kind,
    /// The tolerance of numbers, if the data has one.
    pub tolerance: Option<f64>,
    /// Whether the data's own judge compares numbers of an output by value, so that 1.50 equals
    /// 1.5.
    pub by_value: bool,
}

/// Tests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A program reads standard input and prints.
    Scripts(Vec<Script>),
    /// A function is called.
    Calls {
        /// The function's name: `add`, or a method of the class `Solution`.
        function: String,
        /// The calls.
        calls: Vec<Call>,
    },
    /// Assertion code runs on the program.
    Assertions(AssertionTest),
}

/// A run of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its standard input.
    pub input: String,
    /// The output that it must print.
    pub output: String,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The arguments.
    pub arguments: Vec<Value>,
    /// The values that it may return.
    pub accepted: Vec<Value>,
}

impl Tests {
    /// Reads tests of any form, as JSON or as a text of JSON.
    ///
    /// # Errors
    /// The defect of the tests, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        if json::is_rounded(value) {
            return Err(large());
        }
        let tests = read(value, &Map::new(), DEPTH)?;
        let (count, bytes) = tests.size();
        match () {
            () if count == 0 => Err("there are no tests".into()),
            () if count > MOST_TESTS => Err(too_many(count)),
            () if bytes > MOST_BYTES => Err(too_large()),
            () if tests.longest_input() > MOST_INPUT => {
                Err(format!("a test's input is longer than {} MiB", MOST_INPUT >> 20))
            }
            () if tests.tolerance.is_some_and(|t| !(0.0..1.0).contains(&t)) => {
                Err("the tests' \"tolerance\" must be from 0 to 1".into())
            }
            () => Ok(tests),
        }
    }

    /// Whether a ground truth has the keys of one of the forms.
    pub fn is_form_of(value: &Value) -> bool {
        match value {
            Value::Object(object) => has_form(|key| object.contains_key(key)),
            Value::Array(tests) => tests.first().is_some_and(|first| match first {
                Value::Object(test) => test.contains_key("input") && test.contains_key("output"),
                Value::String(code) => assertions::is_code(code),
                _ => false,
            }),
            Value::String(text) => Self::is_form_of_text(text),
            _ => false,
        }
    }

    /// Whether a text has the keys of one of the forms.
    pub fn is_form_of_text(text: &str) -> bool {
        match text.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => {
                let has = |key: &str| text.contains(&format!("\"{key}\""));
                has_form(has) || ["\"assert ", "; assert "].iter().any(|part| text.contains(part))
            }
            _ => assertions::is_code(text),
        }
    }

    /// Describes the tests in words: "3 tests, standard input and output".
    pub fn summary(&self) -> String {
        let count = match self.size().0 {
            1 => "1 test".into(),
            count => format!("{count} tests"),
        };
        match &self.kind {
            Kind::Scripts(_) => format!("{count}, standard input and output"),
            Kind::Calls { function, .. } => format!("{count}, calls of {function}"),
            Kind::Assertions(_) => format!("{count}, assertion code"),
        }
    }

    /// Bytes of the longest input.
    fn longest_input(&self) -> usize {
        match &self.kind {
            Kind::Scripts(scripts) => {
                scripts.iter().map(|script| script.input.len()).max().unwrap_or(0)
            }
            Kind::Calls { .. } | Kind::Assertions(_) => 0,
        }
    }

    /// Number of tests, and their bytes.
    fn size(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Scripts(scripts) => (
                scripts.len(),
                scripts.iter().map(|script| script.input.len() + script.output.len()).sum(),
            ),
            // The values come from texts whose values were counted.
            Kind::Calls { calls, .. } => (calls.len(), 0),
            Kind::Assertions(test) => (
                test.parts.len(),
                test.parts.iter().chain([&test.preamble, &test.setup]).map(String::len).sum(),
            ),
        }
    }
}

fn has_form(has: impl Fn(&str) -> bool) -> bool {
    has("inputs") && has("outputs")
        || has("input") && has("output")
        || WRAPPERS.iter().any(|key| has(key))
        || has("public_test_cases")
        || has("test_list")
        || has("functional")
        || has("pytest")
        || has("test") && has("entry_point")
}

fn too_many(count: usize) -> String {
    format!("there are {count} tests: they may be {MOST_TESTS} at most")
}

fn large() -> String {
    "the tests have an integer beyond 64 bits, which only texts and assertion code can have".into()
}

fn too_large() -> String {
    format!("the tests are larger than {} MiB", MOST_BYTES >> 20)
}

/// Reads tests. `around` has the other keys of the object that holds them.
fn read(value: &Value, around: &Map<String, Value>, depth: usize) -> Result<Tests, String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err("the tests are wrapped too often".into());
    };
    match value {
        Value::String(text) if text.len() > MOST_BYTES => Err(too_large()),
        Value::String(text) => match text.trim_start().as_bytes().first() {
            None => Err("the tests are an empty text".into()),
            Some(b'{' | b'[' | b'"') => read(&parse(text, MOST_VALUES)?, around, depth),
            Some(_) if assertions::is_code(text) => assertions::of_text(text, around),
            Some(_) => {
                Err("the tests are a text that is neither JSON nor Python with assertions".into())
            }
        },
        Value::Array(tests) => match tests.first() {
            None => Err("there are no tests".into()),
            Some(Value::String(_)) => assertions::of_list(tests, around),
            Some(Value::Object(_)) => pairs::of_list(tests, around),
            Some(_) => {
                Err("the tests are a list, but neither of {input, output} nor of assertions".into())
            }
        },
        Value::Object(object) => of_object(object, depth),
        _ => Err(format!("{EXPECTED}, not {value}")),
    }
}

const EXPECTED: &str =
    "the ground truth must be tests of a program, such as {\"inputs\": [...], \"outputs\": [...]}";

fn of_object(object: &Map<String, Value>, depth: usize) -> Result<Tests, String> {
    let has = |key: &str| object.get(key).is_some_and(|value| !value.is_null());
    if has("inputs") && has("outputs") || has("input") && has("output") {
        pairs::of_columns(object)
    } else if has("public_test_cases") || has("private_test_cases") {
        live_code_bench::of_row(object)
    } else if assertions::KEYS.iter().any(|key| has(key)) {
        assertions::of_object(object)
    } else if let Some(key) = WRAPPERS.iter().find(|key| has(key)) {
        read(&object[*key], object, depth)
    } else {
        let keys: Vec<&str> = object.keys().take(8).map(String::as_str).collect();
        Err(format!(
            "{EXPECTED}; its keys are {}",
            if keys.is_empty() { "none".into() } else { keys.join(", ") }
        ))
    }
}

/// Reads a text of JSON with a limited number of values.
fn parse(text: &str, most: usize) -> Result<Value, String> {
    json::read(text, most).map_err(|error| match error {
        ReadError::TooMany(most) => format!("the tests have more than {most} values"),
        ReadError::Large => large(),
        ReadError::Malformed(error) => format!("the tests are no JSON: {error}"),
    })
}

/// The text under the first of several keys that an object has.
fn text<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Result<Option<&'a str>, String> {
    let Some((key, value)) =
        keys.iter().find_map(|key| Some((key, object.get(*key).filter(|value| !value.is_null())?)))
    else {
        return Ok(None);
    };
    value.as_str().map(Some).ok_or_else(|| format!("the tests' {key:?} must be text"))
}

#[cfg(test)]
mod tests;
