//! The accepted answers of a problem.

use serde_json::Value;

use super::extract::from_ground_truth;
use super::reading::Reading;

/// The accepted answers of a problem, read.
#[derive(Clone, Debug)]
pub struct GroundTruth(pub(crate) Vec<Reading>);

impl GroundTruth {
    /// Reads a ground truth: a text, a number, or a list of accepted ones. A text
    /// may be between dollar signs, boxed, or a solution that ends in a box.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let readings = match value {
            Value::Array(values) => values.iter().map(read).collect::<Result<Vec<_>, _>>()?,
            value => vec![read(value)?],
        };
        if readings.is_empty() {
            Err("the ground truth is an empty list".into())
        } else {
            Ok(Self(readings))
        }
    }

    /// The reason why right responses may be judged wrong, as part of a sentence, if there is one:
    /// the ground truth is a formula that cannot be read as one.
    pub fn concern(&self) -> Option<String> {
        let only_same = "only a response with the same text is right";
        self.0.iter().find_map(|reading| {
            let source = &reading.source;
            let shown: String = source.chars().take(MAX_SHOWN).collect();
            if reading.is_text() && looks_like_formula(source) {
                return Some(format!(
                    "the ground truth {shown:?} cannot be read as a formula: {only_same}"
                ));
            }
            None
        })
    }
}

/// Most characters of a ground truth that are shown.
const MAX_SHOWN: usize = 60;

/// Whether a text looks like a formula: it has a command that is not for words, an operator between
/// operands, or an unmatched bracket.
fn looks_like_formula(source: &str) -> bool {
    let has_command = source.match_indices('\\').any(|(place, _)| {
        let rest = &source[place + 1..];
        let name: &str = &rest[..rest.bytes().take_while(u8::is_ascii_alphabetic).count()];
        !name.is_empty() && !name.starts_with("text") && !WORD_COMMANDS.contains(&name)
    });
    let is_unbalanced = ['{', '(', '[']
        .iter()
        .zip(['}', ')', ']'])
        .any(|(open, close)| source.matches(*open).count() != source.matches(close).count());
    has_command || is_unbalanced || source.contains(['=', '^', '_', '+', '*', '<', '>'])
}

/// Commands that words may have around them.
const WORD_COMMANDS: [&str; 9] =
    ["mbox", "mathrm", "mathbf", "mathit", "operatorname", "quad", "left", "right", "bf"];

fn read(value: &Value) -> Result<Reading, String> {
    let text = match value {
        Value::String(text) if text.trim().is_empty() => {
            return Err("the ground truth is empty".into());
        }
        Value::String(text) => from_ground_truth(text).0,
        Value::Number(number) => number.to_string(),
        _ => {
            return Err(
                "the ground truth is neither a text, nor a number, nor a list of them".into()
            );
        }
    };
    Reading::of(&text).map_err(|error| format!("the ground truth cannot be read: it {error}"))
}
