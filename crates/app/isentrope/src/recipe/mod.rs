//! Recipes: a run's settings as a TOML file, checked strictly and printed in full.
//!
//! The settings' types say everything: [`Shape`] has the keys, defaults, ranges and documentation
//! that they state, and [`load`], [`render()`] and [`reference()`] follow it. A type of settings
//! derives `Serialize`, `Deserialize` and `JsonSchema`, carries `#[serde(default,
//! deny_unknown_fields)]`, and states ranges by `#[schemars(range(..))]`. Enums are kebab-case; one
//! whose variants have settings of their own is internally tagged (`#[serde(tag = "kind")]`), or
//! untagged where each of the tables has a required key that the others lack.

mod check;
mod foreign;
mod layers;
mod lists;
mod near;
mod overrides;
mod reference;
mod render;
#[cfg(test)]
mod tests;
mod tree;

pub use foreign::convert;
pub use layers::{lay, nested};
pub use near::hint;
pub use reference::reference;
pub use render::{render, render_changes};
pub use tree::{Node, Value, parse, read};

use anyhow::{Result, anyhow, bail};
use isentrope_settings::Shape;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads a recipe and sets the keys of `sets`, each `key.path=value`, over it.
///
/// # Errors
/// When the file cannot be read or is not TOML, when a `--set` cannot be applied, or with one line
/// for each unknown key, missing key and value that the types do not allow.
pub fn load<T: DeserializeOwned + JsonSchema>(path: &Path, sets: &[String]) -> Result<T> {
    let mut root = read(path)?;
    apply(&mut root, sets)?;
    settings(root, &path.display().to_string())
}

/// One setting outside a recipe, written as it would be in one; a bare word is a string.
///
/// # Errors
/// When it is not TOML, or with one line for each unknown key, missing key and value that the type
/// does not allow; `name` is what the setting is called.
pub fn setting<T: DeserializeOwned + JsonSchema>(name: &str, text: &str) -> Result<T> {
    #[derive(Deserialize, JsonSchema)]
    struct Table<T> {
        value: T,
    }
    let mut root = parse("", &|_| name.to_owned())?;
    overrides::put_text(&mut root, "value", text, name)?;
    lists::wrap_single_texts(&mut root, &Shape::of::<Table<T>>());
    if let Value::Table(entries) = &root.value {
        // The recipe's top level: its keys have no table above them.
        let shape = Shape::of::<T>();
        let problems: Vec<String> =
            entries.iter().flat_map(|(_, value)| check::check(value, &shape)).collect();
        if !problems.is_empty() {
            bail!(problems.join("\n"));
        }
    }
    settings(root, name).map(|Table { value }| value)
}

/// The entries of one table of a recipe.
///
/// # Errors
/// When the file cannot be read or is not TOML, or has no such table.
pub fn table_of(path: &Path, name: &str) -> Result<Node> {
    let root = read(path)?;
    let found = root.get(name).filter(|node| matches!(node.value, Value::Table(_)));
    found.cloned().ok_or_else(|| anyhow!("{} has no table [{name}]", path.display()))
}

/// Sets the keys of `sets`, each `key.path=value`, over a recipe.
///
/// # Errors
/// When one cannot be applied.
pub fn apply(root: &mut Node, sets: &[String]) -> Result<()> {
    sets.iter().try_for_each(|set| overrides::apply(root, set))
}

/// Settings from a whole recipe, in which overrides are applied; `from` is where it comes from.
///
/// # Errors
/// With one line for each unknown key, missing key and value that the types do not allow.
pub fn settings<T: DeserializeOwned + JsonSchema>(mut root: Node, from: &str) -> Result<T> {
    let shape = Shape::of::<T>();
    lists::wrap_single_texts(&mut root, &shape);
    let problems = check::check(&root, &shape);
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    // A type's own Deserialize may demand more than the schema states.
    toml::Value::from(root)
        .try_into()
        .map_err(|e| anyhow!("{from}: {}", e.to_string().trim().replace('\n', " ")))
}
