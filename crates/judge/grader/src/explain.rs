//! Explains a grade to people: shows how the grader has read both texts.

use serde_json::Value;

use super::answer::{Answer, Brackets, Domain, Quantity, Unit};
use super::expression::Expression;
use super::extract::{Origin, from_ground_truth, from_response};
use super::fuel::Fuel;
use super::grade::{Grade, grade};
use super::ground_truth::GroundTruth;
use super::options::Options;
use super::reading::Reading;
use super::relation::{Named, Relation};
use super::value::{DEFAULT_FUEL, rational_value};

/// How a grade came about.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The readings of the ground truth and of the response: a line for the answer of each and one
    /// for each meaning that it may have, likelier ones first.
    pub seen: String,
    /// The grade, or the reason why the ground truth cannot be read.
    pub grade: Result<Grade, String>,
}

/// Explains the grade of a response.
pub fn explain(ground_truth: &str, response: &str, options: &Options) -> Explanation {
    let gold = readings("ground truth", Some(from_ground_truth(ground_truth)));
    let given = readings("response", from_response(response, options.extraction));
    let grade = GroundTruth::from_value(&Value::String(ground_truth.into()))
        .map(|ground_truth| grade(&ground_truth, response, options));
    Explanation { seen: gold + &given, grade }
}

/// The lines of one side.
fn readings(side: &str, found: Option<(String, Origin)>) -> String {
    let Some((answer, origin)) = found else { return format!("{side}: no answer\n") };
    let forms = match Reading::of(&answer) {
        Ok(reading) => reading.answers.iter().map(form).collect(),
        Err(error) => vec![format!("none: it {error}")],
    };
    let forms: String = forms.iter().map(|form| format!("  read as {form}\n")).collect();
    format!("{side}: {answer} ({})\n{forms}", origin.describe())
}

/// The normal form of an answer.
fn form(answer: &Answer) -> String {
    let joined = |answers: &[Answer], separator: &str| {
        answers.iter().map(form).collect::<Vec<_>>().join(separator)
    };
    match answer {
        Answer::Quantity(quantity) => quantity_form(quantity),
        Answer::List(answers) => format!("the list {}", joined(answers, ", ")),
        Answer::Sequence(Brackets { closed_left, closed_right }, answers) => {
            let (open, close) =
                (if *closed_left { '[' } else { '(' }, if *closed_right { ']' } else { ')' });
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
        Answer::For(answer, domains) => {
            let domain = |domain: &Domain| match domain {
                Domain::Kind(name, kind) => format!("every {kind} {name}"),
                Domain::Condition(condition) => form(condition),
            };
            format!(
                "{}, for {}",
                form(answer),
                domains.iter().map(domain).collect::<Vec<_>>().join(" and ")
            )
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
        Unit::Radian => format!("{form} radians"),
        Unit::Base(digits, base) => format!("{form}, from the digits {digits} to the base {base}"),
    }
}

/// An expression's value, if it is rational; otherwise its parts.
fn expression_form(expression: &Expression) -> String {
    if let Ok(Some(value)) = rational_value(expression, &mut Fuel::new(DEFAULT_FUEL)) {
        return value.to_string();
    }
    let operand = |part: &Expression| match part {
        Expression::Sum(_) | Expression::Product(_) | Expression::Power(_) => {
            format!("({})", expression_form(part))
        }
        part => expression_form(part),
    };
    let joined = |parts: &[Expression], separator: &str, form: &dyn Fn(&Expression) -> String| {
        parts.iter().map(form).collect::<Vec<_>>().join(separator)
    };
    match expression {
        Expression::Number(value) => value.to_string(),
        Expression::Decimal(decimal) => decimal.value.to_string(),
        Expression::Constant(constant) => format!("{constant:?}").to_lowercase(),
        Expression::Symbol(name) => name.to_string(),
        Expression::Sum(terms) => joined(terms, " + ", &expression_form),
        Expression::Product(factors) => joined(factors, "*", &operand),
        Expression::Power(power) => format!("{}^{}", operand(&power.0), operand(&power.1)),
        Expression::Function(function, arguments) => {
            format!("{function:?}({})", joined(arguments, ", ", &expression_form)).to_lowercase()
        }
        Expression::Unknown(name, arguments) => {
            format!("{name}({})", joined(arguments, ", ", &expression_form))
        }
    }
}

fn sign(relation: Relation) -> String {
    match relation {
        Relation::Equal => "=".into(),
        Relation::Approximate => "≈".into(),
        Relation::NotEqual => "≠".into(),
        Relation::Less => "<".into(),
        Relation::LessOrEqual => "≤".into(),
        Relation::Greater => ">".into(),
        Relation::GreaterOrEqual => "≥".into(),
        Relation::In => "in".into(),
        Relation::Named(Named { name, turned, negated }) => {
            let (not, from_right) =
                (if negated { "not " } else { "" }, if turned { " (from the right)" } else { "" });
            format!("{not}{name}{from_right}")
        }
    }
}
