//! The first level: facts that the bits of a result must not depend on.

mod activations;
mod attention;
mod batches;
mod fused;
mod gradients;
mod head;
mod rows;
mod samples;
mod steps;
mod variants;

use crate::Property;

/// The properties of this level.
pub(crate) fn properties() -> Vec<Property> {
    [
        rows::properties(),
        fused::properties(),
        attention::properties(),
        head::properties(),
        variants::properties(),
        batches::properties(),
        steps::properties(),
        gradients::properties(),
        activations::properties(),
        samples::properties(),
    ]
    .concat()
}
