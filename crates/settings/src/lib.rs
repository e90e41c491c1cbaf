//! What a type of settings says about itself.
//!
//! The types of a recipe's tables derive `Serialize`, `Deserialize` and `JsonSchema`, and carry their keys, defaults,
//! documentation and ranges (`#[schemars(range(..))]`). From there, and from nowhere else, come a recipe's checks and its
//! reference page, which read the [`Shape`], and the check of settings that no recipe has given, [`check`].
//!
//! Read `shape`, then `schema`, which reads shapes from types, then `range`. `changes` compares settings with earlier ones.

mod changes;
mod range;
mod schema;
mod shape;

pub use changes::{complete, differences};
pub use range::{Error, check};
pub use shape::{Bounds, Choice, Fallback, Field, Shape, Variant, has_key, quoted};
