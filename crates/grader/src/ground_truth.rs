//! The accepted answers of a problem.

use serde_json::Value;

use super::extract::from_ground_truth;
use super::reading::Reading;

/// The accepted answers of a problem, read.
#[derive(Clone, Debug)]
pub struct GroundTruth(pub(crate) Vec<Reading>);

impl GroundTruth {
    /// Reads a ground truth: a text, a number, or a list of them of which each is accepted. A text may be between dollar
    /// signs, boxed, or a solution that ends in a box.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let readings = match value {
            Value::Array(values) => values.iter().map(read).collect::<Result<Vec<_>, _>>()?,
            value => vec![read(value)?],
        };
        if readings.is_empty() { Err("the ground truth is an empty list".into()) } else { Ok(Self(readings)) }
    }
}

fn read(value: &Value) -> Result<Reading, String> {
    let text = match value {
        Value::String(text) if text.trim().is_empty() => return Err("the ground truth is empty".into()),
        Value::String(text) => from_ground_truth(text).0,
        Value::Number(number) => number.to_string(),
        _ => return Err("the ground truth is neither a text, nor a number, nor a list of them".into()),
    };
    Reading::of(&text).map_err(|error| format!("the ground truth cannot be read: it {error}"))
}
