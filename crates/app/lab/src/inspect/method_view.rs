//! Another objective beside the plain one, token by token.

use crate::table::Table;
use std::collections::HashMap;
use std::ops::Range;

/// The effect of an objective on a step's recorded tokens, beside the plain one's.
#[derive(Clone, Debug)]
pub struct MethodView {
    /// The objective's name, and the plain one's.
    pub names: [String; 2],
    /// Coefficients of both in the same order, `[tokens]`.
    pub(crate) coefficients: [Vec<f64>; 2],
    /// The tokens of each record that has any.
    pub(crate) places: HashMap<usize, Range<usize>>,
    /// The changes in numbers.
    pub(crate) tables: Vec<Table>,
}

impl MethodView {
    /// The coefficients of a record's tokens under the method and the plain objective, if they are
    /// known.
    pub(crate) fn of_record(&self, record: usize) -> Option<[&[f64]; 2]> {
        let tokens = self.places.get(&record)?;
        Some(self.coefficients.each_ref().map(|of| &of[tokens.clone()]))
    }
}
