//! What holds whatever the page size and the memory of a backend: nothing is lost, given out twice, or waited for in vain.

mod engine;
mod pages;

use crate::{Property, Subject};

/// The properties of this kind.
pub(crate) fn properties<S: Subject>() -> Vec<Property<S>> {
    [pages::properties(), engine::properties()].concat()
}
