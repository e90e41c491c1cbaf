//! Hints for keys and values that recipes do not have: names of TRL's and verl's settings and
//! values, keys of the other command, and keys that were removed; and recipes made of scripts.

mod convert;
mod script;
#[cfg(test)]
mod tests;

pub use convert::convert;

use super::tree::{Node, Value};
use isentrope_settings::{Shape, has_key};
use isentrope_train::{rl, sft};
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Removed keys, each with its hint.
const REMOVED: &[(&str, &str)] = &[(
    "objective.covariance.scope",
    "; tokens are always selected over the whole minibatch, whatever the micro-batches, so leave \
     it out",
)];

/// The tables of `names.toml`, which explains them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    keys: Vec<ForeignKey>,
    absent: Vec<Absent>,
    values: Vec<ForeignValue>,
    groups: BTreeMap<String, Words>,
    defaults: BTreeMap<String, toml::Table>,
}

/// A list that the file writes as one text, with spaces between the words.
struct Words(Vec<String>);

/// A setting of another trainer that has another key here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignKey {
    key: String,
    names: Words,
    /// The difference in meaning, or empty.
    #[serde(default)]
    but: String,
}

/// Settings without a counterpart, and the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Absent {
    names: Words,
    reason: String,
}

/// A value that has another name here, or no counterpart.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignValue {
    at: Words,
    values: Words,
    #[serde(default)]
    here: toml::Table,
    #[serde(default)]
    note: String,
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.split_whitespace().map(str::to_owned).collect()))
    }
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names: Names =
        toml::from_str(include_str!("names.toml")).expect("the program's own names.toml is sound");
    for value in &mut names.values {
        let groups = &names.groups;
        let keys =
            |word: &String| groups.get(word).map_or(vec![word.clone()], |group| group.0.clone());
        value.at = Words(value.at.0.iter().flat_map(keys).collect());
    }
    names
});

/// The hint for a key that recipes of this shape lack, given its whole path. It follows "unknown
/// key".
pub fn hint(path: &str, node: &Node, root: &Shape) -> Option<String> {
    if let Some((_, hint)) = REMOVED.iter().find(|(removed, _)| *removed == path) {
        return Some((*hint).to_owned());
    }
    if let Some(command) = command(path) {
        return Some(format!(", which recipes for `isentrope {command}` have"));
    }
    let (absent, named) = (absent(path), keys_of(path));
    if let Some((reason, fit)) = absent
        && named.as_ref().is_none_or(|(named, _)| fit > *named)
    {
        return Some(format!("; absent here, because {reason}"));
    }
    if let Some(function) = reward_function(path, node) {
        let verifier = format!("{{ python = {function:?} }}");
        let elsewhere = elsewhere("reward.verifier", root);
        return Some(format!(
            "; here it is `reward.verifier = {verifier}`{elsewhere}, which takes the function as \
             it is: docs/guides/data-and-rewards.md"
        ));
    }
    let value = text(node).and_then(|text| value(&text, |key| ends(path, key)));
    match value {
        Some(value) => Some(format!("; {}", value.advice(root))),
        None => named.map(|(_, keys)| key_hint(&keys, root)),
    }
}

/// The hint for a value that one of our own choices lacks. It follows "found ...".
pub fn value_hint(path: &str, name: &str, root: &Shape) -> Option<String> {
    let file = name.split(':').next().unwrap_or_default();
    // A flag's value has no path: `--verifier reward.py`.
    if (path.ends_with("verifier") || path == "it") && file.ends_with(".py") {
        let function = if file == name { format!("{name}:compute_score") } else { name.into() };
        return Some(format!("; a function is {{ python = {function:?} }}"));
    }
    value(name, |key| key == path).map(|value| format!("; {}", value.advice(root)))
}

/// All known values of other trainers.
pub fn values() -> impl Iterator<Item = &'static str> {
    NAMES.values.iter().flat_map(|entry| &entry.values.0).map(String::as_str)
}

/// The first entry for a value under a key that `is_meant` accepts.
fn value(name: &str, is_meant: impl Fn(&str) -> bool) -> Option<&'static ForeignValue> {
    let name = name.trim().to_lowercase().replace(['-', ' ', '.'], "_");
    NAMES
        .values
        .iter()
        .find(|entry| entry.values.0.contains(&name) && entry.at.0.iter().any(|key| is_meant(key)))
}

impl ForeignValue {
    /// The settings to write instead, or the reason for their absence.
    fn advice(&self, root: &Shape) -> String {
        let settings: Vec<String> =
            self.here.iter().map(|(key, value)| format!("`{key} = {value}`")).collect();
        let mut text = match &settings[..] {
            [] => return format!("absent here, because {}", self.note),
            [only] => format!("here it is {only}"),
            [rest @ .., last] => format!("here it is {} and {last}", rest.join(", ")),
        };
        text.extend(self.here.keys().next().map(|key| elsewhere(key, root)));
        if !self.note.is_empty() {
            text += &format!("; {}", self.note);
        }
        text
    }
}

/// The reason why recipes lack this setting of another trainer, and how well its name fits.
fn absent(path: &str) -> Option<(&'static str, Fit)> {
    let fits = |absent: &'static Absent| Some((&*absent.reason, best_fit(path, &absent.names)?));
    NAMES.absent.iter().filter_map(fits).max_by_key(|(_, fit)| *fit)
}

/// The entries whose name fits best (`val_kwargs.top_p`, not `top_p`), and how well it fits.
/// Several if the commands' keys differ.
fn keys_of(path: &str) -> Option<(Fit, Vec<&'static ForeignKey>)> {
    let fit = |entry: &&ForeignKey| best_fit(path, &entry.names);
    let best = NAMES.keys.iter().filter_map(|entry| fit(&entry)).max()?;
    Some((best, NAMES.keys.iter().filter(|entry| fit(entry) == Some(best)).collect()))
}

/// Our key for a setting, in recipes of this shape if they have one.
fn key_hint(entries: &[&ForeignKey], root: &Shape) -> String {
    let own = entries.iter().find(|entry| has_key(root, &entry.key));
    let ForeignKey { key, but, .. } = own.unwrap_or(&entries[0]);
    let comma = if but.is_empty() { "" } else { ", " };
    format!("; here it is `{key}`{}{comma}{but}", elsewhere(key, root))
}

/// The function that verl's table `custom_reward_function` names, as a verifier takes it.
fn reward_function(path: &str, node: &Node) -> Option<String> {
    let Value::Table(entries) = &node.value else { return None };
    let named =
        |name: &str| entries.iter().find(|(key, _)| key == name).and_then(|(_, node)| text(node));
    let file = ends(path, "custom_reward_function").then(|| named("path"))??;
    Some(format!("{file}:{}", named("name").as_deref().unwrap_or("compute_score")))
}

/// The command whose recipes have the key.
fn command(key: &str) -> Option<&'static str> {
    static RECIPES: LazyLock<[(&str, Shape); 2]> = LazyLock::new(|| {
        [("train", Shape::of::<rl::Recipe>()), ("sft", Shape::of::<sft::Recipe>())]
    });
    RECIPES.iter().find(|(_, shape)| has_key(shape, key)).map(|(command, _)| *command)
}

/// The command whose recipes have the key, if recipes of this shape lack it.
fn elsewhere(key: &str, root: &Shape) -> String {
    match command(key) {
        Some(command) if !has_key(root, key) => format!(" in recipes for `isentrope {command}`"),
        _ => String::new(),
    }
}

/// Whether a path is this dotted name or ends with it.
pub fn ends(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// How well a name fits a path: how many of the path's bytes it covers, then how many it spells
/// out.
type Fit = (usize, usize);

/// The best fit of several names.
fn best_fit(path: &str, names: &Words) -> Option<Fit> {
    names.0.iter().filter_map(|name| fit(path, name)).max()
}

/// How a name fits a path, if it does; `names.toml` lists the forms of names.
fn fit(path: &str, name: &str) -> Option<Fit> {
    let above = |table: &str| format!(".{path}.").find(&format!(".{table}."));
    if let Some(table) = name.strip_suffix(".*") {
        above(table).map(|above| (path.len() - above, table.len()))
    } else if let Some(table) = name.strip_suffix(".?") {
        above(table).map(|_| (0, table.len()))
    } else if let Some(start) = name.strip_suffix('*') {
        path.rsplit('.').next()?.starts_with(start).then_some((start.len(), start.len()))
    } else {
        ends(path, name).then_some((name.len(), name.len()))
    }
}

/// A string, a number or a truth value as text.
fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Scalar(toml::Value::String(text)) => Some(text.clone()),
        Value::Scalar(scalar) => Some(scalar.to_string()),
        Value::Table(_) | Value::Array(_) | Value::TooLarge(_) => None,
    }
}
