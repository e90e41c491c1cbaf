//! Products of matrices, which have an order: `P^{-1}AP` is not A.

use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::super::expression::Expression;

/// A product of matrices: the number before it, and its factors in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    number: BigRational,
    factors: Vec<Factor>,
}

/// A power of a matrix.
#[derive(Clone, Debug, PartialEq)]
struct Factor {
    name: Box<str>,
    is_transposed: bool,
    exponent: Expression,
}

/// Longest product that is multiplied out.
const MAX_FACTORS: usize = 40;

/// Whether a text inverts or transposes a capital letter or a product, as is done with matrices.
pub(super) fn names_matrices(source: &str) -> bool {
    ["^{-1}", "^T", "^{T}", "^\\top", "^{\\top}", "^t", "^{t}"].iter().any(|mark| {
        source
            .match_indices(mark)
            .any(|(place, _)| source[..place].ends_with(|c: char| c.is_ascii_uppercase() || c == ')'))
    })
}

/// The product of capital letters, their powers, inverses and transposes that an expression is; `None` if it is anything else.
pub(super) fn word(expression: &Expression) -> Option<Word> {
    match expression {
        Expression::Number(number) => Some(Word { number: number.clone(), factors: Vec::new() }),
        Expression::Symbol(name) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            let factor =
                Factor { name: name.clone(), is_transposed: false, exponent: Expression::integer(1) };
            Some(Word { number: BigRational::one(), factors: vec![factor] })
        }
        Expression::Product(parts) => {
            let mut product = Word { number: BigRational::one(), factors: Vec::new() };
            for part in parts {
                product = product.times(word(part)?)?;
            }
            Some(product)
        }
        Expression::Power(power) => {
            let base = word(&power.0)?;
            match &power.1 {
                Expression::Symbol(name) if matches!(&**name, "T" | "t" | "\\top") => Some(base.transposed()),
                Expression::Number(exponent) => base.raised(exponent),
                exponent => base.raised_to_name(exponent),
            }
        }
        _ => None,
    }
}

impl Word {
    /// self times other, in which powers of one matrix next to each other are one.
    fn times(mut self, other: Self) -> Option<Self> {
        self.number *= other.number;
        for factor in other.factors {
            match self.factors.last_mut() {
                Some(last) if last.name == factor.name && last.is_transposed == factor.is_transposed => {
                    let (Expression::Number(a), Expression::Number(b)) = (&last.exponent, &factor.exponent)
                    else {
                        return None;
                    };
                    let sum = a + b;
                    if sum.is_zero() {
                        self.factors.pop();
                    } else {
                        last.exponent = Expression::Number(sum);
                    }
                }
                _ => self.factors.push(factor),
            }
        }
        (self.factors.len() <= MAX_FACTORS).then_some(self)
    }

    fn transposed(mut self) -> Self {
        self.factors.reverse();
        self.factors.iter_mut().for_each(|factor| factor.is_transposed = !factor.is_transposed);
        self
    }

    fn inverse(mut self) -> Option<Self> {
        if self.number.is_zero() {
            return None;
        }
        self.number = self.number.recip();
        self.factors.reverse();
        for factor in &mut self.factors {
            let Expression::Number(exponent) = &factor.exponent else { return None };
            factor.exponent = Expression::Number(-exponent);
        }
        Some(self)
    }

    /// self to a whole power.
    fn raised(self, exponent: &BigRational) -> Option<Self> {
        let times = exponent.is_integer().then(|| exponent.to_integer().to_i8()).flatten()?;
        let base = if exponent.is_negative() { self.inverse()? } else { self };
        let one = Self { number: BigRational::one(), factors: Vec::new() };
        (0..times.unsigned_abs()).try_fold(one, |product, _| product.times(base.clone()))
    }

    /// One matrix to a power that is no number.
    fn raised_to_name(mut self, exponent: &Expression) -> Option<Self> {
        let [factor] = &mut self.factors[..] else { return None };
        if !self.number.is_one() || factor.exponent != Expression::integer(1) {
            return None;
        }
        factor.exponent = exponent.clone();
        Some(self)
    }
}
