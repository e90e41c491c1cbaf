//! Answers to problems of mathematics: found in a response, read, and compared with the ground truth.
//!
//! In the order of the work: [`extract`] finds the answer in a text; [`latex`] cuts it into tokens; [`parse`] makes
//! trees of them ([`answer`], [`choice`], [`expression`], [`matrix`]), of which [`reading`] keeps every plausible one; [`equal`]
//! decides, with the algebra of [`value`]; [`mod@explain`] says how. All of it is bounded, by sizes and by [`fuel`]: the
//! same input gives the same verdict on every machine, and none takes long.

pub mod answer;
pub mod choice;
pub mod equal;
pub mod explain;
pub mod expression;
pub mod extract;
pub mod fuel;
pub mod latex;
pub mod matrix;
pub mod parse;
pub mod reading;
pub mod value;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use explain::{Explanation, explain};
pub use extract::{Extraction, last_boxed};

use self::equal::{Comparison, Rule};
use self::extract::{from_ground_truth, from_response};
use self::fuel::{Fuel, OutOfFuel};
use self::reading::Reading;
use self::value::{DEFAULT_FUEL, Tolerance};
use crate::{Item, Judgement, Verdict, Verifier};

/// How answers are found and compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Where in a response the answer is looked for.
    pub extraction: Extraction,
    /// Decimals to which two numbers must agree where one is written with a decimal point; numbers below 1, to so many
    /// significant digits. Numbers without a decimal point are compared exactly.
    #[schemars(range(max = 1000))]
    pub decimals: u32,
    /// Significant digits that a ground truth with a decimal point must be written with to stand for what it rounds: 0.333
    /// for 1/3. A response that rounds a ground truth without one needs as many as `decimals`, if that is more.
    #[schemars(range(max = 1000))]
    pub significant_digits: u32,
    /// Whether an inequality may answer for an interval: -2 < x < 7 for (-2, 7).
    pub allow_set_relation: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { extraction: Extraction::Any, decimals: 6, significant_digits: 3, allow_set_relation: true }
    }
}

/// Where a problem may have options of its own, in its `extra_info`.
pub const OF_PROBLEM: &str = "math_options";

/// The verifier of mathematical answers.
///
/// A ground truth is a text, a number, or a list of them of which each is accepted; a text may be between dollar signs,
/// boxed, or a solution that ends in a box. A problem may have options of its own ([`OF_PROBLEM`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Math {
    /// How answers are found and compared.
    pub options: Options,
}

impl Verifier for Math {
    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement {
        let options = match self.options.of_problem(item) {
            Ok(options) => options,
            Err(reason) => return Judgement::new(Verdict::Fault, None, reason),
        };
        match GroundTruth::from_value(item.ground_truth) {
            Ok(ground_truth) => grade(&ground_truth, response, &options),
            Err(reason) => Judgement::new(Verdict::Fault, None, reason),
        }
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        self.options.of_problem(item).is_ok_and(|options| same_answer(a, b, &options))
    }
}

impl Options {
    /// These, with those that the problem sets in their place.
    fn of_problem(self, item: &Item<'_>) -> Result<Self, String> {
        let Some(own) = item.extra_info.get(OF_PROBLEM) else { return Ok(self) };
        let wrong = |what: String| format!("extra_info.{OF_PROBLEM}: {what}");
        let own = own.as_object().ok_or_else(|| wrong("must be an object of options".into()))?;
        let mut all = serde_json::to_value(self).map_err(|e| wrong(e.to_string()))?;
        for (name, value) in own {
            all[name] = value.clone();
        }
        serde_json::from_value(all).map_err(|e| wrong(e.to_string()))
    }
}

/// The accepted answers of a problem.
#[derive(Clone, Debug)]
pub struct GroundTruth(Vec<Reading>);

impl GroundTruth {
    /// Reads a ground truth.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let readings = match value {
            Value::Array(values) => values.iter().map(read_ground_truth).collect::<Result<Vec<_>, _>>()?,
            value => vec![read_ground_truth(value)?],
        };
        if readings.is_empty() { Err("the ground truth is an empty list".into()) } else { Ok(Self(readings)) }
    }
}

fn read_ground_truth(value: &Value) -> Result<Reading, String> {
    let text = match value {
        Value::String(text) if text.trim().is_empty() => return Err("the ground truth is empty".into()),
        Value::String(text) => from_ground_truth(text).0,
        Value::Number(number) => number.to_string(),
        _ => return Err("the ground truth is neither a text, nor a number, nor a list of them".into()),
    };
    Reading::of(&text).map_err(|error| format!("the ground truth cannot be read: it {error}"))
}

/// Judges a response.
pub fn grade(ground_truth: &GroundTruth, response: &str, options: &Options) -> Judgement {
    let Some((answer, origin)) = from_response(response, options.extraction) else {
        let reason = match options.extraction {
            Extraction::Boxed => "the response has no complete \\boxed{...}",
            Extraction::Stated => "the response neither boxes nor states an answer",
            Extraction::Any => "the response has neither a box, nor a formula, nor a number",
        };
        return Judgement::new(Verdict::Unparseable, None, reason);
    };
    let given = match Reading::of(&answer) {
        Ok(given) => given,
        Err(error) => {
            let reason = format!("{} of the response cannot be read: it {error}", origin.describe());
            return Judgement::new(Verdict::Unparseable, None, reason);
        }
    };
    let mut verdict = Verdict::Wrong;
    let mut reason = format!("{} differs from the ground truth", origin.describe());
    for gold in &ground_truth.0 {
        match compare(gold, &given, options) {
            Ok(None) => {}
            Ok(Some(rule)) => {
                (verdict, reason) = (Verdict::Correct, format!("{} is {rule}", origin.describe()));
                break;
            }
            Err(error) => (verdict, reason) = (Verdict::TimedOut, error.to_string()),
        }
    }
    Judgement::new(verdict, Some(given.source), reason)
}

/// Whether two answers, such as two responses', are the same; false where that cannot be told.
pub fn same_answer(a: &str, b: &str, options: &Options) -> bool {
    let (Ok(a), Ok(b)) = (Reading::of(a), Reading::of(b)) else { return false };
    let same = |a, b| matches!(compare(a, b, options), Ok(Some(_)));
    same(&a, &b) || same(&b, &a)
}

fn compare(gold: &Reading, given: &Reading, options: &Options) -> Result<Option<Rule>, OutOfFuel> {
    let tolerance = Tolerance { decimals: options.decimals, significant_digits: options.significant_digits };
    let mut fuel = Fuel::new(DEFAULT_FUEL);
    Comparison::new(tolerance, options.allow_set_relation, &mut fuel).same(gold, given)
}

#[cfg(test)]
mod tests;
