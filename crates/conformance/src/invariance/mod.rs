//! The first level: what the bits of a result must not depend on.

mod attention;
mod batches;
mod gradients;
mod head;
mod recordings;
mod rows;
mod samples;
mod steps;
mod variants;

use crate::{Property, Subject};

/// The properties of this level.
pub(crate) fn properties<S: Subject>() -> Vec<Property<S>> {
    [
        rows::properties(),
        attention::properties(),
        head::properties(),
        variants::properties(),
        batches::properties(),
        steps::properties(),
        gradients::properties(),
        recordings::properties(),
        samples::properties(),
    ]
    .concat()
}
