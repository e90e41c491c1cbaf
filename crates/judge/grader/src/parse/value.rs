//! Values of formulas, with their arithmetic.

use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::super::expression::Expression;
use super::super::matrix::Matrix;
use super::Unreadable;
use super::matrices::{self, Copies};

/// Largest power of ten by which a number is multiplied out.
pub const MAX_EXPONENT: i32 = 2000;

/// The value of a formula.
#[derive(Debug)]
pub enum Value {
    /// A number or a formula for one.
    Scalar(Expression),
    Matrix(Matrix),
}

impl Value {
    /// The expression; a matrix is an error.
    pub fn scalar(self) -> Result<Expression, Unreadable> {
        match self {
            Self::Scalar(expression) => Ok(expression),
            Self::Matrix(_) => Err(Unreadable::NotMath),
        }
    }
}

pub fn negated(value: Value, copies: &mut Copies) -> Result<Value, Unreadable> {
    match value {
        // -3 is a number, not a product.
        Value::Scalar(Expression::Number(number)) => Ok(Value::Scalar(Expression::Number(-number))),
        Value::Scalar(expression) => Ok(Value::Scalar(expression.negated())),
        Value::Matrix(matrix) => copies.scaled(&Expression::integer(-1), matrix).map(Value::Matrix),
    }
}

/// The sum a + b; an error for a matrix and a number.
pub fn plus(a: Value, b: Value) -> Result<Value, Unreadable> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => Ok(Value::Scalar(sum(a, b))),
        (Value::Matrix(a), Value::Matrix(b)) => matrices::plus(a, b).map(Value::Matrix),
        _ => Err(Unreadable::NotMath),
    }
}

/// The product a b; an error for two matrices.
pub fn times(a: Value, b: Value, copies: &mut Copies) -> Result<Value, Unreadable> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => Ok(Value::Scalar(product(a, b))),
        (Value::Scalar(factor), Value::Matrix(matrix))
        | (Value::Matrix(matrix), Value::Scalar(factor)) => {
            copies.scaled(&factor, matrix).map(Value::Matrix)
        }
        (Value::Matrix(_), Value::Matrix(_)) => Err(Unreadable::NotMath),
    }
}

/// value / divisor.
pub fn divided(value: Value, divisor: Expression) -> Result<Value, Unreadable> {
    match value {
        Value::Scalar(Expression::Product(mut factors)) => {
            factors.push(Expression::power(divisor, Expression::integer(-1)));
            Ok(Value::Scalar(Expression::Product(factors)))
        }
        Value::Scalar(dividend) => Ok(Value::Scalar(dividend.over(divisor))),
        Value::Matrix(_) => Err(Unreadable::NotMath),
    }
}

pub fn sum(a: Expression, b: Expression) -> Expression {
    match a {
        Expression::Sum(mut terms) => {
            terms.push(b);
            Expression::Sum(terms)
        }
        a => Expression::Sum(vec![a, b]),
    }
}

/// a times b; a decimal times a power of ten is one decimal.
pub fn product(a: Expression, b: Expression) -> Expression {
    match (a, b) {
        (Expression::Decimal(decimal), Expression::Power(power)) => {
            // A longer one stays a product, whose evaluation has fuel.
            let is_short =
                |exponent: &i32| decimal.last_digit.saturating_add(*exponent).abs() <= MAX_EXPONENT;
            match power_of_ten_exponent(&power).filter(is_short) {
                Some(exponent) => Expression::Decimal(decimal.shifted(exponent)),
                None => Expression::Product(vec![
                    Expression::Decimal(decimal),
                    Expression::Power(power),
                ]),
            }
        }
        (Expression::Product(mut factors), Expression::Product(more)) => {
            factors.extend(more);
            Expression::Product(factors)
        }
        (Expression::Product(mut factors), b) => {
            factors.push(b);
            Expression::Product(factors)
        }
        (a, Expression::Product(factors)) => {
            Expression::Product(std::iter::once(a).chain(factors).collect())
        }
        (a, b) => Expression::Product(vec![a, b]),
    }
}

fn power_of_ten_exponent(power: &(Expression, Expression)) -> Option<i32> {
    let (Expression::Number(base), Expression::Number(exponent)) = power else { return None };
    let is_ten = *base == BigRational::from_integer(10.into()) && exponent.is_integer();
    is_ten
        .then(|| exponent.to_integer().to_i32())
        .flatten()
        .filter(|exponent| exponent.abs() <= MAX_EXPONENT)
}
