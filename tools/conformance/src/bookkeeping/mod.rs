//! Bookkeeping for any page size and any memory of a backend: nothing is lost, given out twice, or
//! waited for in vain.

mod engine;
mod pages;

use crate::Property;

/// The properties of this kind.
pub(crate) fn properties() -> Vec<Property> {
    [pages::properties(), engine::properties()].concat()
}
