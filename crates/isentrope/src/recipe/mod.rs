//! Recipes: a run's settings as a TOML file, checked strictly and printed in full.
//!
//! The settings' types say everything: [`schema`] reads keys, defaults, bounds and documentation from them, and
//! [`load`], [`render()`] and [`reference()`] follow. A type of settings derives `Serialize`, `Deserialize` and
//! `JsonSchema`, carries `#[serde(default, deny_unknown_fields)]`, and takes bounds from `#[schemars(range(..))]`.
//! Enums are kebab-case; one whose variants have settings of their own is internally tagged
//! (`#[serde(tag = "kind")]`).

mod check;
mod overrides;
mod reference;
mod render;
mod schema;
#[cfg(test)]
mod tests;
mod tree;

pub use reference::reference;
pub use render::render;

use anyhow::{Result, anyhow, bail};
use schema::Shape;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads a recipe and sets the keys of `sets`, each `key.path=value`, over it.
///
/// # Errors
/// When the file cannot be read or is not TOML, when a `--set` cannot be applied, or with one line for each unknown
/// key, missing key and value that the types do not allow.
pub fn load<T: DeserializeOwned + JsonSchema>(path: &Path, sets: &[String]) -> Result<T> {
    let mut root = tree::read(path)?;
    for set in sets {
        overrides::apply(&mut root, set)?;
    }
    let problems = check::check(&root, &Shape::of::<T>());
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    // What the schema does not say, a type's own Deserialize may still demand.
    toml::Value::from(root)
        .try_into()
        .map_err(|e| anyhow!("{}: {}", path.display(), e.to_string().trim().replace('\n', " ")))
}
