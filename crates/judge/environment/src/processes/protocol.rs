//! The lines between a run and the processes of an environment: one JSON object each.
//!
//! ```text
//! {"id": 3, "reset": {"prompt": ..., "ground_truth": ..., ...}, "seed": 17}
//!     {"id": 3}
//! {"id": 3, "step": "the model's turn", "closed": [1, 2]}
//!     {"id": 3, "messages": [...]}
//! ```

use std::collections::BTreeMap;

use isentrope_data::Problem;
use isentrope_reward::command::{Misconduct, check_names, one_line, rubbish, without_halves};
use serde::Deserialize;
use serde_json::{Value, json};

/// Longest line that a process may print, in bytes.
pub const LONGEST: usize = 1 << 20;

/// Most messages of an answer.
const MOST_MESSAGES: usize = 64;

/// Largest reward, in magnitude, as of verifiers.
const MOST_REWARD: f64 = 1e6;

/// Longest reason of a failure that is shown, in characters.
const SHOWN: usize = 500;

/// The question that begins an episode, without its number.
pub fn reset(problem: &Problem, seed: u64) -> Value {
    let Problem { prompt, ground_truth, data_source, extra_info, columns, .. } = problem;
    // Half of the numbers, which every language has as integers.
    json!({"seed": seed >> 11, "reset": {
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
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    id: u64,
    /// Messages for the model.
    #[serde(default)]
    pub messages: Vec<Value>,
    /// The reward of this step.
    #[serde(default)]
    pub reward: Option<f64>,
    /// Whether the episode has ended.
    #[serde(default)]
    pub done: bool,
    /// Measurements.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// Why the environment cannot go on with the episode.
    #[serde(default)]
    failed: Option<String>,
}

/// Reads the answer to a question about an episode.
///
/// # Errors
/// [`Misconduct`]; [`Misconduct::Failed`] is of the episode alone.
pub fn answer(line: &[u8], id: u64) -> Result<Answer, Misconduct> {
    let rubbish = |problem: String| rubbish(line, problem);
    let answer: Answer =
        serde_json::from_slice(&without_halves(line)).map_err(|e| rubbish(e.to_string()))?;
    if answer.id != id {
        return Err(Misconduct::OutOfTurn { asked: id, answered: answer.id });
    }
    if let Some(failed) = answer.failed {
        return Err(Misconduct::Failed(one_line(&failed).chars().take(SHOWN).collect()));
    }
    check_names(&answer.metrics).map_err(rubbish)?;
    if let Some(reward) = answer.reward.filter(|reward| reward.abs() > MOST_REWARD) {
        return Err(rubbish(format!("its reward is {reward:e}, and rewards are from -1e6 to 1e6")));
    }
    check_messages(&answer.messages).map_err(rubbish)?;
    Ok(answer)
}

fn check_messages(messages: &[Value]) -> Result<(), String> {
    if messages.len() > MOST_MESSAGES {
        return Err(format!("it has {} messages, and {MOST_MESSAGES} are allowed", messages.len()));
    }
    for message in messages {
        let [role, content] =
            ["role", "content"].map(|key| message.get(key).and_then(Value::as_str));
        if !matches!((role, content), (Some("user" | "tool"), Some(_))) {
            return Err(
                "a message is an object with the role user or tool, and a text as content".into()
            );
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
        for (line, why) in [
            ("", "EOF"),
            ("hello", "expected value"),
            ("\u{fffd}", "expected value"),
            (r#"{"id": 4}"#, "answered question 4 when asked question 3"),
            (r#"{"messages": []}"#, "missing field `id`"),
            (r#"{"id": 3, "message": "x"}"#, "unknown field `message`"),
            (r#"{"id": 3, "reward": "1"}"#, "invalid type: string"),
            (r#"{"id": 3, "reward": 1e7}"#, "its reward is 1e7"),
            (r#"{"id": 3, "reward": NaN}"#, "expected value"),
            (r#"{"id": 3, "messages": ["x"]}"#, "a message is an object with the role"),
            (
                r#"{"id": 3, "messages": [{"role": "assistant", "content": "x"}]}"#,
                "role user or tool",
            ),
            (r#"{"id": 3, "messages": [{"role": "user", "content": 1}]}"#, "a text as content"),
            (r#"{"id": 3, "metrics": {"a b": 1}}"#, "must be named by"),
            (r#"{"id": 3, "failed": "no\n luck"}"#, "said no luck"),
            (&many.to_string(), "it has 65 messages"),
        ] {
            let error = answer(line.as_bytes(), 3).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
        assert!(answer(b"{\"id\": 3, \"messages\": \"\xff\"}", 3).is_err());
        let halves = br#"{"id": 3, "messages": [{"role": "tool", "content": "a\ud83d"}]}"#;
        assert_eq!(answer(halves, 3).unwrap().messages[0]["content"], "a\u{fffd}");
    }
}
