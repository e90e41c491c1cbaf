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
    /// The sum of the terms.
    Sum(Vec<Expression>),
    /// The product of the factors.
    Product(Vec<Expression>),
    /// Base and exponent.
    Power(Box<(Expression, Expression)>),
    /// A known function of its arguments.
    Function(Function, Vec<Expression>),
    /// A function of the problem's, such as f(x), of which nothing is known.
    Unknown(Box<str>, Vec<Expression>),
}

/// A number with its precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    /// The number as written.
    pub value: BigRational,
    /// Power of ten of the last digit written: -2 for `3.14`, 18 for `1.25e20`.
    pub last_digit: i32,
}

impl Decimal {
    /// Times a power of ten.
    pub fn shifted(self, exponent: i32) -> Self {
        let factor = BigRational::from_integer(power_of_ten(exponent.unsigned_abs() as usize));
        let value = if exponent < 0 { self.value / factor } else { self.value * factor };
        Self { value, last_digit: self.last_digit.saturating_add(exponent) }
    }
}

/// 10^exponent.
pub fn power_of_ten(exponent: usize) -> BigInt {
    Pow::pow(BigInt::from(10), exponent)
}

/// A number that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Constant {
    /// Circumference over diameter of a circle.
    Pi,
    /// Base of the natural logarithm.
    E,
    /// The imaginary unit.
    I,
    /// Positive infinity.
    Infinity,
    /// pi/180.
    Degree,
}

/// A function that the grader knows, of one argument where nothing else is said. Logarithms, roots
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
    /// Natural logarithm.
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
    /// Takes one argument or more.
    Gcd,
    /// Takes one argument or more.
    Lcm,
    /// Takes one argument or more.
    Min,
    /// Takes one argument or more.
    Max,
}

impl Expression {
    /// An integer.
    pub fn integer(value: impl Into<BigInt>) -> Self {
        Self::Number(BigRational::from_integer(value.into()))
    }

    /// A variable.
    pub fn symbol(name: &str) -> Self {
        Self::Symbol(name.into())
    }

    /// base^exponent.
    pub fn power(base: Self, exponent: Self) -> Self {
        Self::Power(Box::new((base, exponent)))
    }

    /// -self.
    pub fn negated(self) -> Self {
        Self::Product(vec![Self::integer(-1), self])
    }

    /// self/denominator.
    pub fn over(self, denominator: Self) -> Self {
        Self::Product(vec![self, Self::power(denominator, Self::integer(-1))])
    }

    /// n of 1/n, as [`Self::over`] has it.
    pub fn divisor(&self) -> Option<&Self> {
        match self {
            Self::Power(power) if power.1 == Self::integer(-1) => Some(&power.0),
            _ => None,
        }
    }

    /// The `degree`-th root of self.
    pub fn root(self, degree: Self) -> Self {
        Self::power(self, Self::integer(1).over(degree))
    }

    /// Whether it has no variables.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Number(_) | Self::Decimal(_) | Self::Constant(_) => true,
            Self::Symbol(_) | Self::Unknown(..) => false,
            Self::Sum(parts) | Self::Product(parts) | Self::Function(_, parts) => {
                parts.iter().all(Self::is_number)
            }
            Self::Power(power) => power.0.is_number() && power.1.is_number(),
        }
    }

    /// Whether a variable is in it.
    pub fn mentions(&self, name: &str) -> bool {
        match self {
            Self::Symbol(symbol) => **symbol == *name,
            Self::Unknown(_, parts)
            | Self::Sum(parts)
            | Self::Product(parts)
            | Self::Function(_, parts) => parts.iter().any(|part| part.mentions(name)),
            Self::Power(power) => power.0.mentions(name) || power.1.mentions(name),
            Self::Number(_) | Self::Decimal(_) | Self::Constant(_) => false,
        }
    }

    /// The complex conjugate, where all variables are real.
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

    /// Gives variables and functions the names that `name` gives for theirs; where it gives none
    /// they keep them.
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
