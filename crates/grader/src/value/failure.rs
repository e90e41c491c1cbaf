//! Why an expression has no canonical form.

use crate::fuel::OutOfFuel;

/// Why an expression has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It takes too much work.
    OutOfFuel,
    /// It has no value, like 1/0.
    Undefined,
}

impl From<OutOfFuel> for Failure {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}
