//! The first level: what the bits of a result must not depend on.

mod attention;
mod head;
mod rows;

use crate::{Property, Subject};

/// The properties of this level.
pub(crate) fn properties<S: Subject>() -> Vec<Property<S>> {
    [rows::properties(), attention::properties(), head::properties()].concat()
}
