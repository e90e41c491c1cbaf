//! What the grader saw: for people who wonder about a verdict.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::answer::{Answer, Brackets, Quantity, Relation, Unit};
use super::extract::{from_ground_truth, from_response};
use super::fuel::Fuel;
use super::reading::Reading;
use super::value::{DEFAULT_FUEL, normal_form};
use super::{GroundTruth, Options, grade};
use crate::{Judgement, Verdict};

/// How a verdict came about.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What was made of the ground truth.
    pub ground_truth: Side,
    /// What was made of the response.
    pub response: Side,
    /// The verdict with its reason.
    pub judgement: Judgement,
}

/// What was made of one side.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Side {
    /// Where the answer was found; empty if nowhere.
    pub origin: String,
    /// The text of the answer.
    pub extracted: String,
    /// The normal form of every meaning of the text, likelier ones first; or why it has none.
    pub forms: Vec<String>,
}

/// Explains the verdict on a response.
pub fn explain(ground_truth: &str, response: &str, options: &Options) -> Explanation {
    let (gold, origin) = from_ground_truth(ground_truth);
    let judgement = match GroundTruth::from_value(&Value::String(ground_truth.into())) {
        Ok(ground_truth) => grade(&ground_truth, response, options),
        Err(reason) => Judgement::new(Verdict::Fault, None, reason),
    };
    let response = from_response(response, options.extraction);
    Explanation {
        ground_truth: Side::of(gold, origin.describe()),
        response: response.map_or_else(Side::default, |(answer, origin)| Side::of(answer, origin.describe())),
        judgement,
    }
}

impl Side {
    fn of(extracted: String, origin: &str) -> Self {
        let forms = match Reading::of(&extracted) {
            Ok(reading) => reading.answers.iter().map(form).collect(),
            Err(error) => vec![format!("none: it {error}")],
        };
        Self { origin: origin.into(), extracted, forms }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, side) in [("ground truth", &self.ground_truth), ("response", &self.response)] {
            if side.origin.is_empty() {
                writeln!(f, "{name}: no answer")?;
                continue;
            }
            writeln!(f, "{name}: {} ({})", side.extracted, side.origin)?;
            for form in &side.forms {
                writeln!(f, "  read as {form}")?;
            }
        }
        write!(f, "{:?}: {}", self.judgement.verdict, self.judgement.reason)
    }
}

/// The normal form of an answer.
fn form(answer: &Answer) -> String {
    let joined =
        |answers: &[Answer], separator: &str| answers.iter().map(form).collect::<Vec<_>>().join(separator);
    match answer {
        Answer::Quantity(quantity) => quantity_form(quantity),
        Answer::List(answers) => format!("the list {}", joined(answers, ", ")),
        Answer::Sequence(Brackets { closed_left, closed_right }, answers) => {
            let (open, close) = (if *closed_left { '[' } else { '(' }, if *closed_right { ']' } else { ')' });
            format!("{open}{}{close}", joined(answers, ", "))
        }
        Answer::Set(answers) => format!("{{{}}}", joined(answers, ", ")),
        Answer::Union(answers) => joined(answers, " union "),
        Answer::Intersection(answers) => joined(answers, " intersection "),
        Answer::Difference(sets) => format!("{} without {}", form(&sets.0), form(&sets.1)),
        Answer::Reals => "the real numbers".into(),
        Answer::Matrix(matrix) => {
            let row = |row: &Vec<_>| row.iter().map(expression_form).collect::<Vec<_>>().join(", ");
            format!("the matrix [{}]", matrix.rows().iter().map(row).collect::<Vec<_>>().join("; "))
        }
        Answer::Ratio(parts) => parts.iter().map(quantity_form).collect::<Vec<_>>().join(" : "),
        Answer::Chain(sides, relations) => {
            let mut text = sides.first().map(form).unwrap_or_default();
            for (relation, side) in relations.iter().zip(&sides[1..]) {
                text.push_str(&format!(" {} {}", sign(*relation), form(side)));
            }
            text
        }
        Answer::Text(text) => format!("the words {text:?}"),
    }
}

fn quantity_form(quantity: &Quantity) -> String {
    let form = expression_form(&quantity.expression);
    match &quantity.unit {
        Unit::None => form,
        Unit::Percent => format!("{form} percent"),
        Unit::Degree => format!("{form} degrees"),
        Unit::Base(digits) => format!("{form}, from the digits {digits}"),
    }
}

fn expression_form(expression: &super::expression::Expression) -> String {
    let mut fuel = Fuel::new(DEFAULT_FUEL);
    normal_form(expression, &mut fuel).unwrap_or_else(|error| format!("an expression of which {error}"))
}

fn sign(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "=",
        Relation::Approximate => "≈",
        Relation::NotEqual => "≠",
        Relation::Less => "<",
        Relation::LessOrEqual => "≤",
        Relation::Greater => ">",
        Relation::GreaterOrEqual => "≥",
        Relation::In => "in",
        Relation::Other => "~",
    }
}
