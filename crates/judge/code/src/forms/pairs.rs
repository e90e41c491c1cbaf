//! Inputs with expected outputs: `{"inputs": [...], "outputs": [...]}` as in APPS, TACO and
//! Eurus-2-RL, and lists of `{"input": ..., "output": ...}` as in LiveCodeBench. If a function is
//! named, inputs are its arguments.

use serde_json::{Map, Value};

use super::{Call, Kind, MOST_TESTS, MOST_VALUES, Script, Tests, large, parse, text, too_many};
use crate::json::{self, ReadError};

/// Names that lists of tests give to a test that calls a function.
const OF_FUNCTIONS: [&str; 3] = ["functional", "function_call", "call_based"];
/// And where it is a script's.
const OF_SCRIPTS: [&str; 4] = ["stdin", "stdin_stdout", "stdio", "standard_input"];

/// Reads `{"inputs": [...], "outputs": [...], "fn_name": ...}`, or the same with `input` and
/// `output`.
pub fn of_columns(object: &Map<String, Value>) -> Result<Tests, String> {
    tests(columns(object)?, function(object)?, object)
}

/// An input and its expected output.
type Pair<'a> = (&'a Value, &'a Value);

fn columns(object: &Map<String, Value>) -> Result<Vec<Pair<'_>>, String> {
    let value = |key: &str| object.get(key).filter(|value| !value.is_null());
    let list = |keys: [&str; 2]| match keys.iter().find_map(|key| Some((key, value(key)?))) {
        Some((_, Value::Array(list))) => Ok(list),
        Some((key, _)) => Err(format!("the tests' {key:?} must be a list")),
        None => Err(format!("the tests have no {:?}", keys[0])),
    };
    let (inputs, outputs) = (list(["inputs", "input"])?, list(["outputs", "output"])?);
    if inputs.len() != outputs.len() {
        return Err(format!(
            "the tests have {} inputs, but {} outputs",
            inputs.len(),
            outputs.len()
        ));
    }
    Ok(inputs.iter().zip(outputs).collect())
}

/// Reads `[{"input": ..., "output": ..., "testtype": ...}, ...]`; `around` may name the function.
pub fn of_list(list: &[Value], around: &Map<String, Value>) -> Result<Tests, String> {
    if list.len() > MOST_TESTS {
        return Err(too_many(list.len()));
    }
    let mut pairs = Vec::with_capacity(list.len());
    let mut functions = Vec::with_capacity(list.len());
    for (number, test) in (1..).zip(list) {
        let (Some(input), Some(output)) = (test.get("input"), test.get("output")) else {
            return Err(format!("test {number} has no \"input\" and \"output\""));
        };
        let Value::Object(object) = test else { return Err(format!("test {number} is no object")) };
        pairs.push((input, output));
        let named = function(object)?.or(function(around)?);
        functions.push(match text(object, &["testtype", "type"])? {
            None => named,
            Some(kind) if OF_SCRIPTS.contains(&kind) => None,
            Some(kind) if OF_FUNCTIONS.contains(&kind) => Some(named.ok_or_else(|| {
                format!("test {number} calls a function, and none is named: set \"fn_name\", or \"func_name\" in \"metadata\"")
            })?),
            Some(kind) => return Err(format!("test {number} is of the unknown type {kind:?}")),
        });
    }
    functions.dedup();
    let function = match functions.as_slice() {
        [function] => function.clone(),
        _ => {
            return Err(
                "the tests are not all of one function, or not all of standard input".into()
            );
        }
    };
    let judged_as_live_code_bench = list.iter().any(|test| test.get("testtype").is_some());
    let tests = tests(pairs, function, around)?;
    Ok(Tests { by_value: judged_as_live_code_bench, ..tests })
}

/// The name of the function that is called.
fn function(object: &Map<String, Value>) -> Result<Option<String>, String> {
    if let Some(name) = text(object, &["fn_name", "func_name", "function_name"])? {
        return Ok(Some(name.to_owned()).filter(|name| !name.is_empty()));
    }
    let name = match object.get("metadata") {
        Some(Value::String(packed)) if packed.trim_start().starts_with('{') => {
            parse(packed, MOST_VALUES)?
        }
        Some(metadata) => metadata.clone(),
        None => return Ok(None),
    };
    Ok(name.get("func_name").and_then(Value::as_str).map(str::to_owned))
}

fn tests(
    pairs: Vec<Pair<'_>>,
    function: Option<String>,
    around: &Map<String, Value>,
) -> Result<Tests, String> {
    if pairs.len() > MOST_TESTS {
        return Err(too_many(pairs.len()));
    }
    let tolerance = match around.get("tolerance") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_f64().ok_or("the tests' \"tolerance\" must be a number")?),
    };
    let numbered = (1_usize..).zip(pairs);
    let kind = match function {
        None => Kind::Scripts(
            numbered
                .map(|(number, (input, output))| {
                    Ok(Script {
                        input: stream(input, number, "input")?,
                        output: stream(output, number, "output")?,
                    })
                })
                .collect::<Result<_, String>>()?,
        ),
        Some(function) => {
            let mut left = MOST_VALUES;
            let mut calls: Vec<Call> = numbered
                .map(|(number, (input, output))| call(input, output, number, &mut left))
                .collect::<Result<_, _>>()?;
            unwrap(&mut calls);
            Kind::Calls { function, calls }
        }
    };
    Ok(Tests { kind, tolerance, by_value: false })
}

/// The text of a standard stream; lists are its lines.
fn stream(value: &Value, number: usize, key: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if number.is_f64() => {
            Ok(json::float(number.as_f64().unwrap_or_default()))
        }
        Value::Number(number) => Ok(number.to_string()),
        Value::Array(lines) => {
            let lines: Result<Vec<String>, String> =
                lines.iter().map(|line| stream(line, number, key)).collect();
            Ok(lines?.join("\n"))
        }
        _ => Err(format!("the {key} of test {number} must be text")),
    }
}

/// Reads a call. Arguments are a list, or a text with a line of JSON for each; in that case the
/// expected value is a JSON text too. `left` is the number of values that such texts may still
/// have.
fn call(input: &Value, output: &Value, number: usize, left: &mut usize) -> Result<Call, String> {
    let mut value = |text: &str, of: &str| {
        let value = json::read(text, *left).map_err(|error| match error {
            ReadError::TooMany(_) => format!("the tests have more than {MOST_VALUES} values"),
            ReadError::Large => large(),
            ReadError::Malformed(error) => format!("the {of} of test {number} is no JSON: {error}"),
        })?;
        *left -= json::size(text).min(*left);
        Ok(value)
    };
    Ok(match input {
        Value::String(lines) => Call {
            arguments: lines
                .lines()
                .filter(|line| !line.trim().is_empty())
                .map(|line| value(line, "input"))
                .collect::<Result<_, String>>()?,
            accepted: vec![match output {
                Value::String(text) => value(text, "output")?,
                value => value.clone(),
            }],
        },
        Value::Array(arguments) => {
            Call { arguments: arguments.clone(), accepted: vec![output.clone()] }
        }
        argument => Call { arguments: vec![argument.clone()], accepted: vec![output.clone()] },
    })
}

/// APPS and TACO wrap each expected value in a list, and their judges accept it with that list or
/// without. So does this judge, if all tests of a problem have such a list.
fn unwrap(calls: &mut [Call]) {
    let wrapped = |call: &Call| match call.accepted.as_slice() {
        [Value::Array(list)] if list.len() == 1 => Some(list[0].clone()),
        _ => None,
    };
    let bare: Option<Vec<Value>> = calls.iter().map(wrapped).collect();
    for (call, bare) in calls.iter_mut().zip(bare.into_iter().flatten()) {
        call.accepted.push(bare);
    }
}
