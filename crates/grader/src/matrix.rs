//! Matrices of expressions, with the arithmetic that answers use.

use super::expression::Expression;

/// A matrix, `[rows, columns]`; every row is of the same length, and there is one at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: Vec<Vec<Expression>>,
}

/// Most entries of a matrix.
const MAX_ENTRIES: usize = 400;

impl Matrix {
    /// A matrix of rows; `None` if they are none, empty, of several lengths or too many.
    pub fn new(rows: Vec<Vec<Expression>>) -> Option<Self> {
        let width = rows.first()?.len();
        let even = rows.iter().all(|row| row.len() == width);
        (even && width > 0 && rows.len() * width <= MAX_ENTRIES).then_some(Self { rows })
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Expression>] {
        &self.rows
    }

    /// The entries of a single row or a single column.
    pub fn vector(&self) -> Option<Vec<&Expression>> {
        match &self.rows[..] {
            [row] => Some(row.iter().collect()),
            rows if rows[0].len() == 1 => Some(rows.iter().map(|row| &row[0]).collect()),
            _ => None,
        }
    }

    /// self + other; `None` if they differ in size.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        if self.rows.len() != other.rows.len() {
            return None;
        }
        let sum = |(a, b): (&Expression, &Expression)| Expression::Sum(vec![a.clone(), b.clone()]);
        let rows = self
            .rows
            .iter()
            .zip(&other.rows)
            .map(|(a, b)| (a.len() == b.len()).then(|| a.iter().zip(b).map(sum).collect::<Vec<_>>()));
        Self::new(rows.collect::<Option<_>>()?)
    }

    /// factor times self.
    #[must_use]
    pub fn scaled(&self, factor: &Expression) -> Self {
        let scale = |entry: &Expression| Expression::Product(vec![factor.clone(), entry.clone()]);
        Self { rows: self.rows.iter().map(|row| row.iter().map(scale).collect()).collect() }
    }

    /// self times other; `None` if their sizes do not fit.
    pub fn times(&self, other: &Self) -> Option<Self> {
        if self.rows[0].len() != other.rows.len() {
            return None;
        }
        let entry = |row: &[Expression], column: usize| {
            let products = row.iter().zip(&other.rows);
            Expression::Sum(
                products.map(|(a, b)| Expression::Product(vec![a.clone(), b[column].clone()])).collect(),
            )
        };
        let columns = other.rows[0].len();
        Self::new(
            self.rows.iter().map(|row| (0..columns).map(|column| entry(row, column)).collect()).collect(),
        )
    }

    /// The determinant; `None` unless there are as many rows as columns, and few.
    pub fn determinant(&self) -> Option<Expression> {
        const MOST_ROWS: usize = 4;
        let size = self.rows.len();
        if size > MOST_ROWS || self.rows[0].len() != size {
            return None;
        }
        let (first, rest) = self.rows.split_first()?;
        if rest.is_empty() {
            return first.first().cloned();
        }
        let term = |column: usize| -> Option<Expression> {
            let minor = rest.iter().map(|row| [&row[..column], &row[column + 1..]].concat()).collect();
            let term = Expression::Product(vec![first[column].clone(), Self::new(minor)?.determinant()?]);
            Some(if column % 2 == 1 { term.negated() } else { term })
        };
        (0..size).map(term).collect::<Option<_>>().map(Expression::Sum)
    }

    /// self with rows as columns.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let columns = self.rows[0].len();
        Self { rows: (0..columns).map(|c| self.rows.iter().map(|row| row[c].clone()).collect()).collect() }
    }
}
