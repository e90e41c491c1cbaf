//! Rows as problems and examples, by the schemas that data sets have.
//!
//! Problems: verl's `{prompt, data_source, reward_model: {ground_truth}, extra_info}` and `{prompt | problem | question,
//! ground_truth | answer | final_answer | expected_answer | solution}`. Examples: `{messages}` and `{prompt | problem |
//! question, response | completion | output | answer | solution}`.

use isentrope_grader::last_boxed;
use isentrope_reward::VerifierSettings;
use serde_json::Value;

use crate::rows::Row;
use crate::settings::Columns;
use crate::{Content, Example, Problem, Prompt};

const PROMPT: &[&str] = &["prompt", "problem", "question", "Problem", "Question", "extra_info.question"];
const GROUND_TRUTH: &[&str] = &[
    "reward_model.ground_truth",
    "ground_truth",
    "answer",
    "final_answer",
    "expected_answer",
    "Answer",
    "solution",
    "extra_info.answer",
];
const RESPONSE: &[&str] = &["response", "completion", "output", "answer", "solution", "extra_info.answer"];

/// What training draws, one at a time: [`Problem`] or [`Example`].
pub trait Record: Clone + Sized {
    /// The columns that are read, for messages.
    const EXPECTED: &'static str;

    /// The columns that are read.
    fn columns() -> Vec<&'static str>;

    /// What duplicates share.
    fn identity(&self) -> String;

    /// Whether the two, of one identity, contradict each other.
    fn contradicts(&self, other: &Self) -> bool;

    /// Where it was read.
    fn origin(&self) -> &str;

    /// The prompt, unless there is none apart from the rest.
    fn prompt_mut(&mut self) -> Option<&mut Prompt>;
}

impl Record for Problem {
    const EXPECTED: &'static str =
        "prompt, problem or question, with reward_model.ground_truth, ground_truth, answer or solution";

    fn columns() -> Vec<&'static str> {
        [&["data_source"], PROMPT, GROUND_TRUTH].concat()
    }

    fn identity(&self) -> String {
        self.prompt.identity()
    }

    fn contradicts(&self, other: &Self) -> bool {
        self.ground_truth != other.ground_truth
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn prompt_mut(&mut self) -> Option<&mut Prompt> {
        Some(&mut self.prompt)
    }
}

impl Problem {
    /// Reads a row whose ground truth the verifier can use; an error is what is wrong with it.
    pub(crate) fn from_row(
        row: &Row,
        columns: &Columns,
        origin: String,
        verifier: &VerifierSettings,
    ) -> Result<Self, String> {
        let (_, prompt) = find(row, &columns.prompt, PROMPT)?;
        let prompt = read_prompt(prompt)?;
        let data_source = match row.get("data_source") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(name)) => name.clone(),
            Some(_) => return Err("column data_source is not text".into()),
        };
        let check = |ground_truth: &Value| verifier.check_ground_truth(ground_truth, &data_source);
        // A verifier that needs no ground truth takes whatever there is.
        let takes_any = check(&Value::Null).is_ok();
        let ground_truth = match find(row, &columns.answer, GROUND_TRUTH) {
            Err(_) if takes_any && columns.answer.is_none() => Value::Null,
            Err(problem) => return Err(problem),
            Ok((column, answer)) => {
                let ground_truth = match answer {
                    Value::String(text) => match final_answer(text, column == "solution") {
                        Err(_) if takes_any => answer.clone(),
                        answer => answer?.into(),
                    },
                    answer => answer.clone(),
                };
                if is_tests(&ground_truth) && !takes_any {
                    return Err(format!(
                        "in column {column} are the tests of a program, which the verifier does not run"
                    ));
                }
                check(&ground_truth).map_err(|problem| format!("in column {column} {problem}"))?;
                ground_truth
            }
        };
        let extra_info = row.get("extra_info").cloned().unwrap_or_default();
        Ok(Self { prompt, ground_truth, data_source, extra_info, origin })
    }
}

impl Record for Example {
    const EXPECTED: &'static str = "messages; or prompt, problem or question, with response, completion, output, \
         answer or solution";

    fn columns() -> Vec<&'static str> {
        [&["messages"], PROMPT, RESPONSE].concat()
    }

    fn identity(&self) -> String {
        match &self.content {
            Content::Response { prompt, response } => format!("{}\n{response}", prompt.identity()),
            Content::Messages(messages) => Value::from(messages.clone()).to_string(),
        }
    }

    fn contradicts(&self, _: &Self) -> bool {
        false
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn prompt_mut(&mut self) -> Option<&mut Prompt> {
        match &mut self.content {
            Content::Response { prompt, .. } => Some(prompt),
            Content::Messages(_) => None,
        }
    }
}

/// Whether a ground truth is the tests of a program, as a text of JSON: mixed sets such as Eurus-2-RL have them where other
/// problems have their answer.
fn is_tests(ground_truth: &Value) -> bool {
    let text = ground_truth.as_str().filter(|text| text.trim_start().starts_with('{'));
    let tests: Option<Row> = text.and_then(|text| serde_json::from_str(text).ok());
    tests.is_some_and(|tests| tests.contains_key("inputs") && tests.contains_key("outputs"))
}

impl Example {
    /// Reads a row; an error is what is wrong with it.
    pub(crate) fn from_row(row: &Row, columns: &Columns, origin: String) -> Result<Self, String> {
        let content = match row.get("messages") {
            Some(messages) if !messages.is_null() && *columns == Columns::default() => {
                Content::Messages(read_conversation(messages)?)
            }
            _ => {
                let (_, prompt) = find(row, &columns.prompt, PROMPT)?;
                let (column, response) = find(row, &columns.answer, RESPONSE)?;
                Content::Response { prompt: read_prompt(prompt)?, response: read_response(column, response)? }
            }
        };
        Ok(Self { content, origin })
    }
}

/// The value of the chosen column, else of the first usual one that is there and not null, with its name. A name with a
/// dot is that of what is in a column.
///
/// # Errors
/// Which columns are missing, as a sentence.
pub fn find<'a>(
    row: &'a Row,
    chosen: &'a Option<String>,
    usual: &[&'static str],
) -> Result<(&'a str, &'a Value), String> {
    let there = |name: &str| lookup(row, name).filter(|value| !value.is_null());
    let is_null = |name: &str| lookup(row, name).is_some_and(Value::is_null);
    match chosen {
        Some(name) => there(name)
            .map(|value| (&name[..], value))
            .ok_or_else(|| format!("column {name} is {}", if is_null(name) { "null" } else { "missing" })),
        None => usual.iter().find_map(|&name| Some((name, there(name)?))).ok_or_else(|| {
            match usual.iter().find(|name| is_null(name)) {
                Some(name) => format!("column {name} is null"),
                None => format!("none of the columns {} is there", usual.join(", ")),
            }
        }),
    }
}

/// A column, or with a dot what is in it.
fn lookup<'a>(row: &'a Row, name: &str) -> Option<&'a Value> {
    row.get(name).or_else(|| {
        let (column, inner) = name.split_once('.')?;
        inner.split('.').try_fold(row.get(column)?, |value, key| value.get(key))
    })
}

fn read_prompt(value: &Value) -> Result<Prompt, String> {
    let prompt = match value {
        Value::String(text) => Prompt::Text(text.clone()),
        Value::Array(messages) => {
            check_messages(messages)?;
            Prompt::Chat(messages.clone())
        }
        _ => return Err("the prompt is neither text nor a list of messages".into()),
    };
    match prompt.question() {
        None => Err("the prompt has no message of the user".into()),
        Some(question) if question.trim().is_empty() => Err("the prompt is empty".into()),
        Some(_) => Ok(prompt),
    }
}

fn check_messages(messages: &[Value]) -> Result<(), String> {
    for (number, message) in (1..).zip(messages) {
        for key in ["role", "content"] {
            if !message.get(key).is_some_and(Value::is_string) {
                return Err(format!("message {number} has no {key} that is text"));
            }
        }
    }
    Ok(())
}

fn is_of_assistant(message: &Value) -> bool {
    message["role"] == "assistant" && message["content"].as_str().is_some_and(|text| !text.trim().is_empty())
}

fn read_conversation(value: &Value) -> Result<Vec<Value>, String> {
    let messages = value.as_array().ok_or("column messages is not a list")?;
    check_messages(messages)?;
    if messages.iter().any(is_of_assistant) {
        Ok(messages.clone())
    } else {
        Err("no message of the assistant has content".into())
    }
}

/// A response, also where it is a list of one message.
fn read_response(column: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text,
        Value::Array(messages) => {
            check_messages(messages)?;
            match &messages[..] {
                [message] if is_of_assistant(message) => message["content"].as_str().unwrap_or_default(),
                _ => return Err(format!("column {column} is not one message of the assistant")),
            }
        }
        _ => return Err(format!("column {column} is not text")),
    };
    if text.trim().is_empty() { Err(format!("column {column} is empty")) } else { Ok(text.to_owned()) }
}

/// The answer that a text gives: what follows the last `####` (GSM8K); of a worked solution else what its last box holds;
/// else all of it.
///
/// # Errors
/// When a worked solution marks no answer, as a sentence.
pub fn final_answer(text: &str, worked: bool) -> Result<&str, String> {
    match text.rsplit_once("####") {
        Some((_, answer)) => Ok(answer.trim()),
        None if worked => last_boxed(text)
            .ok_or_else(|| "column solution has neither \\boxed{...} nor #### before its answer".into()),
        None => Ok(text),
    }
}
