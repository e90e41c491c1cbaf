//! The arithmetic of matrices. Nothing is evaluated: each entry becomes a formula of the operands' entries. A product copies
//! these several times, so that a chain of products is exponentially longer than its text; the copies of one parse are counted.

use num_rational::BigRational;

use super::super::expression::Expression;
use super::super::matrix::Matrix;
use super::Unreadable;
use super::value::{product, sum};

/// Most that one parse copies, in parts of formulas. A product of two matrices of 20 rows copies 16 000.
pub const MAX_COPIES: u64 = 100_000;

/// What one parse may still copy, in parts of formulas.
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
        matrix_of(rows.map(|row| row.into_iter().map(&mut scaled).collect()).collect::<Result<_, _>>()?)
    }

    /// a times b; an error if their sizes do not fit.
    pub fn times(&mut self, a: &Matrix, b: &Matrix) -> Result<Matrix, Unreadable> {
        let (above, below) = (a.rows(), b.rows());
        if above[0].len() != below.len() {
            return Err(Unreadable::NotMath);
        }
        let mut entry = |row: &[Expression], column: usize| {
            let mut terms = Vec::with_capacity(row.len());
            for (a, b) in row.iter().zip(below) {
                terms.push(product(self.copy(a)?, self.copy(&b[column])?));
            }
            terms.into_iter().reduce(sum).ok_or(Unreadable::NotMath)
        };
        let columns = 0..below[0].len();
        let rows = above.iter().map(|row| columns.clone().map(|column| entry(row, column)).collect());
        matrix_of(rows.collect::<Result<_, _>>()?)
    }

    /// The determinant; an error unless there are as many rows as columns, and few.
    pub fn determinant(&mut self, matrix: &Matrix) -> Result<Expression, Unreadable> {
        const MOST_ROWS: usize = 4;
        let rows = matrix.rows();
        if rows.len() > MOST_ROWS || rows[0].len() != rows.len() {
            return Err(Unreadable::NotMath);
        }
        self.expanded(&rows.iter().map(|row| row.iter().collect()).collect::<Vec<_>>())
    }

    /// A determinant, along its first row.
    fn expanded(&mut self, rows: &[Vec<&Expression>]) -> Result<Expression, Unreadable> {
        let (first, rest) = rows.split_first().ok_or(Unreadable::NotMath)?;
        if let [only] = first[..] {
            return self.copy(only);
        }
        let term = |column: usize| {
            let minor: Vec<_> =
                rest.iter().map(|row| [&row[..column], &row[column + 1..]].concat()).collect();
            let term = Expression::Product(vec![self.copy(first[column])?, self.expanded(&minor)?]);
            Ok(if column % 2 == 1 { term.negated() } else { term })
        };
        (0..first.len()).map(term).collect::<Result<_, _>>().map(Expression::Sum)
    }
}

/// a + b; an error if they differ in size.
pub fn plus(a: Matrix, b: Matrix) -> Result<Matrix, Unreadable> {
    let size = |matrix: &Matrix| (matrix.rows().len(), matrix.rows()[0].len());
    if size(&a) != size(&b) {
        return Err(Unreadable::NotMath);
    }
    let rows = a.into_rows().into_iter().zip(b.into_rows());
    matrix_of(rows.map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| sum(a, b)).collect()).collect())
}

/// A matrix with its rows as columns.
pub fn transposed(matrix: Matrix) -> Result<Matrix, Unreadable> {
    let columns = 0..matrix.rows()[0].len();
    let mut rows: Vec<_> = matrix.into_rows().into_iter().map(Vec::into_iter).collect();
    matrix_of(columns.map(|_| rows.iter_mut().filter_map(Iterator::next).collect()).collect())
}

fn matrix_of(rows: Vec<Vec<Expression>>) -> Result<Matrix, Unreadable> {
    Matrix::new(rows).ok_or(Unreadable::NotMath)
}

/// How many parts an expression has, long numbers and names counted by their length.
fn size(expression: &Expression) -> u64 {
    let of_number = |number: &BigRational| 1 + (number.numer().bits() + number.denom().bits()) / 64;
    let of_name = |name: &str| 1 + name.len() as u64 / 8;
    let of_all = |parts: &[Expression]| parts.iter().map(size).sum::<u64>();
    match expression {
        Expression::Number(number) => of_number(number),
        Expression::Decimal(decimal) => of_number(&decimal.value),
        Expression::Constant(_) => 1,
        Expression::Symbol(name) => of_name(name),
        Expression::Sum(parts) | Expression::Product(parts) | Expression::Function(_, parts) => {
            1 + of_all(parts)
        }
        Expression::Unknown(name, parts) => of_name(name) + of_all(parts),
        Expression::Power(power) => 1 + size(&power.0) + size(&power.1),
    }
}
