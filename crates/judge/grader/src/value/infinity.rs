//! Infinite values: plus and minus infinity, alone, plus a real number, or times a number that is
//! not zero. Any other expression with infinity is undefined: infinity - infinity, 0 times
//! infinity, powers and functions.

use std::cmp::Ordering;

use super::{probe, sign};
use crate::expression::{Constant, Expression};
use crate::fuel::{Fuel, OutOfFuel};

/// `Less` for minus infinity, `Greater` for infinity, `Equal` for an expression without infinity;
/// `None` if it is undefined.
pub fn extent(expression: &Expression, fuel: &mut Fuel) -> Result<Option<Ordering>, OutOfFuel> {
    if !mentions_infinity(expression) {
        return Ok(Some(Ordering::Equal));
    }
    fuel.spend(1)?;
    match expression {
        Expression::Constant(Constant::Infinity) => Ok(Some(Ordering::Greater)),
        Expression::Sum(terms) => {
            let mut sum = Ordering::Equal;
            for term in terms {
                match extent(term, fuel)? {
                    Some(Ordering::Equal) if is_real(term, fuel)? => {}
                    Some(found) if found.is_ne() && (sum.is_eq() || sum == found) => sum = found,
                    _ => return Ok(None),
                }
            }
            Ok(Some(sum))
        }
        Expression::Product(factors) => {
            let mut product = Ordering::Greater;
            for factor in factors {
                product = match extent(factor, fuel)? {
                    Some(Ordering::Equal) => sign(factor, fuel)?,
                    found => found,
                }
                .filter(|found| found.is_ne())
                .map_or(Ordering::Equal, |found| {
                    if found.is_lt() { product.reverse() } else { product }
                });
                if product.is_eq() {
                    return Ok(None);
                }
            }
            Ok(Some(product))
        }
        _ => Ok(None),
    }
}

fn mentions_infinity(expression: &Expression) -> bool {
    expression.any(&|part| *part == Expression::Constant(Constant::Infinity))
}

fn is_real(expression: &Expression, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
    let is_constant = expression.is_number();
    Ok(is_constant
        && probe::constant(expression, fuel)?.is_some_and(|value| value.as_real().is_some()))
}
