//! Calls of tools in a turn of the model, in the forms that models are trained on:
//!
//! ```text
//! <tool_call>{"name": "calculator", "arguments": {"expression": "2+2"}}</tool_call>   Qwen, Hermes
//! {"name": "calculator", "parameters": {"expression": "2+2"}}                         Llama 3
//! <|python_tag|>print(2 + 2)                                                          Llama 3
//! ```python ... ```                                                                   any
//! ```
//!
//! The first two may stand several times. Reasoning up to the last `</think>` holds no calls. Marks
//! within the JSON of the first two belong to the call.

use isentrope_code::large_integer;
use serde_json::{Map, Value};

/// The special token of Llama 3 that begins a turn of code, or of a call in JSON.
pub const PYTHON_TAG: &str = "<|python_tag|>";

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const END_OF_THOUGHTS: &str = "</think>";

/// Most calls of one turn; more are refused.
const MOST: usize = 16;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// The calls of a turn, in their order; of one that cannot be read, why, as a sentence. None: the
/// turn is an answer. Code blocks are calls if `python` is a tool.
pub fn calls(text: &str, python: bool) -> Vec<Result<Call, String>> {
    let text = text[end_of_thoughts(text)..].trim();
    let json = bare(text);
    let mut found = if are_calls(&json) {
        json
    } else if text.contains(OPEN) {
        tagged(text)
    } else if let Some((_, call)) = text.split_once(PYTHON_TAG) {
        let call = call.trim();
        let calls = bare(call);
        if calls.is_empty() { vec![Ok(code(call))] } else { calls }
    } else if json.is_empty() && python {
        blocks(text)
    } else {
        json
    };
    if found.len() > MOST {
        found.truncate(MOST);
        found.push(Err(format!("a turn may have at most {MOST} calls: the others are left out")));
    }
    found
}

fn code(text: &str) -> Call {
    let arguments = Map::from_iter([("code".to_owned(), text.into())]);
    Call { name: "python".into(), arguments }
}

/// The place where a turn's thoughts end: behind the last `</think>` that is outside the calls.
fn end_of_thoughts(text: &str) -> usize {
    let ends = text.match_indices(END_OF_THOUGHTS).map(|(at, mark)| at + mark.len());
    let mut starts = std::iter::once(0).chain(ends).take(MOST);
    if let Some(start) = starts.find(|start| is_bare(&text[*start..])) {
        return start;
    }
    let mut end = text.len();
    while let Some(mark) = text[..end].rfind(END_OF_THOUGHTS) {
        let is_around = |open: &usize| {
            let inside = open + OPEN.len();
            closed(&text[inside..])
                .is_some_and(|(length, call)| inside + length > mark && call.is_ok())
        };
        let opens = text[..mark].rmatch_indices(OPEN).map(|(at, _)| at);
        match opens.take(MOST).find(is_around) {
            Some(open) => end = open,
            None => return mark + END_OF_THOUGHTS.len(),
        }
    }
    0
}

/// Calls between `<tool_call>` and `</tool_call>`.
fn tagged(text: &str) -> Vec<Result<Call, String>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while calls.len() <= MOST
        && let Some((_, inside)) = rest.split_once(OPEN)
    {
        let (length, call) = closed(inside).unwrap_or_else(|| {
            let part = inside.find(OPEN).map_or(inside, |next| &inside[..next]);
            let call = match part.split_once(CLOSE) {
                Some((json, _)) => read(json),
                None => Err("the call has no </tool_call> at its end".to_owned()),
            };
            (part.len(), call)
        });
        calls.push(call);
        rest = &inside[length..];
    }
    calls
}

/// The call in the JSON that a text begins with, and the JSON's length, if `</tool_call>` follows.
fn closed(text: &str) -> Option<(usize, Result<Call, String>)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let (json, rest) = text.split_at(values.byte_offset());
    let is_closed = rest.trim_start().starts_with(CLOSE);
    is_closed.then(|| (json.len(), check_integers(json).and_then(|()| call(value))))
}

/// Whether a text is nothing but calls in JSON that can be read.
fn is_bare(text: &str) -> bool {
    are_calls(&bare(text.trim()))
}

/// Whether there are calls, and all can be read.
fn are_calls(calls: &[Result<Call, String>]) -> bool {
    !calls.is_empty() && calls.iter().all(Result::is_ok)
}

/// A text that is nothing but calls in JSON, with `;` or white space between them.
fn bare(text: &str) -> Vec<Result<Call, String>> {
    if !text.starts_with('{') || !text.contains("\"name\"") {
        return Vec::new();
    }
    let mut calls = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && calls.len() <= MOST {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let exact = check_integers(&rest[..values.byte_offset()]);
                calls.push(exact.and_then(|()| call(value)));
            }
            _ => {
                calls.push(read(rest));
                break;
            }
        }
        rest = rest[values.byte_offset()..].trim_start_matches([';', ' ', '\n', '\r', '\t']);
    }
    calls
}

/// Blocks of Python.
fn blocks(text: &str) -> Vec<Result<Call, String>> {
    let mut calls = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let language = line.trim().strip_prefix("```").map(str::trim);
        match language {
            Some("python" | "py" | "python3") => {
                let inside: Vec<&str> =
                    lines.by_ref().take_while(|line| line.trim() != "```").collect();
                calls.push(Ok(code(&inside.join("\n"))));
            }
            // The content of another block is no call.
            Some(_) => drop(lines.by_ref().find(|line| line.trim() == "```")),
            None => {}
        }
    }
    calls
}

fn read(json: &str) -> Result<Call, String> {
    let value = serde_json::from_str(json.trim());
    let value = value.map_err(|e| format!("the call is not JSON: {e}"))?;
    check_integers(json)?;
    call(value)
}

/// Refuses whole numbers of valid JSON that 64 bits cannot hold: they would be rounded.
fn check_integers(json: &str) -> Result<(), String> {
    let Some(number) = large_integer(json) else { return Ok(()) };
    let start: String = number.chars().take(40).collect();
    Err(format!("the number {start} is too large: write it as a text"))
}

fn call(value: Value) -> Result<Call, String> {
    let Value::Object(mut object) = value else {
        return Err("the call is not an object with a name and arguments".into());
    };
    let Some(Value::String(name)) = object.remove("name") else {
        return Err("the call has no name".into());
    };
    let arguments = object.remove("arguments").or_else(|| object.remove("parameters"));
    let arguments = match arguments {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        // Some models write the arguments as a text of JSON.
        Some(Value::String(text)) => {
            let arguments = serde_json::from_str(&text);
            let arguments =
                arguments.map_err(|e| format!("the arguments of {name} are not an object: {e}"))?;
            check_integers(&text)?;
            arguments
        }
        Some(_) => return Err(format!("the arguments of {name} are not an object")),
    };
    Ok(Call { name, arguments })
}

/// The text before a turn's calls, without white space around it.
pub fn before_calls(text: &str) -> &str {
    let thought = end_of_thoughts(text);
    let said = &text[thought..];
    let call = [OPEN, PYTHON_TAG].iter().find_map(|mark| said.find(mark));
    let call = call.filter(|_| !is_bare(said)).unwrap_or(0);
    text[..thought + call].trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Nearly calls.
    const NEAR: &str =
        "(<tool_call>|</tool_call>|</think>|\\{\"name\":\"a\"|\\}|;|```python|```|\n|é){0,12}";

    proptest! {
        #[test]
        fn any_text_has_a_bounded_number_of_calls(text in ".*", near in NEAR) {
            for text in [&text, &near] {
                prop_assert!(calls(text, true).len() <= MOST + 1);
            }
        }
    }

    #[test]
    fn calls_are_found_in_every_form() {
        let hermes =
            "I add.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>";
        let two = format!("{hermes}\n<tool_call>{{\"name\":\"b\"}}</tool_call>");
        let block = "So:\n```python\nx = 1\nprint(x)\n```\nand\n```json\n{}\n```\n```py\n2\n```";
        let code = |text: &str| format!("python({{\"code\":{text:?}}})");
        for (text, expected) in [
            (hermes, vec!["a({\"x\":1})".to_owned()]),
            (&two, vec!["a({\"x\":1})".into(), "b({})".into()]),
            ("{\"name\": \"a\", \"parameters\": {\"x\": 1}}", vec!["a({\"x\":1})".into()]),
            ("{\"name\":\"a\"}; {\"name\":\"b\"}\n", vec!["a({})".into(), "b({})".into()]),
            ("{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}", vec!["a({\"x\":1})".into()]),
            ("<|python_tag|>print(1)\n2", vec![code("print(1)\n2")]),
            ("<|python_tag|>{\"name\": \"a\"}", vec!["a({})".into()]),
            (block, vec![code("x = 1\nprint(x)"), code("2")]),
            (
                r#"{"name":"a","arguments":{"x":18446744073709551615,"y":"\"9{e}\\","z":1e30}}"#
                    .replace("{e}", &"9".repeat(30))
                    .as_str(),
                vec![format!(
                    r#"a({{"x":18446744073709551615,"y":"\"9{}\\","z":1e+30}})"#,
                    "9".repeat(30)
                )],
            ),
            ("```python\nnot closed", vec![code("not closed")]),
            ("<think>\n<tool_call>{}</tool_call>\n```python\n1\n```</think>\nIt is 4.", vec![]),
            ("It is 4: {\"name\": 3}", vec![]),
            ("{\"answer\": 3}", vec![]),
            ("", vec![]),
        ] {
            let found: Vec<String> = calls(text, true)
                .into_iter()
                .map(|call| {
                    call.map(|Call { name, arguments: a }| format!("{name}({})", Value::from(a)))
                })
                .collect::<Result<_, _>>()
                .unwrap();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(calls(block, false), [], "blocks are calls of python alone");
        let thought = format!("<think>\n<tool_call>\n</think>\n{hermes}");
        for (text, expected) in [
            (&*two, "I add."),
            (&thought, "<think>\n<tool_call>\n</think>\nI add."),
            ("<think>é</think>\n{\"name\": \"a\"}", "<think>é</think>"),
            ("{\"name\": \"a\"}", ""),
        ] {
            assert_eq!(before_calls(text), expected);
        }
    }

    #[test]
    fn marks_within_a_call_belong_to_it() {
        let code =
            "for mark in ['<think>', '</think>', '<tool_call>', '</tool_call>']: print(mark)";
        let json = serde_json::json!({"name": "python", "arguments": {"code": code}}).to_string();
        let (tagged, thought) = (format!("<tool_call>{json}</tool_call>"), "<think>a</think>");
        let call = Call {
            name: "python".into(),
            arguments: Map::from_iter([("code".to_owned(), code.into())]),
        };
        let discarded = format!("<think>\n{tagged}</think>");
        for (text, count, before) in [
            (tagged.clone(), 1, ""),
            (format!("{thought}\nI print.\n{tagged}\n{tagged}"), 2, "<think>a</think>\nI print."),
            (format!("{discarded}{tagged}"), 1, &*discarded),
            (json.clone(), 1, ""),
            (format!("{thought}\n{json}"), 1, thought),
        ] {
            let expected: Vec<Result<Call, String>> = vec![Ok(call.clone()); count];
            assert_eq!(calls(&text, true), expected, "{text}");
            assert_eq!(before_calls(&text), before, "{text}");
        }
        let thoughts = format!("<think>I would call {tagged}, but no.</think>\nIt is 4.");
        assert_eq!(calls(&thoughts, true), []);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let many = "<tool_call>{\"name\":\"a\"}</tool_call>".repeat(1000);
        let deep = format!("<tool_call>{}</tool_call>", "[".repeat(100_000));
        for (text, count, why) in [
            ("<tool_call>{\"name\": \"a\"}", 1, "no </tool_call>"),
            ("<tool_call>{\"name\": }</tool_call>", 1, "not JSON: expected value at line 1"),
            ("<tool_call>[1]</tool_call>", 1, "not an object"),
            ("<tool_call>{\"arguments\": {}}</tool_call>", 1, "no name"),
            ("{\"name\": \"a\", \"arguments\": [1]}", 1, "arguments of a are not an object"),
            ("{\"name\": \"a\", \"arguments\": \"x\"}", 1, "arguments of a are not an object"),
            ("{\"name\": \"a\"", 1, "not JSON: EOF"),
            ("{\"name\": \"a\"} so", 2, "not JSON"),
            (
                r#"<tool_call>{"name":"a","arguments":{"x":18446744073709551616}}</tool_call>"#,
                1,
                "the number 18446744073709551616 is too large: write it as a text",
            ),
            (r#"{"name":"a","arguments":{"x":[-9223372036854775809]}}"#, 1, "-9223372036854775809"),
            (r#"{"name": "a", "arguments": "{\"x\": 36893488147419103232}"}"#, 1, "368934881474"),
            (&many, 17, "at most 16 calls"),
            (&deep, 1, "recursion limit"),
        ] {
            let found = calls(text, true);
            assert_eq!(found.len(), count, "{text}");
            let error = found.last().unwrap().clone().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
