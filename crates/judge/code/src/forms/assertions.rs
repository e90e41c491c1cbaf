//! Assertion code: `{"functional": ...}`, lists of assertions as in AceCode and MBPP, pytest's test
//! functions as in KodCode, `check(candidate)` as in HumanEval and LeetCodeDataset.

use std::cell::LazyCell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Kind, Tests, text};
use crate::AssertionTest;

/// Keys of assertion code and of lists of assertions. The first key that an object has counts.
pub const KEYS: [&str; 4] = ["functional", "pytest", "test", "test_list"];

/// Whether a text is a single assertion.
pub fn is_assertion(text: &str) -> bool {
    text.trim_start().starts_with("assert ") || text.trim_start().starts_with("assert(")
}

/// Whether a text looks like assertion code: a line of it has an assertion, or defines a test.
pub fn is_code(text: &str) -> bool {
    let is_test = |line: &str| {
        ["def test", "class Test", "def check(", "from solution import", "with pytest.raises("]
            .iter()
            .any(|t| line.starts_with(t))
    };
    text.lines().any(|line| line.split(';').any(is_assertion) || is_test(line))
}

/// Reads an object with one of the [`KEYS`].
pub fn of_object(object: &Map<String, Value>) -> Result<Tests, String> {
    let found = KEYS
        .iter()
        .find_map(|key| Some((*key, object.get(*key).filter(|value| !value.is_null())?)));
    match found {
        Some((key, Value::String(code))) if !code.trim().is_empty() && !is_code(code) => {
            Err(format!("the tests' {key:?} has no assertion"))
        }
        Some((_, Value::String(code))) => of_text(code, object),
        Some((_, Value::Array(list))) => of_list(list, object),
        Some((key, _)) => Err(format!("the tests' {key:?} must be text or a list of texts")),
        None => Err("there are no tests".into()),
    }
}

/// Reads a text of assertion code.
pub fn of_text(code: &str, around: &Map<String, Value>) -> Result<Tests, String> {
    if code.trim().is_empty() {
        return Err("the tests are an empty text".into());
    }
    tests(vec![code.to_owned()], around)
}

/// Reads a list of assertions.
pub fn of_list(list: &[Value], around: &Map<String, Value>) -> Result<Tests, String> {
    let part = |(number, part): (usize, &Value)| match part
        .as_str()
        .filter(|part| !part.trim().is_empty())
    {
        Some(part) => Ok(part.to_owned()),
        None => Err(format!("test {number} must be text")),
    };
    let parts: Vec<String> = (1..).zip(list).map(part).collect::<Result<_, _>>()?;
    if !parts.iter().any(|part| is_code(part)) {
        return Err("the tests are a list of texts, none of which has an assertion".into());
    }
    tests(parts, around)
}

/// Why assertion code cannot be used, if a line of it begins like code that needs more than
/// assertions and plain test functions.
fn refused(code: &str) -> Option<&'static str> {
    const REFUSED: [(&str, &str); 10] = [
        ("import unittest", "they use unittest"),
        ("from unittest", "they use unittest"),
        ("class Test", "they have classes of tests"),
        ("async def", "they are asynchronous"),
        ("import asyncio", "they are asynchronous"),
        ("from asyncio", "they are asynchronous"),
        ("@pytest.fixture", "they have fixtures of pytest"),
        ("@pytest.mark.parametrize", "they are parametrised"),
        ("@pytest.", "they have marks of pytest"),
        ("@patch", "they replace functions by mocks"),
    ];
    // How often each name stands before a bracket.
    let brackets = LazyCell::new(|| {
        let mut brackets = HashMap::<&str, usize>::new();
        for (bracket, _) in code.match_indices('(') {
            *brackets.entry(name_before(&code[..bracket])).or_default() += 1;
        }
        brackets
    });
    let wants_fixtures = |line: &str| {
        let mut parts =
            line.strip_prefix("def ").unwrap_or_default().split(['(', ')']).map(str::trim);
        let (name, parameters) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_called = || brackets.get(name).is_some_and(|&times| times > 1);
        name.starts_with("test")
            && !parameters.is_empty()
            && !parameters.contains(['=', '*'])
            && !is_called()
    };
    code.lines().map(str::trim_start).find_map(|line| {
        let by_start =
            REFUSED.iter().find(|(start, _)| line.starts_with(start)).map(|(_, why)| *why);
        by_start.or_else(|| {
            wants_fixtures(line).then_some("their functions have parameters, for fixtures")
        })
    })
}

/// The name that a text ends in, or nothing.
fn name_before(text: &str) -> &str {
    let without = text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
    &text[without.len()..]
}

fn tests(parts: Vec<String>, around: &Map<String, Value>) -> Result<Tests, String> {
    if let Some(why) = parts.iter().find_map(|part| refused(part)) {
        return Err(format!(
            "the tests cannot be used: {why}; only assertions and plain test functions are run"
        ));
    }
    let entry_point =
        text(around, &["entry_point"])?.map(str::trim).filter(|name| !name.is_empty());
    let imports = match around.get("test_imports") {
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let setup = imports
        .into_iter()
        .chain(text(around, &["test_setup_code"])?)
        .collect::<Vec<_>>()
        .join("\n");
    // In other data sets the prompt is a text for the model, not code.
    let preamble = match (text(around, &["prompt"]), entry_point) {
        (Ok(Some(prompt)), Some(entry_point)) if is_beginning(prompt, entry_point) => {
            prompt.to_owned()
        }
        _ => String::new(),
    };
    let test =
        AssertionTest { preamble, setup, parts, entry_point: entry_point.map(str::to_owned) };
    Ok(Tests { kind: Kind::Assertions(test), tolerance: None, by_value: false })
}

/// Whether a prompt is the beginning of the program: HumanEval's has the head of the function,
/// LeetCodeDataset's the imports and helper classes.
fn is_beginning(prompt: &str, entry_point: &str) -> bool {
    if is_name(entry_point) {
        return defines(prompt, entry_point);
    }
    prompt.lines().any(|line| {
        ["import ", "from ", "class ", "def "].iter().any(|word| line.starts_with(word))
    })
}

/// Whether an expression is a function's name alone.
fn is_name(expression: &str) -> bool {
    expression.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a program has a function of this name that belongs to no class.
pub fn defines(program: &str, function: &str) -> bool {
    program.lines().any(|line| {
        let after = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        after
            .and_then(|name| name.trim_start().strip_prefix(function))
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

impl AssertionTest {
    /// The whole program, if the response is only its end: a model that completes HumanEval's
    /// prompt begins with the function's body. Text after the body is cut off, because base models
    /// do not stop there.
    pub(crate) fn completed(&self, program: &str) -> Option<String> {
        let name = self.entry_point.as_deref().filter(|entry_point| is_name(entry_point))?;
        let begins_inside =
            program.lines().find(|line| !line.trim().is_empty())?.starts_with([' ', '\t']);
        let is_end = begins_inside && defines(&self.preamble, name) && !defines(program, name);
        let goes_on = |line: &&str| {
            line.trim_end().is_empty() || line.starts_with([' ', '\t', ')', ']', '}'])
        };
        let body: String = program.split_inclusive('\n').take_while(goes_on).collect();
        is_end.then(|| format!("{}{body}", self.preamble))
    }
}
