//! Whether a recipe holds only what its types allow, and what to say where it does not.

use super::foreign;
use super::tree::{Node, Value};
use isentrope_settings::{Choice, Fallback, Field, Shape, Variant, quoted};

/// Least Jaro-Winkler similarity of a name worth proposing.
const SIMILAR: f64 = 0.75;

/// One sentence for each thing that is wrong, in the order of the recipe; none if it is sound.
pub fn check(root: &Node, shape: &Shape) -> Vec<String> {
    let mut check = Check { root: shape, problems: Vec::new() };
    check.value(&mut Vec::new(), root, shape);
    check.problems
}

struct Check<'a> {
    root: &'a Shape,
    problems: Vec<String>,
}

impl Check<'_> {
    fn value(&mut self, path: &mut Vec<String>, node: &Node, shape: &Shape) {
        match (shape, &node.value) {
            (Shape::Boolean, Value::Scalar(toml::Value::Boolean(_)))
            | (Shape::Text, Value::Scalar(toml::Value::String(_))) => {}
            (Shape::Integer(bounds), Value::Scalar(toml::Value::Integer(x))) if bounds.contain(*x as f64) => {
            }
            (Shape::Number { bounds, .. }, Value::Scalar(toml::Value::Integer(x)))
                if bounds.contain(*x as f64) => {}
            (Shape::Number { bounds, .. }, Value::Scalar(toml::Value::Float(x)))
                if !x.is_nan() && bounds.contain(*x) => {}
            (Shape::Choice(choices), Value::Scalar(toml::Value::String(name)))
                if choices.iter().any(|choice| choice.name == *name) => {}
            (Shape::Array { items, len }, Value::Array(nodes))
                if len.is_none_or(|len| nodes.len() as u64 == len) =>
            {
                for (index, item) in nodes.iter().enumerate() {
                    self.at(path, &index.to_string(), item, items);
                }
            }
            (Shape::Map(values), Value::Table(entries)) => {
                for (key, node) in entries {
                    self.at(path, key, node, values);
                }
            }
            (Shape::Table(fields), Value::Table(entries)) => self.table(path, node, fields, entries, None),
            (Shape::Tagged { tag, variants }, Value::Table(entries)) => {
                self.tagged(path, node, (tag, variants), entries);
            }
            (Shape::AnyOf { plain, .. }, _) if plain.iter().any(|shape| check(node, shape).is_empty()) => {}
            (Shape::AnyOf { tables, .. }, Value::Table(entries)) if !tables.is_empty() => {
                self.told_apart(path, node, shape, tables, entries);
            }
            _ => self.mismatch(path, node, shape),
        }
    }

    fn at(&mut self, path: &mut Vec<String>, key: &str, node: &Node, shape: &Shape) {
        path.push(key.to_owned());
        self.value(path, node, shape);
        path.pop();
    }

    /// `form` is the form of a tagged table that its tag has chosen, among all.
    fn table(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        fields: &[Field],
        entries: &[(String, Node)],
        form: Option<Form<'_>>,
    ) {
        for (key, inner) in entries {
            match fields.iter().find(|field| field.name == *key) {
                Some(field) => self.at(path, key, inner, &field.shape),
                None if form.as_ref().is_some_and(|form| form.tag == key) => {}
                None => self.unknown(path, key, inner, fields, form.as_ref()),
            }
        }
        for field in fields {
            let given = entries.iter().any(|(key, _)| *key == field.name);
            if matches!(field.fallback, Fallback::Required) && !given {
                let path = dotted(path, &field.name);
                self.problem(node, &format!("the key `{path}` is missing; it must be {}", field.shape));
            }
        }
    }

    fn tagged(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        (tag, variants): (&str, &[Variant]),
        entries: &[(String, Node)],
    ) {
        let names = || variants.iter().map(|variant| &variant.name);
        let Some((_, chosen)) = entries.iter().find(|(key, _)| key == tag) else {
            let path = dotted(path, tag);
            let names = quoted(names());
            return self.problem(node, &format!("the key `{path}` is missing; it must be one of {names}"));
        };
        let variant = match &chosen.value {
            Value::Scalar(toml::Value::String(name)) => variants.iter().find(|variant| variant.name == *name),
            _ => None,
        };
        match variant {
            Some(chosen) => {
                self.table(path, node, &chosen.fields, entries, Some(Form { tag, chosen, variants }));
            }
            None => {
                let choice = |name: &String| Choice { name: name.clone(), doc: None };
                self.at(path, tag, chosen, &Shape::Choice(names().map(choice).collect()));
            }
        }
    }

    /// One of several tables, of which each has a key that tells it apart.
    fn told_apart(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        shape: &Shape,
        tables: &[Variant],
        entries: &[(String, Node)],
    ) {
        if let Some(table) = tables.iter().find(|table| entries.iter().any(|(key, _)| *key == table.name)) {
            return self.table(path, node, &table.fields, entries, None);
        }
        let fields: Vec<Field> = tables.iter().flat_map(|table| table.fields.clone()).collect();
        let known = |key: &String| fields.iter().any(|field| field.name == *key);
        if entries.iter().all(|(key, _)| known(key)) {
            return self.mismatch(path, node, shape);
        }
        for (key, inner) in entries.iter().filter(|(key, _)| !known(key)) {
            self.unknown(path, key, inner, &fields, None);
        }
    }

    fn unknown(
        &mut self,
        path: &[String],
        key: &str,
        node: &Node,
        fields: &[Field],
        form: Option<&Form<'_>>,
    ) {
        let full = dotted(path, key);
        if let Some(Form { tag, chosen, variants }) = form {
            let has_key = |variant: &&Variant| variant.fields.iter().any(|field| field.name == key);
            let others = quoted(variants.iter().filter(has_key).map(|variant| &variant.name));
            if !others.is_empty() {
                let name = &chosen.name;
                return self.problem(
                    node,
                    &format!("`{full}` does not go with {tag} = {name:?}, only with {tag} = {others}"),
                );
            }
        }
        if let Some(hint) = foreign::hint(&full, self.root) {
            return self.problem(node, &format!("unknown key `{full}`{hint}"));
        }
        // The table of another trainer's configuration: each of its keys has a name here.
        let hinted = |(path, _): &(String, &Node)| foreign::hint(path, self.root).is_some();
        let inner = leaves(&full, node);
        if inner.iter().any(hinted) {
            for (path, node) in inner {
                let hint = foreign::hint(&path, self.root).unwrap_or_default();
                self.problem(node, &format!("unknown key `{path}`{hint}"));
            }
            return;
        }
        let mut elsewhere = Vec::new();
        find(self.root, key, &mut Vec::new(), &mut elsewhere);
        let near = match &elsewhere[..] {
            [only] => Some(format!("`{only}`")),
            _ => nearest(key, fields.iter().map(|field| &field.name)).map(|near| format!("`{near}`")),
        };
        self.problem(node, &format!("unknown key `{full}`{}", hint(near)));
    }

    fn mismatch(&mut self, path: &[String], node: &Node, shape: &Shape) {
        let (found, near) = match (shape, &node.value) {
            (Shape::Choice(choices), Value::Scalar(toml::Value::String(name))) => {
                (format!("{name:?}"), nearest(name, choices.iter().map(|choice| &choice.name)))
            }
            (Shape::AnyOf { plain, .. }, Value::Scalar(toml::Value::String(name))) => {
                let choices = plain.iter().flat_map(|shape| match shape {
                    Shape::Choice(choices) => &choices[..],
                    _ => &[],
                });
                (format!("{name:?}"), nearest(name, choices.map(|choice| &choice.name)))
            }
            (_, value) => (found(value), None),
        };
        let hint = hint(near.map(|near| format!("{near:?}")));
        self.problem(node, &format!("{} must be {shape}, found {found}{hint}", path.join(".")));
    }

    fn problem(&mut self, node: &Node, sentence: &str) {
        self.problems.push(format!("{}: {sentence}", node.at));
    }
}

/// A tagged table's form.
struct Form<'a> {
    tag: &'a str,
    chosen: &'a Variant,
    variants: &'a [Variant],
}

/// The keys in a table and in its tables, by their whole paths; none of what is no table.
fn leaves<'a>(path: &str, node: &'a Node) -> Vec<(String, &'a Node)> {
    let Value::Table(entries) = &node.value else { return Vec::new() };
    let inner = entries.iter().flat_map(|(key, node)| {
        let path = format!("{path}.{key}");
        match &node.value {
            Value::Table(_) => leaves(&path, node),
            _ => vec![(path, node)],
        }
    });
    inner.collect()
}

fn dotted(path: &[String], key: &str) -> String {
    path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
}

fn hint(near: Option<String>) -> String {
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Paths of all keys of that name, in any table.
fn find(shape: &Shape, key: &str, path: &mut Vec<String>, found: &mut Vec<String>) {
    let forms: Vec<&[Field]> = match shape {
        Shape::Table(fields) => vec![fields],
        Shape::Tagged { variants, .. } => variants.iter().map(|variant| &variant.fields[..]).collect(),
        _ => return,
    };
    for field in forms.into_iter().flatten() {
        if field.name == key {
            found.push(dotted(path, key));
        }
        path.push(field.name.clone());
        find(&field.shape, key, path, found);
        path.pop();
    }
    found.dedup();
}

/// What a value is, as it follows "found".
fn found(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Scalar(toml::Value::String(_)) => "a string".to_owned(),
        Value::Scalar(toml::Value::Datetime(_)) => "a date or time".to_owned(),
        Value::Scalar(scalar) => scalar.to_string(),
        Value::TooLarge(number) => format!("{number}: the number is too large"),
    }
}
