//! What a formula may be, with its arithmetic.

use super::super::expression::Expression;
use super::super::matrix::Matrix;
use super::Unreadable;
use super::number::product;

/// What a formula is.
#[derive(Debug)]
pub enum Value {
    /// A number or a formula for one.
    Scalar(Expression),
    /// A matrix.
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

/// -value.
pub fn negated(value: Value) -> Value {
    match value {
        // -3 is a number, not a product.
        Value::Scalar(Expression::Number(number)) => Value::Scalar(Expression::Number(-number)),
        Value::Scalar(expression) => Value::Scalar(expression.negated()),
        Value::Matrix(matrix) => Value::Matrix(matrix.scaled(&Expression::integer(-1))),
    }
}

/// a + b; a matrix and a number, or matrices of different sizes, are an error.
pub fn plus(a: Value, b: Value) -> Result<Value, Unreadable> {
    match (a, b) {
        (Value::Scalar(Expression::Sum(mut terms)), Value::Scalar(b)) => {
            terms.push(b);
            Ok(Value::Scalar(Expression::Sum(terms)))
        }
        (Value::Scalar(a), Value::Scalar(b)) => Ok(Value::Scalar(Expression::Sum(vec![a, b]))),
        (Value::Matrix(a), Value::Matrix(b)) => a.plus(&b).map(Value::Matrix).ok_or(Unreadable::NotMath),
        _ => Err(Unreadable::NotMath),
    }
}

/// a b; matrices whose sizes do not fit are an error.
pub fn times(a: Value, b: Value) -> Result<Value, Unreadable> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => Ok(Value::Scalar(product(a, b))),
        (Value::Scalar(factor), Value::Matrix(matrix)) | (Value::Matrix(matrix), Value::Scalar(factor)) => {
            Ok(Value::Matrix(matrix.scaled(&factor)))
        }
        (Value::Matrix(a), Value::Matrix(b)) => a.times(&b).map(Value::Matrix).ok_or(Unreadable::NotMath),
    }
}
