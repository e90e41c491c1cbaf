//! The fields of a request, each taken once, so that those nobody has taken are known.

use crate::api_error::ApiError;
use serde_json::{Map, Value};

/// Fields that change nothing of an answer.
const HARMLESS: [&str; 8] = [
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "request_id",
    "priority",
];

/// Fields of other servers that would change an answer, with the values at which they do not.
const NEUTRAL: [(&str, &[&str]); 17] = [
    ("frequency_penalty", &["0", "0.0"]),
    ("presence_penalty", &["0", "0.0"]),
    ("logit_bias", &["{}"]),
    ("best_of", &["1"]),
    ("suffix", &["\"\""]),
    ("response_format", &[r#"{"type":"text"}"#]),
    ("parallel_tool_calls", &["true"]),
    ("modalities", &[r#"["text"]"#]),
    ("min_tokens", &["0"]),
    ("use_beam_search", &["false"]),
    ("length_penalty", &["1", "1.0"]),
    ("skip_special_tokens", &["true"]),
    ("spaces_between_special_tokens", &["true"]),
    ("include_stop_str_in_output", &["false"]),
    ("add_generation_prompt", &["true"]),
    ("continue_final_message", &["false"]),
    ("chat_template_kwargs", &["{}"]),
];

/// The fields that have not been taken.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of a body.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(mut object)) => {
                object.retain(|_, value| !value.is_null());
                Ok(Self(object))
            }
            Ok(_) => Err(ApiError::request("the body is not a JSON object")),
            Err(wrong) => Err(ApiError::request(format!("the body is not JSON: {wrong}"))),
        }
    }

    /// A field's value; a null is no value.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// A field's value, read by `read`, which must be `expected`.
    fn read<T>(
        &mut self,
        name: &str,
        expected: impl std::fmt::Display,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(&value).map(Some).ok_or_else(|| ApiError::field(name, format!("must be {expected}")))
    }

    /// A number.
    pub fn number(&mut self, name: &str) -> Result<Option<f32>, ApiError> {
        self.read(name, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    /// A whole number that is not negative.
    pub fn count(&mut self, name: &str) -> Result<Option<usize>, ApiError> {
        let read = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
        self.read(name, "a whole number of at least 0", read)
    }

    /// A whole number of 64 bits; a negative one stands for its two's complement.
    pub fn seed(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        let read = |value: &Value| value.as_u64().or(value.as_i64().map(i64::cast_unsigned));
        self.read(name, "a whole number of 64 bits", read)
    }

    /// True or false; false if there is no such field.
    pub fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        Ok(self.read(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.read(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A text, or a list of texts.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, ApiError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let read = |value: &Value| match value {
            Value::Array(values) => values.iter().map(text).collect(),
            value => text(value).map(|text| vec![text]),
        };
        Ok(self.read(name, "a text or a list of texts", read)?.unwrap_or_default())
    }

    /// A list of token ids.
    pub fn tokens(&mut self, name: &str) -> Result<Vec<u32>, ApiError> {
        Ok(self.read(name, "a list of token ids", token_ids)?.unwrap_or_default())
    }

    /// Refuses a field that has not been taken, unless it changes nothing.
    pub fn finish(self) -> Result<(), ApiError> {
        for (name, value) in &self.0 {
            if HARMLESS.contains(&&**name) {
                continue;
            }
            let Some((_, neutral)) = NEUTRAL.iter().find(|(known, _)| known == name) else {
                return Err(ApiError::field(
                    name,
                    "is no field that this server knows, and it may change the answer: leave it \
                     out",
                ));
            };
            if !neutral.contains(&&*value.to_string()) {
                let neutral = neutral[0];
                return Err(ApiError::field(
                    name,
                    format!("is not supported: leave it out (or {neutral})"),
                ));
            }
        }
        Ok(())
    }
}

/// A list of token ids, if the value is one.
pub(crate) fn token_ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    value.as_array()?.iter().map(id).collect()
}
