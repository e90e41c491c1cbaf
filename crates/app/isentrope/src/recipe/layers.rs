//! Recipes in layers: tables of settings laid over others, for sweeps.

use super::overrides;
use super::tree::{Node, Value};
use isentrope_settings::Shape;

/// Lays settings over others. Tables are joined key by key; anything else replaces the value below.
/// A table of another kind has other keys, so it replaces the table; the recipe's shape says which
/// tables have kinds.
pub fn lay(below: &mut Node, above: &Node, shape: Option<&Shape>) {
    match (&mut below.value, &above.value) {
        (Value::Table(entries), Value::Table(new))
            if shape.is_none_or(|shape| are_alike(entries, new, shape)) =>
        {
            for (key, node) in new {
                let shape = shape.and_then(|shape| shape_of(key, entries, new, shape));
                match entries.iter_mut().find(|(name, _)| name == key) {
                    Some((_, there)) => lay(there, node, shape),
                    None => entries.push((key.clone(), node.clone())),
                }
            }
        }
        _ => *below = above.clone(),
    }
}

/// A value under a dotted key as nested tables; None if `key` is no key.
pub fn nested(key: &str, value: Node) -> Option<Node> {
    let keys = overrides::keys(key)?;
    Some(keys.into_iter().rev().fold(value, |inner, key| Node {
        at: inner.at.clone(),
        value: Value::Table(vec![(key, inner)]),
    }))
}

type Entries = [(String, Node)];

/// Whether both tables are of the same kind, if the shape has several kinds.
fn are_alike(below: &Entries, above: &Entries, shape: &Shape) -> bool {
    match (kind(below, shape), kind(above, shape)) {
        (Some(below), Some(above)) => below == above,
        _ => true,
    }
}

/// The kind that a table names.
fn kind<'a>(entries: &'a Entries, shape: &'a Shape) -> Option<&'a str> {
    match shape {
        Shape::Tagged { tag, .. } => match &entries.iter().find(|(key, _)| key == tag)?.1.value {
            Value::Scalar(toml::Value::String(kind)) => Some(kind),
            _ => None,
        },
        Shape::AnyOf { tables, .. } => {
            let told = |name: &String| entries.iter().any(|(key, _)| key == name);
            tables.iter().map(|table| &table.name).find(|name| told(name)).map(String::as_str)
        }
        _ => None,
    }
}

/// The shape under a key of a table.
fn shape_of<'a>(
    key: &str,
    below: &Entries,
    above: &Entries,
    shape: &'a Shape,
) -> Option<&'a Shape> {
    let fields = match shape {
        Shape::Table(fields) => fields,
        Shape::Map(values) => return Some(values),
        Shape::Tagged { variants: forms, .. } | Shape::AnyOf { tables: forms, .. } => {
            let kind = kind(above, shape).or(kind(below, shape))?;
            &forms.iter().find(|form| form.name == kind)?.fields
        }
        _ => return None,
    };
    fields.iter().find(|field| field.name == key).map(|field| &field.shape)
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse;
    use super::*;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    #[allow(dead_code, reason = "only its shape is of use")]
    enum Kind {
        One { first: u32 },
        Two { second: u32 },
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its shape is of use")]
    struct Recipe {
        kind: Kind,
        list: Vec<u32>,
    }

    fn laid(below: &str, above: &str) -> toml::Value {
        let parsed = |text: &str| parse(text, &|_| String::new()).unwrap();
        let mut recipe = parsed(below);
        lay(&mut recipe, &parsed(above), Some(&Shape::of::<Recipe>()));
        recipe.into()
    }

    #[test]
    fn tables_are_joined_and_all_else_is_replaced() {
        let expected: toml::Value =
            toml::from_str("list = [3]\nother = {a = 1, b = 3, c = 4}").unwrap();
        assert_eq!(
            laid("list = [1, 2]\nother = {a = 1, b = 2}", "list = [3]\nother = {b = 3, c = 4}"),
            expected
        );
    }

    #[test]
    fn a_table_of_another_kind_begins_anew() {
        let one = "kind = {kind = \"one\", first = 1}";
        let two: toml::Value = toml::from_str("kind = {kind = \"two\", second = 2}").unwrap();
        assert_eq!(laid(one, "kind = {kind = \"two\", second = 2}"), two);
        let changed: toml::Value = toml::from_str("kind = {kind = \"one\", first = 5}").unwrap();
        assert_eq!(laid(one, "kind.first = 5"), changed);
    }

    #[test]
    fn dotted_keys_are_tables() {
        let value = Node { at: "here".into(), value: Value::Scalar(1.into()) };
        let expected: toml::Value = toml::from_str("a.\"b.c\".d = 1").unwrap();
        assert_eq!(toml::Value::from(nested("a.\"b.c\".d", value.clone()).unwrap()), expected);
        for wrong in ["", "a..b", "a b", "a = 1\nb", "a.", "#"] {
            assert!(nested(wrong, value.clone()).is_none(), "{wrong:?}");
        }
    }
}
