//! The tree of an answer: an expression, or several in a list, tuple, interval, set, matrix or
//! relation.

use super::expression::Expression;
use super::matrix::Matrix;
use super::number_kind::NumberKind;
use super::relation::Relation;

/// An answer, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An expression with its unit.
    Quantity(Quantity),
    /// Answers without brackets around them: `1, 2`, "1 and 2", `\pm 1`.
    List(Vec<Answer>),
    /// Two or more answers in brackets: a tuple, a point, an interval.
    Sequence(Brackets, Vec<Answer>),
    /// Answers in braces (without any, the empty set), or alternative values of different names.
    Set(Vec<Answer>),
    Union(Vec<Answer>),
    Intersection(Vec<Answer>),
    Difference(Box<(Answer, Answer)>),
    Reals,
    Matrix(Matrix),
    /// `a:b`, of two or more.
    Ratio(Vec<Quantity>),
    /// `a < b = c`: sides with the relations between them, one fewer.
    Chain(Vec<Answer>, Vec<Relation>),
    /// An answer with the domains for which it holds: `2n, n \ge 1`.
    For(Box<Answer>, Vec<Domain>),
    /// Words, lower-case, without spaces and ornament.
    Text(String),
}

/// For what an answer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// A name stands for numbers of a kind: `k \in \mathbb{Z}`, "n is odd".
    Kind(Box<str>, NumberKind),
    /// A condition that must hold: `n \ge 1`.
    Condition(Answer),
}

/// An expression and its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    pub expression: Expression,
    pub unit: Unit,
}

/// The unit of a quantity. Units without known conversions (cm, dollars) are not kept: problems say
/// in which unit to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// No unit, or a unit that is not kept.
    None,
    Percent,
    /// Degrees of an angle or of temperature.
    Degree,
    /// The angle whose length of arc is the number.
    Radian,
    /// A number whose digits and base were written.
    Base(Box<str>, u32),
}

/// The brackets of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brackets {
    /// `[` rather than `(`.
    pub closed_left: bool,
    /// `]` rather than `)`.
    pub closed_right: bool,
}

impl Brackets {
    pub const ROUND: Self = Self { closed_left: false, closed_right: false };
}

impl Answer {
    /// An expression without a unit.
    pub fn plain(expression: Expression) -> Self {
        Self::Quantity(Quantity { expression, unit: Unit::None })
    }

    /// The expression, if the answer is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Self::Quantity(quantity) => Some(&quantity.expression),
            _ => None,
        }
    }

    /// The answers and the formulas that it consists of, without the conditions under which it
    /// holds.
    pub fn parts(&self) -> (Vec<&Self>, Vec<&Expression>) {
        match self {
            Self::Quantity(quantity) => (Vec::new(), vec![&quantity.expression]),
            Self::Ratio(terms) => (Vec::new(), terms.iter().map(|term| &term.expression).collect()),
            Self::Matrix(matrix) => (Vec::new(), matrix.rows().iter().flatten().collect()),
            Self::List(answers)
            | Self::Sequence(_, answers)
            | Self::Set(answers)
            | Self::Union(answers)
            | Self::Intersection(answers)
            | Self::Chain(answers, _) => (answers.iter().collect(), Vec::new()),
            Self::Difference(sets) => (vec![&sets.0, &sets.1], Vec::new()),
            Self::For(answer, _) => (vec![answer], Vec::new()),
            Self::Reals | Self::Text(_) => (Vec::new(), Vec::new()),
        }
    }

    /// Renames as [`Expression::rename`] does; the entries of matrices keep their names.
    pub fn rename(&mut self, name: &impl Fn(&str) -> Option<Box<str>>) {
        match self {
            Self::Quantity(quantity) => quantity.expression.rename(name),
            Self::Ratio(terms) => terms.iter_mut().for_each(|term| term.expression.rename(name)),
            Self::List(answers)
            | Self::Sequence(_, answers)
            | Self::Set(answers)
            | Self::Union(answers)
            | Self::Intersection(answers)
            | Self::Chain(answers, _) => answers.iter_mut().for_each(|answer| answer.rename(name)),
            Self::Difference(sets) => {
                sets.0.rename(name);
                sets.1.rename(name);
            }
            Self::For(answer, domains) => {
                answer.rename(name);
                for domain in domains {
                    match domain {
                        Domain::Kind(of, _) => *of = name(of).unwrap_or_else(|| of.clone()),
                        Domain::Condition(condition) => condition.rename(name),
                    }
                }
            }
            Self::Matrix(_) | Self::Reals | Self::Text(_) => {}
        }
    }

    /// The answers of a list; any other answer is a list of one.
    pub fn into_list(self) -> Vec<Self> {
        match self {
            Self::List(answers) => answers,
            answer => vec![answer],
        }
    }

    /// A list, or its only answer.
    pub fn from_list(mut answers: Vec<Self>) -> Self {
        if answers.len() == 1 { answers.remove(0) } else { Self::List(answers) }
    }
}
