//! Shapes and ranges of settings, read from their types.
//!
//! The types of a recipe's tables derive `Serialize`, `Deserialize` and `JsonSchema`, and carry
//! their keys, defaults, documentation and ranges (`#[schemars(range(..))]`). A recipe's checks and
//! its reference page read them through [`Shape`]; [`check`] checks settings that no recipe has
//! given.
//!
//! `shape` has the shapes, `schema` reads them from types, `range` checks values, and `changes`
//! compares settings with older ones.

mod changes;
mod range;
mod schema;
mod shape;

pub use changes::{complete, differences};
pub use range::{Error, check};
pub use shape::{Bounds, Choice, Fallback, Field, Shape, Variant, has_key, quoted};
