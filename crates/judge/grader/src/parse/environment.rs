//! Matrices.

use super::super::latex::Kind::{Mark, Row};
use super::super::latex::Token;
use super::super::matrix::Matrix;
use super::Unreadable;
use super::expression::Parser;
use super::slices::{closing, split};
use super::value::Value;

impl Parser<'_, '_, '_> {
    /// Parses the matrix of the environment that opens next.
    pub(super) fn environment(&mut self, name: &str) -> Result<Value, Unreadable> {
        let is_matrix = matches!(
            name,
            "matrix" | "pmatrix" | "bmatrix" | "Bmatrix" | "Vmatrix" | "smallmatrix" | "array"
        );
        let end =
            closing(self.tokens, self.place).filter(|_| is_matrix).ok_or(Unreadable::NotMath)?;
        let mut content = &self.tokens[self.place + 1..end];
        if name == "array" && matches!(content.first(), Some(Token { kind: Mark('{'), .. })) {
            content = &content[closing(content, 0).ok_or(Unreadable::NotMath)? + 1..];
        }
        while let [rest @ .., Token { kind: Row, .. }] = content {
            content = rest;
        }
        let rows = self.place_deeper(|parser| {
            split(content, |kind| kind == Row)
                .iter()
                .map(|row| {
                    let cells = split(row, |kind| kind == Mark('&'));
                    cells
                        .iter()
                        .map(|cell| parser.content(cell)?.scalar())
                        .collect::<Result<Vec<_>, _>>()
                })
                .collect::<Result<Vec<_>, _>>()
        })?;
        self.place = end + 1;
        let matrix = Matrix::new(rows).ok_or(Unreadable::NotMath)?;
        Ok(Value::Matrix(matrix))
    }
}
