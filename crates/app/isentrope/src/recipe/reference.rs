//! Writes the documentation of a recipe's keys from their types.

use super::render::inline;
use isentrope_settings::{Choice, Fallback, Field, Shape, Variant};
use schemars::JsonSchema;
use std::collections::HashMap;
use toml::Value;

/// Markdown that documents every key of a recipe of type `T`: one table of keys for each table of
/// the recipe.
///
/// # Panics
/// When a key has no documentation, or as [`Shape::of`].
pub fn reference<T: JsonSchema>() -> String {
    let mut writer = Writer::default();
    writer.section("", None, &Shape::of::<T>(), Nesting::Outside);
    writer.text
}

/// The place of a table. The forms of a choice between tables are documented once, and not again
/// inside another form.
#[derive(Clone, Copy, PartialEq)]
enum Nesting {
    Outside,
    InForm,
}

/// Writes the sections. Below one table of the top level, equal values and equal forms are
/// documented once, and the keys that follow name the first that has them. Across such tables they
/// are repeated, because the page groups these tables by the commands that have them.
#[derive(Default)]
struct Writer {
    text: String,
    /// The first key that has these values or forms, by their documentation.
    first: HashMap<String, String>,
}

impl Writer {
    /// A table of the recipe, named as in its heading (nothing for the top), and the tables in it.
    fn section(&mut self, name: &str, doc: Option<&String>, shape: &Shape, nesting: Nesting) {
        if !name.contains('.') {
            self.first.clear();
        }
        if !name.is_empty() {
            self.text += &format!("\n### `[{name}]`\n");
        }
        if let Some(doc) = doc {
            self.text += &format!("\n{}\n", paragraphs(doc, "\n\n"));
        }
        match shape {
            Shape::Table(fields) => self.keys(name, None, fields, nesting),
            Shape::Tagged { tag, variants } => {
                for variant in variants {
                    let title = format!("with `{tag} = {:?}`", variant.name);
                    self.form(name, &title, variant, nesting);
                }
            }
            Shape::AnyOf { tables, .. } => {
                if let Some(first) = self.first_with(&format!("{tables:?}"), &format!("`[{name}]`"))
                {
                    self.text += &format!("\nForms as in {first}.\n");
                    return;
                }
                for table in tables {
                    let title = format!("with `{}`", table.name);
                    self.form(name, &title, table, Nesting::InForm);
                }
            }
            _ => unreachable!("only tables have a heading"),
        }
    }

    /// One form of a table that has several.
    fn form(&mut self, name: &str, title: &str, variant: &Variant, nesting: Nesting) {
        self.text += &format!("\n### `[{name}]` {title}\n");
        if let Some(doc) = &variant.doc {
            self.text += &format!("\n{}\n", paragraphs(doc, "\n\n"));
        }
        self.keys(name, Some(title), &variant.fields, nesting);
    }

    /// The keys of a table (or of one form of it) that stand on a line, then the tables in it.
    fn keys(&mut self, name: &str, form: Option<&str>, fields: &[Field], nesting: Nesting) {
        let lines: Vec<_> = fields.iter().filter(|field| heading(name, field).is_none()).collect();
        if !lines.is_empty() {
            self.text
                .push_str("\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
        }
        for field in lines {
            let cells = [
                format!("`{}`", field.name),
                value(&field.shape),
                default(field),
                self.meaning(name, form, field),
            ];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            self.text += &format!("| {} |\n", cells.join(" | "));
        }
        for field in fields {
            if let Some((name, shape)) = heading(name, field) {
                let doc = field.doc.as_ref().unwrap_or_else(|| undocumented(&name));
                let doc = match (&field.fallback, &field.shape) {
                    (Fallback::Off, _) => format!("{doc}\n\nOff unless the table is there."),
                    (Fallback::Required, _) | (Fallback::Value(_), Shape::Table(_)) => doc.clone(),
                    (Fallback::Value(_), _) => format!("{doc}\n\nDefault: {}.", default(field)),
                };
                self.section(&name, Some(&doc), shape, nesting);
            } else if matches!(&field.shape, Shape::AnyOf { tables, .. } if !tables.is_empty())
                && nesting == Nesting::Outside
            {
                let name = dotted(name, &field.name);
                self.section(&name, field.doc.as_ref(), &field.shape, nesting);
            }
        }
    }

    /// The meaning of a key and of its values.
    fn meaning(&mut self, table: &str, form: Option<&str>, field: &Field) -> String {
        let key = dotted(table, &field.name);
        let doc = field.doc.as_ref().unwrap_or_else(|| undocumented(&key));
        let meaning = paragraphs(doc, "<br>");
        let mut values = String::new();
        for Choice { name, doc } in choices(&field.shape) {
            if let Some(doc) = doc {
                values += &format!("<br>`{name:?}`: {}", paragraphs(doc, " "));
            }
        }
        if values.is_empty() {
            return meaning;
        }
        let place = form.map_or_else(|| format!("`{key}`"), |form| format!("`{key}` {form}"));
        match self.first_with(&values, &place) {
            Some(first) => format!("{meaning}<br>Values as in {first}."),
            None => meaning + &values,
        }
    }

    /// The place that has this documentation already, if there is one; else this place has it from
    /// here on.
    fn first_with(&mut self, documentation: &str, place: &str) -> Option<String> {
        let first = self.first.get(documentation).cloned();
        if first.is_none() {
            self.first.insert(documentation.to_owned(), place.to_owned());
        }
        first
    }
}

/// The heading of a key that has one, and the table below it.
fn heading<'a>(parent: &str, field: &'a Field) -> Option<(String, &'a Shape)> {
    let name = dotted(parent, &field.name);
    let is_table = |shape: &Shape| matches!(shape, Shape::Table(_) | Shape::Tagged { .. });
    match &field.shape {
        shape if is_table(shape) => Some((name, shape)),
        Shape::Map(values) if is_table(values) => Some((format!("{name}.<name>"), values)),
        Shape::Array { items, .. } if is_table(items) => Some((format!("[{name}]"), items)),
        _ => None,
    }
}

/// A key's path, below a table named as in its heading.
fn dotted(table: &str, key: &str) -> String {
    match table.trim_matches(['[', ']']) {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}

/// The values that are allowed.
fn value(shape: &Shape) -> String {
    match shape {
        Shape::Choice(choices) => choices
            .iter()
            .map(|choice| format!("`{:?}`", choice.name))
            .collect::<Vec<_>>()
            .join(", "),
        Shape::Array { items, len } => {
            let count = len.map_or(String::new(), |len| format!(" {len}"));
            format!("array of{count}: {}", value(items))
        }
        Shape::Map(values) => format!("table of names, each: {}", value(values)),
        Shape::AnyOf { plain, tables } => {
            let tables = tables.iter().map(|table| format!("a table with `{}`", table.name));
            plain.iter().map(value).chain(tables).collect::<Vec<_>>().join(", or ")
        }
        shape => shape.to_string(),
    }
}

fn default(field: &Field) -> String {
    match &field.fallback {
        Fallback::Required => "must be given".to_owned(),
        Fallback::Off => "unset".to_owned(),
        Fallback::Value(json) => {
            let mut json = json.clone();
            leave_out_nulls(&mut json);
            let value = Value::try_from(json).expect("defaults have a TOML form");
            format!("`{}`", inline(&value, &field.shape))
        }
    }
}

/// Removes nulls, because TOML has no null: an optional key that is off is left out.
fn leave_out_nulls(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(leave_out_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

/// The strings that a value or its parts may be.
fn choices(shape: &Shape) -> Vec<&Choice> {
    match shape {
        Shape::Choice(choices) => choices.iter().collect(),
        Shape::Array { items, .. } => choices(items),
        Shape::Map(values) => choices(values),
        Shape::AnyOf { plain, .. } => plain.iter().flat_map(choices).collect(),
        _ => Vec::new(),
    }
}

/// A doc comment's paragraphs, each on one line.
fn paragraphs(doc: &str, separator: &str) -> String {
    let one_line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    doc.split("\n\n").map(one_line).collect::<Vec<_>>().join(separator)
}

fn undocumented(key: &str) -> ! {
    panic!("`{key}` has no doc comment, so the reference cannot say what it means")
}
