//! Matrices of expressions.

use super::expression::Expression;

/// A matrix, `[rows, columns]`; every row is of the same length, and there is one at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: Vec<Vec<Expression>>,
}

/// Most entries of a matrix.
const MAX_ENTRIES: usize = 400;

impl Matrix {
    /// A matrix of rows; `None` without rows, or if they are empty, of several lengths or too many.
    pub fn new(rows: Vec<Vec<Expression>>) -> Option<Self> {
        let width = rows.first()?.len();
        let even = rows.iter().all(|row| row.len() == width);
        (even && width > 0 && rows.len() * width <= MAX_ENTRIES).then_some(Self { rows })
    }

    pub fn rows(&self) -> &[Vec<Expression>] {
        &self.rows
    }

    pub fn into_rows(self) -> Vec<Vec<Expression>> {
        self.rows
    }

    /// The entries of a single row or a single column.
    pub fn vector(&self) -> Option<Vec<&Expression>> {
        match &self.rows[..] {
            [row] => Some(row.iter().collect()),
            rows if rows[0].len() == 1 => Some(rows.iter().map(|row| &row[0]).collect()),
            _ => None,
        }
    }
}
