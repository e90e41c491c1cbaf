//! The tree of an answer: an expression, or several in a list, tuple, interval, set, matrix or relation.

use num_bigint::BigInt;

use super::expression::Expression;
use super::matrix::Matrix;

/// An answer, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An expression, with what it is measured in.
    Quantity(Quantity),
    /// Answers that nothing encloses: `1, 2`, "1 and 2", `\pm 1`.
    List(Vec<Answer>),
    /// Two or more answers in brackets: a tuple, a point, an interval.
    Sequence(Brackets, Vec<Answer>),
    /// Answers in braces, none being the empty set; values of different names of which one or another holds.
    Set(Vec<Answer>),
    /// The union of sets.
    Union(Vec<Answer>),
    /// The intersection of sets.
    Intersection(Vec<Answer>),
    /// The first set without the second.
    Difference(Box<(Answer, Answer)>),
    /// All real numbers.
    Reals,
    /// A matrix or vector.
    Matrix(Matrix),
    /// `a:b`, of two or more.
    Ratio(Vec<Quantity>),
    /// `a < b = c`: sides with the relations between them, one fewer.
    Chain(Vec<Answer>, Vec<Relation>),
    /// Words, lower-case, without spaces and ornament.
    Text(String),
}

/// An expression and its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number or formula.
    pub expression: Expression,
    /// What it is measured in.
    pub unit: Unit,
}

/// What a quantity is measured in. Units of which nothing else is known (cm, dollars) are not kept: problems say in
/// what to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// Nothing, or a unit that is not kept.
    None,
    /// Hundredths.
    Percent,
    /// Degrees of an angle or of temperature.
    Degree,
    /// A number whose base was written: what its digits are to the base ten.
    Base(BigInt),
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
    /// ( and ).
    pub const ROUND: Self = Self { closed_left: false, closed_right: false };
}

/// A relation between two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are called what they are")]
pub enum Relation {
    Equal,
    /// Equal but for rounding.
    Approximate,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Membership.
    In,
    /// Congruence, similarity and whatever else is no order.
    Other,
}

impl Relation {
    /// The relation from the other side.
    pub fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    /// Whether it is one of the four orders.
    pub fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

impl Answer {
    /// An expression without a unit.
    pub fn plain(expression: Expression) -> Self {
        Self::Quantity(Quantity { expression, unit: Unit::None })
    }

    /// The expression, of an answer that is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Self::Quantity(quantity) => Some(&quantity.expression),
            _ => None,
        }
    }

    /// The answers of a list; any other is its only one.
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
