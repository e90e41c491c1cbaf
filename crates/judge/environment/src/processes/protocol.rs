//! The lines between a run and the processes of an environment: one JSON object each.
//!
//! ```text
//! {"id": 17, "reset": {"prompt": ..., "ground_truth": ..., ...}, "seed": 17}
//!     {"id": 17}, with messages if the environment opens its episodes
//! {"id": 17, "step": "the model's turn", "closed": [1, 2]}
//!     {"id": 17, "messages": [...]}
//! ```

use std::collections::BTreeMap;

use isentrope_data::Problem;
use isentrope_reward::command::{Misconduct, check_names, one_line, rubbish, without_halves};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Longest line that a process may print, in bytes.
pub const LONGEST: usize = 1 << 20;

/// Most messages of an answer.
const MOST_MESSAGES: usize = 64;

/// Largest reward, in magnitude, as of verifiers.
const MOST_REWARD: f64 = 1e6;

/// Longest reason of a failure that is shown, in characters.
const SHOWN: usize = 500;

/// Longest value that a message shows, in characters.
const SHOWN_VALUE: usize = 80;

/// The question that begins an episode, without its number.
pub fn reset(problem: &Problem, seed: u64) -> Value {
    let Problem { prompt, ground_truth, data_source, extra_info, columns, .. } = problem;
    json!({"seed": seed, "reset": {
        "prompt": prompt.question().unwrap_or_default(), "messages": prompt.messages(),
        "ground_truth": ground_truth, "data_source": data_source, "extra_info": extra_info,
        "columns": columns,
    }})
}

/// The line of a question about an episode. `closed` are episodes that are over.
pub fn line(id: u64, question: &Value, closed: &[u64]) -> Vec<u8> {
    let mut line = json!({"id": id});
    let fields = question.as_object().into_iter().flatten();
    fields.for_each(|(key, value)| line[key] = value.clone());
    if !closed.is_empty() {
        line["closed"] = closed.into();
    }
    format!("{line}\n").into_bytes()
}

/// The answer to a turn.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// Messages for the model.
    pub messages: Vec<Value>,
    /// The reward of this step.
    pub reward: Option<f64>,
    /// Whether the episode has ended.
    pub done: bool,
    /// Measurements.
    pub metrics: BTreeMap<String, f64>,
}

/// Reads the answer to a question about an episode.
///
/// # Errors
/// [`Misconduct`]. [`Misconduct::Failed`] is of the episode alone: the line is an answer, and says
/// that the environment has failed, or has a value that cannot be used.
pub fn answer(line: &[u8], id: u64, asked: Asked) -> Result<Answer, Misconduct> {
    let rubbish = |problem: String| rubbish(line, problem);
    let mut fields: Map<String, Value> =
        serde_json::from_slice(&without_halves(line)).map_err(|e| rubbish(e.to_string()))?;
    let answered = fields.remove("id").ok_or_else(|| rubbish("it has no \"id\"".into()))?;
    match answered.as_u64() {
        Some(answered) if answered == id => {}
        Some(answered) => return Err(Misconduct::OutOfTurn { asked: id, answered }),
        None => return Err(rubbish(format!("its \"id\" is {}", shown(&answered)))),
    }
    let read = read(fields, asked).and_then(|answer| asked.check(answer));
    read.map_err(|failed| Misconduct::Failed(one_line(&failed)))
}

/// The kind of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `reset` of an environment whose messages open the episode.
    Opening,
    /// `reset` of another one.
    Reset,
    /// `step`.
    Step,
}

impl Asked {
    /// The roles that messages may have, as a list and in words.
    fn roles(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Opening => (&["system", "user", "tool"], "system, user or tool"),
            Self::Reset | Self::Step => (&["user", "tool"], "user or tool"),
        }
    }

    /// Refuses an answer that a question cannot have.
    fn check(self, answer: Answer) -> Result<Answer, String> {
        let Answer { messages, reward, done, metrics } = &answer;
        if self == Self::Step {
            return Ok(answer);
        }
        if self == Self::Reset && !messages.is_empty() {
            let what = "it answered reset with messages, and environment.opens is not true";
            return Err(what.into());
        }
        if self == Self::Opening && messages.is_empty() {
            let what = "it answered reset without messages, and environment.opens is true";
            return Err(what.into());
        }
        match reward.is_some() || *done || !metrics.is_empty() {
            true => Err("it answered reset with more than messages".into()),
            false => Ok(answer),
        }
    }
}

/// Reads the answer's fields but its number. One that is null is left out.
fn read(mut fields: Map<String, Value>, asked: Asked) -> Result<Answer, String> {
    if let Some(failed) = take::<String>(&mut fields, "failed", "a text")? {
        return Err(failed.chars().take(SHOWN).collect());
    }
    let messages = match fields.remove("messages") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![json!({"role": "user", "content": text})],
        Some(Value::Array(messages)) => messages,
        Some(other) => {
            let what = "it must be a text or a list of messages";
            return Err(format!("its \"messages\" is {}: {what}", shown(&other)));
        }
    };
    check_messages(&messages, asked)?;
    let reward: Option<f64> = take(&mut fields, "reward", "a number")?;
    if let Some(reward) = reward.filter(|reward| reward.abs() > MOST_REWARD) {
        return Err(format!("its reward is {reward:e}, and rewards are from -1e6 to 1e6"));
    }
    let done = take(&mut fields, "done", "true or false")?.unwrap_or_default();
    let metrics: BTreeMap<String, f64> =
        take(&mut fields, "metrics", "an object of numbers")?.unwrap_or_default();
    check_names(&metrics)?;
    match fields.keys().next() {
        Some(key) => Err(format!(
            "it has {key:?}, and an answer may have messages, reward, done, metrics and failed"
        )),
        None => Ok(Answer { messages, reward, done, metrics }),
    }
}

/// Takes a field's value out, unless it is left out or null.
fn take<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    key: &str,
    expected: &str,
) -> Result<Option<T>, String> {
    let value = fields.remove(key).unwrap_or_default();
    Option::<T>::deserialize(&value)
        .map_err(|_| format!("its {key:?} is {}: it must be {expected}", shown(&value)))
}

/// The beginning of a value as JSON.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn check_messages(messages: &[Value], asked: Asked) -> Result<(), String> {
    if messages.len() > MOST_MESSAGES {
        return Err(format!("it has {} messages, and {MOST_MESSAGES} are allowed", messages.len()));
    }
    let (roles, listed) = asked.roles();
    for message in messages {
        let [role, content] =
            ["role", "content"].map(|key| message.get(key).and_then(Value::as_str));
        if content.is_none() || !role.is_some_and(|role| roles.contains(&role)) {
            return Err(format!(
                "a message is {}: it must be an object with the role {listed}, and a text as \
                 content",
                shown(message)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_says_why() {
        let many = json!({"id": 3, "messages": vec![json!({"role": "user", "content": ""}); 65]});
        let broken = [
            ("", "EOF"),
            ("hello", "expected value"),
            ("[3]", "invalid type: sequence, expected a map"),
            ("\u{fffd}", "expected value"),
            (r#"{"id": 4}"#, "answered question 4 when asked question 3"),
            (r#"{"id": "3"}"#, "its \"id\" is \"3\""),
            (r#"{"messages": []}"#, "it has no \"id\""),
            (r#"{"id": 3, "reward": NaN}"#, "expected value"),
        ];
        let of_the_episode = [
            (r#"{"id": 3, "message": "x"}"#, "it has \"message\", and an answer may have"),
            (r#"{"id": 3, "reward": "1"}"#, "its \"reward\" is \"1\": it must be a number"),
            (r#"{"id": 3, "reward": 1e7}"#, "its reward is 1e7"),
            (r#"{"id": 3, "done": "yes"}"#, "its \"done\" is \"yes\": it must be true or false"),
            (r#"{"id": 3, "done": 1}"#, "its \"done\" is 1: it must be true or false"),
            (r#"{"id": 3, "messages": 1}"#, "its \"messages\" is 1: it must be a text or a list"),
            (r#"{"id": 3, "messages": ["x"]}"#, "a message is \"x\": it must be an object"),
            (
                r#"{"id": 3, "messages": [{"role": "assistant", "content": "x"}]}"#,
                "the role user or tool",
            ),
            (r#"{"id": 3, "messages": [{"role": "user", "content": 1}]}"#, "a text as content"),
            (r#"{"id": 3, "metrics": {"a b": 1}}"#, "must be named by"),
            (r#"{"id": 3, "metrics": {"a": "b"}}"#, "its \"metrics\" is {\"a\":\"b\"}: it must"),
            (r#"{"id": 3, "failed": "no\n luck"}"#, "said no luck"),
            (&many.to_string(), "it has 65 messages"),
        ];
        for (lines, is_of_the_episode) in [(&broken[..], false), (&of_the_episode, true)] {
            for (line, why) in lines {
                let error = answer(line.as_bytes(), 3, Asked::Step).unwrap_err();
                assert!(error.to_string().contains(why), "{line}: {error}");
                assert_eq!(matches!(error, Misconduct::Failed(_)), is_of_the_episode, "{line}");
            }
        }
        assert!(answer(b"{\"id\": 3, \"messages\": \"\xff\"}", 3, Asked::Step).is_err());
    }

    #[test]
    fn a_reset_has_messages_only_if_they_open_the_episode() {
        let system = r#"{"id": 3, "messages": [{"role": "system", "content": "Hi"}]}"#;
        let messages = answer(system.as_bytes(), 3, Asked::Opening).unwrap().messages;
        assert_eq!(messages[0]["content"], "Hi");
        assert_eq!(answer(br#"{"id": 3}"#, 3, Asked::Reset).unwrap(), Answer::default());
        for (line, asked, why) in [
            (system, Asked::Step, "the role user or tool"),
            (r#"{"id": 3, "messages": "Hi"}"#, Asked::Reset, "environment.opens is not true"),
            (r#"{"id": 3}"#, Asked::Opening, "reset without messages"),
            (r#"{"id": 3, "messages": ""}"#, Asked::Opening, "reset without messages"),
            (r#"{"id": 3, "done": true}"#, Asked::Reset, "more than messages"),
            (r#"{"id": 3, "messages": "Hi", "reward": 0}"#, Asked::Opening, "more than messages"),
            (r#"{"id": 3, "metrics": {"a": 1}}"#, Asked::Reset, "more than messages"),
        ] {
            let error = answer(line.as_bytes(), 3, asked).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn answers_are_read() {
        let message = |text: &str| vec![json!({"role": "user", "content": text})];
        let none = Answer::default;
        for (line, expected) in [
            (r#"{"id": 3}"#, none()),
            (r#"{"id": 3, "messages": null, "done": null, "reward": null}"#, none()),
            (r#"{"id": 3, "messages": ""}"#, none()),
            (r#"{"id": 3, "messages": "Hi"}"#, Answer { messages: message("Hi"), ..none() }),
            (r#"{"id": 3, "messages": "a\ud83d"}"#, {
                Answer { messages: message("a\u{fffd}"), ..none() }
            }),
            (r#"{"id": 3, "done": true, "reward": 1, "metrics": {"a": 2}}"#, {
                let metrics = BTreeMap::from([("a".to_owned(), 2.0)]);
                Answer { done: true, reward: Some(1.0), metrics, ..none() }
            }),
        ] {
            assert_eq!(answer(line.as_bytes(), 3, Asked::Step).unwrap(), expected, "{line}");
        }
    }
}
