//! Hints for keys and values that belong elsewhere: what TRL and verl call settings and their values, what they have and recipes
//! do not, keys of the other command, and keys that recipes no longer have.

mod absent;
mod keys;
#[cfg(test)]
mod tests;
mod values;

use super::tree::{Node, Value};
use isentrope_settings::{Shape, has_key};
use isentrope_train::{rl, sft};
use keys::Foreign;
use std::sync::LazyLock;

/// Keys that recipes once had, and what to say of them.
const REMOVED: &[(&str, &str)] = &[(
    "objective.covariance.scope",
    "; tokens are always selected over the whole minibatch, whatever the micro-batches, so leave it out",
)];

/// What to say of a key, by its whole path, that a recipe of this shape does not have: it follows "unknown key".
pub fn hint(path: &str, node: &Node, root: &Shape) -> Option<String> {
    if let Some((_, hint)) = REMOVED.iter().find(|(removed, _)| *removed == path) {
        return Some((*hint).to_owned());
    }
    if let Some(command) = command(path) {
        return Some(format!(", which recipes for `isentrope {command}` have"));
    }
    let (absent, named) = (absent::best(path), Named::best(path));
    if let Some((reason, fit)) = absent
        && named.as_ref().is_none_or(|named| fit > named.fit)
    {
        return Some(format!("; absent here, because {reason}"));
    }
    if let Some(function) = reward_function(path, node) {
        let verifier = format!("{{ python = {function:?} }}");
        let elsewhere = elsewhere("reward.verifier", root);
        return Some(format!(
            "; here it is `reward.verifier = {verifier}`{elsewhere}, which takes the function as it is: docs/guides/data-and-rewards.md"
        ));
    }
    let value = text(node).and_then(|text| values::of_foreign_key(path, &text));
    match value {
        Some(value) => Some(format!("; {}", value.advice(root))),
        None => named.map(|named| named.hint(root)),
    }
}

/// What to say of a value that one of our own choices does not have: it follows "found ...".
pub fn value_hint(path: &str, value: &str, root: &Shape) -> Option<String> {
    values::of_own_key(path, value).map(|value| format!("; {}", value.advice(root)))
}

/// The function that verl's table `custom_reward_function` names, as a verifier does.
fn reward_function(path: &str, node: &Node) -> Option<String> {
    let Value::Table(entries) = &node.value else { return None };
    let named = |name: &str| entries.iter().find(|(key, _)| key == name).and_then(|(_, node)| text(node));
    let file = ends(path, "custom_reward_function").then(|| named("path"))??;
    Some(format!("{file}:{}", named("name").as_deref().unwrap_or("compute_score")))
}

/// All values of other trainers that are known.
pub fn values() -> impl Iterator<Item = &'static str> {
    values::FOREIGN.iter().flat_map(|entry| entry.values).copied()
}

/// Our settings that another trainer's key may be.
struct Named {
    fit: Fit,
    /// At least one; several where commands differ.
    settings: Vec<&'static Foreign>,
}

impl Named {
    /// Those with the name that fits best: `val_kwargs.top_p`, not `top_p`.
    fn best(path: &str) -> Option<Self> {
        let fit = |foreign: &Foreign| foreign.names.iter().filter_map(|name| fit(path, name)).max();
        let best = keys::FOREIGN.iter().filter_map(fit).max()?;
        let settings = keys::FOREIGN.iter().filter(|foreign| fit(foreign) == Some(best)).collect();
        Some(Self { fit: best, settings })
    }

    /// Our name, as recipes of this shape have it if they do.
    fn hint(&self, root: &Shape) -> String {
        let own = self.settings.iter().find(|foreign| has_key(root, foreign.key));
        let Foreign { key, difference, .. } = own.unwrap_or(&self.settings[0]);
        let mut hint = format!("; here it is `{key}`{}", elsewhere(key, root));
        if !difference.is_empty() {
            hint += &format!(", {difference}");
        }
        hint
    }
}

/// The command whose recipes have the key.
fn command(key: &str) -> Option<&'static str> {
    static RECIPES: LazyLock<[(&str, Shape); 2]> =
        LazyLock::new(|| [("train", Shape::of::<rl::Recipe>()), ("sft", Shape::of::<sft::Recipe>())]);
    RECIPES.iter().find(|(_, shape)| has_key(shape, key)).map(|(command, _)| *command)
}

/// Which recipes have the key, where those of this shape do not.
fn elsewhere(key: &str, root: &Shape) -> String {
    match command(key) {
        Some(command) if !has_key(root, key) => format!(" in recipes for `isentrope {command}`"),
        _ => String::new(),
    }
}

/// Whether a path is this dotted name or ends like it.
pub fn ends(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// How well a name fits a path: of how many of its bytes it says something, and how many of these it spells. The best fit is
/// meant.
type Fit = (usize, usize);

/// How the name fits, if it does: `a.b` a key of which these are the last names; `a.*` a table `a` and all in it, to its end;
/// `a.?` a table `a` and what in it has no other name that fits; `a_*` every key whose last name begins like this.
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

/// A string, a number or a truth value, as one would say it.
fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Scalar(toml::Value::String(text)) => Some(text.clone()),
        Value::Scalar(scalar) => Some(scalar.to_string()),
        Value::Table(_) | Value::Array(_) | Value::TooLarge(_) => None,
    }
}
