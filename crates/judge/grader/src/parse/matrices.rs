//! Sums of matrices and their products with numbers. Nothing is evaluated: each entry becomes a
//! formula of the operands' entries. A factor is copied for each entry; the copies of one parse are
//! counted. Products of matrices are not read.

use num_rational::BigRational;

use super::super::expression::Expression;
use super::super::matrix::Matrix;
use super::Unreadable;
use super::value::{product, sum};

/// Most parts of formulas that one parse copies.
pub const MAX_COPIES: u64 = 100_000;

/// The parts of formulas that one parse may still copy.
#[derive(Debug)]
pub struct Copies(u64);

impl Default for Copies {
    fn default() -> Self {
        Self(MAX_COPIES)
    }
}

impl Copies {
    fn copy(&mut self, expression: &Expression) -> Result<Expression, Unreadable> {
        self.0 = self.0.checked_sub(size(expression)).ok_or(Unreadable::TooManyCopies)?;
        Ok(expression.clone())
    }

    /// factor times matrix.
    pub fn scaled(&mut self, factor: &Expression, matrix: Matrix) -> Result<Matrix, Unreadable> {
        let mut scaled = |entry| self.copy(factor).map(|factor| product(factor, entry));
        let rows = matrix.into_rows().into_iter();
        let rows = rows.map(|row| row.into_iter().map(&mut scaled).collect());
        Matrix::new(rows.collect::<Result<_, _>>()?).ok_or(Unreadable::NotMath)
    }
}

/// The sum a + b; an error if the sizes differ.
pub fn plus(a: Matrix, b: Matrix) -> Result<Matrix, Unreadable> {
    let size = |matrix: &Matrix| (matrix.rows().len(), matrix.rows()[0].len());
    if size(&a) != size(&b) {
        return Err(Unreadable::NotMath);
    }
    let rows = a.into_rows().into_iter().zip(b.into_rows());
    let rows = rows.map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| sum(a, b)).collect());
    Matrix::new(rows.collect()).ok_or(Unreadable::NotMath)
}

/// The number of an expression's parts; long numbers and names count by their length.
fn size(expression: &Expression) -> u64 {
    let of_number = |number: &BigRational| 1 + (number.numer().bits() + number.denom().bits()) / 64;
    let of_name = |name: &str| 1 + name.len() as u64 / 8;
    let own = match expression {
        Expression::Number(number) => of_number(number),
        Expression::Decimal(decimal) => of_number(&decimal.value),
        Expression::Symbol(name) | Expression::Unknown(name, _) => of_name(name),
        _ => 1,
    };
    own + expression.parts().map(size).sum::<u64>()
}
