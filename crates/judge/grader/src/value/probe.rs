//! Decides by evaluation: constants once, other expressions at fixed pseudo-random points.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use num_traits::Signed;

use super::complex::Complex;
use super::evaluator::{Evaluator, POINTS, Value};
use super::exact::{self, rational};
use super::real::Real;
use crate::expression::{Expression, Function};
use crate::fuel::{Fuel, OutOfFuel};

/// Points with a zero difference that are enough.
const ENOUGH_ZEROS: u32 = 6;

/// At least one in this many points must have a value.
const FEWEST_DEFINED: u32 = 7;

/// Factor on the number of points for step functions, because two that differ may agree nearly
/// everywhere.
const STEP_ROUNDS: u32 = 10;

/// Bits that must be right beyond the leading one before a difference without any is taken for
/// zero.
const CONVINCING_BITS: i64 = 96;

/// Knowledge of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// The difference is zero to some thirty digits.
    Zero,
    /// It is certainly not zero.
    Nonzero,
    /// The difference is undefined, or lost in rounding errors.
    Unclear,
}

/// The variables that stand for integers: in factorials and the like, and in exponents of
/// negative numbers.
fn integer_variables<'e>(
    expressions: &[&'e Expression],
    fuel: &mut Fuel,
) -> Result<BTreeSet<&'e str>, OutOfFuel> {
    use Function::{Binomial, Factorial, Gcd, Lcm};
    let mut names = BTreeSet::new();
    let mut open: Vec<(&Expression, bool)> =
        expressions.iter().map(|&expression| (expression, false)).collect();
    while let Some((expression, is_integer)) = open.pop() {
        fuel.spend(1)?;
        match expression {
            Expression::Symbol(name) if is_integer => {
                names.insert(&**name);
            }
            Expression::Power(power) => {
                let base = if power.1.is_number() { None } else { rational(&power.0, fuel)? };
                open.push((&power.0, is_integer));
                open.push((&power.1, is_integer || base.is_some_and(|base| base.is_negative())));
            }
            Expression::Function(function, parts) => {
                let is_integer = is_integer || matches!(function, Binomial | Factorial | Gcd | Lcm);
                open.extend(parts.iter().map(|part| (part, is_integer)));
            }
            Expression::Sum(parts) | Expression::Product(parts) | Expression::Unknown(_, parts) => {
                open.extend(parts.iter().map(|part| (part, is_integer)));
            }
            Expression::Symbol(_)
            | Expression::Number(_)
            | Expression::Decimal(_)
            | Expression::Constant(_) => {}
        }
    }
    Ok(names)
}

/// The value of a constant expression.
pub fn constant(expression: &Expression, fuel: &mut Fuel) -> Result<Option<Complex>, OutOfFuel> {
    Ok(Evaluator::at(0, &BTreeSet::new()).value(expression, fuel)?.map(|value| value.number))
}

/// The order of two constant expressions, if they are real numbers and it is clear.
pub fn order(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<Ordering>, OutOfFuel> {
    let (difference, finding) = difference(a, b, fuel)?;
    Ok(match finding {
        Finding::Zero => Some(Ordering::Equal),
        _ => difference.and_then(Complex::as_real).and_then(Real::sign),
    })
}

/// Whether two values at one point are equal. Expressions with long numbers can come close to each
/// other by construction: their difference must be that much nearer to zero.
fn finding(a: Value, b: Value, longest_number: u64) -> Finding {
    let difference = a.number - b.number;
    if difference.is_clearly_nonzero() {
        Finding::Nonzero
    } else if difference.is_exact_zero()
        || difference.error()
            < a.scale.max(b.scale).saturating_sub(CONVINCING_BITS + longest_number as i64)
    {
        Finding::Zero
    } else {
        Finding::Unclear
    }
}

/// Bits of the longest number that is written in a constant.
fn longest_number(expression: &Expression) -> u64 {
    match expression {
        Expression::Number(value) => exact::bits(value),
        Expression::Decimal(decimal) => exact::bits(&decimal.value),
        other => other.parts().map(longest_number).max().unwrap_or(0),
    }
}

/// Whether two expressions are equal wherever both have a value.
pub fn are_equal(a: &Expression, b: &Expression, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
    if a.is_number() && b.is_number() {
        return Ok(difference(a, b, fuel)?.1 == Finding::Zero);
    }
    let whole = integer_variables(&[a, b], fuel)?;
    let mut zeros = 0;
    let rounds = if has_steps(a) || has_steps(b) { STEP_ROUNDS } else { 1 };
    let tried = POINTS.len() as u32 * rounds;
    for point in 0..tried as usize {
        let mut evaluator = Evaluator::at(point, &whole);
        let (Some(left), Some(right)) = (evaluator.value(a, fuel)?, evaluator.value(b, fuel)?)
        else {
            continue;
        };
        match finding(left, right, 0) {
            Finding::Nonzero => return Ok(false),
            Finding::Zero => zeros += 1,
            Finding::Unclear => {}
        }
        if zeros == ENOUGH_ZEROS * rounds {
            break;
        }
    }
    // C(n, k) and C(k, n) agree wherever both have a value, but that is only where n is k.
    Ok(zeros * FEWEST_DEFINED >= tried || zeros >= ENOUGH_ZEROS)
}

/// The difference of two constants, and whether it is zero.
fn difference(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<(Option<Complex>, Finding), OutOfFuel> {
    let no_names = BTreeSet::new();
    let mut evaluator = Evaluator::at(0, &no_names);
    Ok(match (evaluator.value(a, fuel)?, evaluator.value(b, fuel)?) {
        (Some(left), Some(right)) => {
            let finding = finding(left, right, longest_number(a).max(longest_number(b)));
            (Some(left.number - right.number), finding)
        }
        _ => (None, Finding::Unclear),
    })
}

fn has_steps(expression: &Expression) -> bool {
    let is_step = |part: &Expression| {
        matches!(part, Expression::Function(Function::Floor | Function::Ceiling, _))
    };
    expression.any(&is_step)
}

/// The values of two expressions at each point where both have one.
pub fn pairs(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Vec<(Complex, Complex)>, OutOfFuel> {
    let whole = integer_variables(&[a, b], fuel)?;
    let is_constant = a.is_number() && b.is_number();
    let mut pairs = Vec::new();
    for point in 0..if is_constant { 1 } else { POINTS.len() } {
        let mut evaluator = Evaluator::at(point, &whole);
        if let (Some(a), Some(b)) = (evaluator.value(a, fuel)?, evaluator.value(b, fuel)?) {
            pairs.push((a.number, b.number));
        }
    }
    Ok(pairs)
}

/// The constant c with a = c b at all points. At least two points must be defined unless both are
/// constants.
pub fn ratio(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<Complex>, OutOfFuel> {
    let needed = if a.is_number() && b.is_number() { 1 } else { 2 };
    let mut first: Option<Complex> = None;
    let mut agreeing = 0;
    for (a, b) in pairs(a, b, fuel)? {
        if !a.is_clearly_nonzero() {
            if b.is_clearly_nonzero() {
                return Ok(None);
            }
            continue;
        }
        let Some(value) = b.reciprocal().map(|inverse| a * inverse) else { return Ok(None) };
        let difference = value - *first.get_or_insert(value);
        if difference.is_clearly_nonzero() {
            return Ok(None);
        }
        agreeing += u32::from(
            difference.is_exact_zero()
                || difference.error() < value.exponent().saturating_sub(CONVINCING_BITS),
        );
    }
    Ok(first.filter(|_| agreeing >= needed))
}
