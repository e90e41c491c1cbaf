//! Calls of a program's function, with arguments and values in JSON.

use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::{Value, json};

use super::run_report::raised;
use super::server::{Order, Reply, Server, ServerFailure};
use super::{End, RunLimits, Worker};
use crate::json::{self, ReadError};
use crate::wire::Frame;

/// Longest message beside an answer: the names of a program.
const NAMES: usize = 1 << 20;

/// Most values and keys of a program's message. A message has room for millions, and each takes
/// about a hundred bytes here.
const MOST_VALUES: usize = 1 << 20;

/// Calls the function from call `next` on in a fresh process of the program. Passes each result to
/// `observe`, until all calls are done, `observe` breaks off, or the process dies.
pub fn run(
    worker: &mut Worker,
    program: &str,
    function: &str,
    arguments: &[Vec<Value>],
    next: &mut usize,
    limits: &RunLimits,
    observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ServerFailure> {
    let server = worker.programs()?;
    let order = Order::new("session", limits, arguments.len() - *next + 1);
    let cpu_s = order.cpu_s;
    let mut deadline = limits.deadline();
    server.order(order, &json!({"program": program}));
    let failed = load(server, cpu_s, deadline)?;
    while *next < arguments.len() {
        let (result, survived) = match &failed {
            Some(end) => (Err(end.clone()), true), // it would not load again either
            None => call(server, function, &arguments[*next], limits, cpu_s, deadline)?,
        };
        let call = *next;
        *next += 1;
        if observe(call, result).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !survived {
            break;
        }
        deadline = limits.deadline();
    }
    Ok(ControlFlow::Continue(()))
}

/// Waits until a program is loaded. Returns how it ended, if it did not load.
fn load(server: &mut Server, cpu_s: u64, deadline: Instant) -> Result<Option<End>, ServerFailure> {
    match server.message(NAMES, deadline)? {
        Reply::Message(message) => Ok(loading_error(&message.body)),
        Reply::Ended(ended) => Ok(Some(ended_early(ended.end(cpu_s)))),
        Reply::Late => Ok(Some(End::TimeLimit)),
        Reply::TooLong => Ok(Some(End::OutputLimit)),
    }
}

/// The error of a program that did not load, from its process's message.
pub fn loading_error(body: &[u8]) -> Option<End> {
    match read_message(body) {
        Ok(loaded) => loaded["error"].as_str().map(raised),
        Err(end) => Some(end),
    }
}

/// Reads a message of a program's process.
fn read_message(body: &[u8]) -> Result<Value, End> {
    let text = std::str::from_utf8(body).map_err(|error| unreadable(&error.to_string()))?;
    json::read(text, MOST_VALUES).map_err(|error| match error {
        ReadError::TooMany(_) => End::OutputLimit,
        error => unreadable(&error.to_string()),
    })
}

/// One call, and whether the process has survived it.
fn call(
    server: &mut Server,
    function: &str,
    arguments: &[Value],
    limits: &RunLimits,
    cpu_s: u64,
    deadline: Instant,
) -> Result<(Result<Value, End>, bool), ServerFailure> {
    let question = json!([function, arguments, limits.output_bytes]);
    server.tell(b'c', question.to_string().as_bytes());
    Ok(match server.message(limits.output_bytes, deadline)? {
        Reply::Message(Frame { kind: b'a', body }) => (answer(&body), true),
        Reply::Message(_) => (Err(End::RuntimeError("it says what is no answer".into())), false),
        Reply::Ended(ended) => (Err(ended_early(ended.end(cpu_s))), false),
        Reply::Late => (Err(End::TimeLimit), false),
        Reply::TooLong => (Err(End::OutputLimit), false),
    })
}

fn answer(body: &[u8]) -> Result<Value, End> {
    let mut answer = read_message(body)?;
    if answer.get("limit").is_some() {
        return Err(End::OutputLimit);
    }
    if let Some(line) = answer["line"].as_str() {
        return Err(raised(line));
    }
    answer.get_mut("v").map(Value::take).ok_or_else(|| unreadable("there is no value"))
}

/// The end of a process that should have answered.
pub fn ended_early(end: End) -> End {
    match end {
        End::Completed => End::RuntimeError("it ended itself in the middle of a call".into()),
        end => end,
    }
}

fn unreadable(problem: &str) -> End {
    End::RuntimeError(format!("what it returned cannot be read: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_millions_of_values_is_not_read() {
        let message =
            |objects: usize| format!("{{\"v\": null, \"o\": [{}0]}}", "{\"\": 0},".repeat(objects));
        assert_eq!(answer(message(1000).as_bytes()), Ok(Value::Null));
        assert_eq!(answer(message(MOST_VALUES).as_bytes()), Err(End::OutputLimit));
        assert_eq!(loading_error(message(MOST_VALUES).as_bytes()), Some(End::OutputLimit));
    }
}
