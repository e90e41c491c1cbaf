//! A choice's message, in which calls of tools are apart from the text.

use isentrope_environment::{Call, before_calls, calls};
use serde_json::{Value, json};

/// Text and calls of a choice, or of a part of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Said {
    pub text: String,
    /// In OpenAI's form.
    pub calls: Vec<Value>,
    /// Why the choice has ended, if it has.
    pub finish_reason: Option<&'static str>,
}

impl Said {
    /// A text that another may follow.
    pub fn part(text: String) -> Self {
        Self { text, calls: Vec::new(), finish_reason: None }
    }

    /// A whole text.
    pub fn whole(text: &str, reason: &'static str) -> Self {
        Self { finish_reason: Some(reason), ..Self::part(text.to_owned()) }
    }

    /// A whole text of a model that has tools with these names; `id` begins the ids of its calls.
    /// If one of them cannot be read, or is of another tool, the text stays whole for the client
    /// to judge.
    pub fn with_calls(text: &str, reason: &'static str, tools: &[String], id: &str) -> Self {
        let found = match tools {
            [] => Vec::new(),
            _ => calls(text, false).into_iter().collect::<Result<_, _>>().unwrap_or_default(),
        };
        if found.is_empty() || found.iter().any(|Call { name, .. }| !tools.contains(name)) {
            return Self::whole(text, reason);
        }
        let call = |(i, Call { name, arguments }): (usize, Call)| {
            let arguments = Value::from(arguments).to_string();
            json!({
                "id": format!("{id}-{i}"), "type": "function", "index": i,
                "function": {"name": name, "arguments": arguments}
            })
        };
        Self {
            text: before_calls(text).to_owned(),
            calls: found.into_iter().enumerate().map(call).collect(),
            finish_reason: Some(if reason == "stop" { "tool_calls" } else { reason }),
        }
    }

    /// The message, without a role.
    pub fn message(self) -> Value {
        let Self { text, calls, .. } = self;
        if calls.is_empty() {
            return json!({"content": text});
        }
        let content = Some(text).filter(|text| !text.is_empty());
        json!({"content": content, "tool_calls": calls})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_apart_from_the_text() {
        let one = "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>";
        let tools = ["add".to_owned()];
        let said = Said::with_calls(&format!("I add.\n{one}{one}"), "stop", &tools, "chatcmpl-1-0");
        assert_eq!(said.finish_reason, Some("tool_calls"));
        let call = |i: usize| {
            json!({
                "id": format!("chatcmpl-1-0-{i}"), "type": "function", "index": i,
                "function": {"name": "add", "arguments": "{\"x\":1}"}
            })
        };
        let expected = json!({"content": "I add.", "tool_calls": [call(0), call(1)]});
        assert_eq!(said.message(), expected);
        let bare = Said::with_calls("{\"name\": \"add\"}", "length", &tools, "a");
        assert_eq!(bare.finish_reason, Some("length"));
        assert_eq!(bare.message()["content"], Value::Null);
        let (broken, bob) = (format!("{one}<tool_call>"), "{\"name\": \"Bob\", \"age\": 30}");
        for text in ["It is 4.", "", "<tool_call>{}</tool_call>", &broken, bob] {
            assert_eq!(Said::with_calls(text, "stop", &tools, "a"), Said::whole(text, "stop"));
        }
        assert_eq!(Said::with_calls(one, "stop", &[], "a"), Said::whole(one, "stop"));
    }
}
