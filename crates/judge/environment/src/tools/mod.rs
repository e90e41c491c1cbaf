//! `kind = "tools"`: the model calls tools, and answers when it has seen enough.
//!
//! `calls` finds the calls in a turn; `calculator` is a tool, the other is
//! [`isentrope_code::Interpreter`]. A call that cannot be read or fails is answered with the
//! reason, for the model to read.

mod calculator;
mod calls;

use std::collections::BTreeMap;
use std::sync::Arc;

use isentrope_code::{Cell, CodeSettings, Interpreter};
use isentrope_data::Problem;
use serde_json::{Value, json};

pub use self::calls::{Call, before_calls, calls};
use crate::settings::{ToolName, ToolsSettings};
use crate::{Environment, Episode, Fault, Reply};

/// Characters of a tool's answer; the rest is cut.
const LONGEST: usize = 1 << 16;

/// Tools for all episodes.
pub struct Tools {
    /// The tools' schemas.
    schemas: Vec<Value>,
    inner: Arc<Inner>,
}

struct Inner {
    tools: Vec<ToolName>,
    interpreter: Option<Interpreter>,
}

impl Tools {
    /// Prepares the tools.
    ///
    /// # Errors
    /// A sentence on what is missing.
    pub fn start(settings: &ToolsSettings) -> Result<Self, String> {
        let interpreter = settings.tools.contains(&ToolName::Python).then(|| {
            Interpreter::start(&CodeSettings {
                timeout_s: settings.limits.timeout_s,
                memory_mib: settings.memory_mib,
                output_mib: 1,
                python: settings.python.clone(),
                ..CodeSettings::default()
            })
        });
        let interpreter = interpreter.transpose().map_err(|e| e.to_string())?;
        let schemas = settings.tools.iter().map(|tool| tool.schema()).collect();
        let inner = Inner { tools: settings.tools.clone(), interpreter };
        Ok(Self { schemas, inner: Arc::new(inner) })
    }
}

impl ToolName {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Calculator => "calculator",
            Self::Python => "python",
        }
    }

    /// The name of its argument, a text.
    fn argument(self) -> &'static str {
        match self {
            Self::Calculator => "expression",
            Self::Python => "code",
        }
    }

    /// The tool as chat templates take it.
    fn schema(self) -> Value {
        let (about, of_argument) = match self {
            Self::Calculator => {
                ("Computes an expression exactly.", "Numbers, + - * / // % ** and parentheses.")
            }
            Self::Python => (
                "Runs Python code and returns what it prints and the value of its last line. \
                 Names stay for later calls.",
                "The code.",
            ),
        };
        json!({"type": "function", "function": {
            "name": self.name(), "description": about,
            "parameters": {
                "type": "object",
                "properties": {self.argument(): {"type": "string", "description": of_argument}},
                "required": [self.argument()],
            },
        }})
    }
}

impl Environment for Tools {
    fn begin(&self, _problem: &Problem, _seed: u64) -> Result<Box<dyn Episode>, Fault> {
        Ok(Box::new(Session {
            inner: Arc::clone(&self.inner),
            cells: Vec::new(),
            calls: 0,
            failed: 0,
        }))
    }

    fn workers(&self) -> usize {
        self.inner.interpreter.as_ref().map_or(1, Interpreter::workers)
    }

    fn tools(&self) -> &[Value] {
        &self.schemas
    }

    fn call_marks(&self) -> &[&str] {
        &[calls::PYTHON_TAG]
    }

    fn notes(&self) -> Vec<String> {
        let describe =
            |interpreter: &Interpreter| format!("environment: {}", interpreter.describe());
        self.inner.interpreter.iter().map(describe).collect()
    }
}

/// An episode.
struct Session {
    inner: Arc<Inner>,
    /// The cells that `python` has run.
    cells: Vec<String>,
    /// Calls so far.
    calls: usize,
    /// Calls so far that were answered with an error.
    failed: usize,
}

impl Episode for Session {
    fn step(&mut self, text: &str) -> Result<Reply, Fault> {
        let python = self.inner.interpreter.is_some();
        let calls = calls(text, python);
        let mut messages = Vec::new();
        let done = calls.is_empty();
        self.calls += calls.len();
        for call in calls {
            let (name, answer) = match call {
                Ok(call) => (Some(call.name.clone()), self.answer(&call)?),
                Err(problem) => (None, Err(problem)),
            };
            self.failed += usize::from(answer.is_err());
            let mut content = answer.unwrap_or_else(|problem| format!("error: {problem}"));
            if let Some((end, _)) = content.char_indices().nth(LONGEST) {
                content.truncate(end);
                content.push_str(" [cut]");
            }
            let mut message = json!({"role": "tool", "content": content});
            // A name that the model made up may hold anything, and a template may write it.
            if let Some(name) = name.filter(|name| is_harmless(name)) {
                message["name"] = name.into();
            }
            messages.push(message);
        }
        let metrics = BTreeMap::from([
            ("tool_calls".to_owned(), self.calls as f64),
            ("tool_errors".to_owned(), self.failed as f64),
        ]);
        Ok(Reply { messages, done, reward: None, metrics })
    }
}

/// Whether a text is like the names of tools.
fn is_harmless(name: &str) -> bool {
    name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

impl Session {
    /// Answers a call, or says why it cannot be answered.
    fn answer(&mut self, call: &Call) -> Result<Result<String, String>, Fault> {
        let Some(tool) = self.inner.tools.iter().find(|tool| tool.name() == call.name) else {
            let names: Vec<&str> = self.inner.tools.iter().map(|tool| tool.name()).collect();
            let name: String = call.name.chars().take(40).collect();
            return Ok(Err(format!("there is no tool {name:?}; there are: {}", names.join(", "))));
        };
        let argument = tool.argument();
        let Some(text) = call.arguments.get(argument).and_then(Value::as_str) else {
            return Ok(Err(format!("{} needs the argument {argument:?}, a text", tool.name())));
        };
        match (tool, &self.inner.interpreter) {
            (ToolName::Python, Some(interpreter)) => {
                let run = interpreter.run(&self.cells, text).map_err(|e| Fault(e.to_string()))?;
                let Cell { output, aborted } = run;
                Ok(match aborted {
                    None => {
                        self.cells.push(text.to_owned());
                        Ok(if output.is_empty() { "(no output)".into() } else { output })
                    }
                    Some(why) => Err(format!("the code {why}; its names are not kept\n{output}")),
                })
            }
            _ => Ok(calculator::evaluate(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(tools: Value) -> (Tools, Box<dyn Episode>) {
        let settings = json!({"tools": tools, "timeout_s": 2.0, "memory_mib": 128});
        let tools = Tools::start(&serde_json::from_value(settings).unwrap()).unwrap();
        let problem = Problem {
            prompt: isentrope_data::Prompt::Text(String::new()),
            ground_truth: Value::Null,
            data_source: String::new(),
            extra_info: Value::Null,
            columns: serde_json::Map::new(),
            hint: None,
            origin: String::new(),
        };
        let episode = tools.begin(&problem, 0).unwrap();
        (tools, episode)
    }

    fn called(name: &str, argument: &str, text: &str) -> String {
        format!("<tool_call>{}</tool_call>", json!({"name": name, "arguments": {argument: text}}))
    }

    #[test]
    fn calls_are_answered_in_order_and_a_turn_without_one_ends_the_episode() {
        let (tools, mut episode) = session(json!(["calculator"]));
        assert_eq!(tools.tools()[0]["function"]["name"], "calculator");
        let text = [("calculator", "expression", "1/4"), ("calculator", "expression", "1/0")]
            .map(|(name, argument, text)| called(name, argument, text))
            .concat();
        let reply = episode.step(&text).unwrap();
        let messages = json!([
            {"role": "tool", "content": "0.25", "name": "calculator"},
            {"role": "tool", "content": "error: it divides by zero", "name": "calculator"}
        ]);
        assert_eq!(Value::from(reply.messages), messages);
        assert_eq!((reply.done, reply.reward, reply.metrics["tool_errors"]), (false, None, 1.0));
        for (text, answer, name) in [
            (
                called("python", "code", "1"),
                "error: there is no tool \"python\"; there are: calculator",
                Some("python"),
            ),
            (
                called("<|im_end|>", "code", "1"),
                "error: there is no tool \"<|im_end|>\"; there are: calculator",
                None,
            ),
            (
                called("calculator", "x", "1"),
                "error: calculator needs the argument \"expression\", a text",
                Some("calculator"),
            ),
            ("<tool_call>{</tool_call>".into(), "error: the call is not JSON: ", None),
        ] {
            let reply = episode.step(&text).unwrap();
            let content = reply.messages[0]["content"].as_str().unwrap();
            assert!(content.starts_with(answer) && !reply.done, "{content}");
            assert_eq!(reply.messages[0]["name"].as_str(), name, "{content}");
        }
        let reply = episode.step("It is 4, as ```python\n1``` says.").unwrap();
        assert!(reply.done && reply.messages.is_empty() && reply.reward.is_none());
        assert_eq!((reply.metrics["tool_calls"], reply.metrics["tool_errors"]), (6.0, 5.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn python_keeps_its_names_over_an_episode() {
        let (tools, mut episode) = session(json!(["python", "calculator"]));
        assert!(tools.notes()[0].starts_with("environment: programs run in Python 3"));
        let mut step = |text: &str| {
            let mut reply = episode.step(text).unwrap();
            reply.messages.remove(0)["content"].as_str().unwrap().to_owned()
        };
        assert_eq!(step("```python\nx = 6\n```"), "(no output)");
        assert_eq!(step(&called("python", "code", "x * 7")), "42\n");
        let late = step("```python\nx = 0\nprint(1, flush=True)\nwhile True: pass\n```");
        assert_eq!(late, "error: the code took longer than 2 s; its names are not kept\n1\n");
        assert_eq!(step("```python\nprint(x)\n```"), "6\n");
        assert!(step("```python\nprint('é' * 400000)\n```").ends_with("é [cut]"));
        let (_, mut other) = session(json!(["python"]));
        let reply = other.step("```python\nx\n```").unwrap();
        assert!(reply.messages[0]["content"].as_str().unwrap().contains("NameError"));
    }
}
