//! Writes settings as a recipe with every key.

use isentrope_settings::{Field, Shape};
use schemars::JsonSchema;
use serde::Serialize;
use toml::{Table, Value};

/// The recipe for some settings: every key in the order of the types. Unset keys are comments.
/// [`load`](super::load) reads the same settings from it.
///
/// # Panics
/// When a value has no TOML form (a whole number above `i64::MAX`, a path that is not UTF-8), so
/// that no recipe can have given it.
pub fn render<T: Serialize + JsonSchema>(settings: &T) -> String {
    let mut out = String::new();
    table(&mut out, &[], &root(settings), &Shape::of::<T>(), Unset::AsComments);
    out
}

/// The recipe of the settings that differ from their defaults.
///
/// # Panics
/// As [`render`].
pub fn render_changes<T: Serialize + JsonSchema + Default>(settings: &T) -> String {
    render_given::<T>(&root(settings))
}

/// The recipe of some keys, without those whose value is the default.
pub fn render_given<T: Serialize + JsonSchema + Default>(given: &Table) -> String {
    let shape = Shape::of::<T>();
    let changed = changed(given, &root(&T::default()), &shape);
    let mut out = String::new();
    table(&mut out, &[], &changed, &shape, Unset::LeftOut);
    out
}

/// The treatment of keys without a value.
#[derive(Clone, Copy, PartialEq)]
enum Unset {
    AsComments,
    LeftOut,
}

fn root(settings: &impl Serialize) -> Table {
    match Value::try_from(settings).expect("settings have a TOML form") {
        Value::Table(root) => root,
        _ => panic!("settings are a table"),
    }
}

/// The entries that differ from their defaults. A table that has several forms is one value.
fn changed(entries: &Table, defaults: &Table, shape: &Shape) -> Table {
    let Shape::Table(fields) = shape else { return entries.clone() };
    let change = |(key, value): (&String, &Value)| {
        let inner = fields.iter().find(|field| field.name == *key).map(|field| &field.shape);
        let value = match (value, defaults.get(key), inner) {
            (value, Some(default), _) if is_same(value, default) => return None,
            (Value::Table(own), Some(Value::Table(defaults)), Some(inner)) => {
                match changed(own, defaults, inner) {
                    none if none.is_empty() => return None,
                    some => some.into(),
                }
            }
            (value, ..) => value.clone(),
        };
        Some((key.clone(), value))
    };
    entries.iter().filter_map(change).collect()
}

/// Whether two values are the same setting: 1 is 1.0, and single precision is enough.
fn is_same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(x) => Some(*x as f32),
        Value::Float(x) => Some(*x as f32),
        _ => None,
    };
    a == b || number(a).is_some() && number(a) == number(b)
}

/// A table's plain keys, then its tables, each under a heading of its own.
fn table(out: &mut String, path: &[&str], entries: &Table, shape: &Shape, unset: Unset) {
    let keys = keys(entries, shape);
    for (key, value, shape) in &keys {
        match value {
            Some(value) if !has_heading(value, shape) => {
                out.push_str(&format!("{} = {}\n", bare_or_quoted(key), inline(value, shape)));
            }
            Some(_) => {}
            None if unset == Unset::LeftOut || is_table_of_recipe(path, shape) => {}
            None => out.push_str(&format!("# {} = (unset)\n", bare_or_quoted(key))),
        }
    }
    for (key, value, shape) in keys {
        let path: Vec<_> = path.iter().copied().chain([key]).collect();
        match (value, shape) {
            (Some(value @ Value::Table(entries)), shape) if has_heading(value, shape) => {
                section(out, &path, false, entries, shape, unset);
            }
            (Some(value @ Value::Array(rows)), Shape::Array { items, .. })
                if has_heading(value, shape) =>
            {
                for entries in rows.iter().filter_map(Value::as_table) {
                    section(out, &path, true, entries, items, unset);
                }
            }
            (None, _) if unset == Unset::AsComments && is_table_of_recipe(&path[1..], shape) => {
                out.push_str(&format!("# [{}] (unset)\n", bare_or_quoted(key)));
            }
            _ => {}
        }
    }
}

/// Whether a key of the table at `path` is a whole table of the recipe, such as `lora`.
fn is_table_of_recipe(path: &[&str], shape: &Shape) -> bool {
    path.is_empty() && matches!(shape, Shape::Table(_) | Shape::Tagged { .. })
}

/// A table under its heading; `is_row` makes it a row of an array of tables.
fn section(
    out: &mut String,
    path: &[&str],
    is_row: bool,
    entries: &Table,
    shape: &Shape,
    unset: Unset,
) {
    let is_implied = keys(entries, shape).iter().all(|(_, value, shape)| {
        value.map_or(unset == Unset::LeftOut, |value| has_heading(value, shape))
    });
    if is_row || entries.is_empty() || !is_implied {
        let name = path.iter().map(|key| bare_or_quoted(key)).collect::<Vec<_>>().join(".");
        let gap = if out.is_empty() { "" } else { "\n" };
        let heading = if is_row { format!("[[{name}]]") } else { format!("[{name}]") };
        out.push_str(&format!("{gap}{heading}\n"));
    }
    table(out, path, entries, shape, unset);
}

/// A table's keys in the order of its type; None for a key that is off.
fn keys<'a>(entries: &'a Table, shape: &'a Shape) -> Vec<(&'a str, Option<&'a Value>, &'a Shape)> {
    let known = |fields: &'a [Field]| {
        fields.iter().map(|field| (field.name.as_str(), entries.get(&field.name), &field.shape))
    };
    match shape {
        Shape::Table(fields) => known(fields).collect(),
        Shape::Tagged { tag, variants } => {
            let chosen = entries.get(tag).and_then(Value::as_str);
            let variant = variants.iter().find(|variant| Some(variant.name.as_str()) == chosen);
            let fields = variant.map_or(&[][..], |variant| &variant.fields);
            [(tag.as_str(), entries.get(tag), &Shape::Text)]
                .into_iter()
                .chain(known(fields))
                .collect()
        }
        Shape::AnyOf { tables, .. } => {
            let table = tables.iter().find(|table| entries.contains_key(&table.name));
            known(table.map_or(&[][..], |table| &table.fields)).collect()
        }
        Shape::Map(values) => {
            entries.iter().map(|(key, value)| (key.as_str(), Some(value), &**values)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a value stands under a heading of its own.
fn has_heading(value: &Value, shape: &Shape) -> bool {
    match (value, shape) {
        (Value::Table(_), Shape::Table(_)) => true,
        (Value::Table(entries), _) => !entries.is_empty(),
        (Value::Array(rows), Shape::Array { items, .. }) => {
            !rows.is_empty()
                && matches!(**items, Shape::Table(_) | Shape::Map(_) | Shape::Tagged { .. })
        }
        _ => false,
    }
}

/// A value on one line, as TOML.
pub fn inline(value: &Value, shape: &Shape) -> String {
    if let Shape::AnyOf { plain, .. } = shape
        && let Some(its) = plain.iter().find(|shape| is_of(value, shape))
    {
        return inline(value, its);
    }
    match (value, shape) {
        (Value::Float(x), Shape::Number { single: true, .. }) => {
            let x = *x as f32;
            readable(f64::from(x), &format!("{x:?}"), &format!("{x:e}"))
        }
        (Value::Float(x), _) => readable(*x, &format!("{x:?}"), &format!("{x:e}")),
        (Value::String(text), _) => quoted(text),
        (Value::Array(values), Shape::Array { items, .. }) => {
            format!(
                "[{}]",
                values.iter().map(|value| inline(value, items)).collect::<Vec<_>>().join(", ")
            )
        }
        (Value::Table(entries), shape) => {
            let keys = keys(entries, shape);
            let given = keys.iter().filter_map(|(key, value, shape)| {
                value.map(|value| format!("{} = {}", bare_or_quoted(key), inline(value, shape)))
            });
            match given.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "{}".to_owned(),
                given => format!("{{ {given} }}"),
            }
        }
        (value, _) => value.to_string(),
    }
}

/// Whether a shape is of this value's type.
fn is_of(value: &Value, shape: &Shape) -> bool {
    matches!(
        (value, shape),
        (Value::Float(_), Shape::Number { .. }) | (Value::Array(_), Shape::Array { .. })
    )
}

/// The form people write: 0.001 and 64.0, but 1e-6 and 2.5e-5. Both forms have the fewest digits
/// that give the number back.
fn readable(x: f64, plain: &str, scientific: &str) -> String {
    let is_moderate = x == 0.0 || !x.is_finite() || (1e-3..1e6).contains(&x.abs());
    let plain = plain.trim_start_matches('+').replace("NaN", "nan");
    if is_moderate && !plain.contains('e') { plain } else { scientific.to_owned() }
}

fn bare_or_quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A basic string on one line. JSON's escapes are TOML's, except that of the delete character.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
