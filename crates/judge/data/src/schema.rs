//! Rows as problems and examples, by the schemas that data sets have.
//!
//! Problems: verl's `{prompt, data_source, reward_model: {ground_truth}, extra_info}` and `{prompt
//! | problem | question, ground_truth | answer | final_answer | expected_answer | solution}`.
//! Examples: `{messages, tools}` and `{prompt | problem | question, response | completion | output
//! | answer | solution}`.

use isentrope_code::Tests;
use isentrope_grader::last_boxed;
use isentrope_reward::VerifierSettings;
use serde_json::Value;

use crate::program_tests::{self, UnusableTests, program_tests, without_tests};
use crate::rows::Row;
use crate::settings::Columns;
use crate::{Content, Example, Problem, Prompt};

/// Usual columns of prompts, by precedence.
pub const PROMPT: &[&str] =
    &["prompt", "problem", "question", "Problem", "Question", "extra_info.question"];
/// Usual columns of ground truths, by precedence.
pub const GROUND_TRUTH: &[&str] = &[
    "reward_model.ground_truth",
    "ground_truth",
    "answer",
    "final_answer",
    "expected_answer",
    "Answer",
    "solution",
    "extra_info.answer",
];
const RESPONSE: &[&str] =
    &["response", "completion", "output", "answer", "solution", "extra_info.answer"];

/// A unit of training data: [`Problem`] or [`Example`].
pub trait Record: Clone + Sized {
    /// Expected columns, for messages.
    const EXPECTED: &'static str;

    /// Columns to read of every row.
    fn columns() -> Vec<&'static str>;

    /// A text that duplicates share.
    fn identity(&self) -> String;

    /// Whether two records of one identity contradict each other.
    fn contradicts(&self, other: &Self) -> bool;

    /// Origin of the record.
    fn origin(&self) -> &str;

    /// The prompt, if it is separate from the rest.
    fn prompt(&self) -> Option<&Prompt>;

    /// Puts texts before and after the question.
    fn surround(&mut self, before: &str, after: &str);
}

impl Record for Problem {
    const EXPECTED: &'static str = "prompt, problem or question, with reward_model.ground_truth, \
     ground_truth, answer or solution";

    fn columns() -> Vec<&'static str> {
        [&["data_source"], PROMPT, GROUND_TRUTH].concat()
    }

    fn identity(&self) -> String {
        match self.prompt.is_empty_chat() {
            // An environment writes the prompt, and sees these two.
            true => {
                Value::from(vec![self.ground_truth.clone(), self.extra_info.clone()]).to_string()
            }
            false => self.prompt.identity(),
        }
    }

    fn contradicts(&self, other: &Self) -> bool {
        self.ground_truth != other.ground_truth
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn prompt(&self) -> Option<&Prompt> {
        Some(&self.prompt)
    }

    fn surround(&mut self, before: &str, after: &str) {
        self.prompt.surround(before, after);
    }
}

impl Problem {
    /// Columns that a verifier may need besides [`Record::columns`]; None for all columns.
    pub(crate) fn further_columns(verifier: &VerifierSettings) -> Option<Vec<&'static str>> {
        let tests = program_tests::columns().filter(|_| verifier.judges_any_programs());
        (!verifier.takes_columns()).then(|| tests.collect())
    }

    /// Makes a problem of a row, with a ground truth that the verifier can use. An error is the
    /// row's defect.
    pub(crate) fn from_row(
        row: &Row,
        columns: &Columns,
        origin: String,
        verifier: &VerifierSettings,
    ) -> Result<Self, String> {
        let (prompt_column, prompt) = find(row, &columns.prompt, PROMPT)?;
        let prompt = read_prompt(prompt)?;
        let data_source = match row.get("data_source") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(name)) => name.clone(),
            Some(_) => return Err("column data_source is not text".into()),
        };
        let ground_truth =
            match find_ground_truth(row, &columns.answer, GROUND_TRUTH, &data_source, verifier)? {
                GroundTruth::Missing(missing) => return Err(missing),
                GroundTruth::Unusable(unusable) => return Err(unusable.to_string()),
                GroundTruth::NotNeeded => Value::Null,
                GroundTruth::Tests(tests) => tests,
                GroundTruth::Column(column, answer) => {
                    let checked = verifier.check_ground_truth(&answer, &data_source);
                    checked.map_err(|problem| format!("in column {column} {problem}"))?;
                    answer
                }
            };
        let extra_info = row.get("extra_info").cloned().unwrap_or_default();
        let hint = columns.hint.as_ref().and_then(|hint| lookup(row, hint)).and_then(text_of);
        let columns = match verifier.takes_columns() {
            true => further_columns(row, prompt_column, &ground_truth),
            false => Row::new(),
        };
        Ok(Self { prompt, ground_truth, data_source, extra_info, columns, hint, origin })
    }
}

impl Record for Example {
    const EXPECTED: &'static str = "messages; or prompt, problem or question, with response, \
     completion, output, \
         answer or solution";

    fn columns() -> Vec<&'static str> {
        [&["messages", "tools"], PROMPT, RESPONSE].concat()
    }

    fn identity(&self) -> String {
        match &self.content {
            Content::Response { prompt, response } => format!("{}\n{response}", prompt.identity()),
            Content::Messages { messages, tools } => {
                Value::from(vec![messages.clone().into(), Value::from(tools.clone())]).to_string()
            }
        }
    }

    fn contradicts(&self, _: &Self) -> bool {
        false
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn prompt(&self) -> Option<&Prompt> {
        match &self.content {
            Content::Response { prompt, .. } => Some(prompt),
            Content::Messages { .. } => None,
        }
    }

    fn surround(&mut self, before: &str, after: &str) {
        self.content.surround(before, after);
    }
}

/// The columns that are not fields of a problem. verl's `reward_model`, which may have large tests
/// of programs, counts only if it has more than the ground truth.
fn further_columns(row: &Row, prompt: &str, ground_truth: &Value) -> Row {
    let is_told = |name: &str, value: &Value| {
        [prompt, "data_source", "extra_info"].contains(&name)
            || name == "reward_model" && value.get("ground_truth") == Some(ground_truth)
    };
    let further = row.iter().filter(|(name, value)| !is_told(name, value));
    further.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Example {
    /// Makes an example of a row. An error is the row's defect.
    pub(crate) fn from_row(row: &Row, columns: &Columns, origin: String) -> Result<Self, String> {
        // The columns may be chosen for other files, as those for evaluation.
        let is_there = |chosen: &Option<String>| {
            let value = chosen.as_ref().and_then(|name| lookup(row, name));
            value.is_some_and(|value| !value.is_null())
        };
        let has_chosen = is_there(&columns.prompt) || is_there(&columns.answer);
        let content = match row.get("messages") {
            Some(messages) if !messages.is_null() && !has_chosen => Content::Messages {
                messages: read_conversation(messages)?,
                tools: read_tools(row.get("tools"))?,
            },
            _ => {
                let (_, prompt) = find(row, &columns.prompt, PROMPT)?;
                let (column, response) = find(row, &columns.answer, RESPONSE)?;
                Content::Response {
                    prompt: read_prompt(prompt)?,
                    response: read_response(column, response)?,
                }
            }
        };
        Ok(Self { content, origin })
    }
}

/// Ground truth of a row.
pub enum GroundTruth<'a> {
    /// The tests of a program, in columns of their own.
    Tests(Value),
    /// Unusable tests of a program.
    Unusable(UnusableTests),
    /// The value of the column of this name.
    Column(&'a str, Value),
    /// The row has no ground truth, and the verifier needs none.
    NotNeeded,
    /// The row has no ground truth. A sentence names the missing columns.
    Missing(String),
}

/// Finds the ground truth of a row: in the chosen column, else in columns of tests or in the first
/// usual column. Does not check whether the verifier can use a column's value.
///
/// # Errors
/// The defect of the column, as a sentence.
pub fn find_ground_truth<'a>(
    row: &'a Row,
    chosen: &'a Option<String>,
    usual: &[&'static str],
    data_source: &str,
    verifier: &VerifierSettings,
) -> Result<GroundTruth<'a>, String> {
    let check = |ground_truth: &Value| verifier.check_ground_truth(ground_truth, data_source);
    // A verifier that needs no ground truth takes any value.
    let takes_any = check(&Value::Null).is_ok();
    // Columns of tests come first, as the other columns then hold solutions, which are programs.
    let looks_for_tests = !takes_any && chosen.is_none() && verifier.judges_programs(data_source);
    match if looks_for_tests { program_tests(row) } else { None } {
        Some(Err(unusable)) => return Ok(GroundTruth::Unusable(unusable)),
        Some(Ok(tests)) if check(&tests).is_ok() => return Ok(GroundTruth::Tests(tests)),
        _ => {}
    }
    Ok(match find(row, chosen, usual) {
        Ok((column, value)) => GroundTruth::Column(
            column,
            read_ground_truth(value, column, chosen.is_some(), takes_any)?,
        ),
        Err(_) if takes_any && chosen.is_none() => GroundTruth::NotNeeded,
        Err(missing) if looks_for_tests => GroundTruth::Missing(without_tests(&missing)),
        Err(missing) => GroundTruth::Missing(missing),
    })
}

/// Finds the chosen column, else the first usual one that is not null: its name and value. A dot in
/// a name reaches into a column.
///
/// # Errors
/// The missing columns, as a sentence.
pub fn find<'a>(
    row: &'a Row,
    chosen: &'a Option<String>,
    usual: &[&'static str],
) -> Result<(&'a str, &'a Value), String> {
    let there = |name: &str| lookup(row, name).filter(|value| !value.is_null());
    let is_null = |name: &str| lookup(row, name).is_some_and(Value::is_null);
    match chosen {
        Some(name) => there(name).map(|value| (&name[..], value)).ok_or_else(|| {
            format!("column {name} is {}", if is_null(name) { "null" } else { "missing" })
        }),
        None => {
            usual.iter().find_map(|&name| Some((name, there(name)?))).ok_or_else(|| {
                match usual.iter().find(|name| is_null(name)) {
                    Some(name) => format!("column {name} is null"),
                    None => format!("none of the columns {} is there", usual.join(", ")),
                }
            })
        }
    }
}

/// Finds a column, or a value within it after a dot.
fn lookup<'a>(row: &'a Row, name: &str) -> Option<&'a Value> {
    row.get(name).or_else(|| {
        let (column, inner) = name.split_once('.')?;
        inner.split('.').try_fold(row.get(column)?, |value, key| value.get(key))
    })
}

/// A value as a model is shown it: a text as it is, any other as JSON; nothing of null.
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Reads a prompt: a text, or a list of messages with one of the user's, or an empty list.
///
/// # Errors
/// The defect, as a sentence.
pub fn read_prompt(value: &Value) -> Result<Prompt, String> {
    let prompt = match value {
        Value::String(text) => Prompt::Text(text.clone()),
        Value::Array(messages) => {
            check_messages(messages)?;
            Prompt::Chat(without_padding(messages))
        }
        _ => return Err("the prompt is neither text nor a list of messages".into()),
    };
    match prompt.question() {
        None if prompt.is_empty_chat() => Ok(prompt),
        None => Err("the prompt has no message of the user".into()),
        Some(question) if question.trim().is_empty() => Err("the prompt is empty".into()),
        Some(_) => Ok(prompt),
    }
}

fn check_messages(messages: &[Value]) -> Result<(), String> {
    for (number, message) in (1..).zip(messages) {
        for key in ["role", "content"] {
            let value = &message[key];
            let may_lack = key == "content" && value.is_null() && has_calls(message);
            if !value.is_string() && !may_lack {
                return Err(format!("message {number} has no {key} that is text"));
            }
        }
    }
    Ok(())
}

/// Whether a message calls tools, and so may have no text.
fn has_calls(message: &Value) -> bool {
    message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
}

/// The messages without the keys that hold null. A file in Parquet gives each message the keys of
/// all others.
fn without_padding(messages: &[Value]) -> Vec<Value> {
    // A message that calls tools may say that it has no content.
    messages.iter().map(|message| without_nulls(message, Some("content"))).collect()
}

/// A value without the keys that hold null, at any depth. It keeps the key `kept` of its own.
fn without_nulls(value: &Value, kept: Option<&str>) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, value)| !value.is_null() || Some(key.as_str()) == kept)
            .map(|(key, value)| (key.clone(), without_nulls(value, None)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| without_nulls(item, None)).collect(),
        other => other.clone(),
    }
}

fn is_of_assistant(message: &Value) -> bool {
    message["role"] == "assistant"
        && message["content"].as_str().is_some_and(|text| !text.trim().is_empty())
}

fn read_conversation(value: &Value) -> Result<Vec<Value>, String> {
    let messages = value.as_array().ok_or("column messages is not a list")?;
    check_messages(messages)?;
    let is_learnt = |message: &Value| {
        is_of_assistant(message) || message["role"] == "assistant" && has_calls(message)
    };
    if messages.iter().any(is_learnt) {
        Ok(without_padding(messages))
    } else {
        Err("no message of the assistant has content".into())
    }
}

/// Reads the tools of a chat: a list, its JSON, or nothing.
fn read_tools(value: Option<&Value>) -> Result<Vec<Value>, String> {
    let tools = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(json)) => serde_json::from_str(json).ok(),
        // As for messages, a file in Parquet gives each tool the keys of all others.
        Some(tools) => tools
            .as_array()
            .map(|tools| tools.iter().map(|tool| without_nulls(tool, None)).collect::<Vec<_>>()),
    };
    tools
        .filter(|tools| tools.iter().all(Value::is_object))
        .ok_or_else(|| "column tools is neither a list of objects nor the JSON of one".to_owned())
}

/// Reads a response: a text, or a list of one message.
fn read_response(column: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text,
        Value::Array(messages) => {
            check_messages(messages)?;
            match &messages[..] {
                [message] if is_of_assistant(message) => {
                    message["content"].as_str().unwrap_or_default()
                }
                _ => return Err(format!("column {column} is not one message of the assistant")),
            }
        }
        _ => return Err(format!("column {column} is not text")),
    };
    if text.trim().is_empty() {
        Err(format!("column {column} is empty"))
    } else {
        Ok(text.to_owned())
    }
}

/// Reads the ground truth of a column: the answer in a text, else the whole value. A verifier that
/// `takes_any` reads texts by its own rules and gets them whole.
fn read_ground_truth(
    value: &Value,
    column: &str,
    is_named: bool,
    takes_any: bool,
) -> Result<Value, String> {
    match value {
        Value::String(_) if takes_any => Ok(value.clone()),
        Value::String(text) => Ok(final_answer(text, column, is_named)?.into()),
        Value::Array(accepted) => {
            accepted.iter().try_for_each(|value| check_exact(value, column)).map(|()| value.clone())
        }
        _ => check_exact(value, column).map(|()| value.clone()),
    }
}

/// Smallest magnitude from which f64 lacks some integers.
const FIRST_INEXACT: f64 = (1_u64 << 53) as f64;

/// Refuses a number that may have been rounded: JSON integers beyond 64 bits are read as the
/// nearest f64.
///
/// # Errors
/// The refusal, as a sentence.
pub fn check_exact(value: &Value, column: &str) -> Result<(), String> {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) if number.abs() >= FIRST_INEXACT => Err(format!(
            "column {column} has a number beyond what can be read exactly: write it as text"
        )),
        _ => Ok(()),
    }
}

/// Extracts the answer from a column's text: all of it if it is the tests of a program; the part
/// after the last `####` (GSM8K); all of a column that the user named; of a `solution` the content
/// of its last box, or all of it if it is only an answer; else all of it.
///
/// # Errors
/// A worked solution that marks no answer, as a sentence.
fn final_answer<'a>(text: &'a str, column: &str, is_named: bool) -> Result<&'a str, String> {
    if Tests::is_form_of_text(text) {
        return Ok(text);
    }
    if let Some((_, answer)) = text.rsplit_once("####") {
        return Ok(answer.trim());
    }
    if is_named || column != "solution" {
        return Ok(text);
    }
    match last_boxed(text) {
        Some(answer) => Ok(answer),
        None if is_bare(text) => Ok(text.trim()),
        None => Err("column solution has neither \\boxed{...} nor #### before its answer, and is \
         more than an answer; name it \
                     in data.columns.answer to have it taken as it is"
            .into()),
    }
}

/// Longest text that can be only an answer, in bytes, and the most words in it outside of formulas.
const BARE_BYTES: usize = 200;
const BARE_WORDS: usize = 2;

/// Whether a text is only an answer: one line, with at most a word or two besides a formula.
fn is_bare(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() || text.len() > BARE_BYTES || text.contains('\n') {
        return false;
    }
    // A formula stands between dollars or in \( \), or begins with a backslash.
    let outside: String = text.split('$').step_by(2).collect::<Vec<_>>().join(" ");
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '\\');
        word.chars().count() > 1 && word.chars().all(char::is_alphabetic)
    };
    let is_formula = [("\\(", "\\)"), ("\\[", "\\]")]
        .iter()
        .any(|(open, close)| text.starts_with(open) && text.ends_with(close));
    is_formula || outside.split_whitespace().filter(is_word).count() <= BARE_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_may_be_rounded_is_refused() {
        let read = |json: &str| {
            let value: Value = serde_json::from_str(json).unwrap();
            read_ground_truth(&value, "answer", false, true).map(|truth| truth.to_string())
        };
        for json in [
            "7",
            "-0.5",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740991.0",
            "[1,2.5]",
            "{\"x\":1e+99}",
        ] {
            assert_eq!(read(json).as_deref(), Ok(json));
        }
        for json in [
            "18446744073709551617",
            "-9223372036854775809",
            "9007199254740993.0",
            "1e300",
            "[1,18446744073709551617]",
        ] {
            let error = read(json).unwrap_err();
            assert_eq!(
                error,
                "column answer has a number beyond what can be read exactly: write it as text",
                "{json}"
            );
        }
        assert_eq!(read("\"18446744073709551617\"").as_deref(), Ok("\"18446744073709551617\""));
        assert_eq!(
            read("\"5 + 2\\n#### 7\"").as_deref(),
            Ok("\"5 + 2\\n#### 7\""),
            "a verifier of the user's own reads texts itself"
        );
    }

    #[test]
    fn a_solution_may_be_nothing_but_an_answer() {
        for (text, answer) in [
            ("$\\boxed{\\frac{3}{4}}$", "\\frac{3}{4}"),
            ("We add and get \\boxed{7}, as was to be shown.", "7"),
            ("It is 8 - 1 = 7.\n#### 7", "7"),
            ("$\\frac{2}{3}$", "$\\frac{2}{3}$"),
            (" -12 ", "-12"),
            ("\\text{no real solution}", "\\text{no real solution}"),
            (
                "$x \\text{ is any even number below the largest}$",
                "$x \\text{ is any even number below the largest}$",
            ),
            ("\\(x = 5\\)", "\\(x = 5\\)"),
            ("x = 5 or x = 7", "x = 5 or x = 7"),
            ("(2, 3, 5, 7, 11)", "(2, 3, 5, 7, 11)"),
            ("Yes", "Yes"),
        ] {
            assert_eq!(final_answer(text, "solution", false), Ok(answer), "{text}");
        }
        for text in [
            "It is seven.",
            "We add them.\nSo x = 7",
            "",
            "First add, then divide: $7$ is left over",
        ] {
            let error = final_answer(text, "solution", false).unwrap_err();
            assert!(error.contains("\\boxed") && error.contains("data.columns.answer"), "{error}");
            assert_eq!(
                final_answer(text, "solution", true),
                Ok(text),
                "a named column is taken as it is"
            );
            assert_eq!(final_answer(text, "answer", false), Ok(text));
        }
        assert_eq!(
            final_answer("5 + 2\n#### 7", "answer", true),
            Ok("7"),
            "the mark is no part of an answer"
        );
    }
}
