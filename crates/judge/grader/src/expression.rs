//! The tree of a mathematical expression.
//!
//! There is one way to write each operation: a - b is a + (-1) b, a/b is a b^-1, the n-th root is
//! the power 1/n.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Pow;

/// A mathematical expression, as it was written: nothing is evaluated or reordered yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// An exact number.
    Number(BigRational),
    /// A number written with a decimal point or in scientific notation, which may be a rounded one.
    Decimal(Decimal),
    /// A number that has a name.
    Constant(Constant),
    /// A variable, with its subscript and primes if it has any: `x`, `a_3`, `y'`.
    Symbol(Box<str>),
    Sum(Vec<Expression>),
    Product(Vec<Expression>),
    Power(Box<(Expression, Expression)>),
    Function(Function, Vec<Expression>),
    /// An unknown function of the problem's, such as f(x).
    Unknown(Box<str>, Vec<Expression>),
}

/// A number with its precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    pub value: BigRational,
    /// Power of ten of the last digit written: -2 for `3.14`, 18 for `1.25e20`.
    pub last_digit: i32,
}

impl Decimal {
    pub fn shifted(self, exponent: i32) -> Self {
        let factor = BigRational::from_integer(power_of_ten(exponent.unsigned_abs() as usize));
        let value = if exponent < 0 { self.value / factor } else { self.value * factor };
        Self { value, last_digit: self.last_digit.saturating_add(exponent) }
    }
}

pub fn power_of_ten(exponent: usize) -> BigInt {
    Pow::pow(BigInt::from(10), exponent)
}

/// A number that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Constant {
    Pi,
    E,
    I,
    Infinity,
    Degree,
}

/// A function that the grader knows, of one argument unless documented otherwise. Logarithms, roots
/// and inverse functions are the principal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "they are called what they are")]
pub enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Arccot,
    Sinh,
    Cosh,
    Tanh,
    Ln,
    /// Logarithm of the first argument to the base of the second.
    Log,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    /// n over k: two arguments.
    Binomial,
    /// n! / (n - k)!: two arguments.
    Permutations,
    Gcd,
    Lcm,
    Min,
    Max,
}

impl Expression {
    pub fn integer(value: impl Into<BigInt>) -> Self {
        Self::Number(BigRational::from_integer(value.into()))
    }

    pub fn symbol(name: &str) -> Self {
        Self::Symbol(name.into())
    }

    pub fn power(base: Self, exponent: Self) -> Self {
        Self::Power(Box::new((base, exponent)))
    }

    pub fn negated(self) -> Self {
        Self::Product(vec![Self::integer(-1), self])
    }

    pub fn over(self, denominator: Self) -> Self {
        Self::Product(vec![self, Self::power(denominator, Self::integer(-1))])
    }

    /// The n of 1/n, as [`Self::over`] makes it.
    pub fn divisor(&self) -> Option<&Self> {
        match self {
            Self::Power(power) if power.1 == Self::integer(-1) => Some(&power.0),
            _ => None,
        }
    }

    pub fn root(self, degree: Self) -> Self {
        Self::power(self, Self::integer(1).over(degree))
    }

    /// The expressions that this one consists of.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        let (list, pair): (&[Self], _) = match self {
            Self::Sum(parts)
            | Self::Product(parts)
            | Self::Function(_, parts)
            | Self::Unknown(_, parts) => (parts, None),
            Self::Power(power) => (&[], Some([&power.0, &power.1])),
            Self::Number(_) | Self::Decimal(_) | Self::Constant(_) | Self::Symbol(_) => (&[], None),
        };
        list.iter().chain(pair.into_iter().flatten())
    }

    /// Whether `is_so` holds for the expression or for one inside it.
    pub fn any(&self, is_so: &dyn Fn(&Self) -> bool) -> bool {
        is_so(self) || self.parts().any(|part| part.any(is_so))
    }

    /// Whether it has no variables.
    pub fn is_number(&self) -> bool {
        !self.any(&|part| matches!(part, Self::Symbol(_) | Self::Unknown(..)))
    }

    pub fn mentions(&self, name: &str) -> bool {
        self.any(&|part| matches!(part, Self::Symbol(symbol) if **symbol == *name))
    }

    /// The complex conjugate, if all variables are real.
    #[must_use]
    pub fn conjugated(self) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(Self::conjugated).collect();
        match self {
            Self::Constant(Constant::I) => self.negated(),
            Self::Sum(parts) => Self::Sum(all(parts)),
            Self::Product(parts) => Self::Product(all(parts)),
            Self::Power(power) => Self::power(power.0.conjugated(), power.1.conjugated()),
            other => other,
        }
    }

    /// Renames variables and functions by `name`; those for which it returns none keep their names.
    pub fn rename(&mut self, name: &impl Fn(&str) -> Option<Box<str>>) {
        match self {
            Self::Symbol(symbol) => {
                if let Some(new) = name(symbol) {
                    *symbol = new;
                }
            }
            Self::Unknown(function, parts) => {
                if let Some(new) = name(function) {
                    *function = new;
                }
                parts.iter_mut().for_each(|part| part.rename(name));
            }
            Self::Sum(parts) | Self::Product(parts) | Self::Function(_, parts) => {
                parts.iter_mut().for_each(|part| part.rename(name));
            }
            Self::Power(power) => {
                power.0.rename(name);
                power.1.rename(name);
            }
            Self::Number(_) | Self::Decimal(_) | Self::Constant(_) => {}
        }
    }
}
