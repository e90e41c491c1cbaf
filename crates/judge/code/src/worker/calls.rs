//! Calls of a program's function, with arguments and values in JSON.

use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::ended::LONGEST_LINE;
use super::server::{Broken, Order, Said, Server};
use super::values::{Unread, Values, value};
use super::{End, RunLimits, Worker};
use crate::json::{self, Unread as UnreadJson};
use crate::wire::Frame;

/// Longest message beside an answer: the names of a program.
const NAMES: usize = 1 << 20;

/// Most values and keys of what a program says. Each takes about a hundred bytes here, of which a
/// message may have millions.
const MOST_VALUES: usize = 1 << 20;

/// Calls the function from call `next` on in a fresh process of the program, and tells `observe`,
/// until all is done, that breaks off, or the process does not survive.
pub fn run(
    worker: &mut Worker,
    program: &str,
    function: &str,
    arguments: &[Vec<Value>],
    next: &mut usize,
    limits: &RunLimits,
    observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Broken> {
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

/// Waits until a program is loaded; how it ended, if it was not.
fn load(server: &mut Server, cpu_s: u64, deadline: Instant) -> Result<Option<End>, Broken> {
    match server.message(NAMES, deadline)? {
        Said::Message(message) => Ok(loading_error(&message.body)),
        Said::Ended(ended) => Ok(Some(ended_early(ended.end(cpu_s)))),
        Said::Late => Ok(Some(End::TimeLimit)),
        Said::TooLong => Ok(Some(End::OutputLimit)),
    }
}

/// The error with which a program did not load, from what its process says of that.
pub fn loading_error(body: &[u8]) -> Option<End> {
    match said(body) {
        Ok(loaded) => loaded["error"].as_str().map(raised),
        Err(end) => Some(end),
    }
}

/// Reads a message of a program's process.
fn said(body: &[u8]) -> Result<Value, End> {
    let text = std::str::from_utf8(body).map_err(|error| unreadable(&error.to_string()))?;
    json::read(text, MOST_VALUES).map_err(|error| match error {
        UnreadJson::TooMany(_) => End::OutputLimit,
        UnreadJson::Malformed(error) => unreadable(&error.to_string()),
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
) -> Result<(Result<Value, End>, bool), Broken> {
    let mut values = Values::default();
    let arguments = values.arguments(arguments);
    let named = values.dict(json!([]), &Map::new());
    let operands = values.tuple(vec![function.into(), 0.into(), arguments, named]);
    let question = json!({"op": "call", "v": operands, "o": values.objects, "plain": true});
    server.tell(b'q', question.to_string().as_bytes());
    Ok(match server.message(limits.output_bytes, deadline)? {
        Said::Message(Frame { kind: b'a', body }) => (answer(&body, limits), true),
        Said::Message(_) => (Err(End::RuntimeError("it says what is no answer".into())), false),
        Said::Ended(ended) => (Err(ended_early(ended.end(cpu_s))), false),
        Said::Late => (Err(End::TimeLimit), false),
        Said::TooLong => (Err(End::OutputLimit), false),
    })
}

fn answer(body: &[u8], limits: &RunLimits) -> Result<Value, End> {
    let answer = said(body)?;
    if answer.get("x").is_some() {
        return Err(raised(answer["line"].as_str().unwrap_or("an error")));
    }
    value(&answer, limits.output_bytes).map_err(|problem| match problem {
        Unread::TooLong => End::OutputLimit,
        Unread::Malformed(problem) => unreadable(&problem),
    })
}

/// An error that a program has raised, by the last line of its traceback.
pub fn raised(line: &str) -> End {
    let name = line.split(':').next().unwrap_or_default();
    if name.ends_with("MemoryError") {
        return End::MemoryLimit;
    }
    End::RuntimeError(line.chars().take(LONGEST_LINE).collect())
}

/// How a process has ended that was to answer.
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
        let limits = RunLimits {
            wall: std::time::Duration::from_secs(1),
            until: None,
            memory_bytes: 1 << 30,
            output_bytes: 16 << 20,
        };
        let message =
            |objects: usize| format!("{{\"v\": null, \"o\": [{}0]}}", "{\"\": 0},".repeat(objects));
        assert_eq!(answer(message(1000).as_bytes(), &limits), Ok(Value::Null));
        assert_eq!(answer(message(MOST_VALUES).as_bytes(), &limits), Err(End::OutputLimit));
        assert_eq!(loading_error(message(MOST_VALUES).as_bytes()), Some(End::OutputLimit));
    }
}
