//! The grader's settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How answers are found and compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The part of a response in which the answer is looked for.
    pub extraction: Extraction,
    /// Decimals to which two numbers must agree where one is written with a decimal point; numbers
    /// below 1, to the same number of significant digits. Numbers without a decimal point are
    /// compared exactly.
    #[schemars(range(max = 1000))]
    pub decimals: u32,
    /// Significant digits that a ground truth with a decimal point must be written with to stand
    /// for what it rounds: 0.333 for 1/3. A response that rounds a ground truth without one needs
    /// as many as `decimals`, if that is more.
    #[schemars(range(max = 1000))]
    pub significant_digits: u32,
    /// Whether an inequality may answer for an interval: -2 < x < 7 for (-2, 7).
    pub allow_set_relation: bool,
    /// Whether arithmetic that is left to be done may answer for a number: 73 + 64 for 137. A
    /// policy that is rewarded for it learns to answer questions with themselves.
    pub allow_undone: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            extraction: Extraction::Any,
            decimals: 6,
            significant_digits: 3,
            allow_set_relation: true,
            allow_undone: false,
        }
    }
}

/// The part of a response in which an answer is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extraction {
    /// In the last `\boxed{...}` or `\fbox{...}` only.
    Boxed,
    /// In the last box, else after "the answer is", "Answer:", "####" or `<answer>`. A final answer
    /// that is stated after the last box counts instead of it.
    Stated,
    /// As `stated`; else the whole response if it is nothing but an answer, else its last formula,
    /// else its last number.
    #[default]
    Any,
}
