//! Functions of two numbers: expressions, described as steps that begin with the first number.

use super::LARGEST;
use crate::tasks::Stream;

/// Second operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// The second argument.
    B,
    /// A number from 2 to 9.
    Number(i64),
}

/// A step from one number to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Plus(Operand),
    Minus(Operand),
    Times(Operand),
    Modulo(i64),
    AtLeast(i64),
    AtMost(i64),
    Squared,
    Absolute,
    Negated,
}

/// An expression in `a` and `b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression(Vec<Step>);

impl Operand {
    fn draw(stream: &mut Stream) -> Self {
        if stream.below(2) == 0 { Self::B } else { Self::Number(number(stream)) }
    }

    fn value(self, b: i64) -> i64 {
        match self {
            Self::B => b,
            Self::Number(number) => number,
        }
    }

    fn text(self) -> String {
        match self {
            Self::B => "b".into(),
            Self::Number(number) => number.to_string(),
        }
    }
}

fn number(stream: &mut Stream) -> i64 {
    2 + stream.below(8) as i64
}

impl Step {
    fn draw(stream: &mut Stream) -> Self {
        match stream.below(9) {
            0 => Self::Plus(Operand::draw(stream)),
            1 => Self::Minus(Operand::draw(stream)),
            2 => Self::Times(Operand::draw(stream)),
            3 => Self::Modulo(number(stream)),
            4 => Self::AtLeast(number(stream)),
            5 => Self::AtMost(number(stream)),
            6 => Self::Squared,
            7 => Self::Absolute,
            _ => Self::Negated,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Plus(operand) => format!("plus {}", operand.text()),
            Self::Minus(operand) => format!("minus {}", operand.text()),
            Self::Times(operand) => format!("times {}", operand.text()),
            Self::Modulo(n) => format!("modulo {n}"),
            Self::AtLeast(n) => format!("at least {n}"),
            Self::AtMost(n) => format!("at most {n}"),
            Self::Squared => "squared".into(),
            Self::Absolute => "absolute".into(),
            Self::Negated => "negated".into(),
        }
    }

    /// The step's result, unless it is too large.
    fn apply(self, value: i64, b: i64) -> Option<i64> {
        let result = match self {
            Self::Plus(operand) => value + operand.value(b),
            Self::Minus(operand) => value - operand.value(b),
            Self::Times(operand) => value * operand.value(b),
            Self::Modulo(n) => value.rem_euclid(n), // as Python has it: n is positive
            Self::AtLeast(n) => value.max(n),
            Self::AtMost(n) => value.min(n),
            Self::Squared => value * value,
            Self::Absolute => value.abs(),
            Self::Negated => -value,
        };
        (result.abs() <= LARGEST).then_some(result)
    }

    /// The step in Python, in one of its spellings, applied to the expression `of`; and whether the
    /// result needs no parentheses beside an operator.
    fn python(self, (of, is_atom): (String, bool), stream: &mut Stream) -> (String, bool) {
        let other = stream.below(2) == 0;
        let atom = if is_atom { of.clone() } else { format!("({of})") };
        match self {
            Self::Plus(operand) if other => (format!("{}+{atom}", operand.text()), false),
            Self::Plus(operand) => (format!("{atom}+{}", operand.text()), false),
            Self::Minus(operand) => (format!("{atom}-{}", operand.text()), false),
            Self::Times(operand) if other => (format!("{}*{atom}", operand.text()), false),
            Self::Times(operand) => (format!("{atom}*{}", operand.text()), false),
            Self::Modulo(n) => (format!("{atom}%{n}"), false),
            Self::AtLeast(n) => (format!("max({of},{n})"), true),
            Self::AtMost(n) => (format!("min({of},{n})"), true),
            Self::Squared => (format!("{atom}**2"), false),
            Self::Absolute => (format!("abs({of})"), true),
            Self::Negated => (format!("-{atom}"), false),
        }
    }
}

impl Expression {
    /// A random function of `steps` steps.
    pub(super) fn draw(steps: usize, stream: &mut Stream) -> Self {
        Self((0..steps).map(|_| Step::draw(stream)).collect())
    }

    /// The description in the problem.
    pub(super) fn words(&self) -> String {
        let steps: Vec<String> = self.0.iter().map(|step| step.words()).collect();
        format!("f(a,b): a {}", steps.join(", "))
    }

    /// A program that computes it.
    pub(super) fn python(&self, stream: &mut Stream) -> String {
        let (expression, _) =
            self.0.iter().fold(("a".to_owned(), true), |of, step| step.python(of, stream));
        format!("def f(a,b):return {expression}")
    }

    /// The result, unless numbers grow too large.
    pub(super) fn call(&self, a: i64, b: i64) -> Option<i64> {
        self.0.iter().try_fold(a, |value, step| step.apply(value, b))
    }

    /// A copy with another step in place of each for which `is_mistaken` is true.
    pub(super) fn mistaken(
        &self,
        stream: &mut Stream,
        is_mistaken: impl Fn(&mut Stream) -> bool,
    ) -> Self {
        let step = |&step: &Step| if is_mistaken(stream) { Step::draw(stream) } else { step };
        Self(self.0.iter().map(step).collect())
    }
}
