//! The second level: the results of operations.

mod adamw;
mod attention;
mod derivatives;
mod draws;
mod embedding;
mod glu;
mod groups;
mod head;
mod linear;
mod norm;
mod reference;
mod rope;
mod rows;

use crate::Property;

/// The properties of this level.
pub(crate) fn properties() -> Vec<Property> {
    [
        reference::finite_differences::properties(),
        linear::properties(),
        attention::properties(),
        embedding::properties(),
        norm::properties(),
        rope::properties(),
        rows::properties(),
        glu::properties(),
        head::properties(),
        adamw::properties(),
        draws::properties(),
        derivatives::properties(),
    ]
    .concat()
}
