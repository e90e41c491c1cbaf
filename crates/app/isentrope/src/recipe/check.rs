//! Checks a recipe against its types, and describes the faults.

use super::tree::{Node, Value};
use super::{foreign, near};
use isentrope_settings::{Choice, Fallback, Field, Shape, Variant, quoted};

/// One sentence for each fault, in the order of the recipe.
pub fn check(root: &Node, shape: &Shape) -> Vec<String> {
    let mut found = Vec::new();
    keys(shape, &mut Vec::new(), &mut found);
    let mut check = Check { root: shape, keys: found, problems: Vec::new() };
    check.value(&mut Vec::new(), root, shape);
    check.problems
}

struct Check<'a> {
    root: &'a Shape,
    /// Paths of all its keys.
    keys: Vec<String>,
    problems: Vec<String>,
}

impl Check<'_> {
    fn value(&mut self, path: &mut Vec<String>, node: &Node, shape: &Shape) {
        match (shape, &node.value) {
            (Shape::Boolean, Value::Scalar(toml::Value::Boolean(_)))
            | (Shape::Text, Value::Scalar(toml::Value::String(_))) => {}
            (Shape::Integer(bounds), Value::Scalar(toml::Value::Integer(x)))
                if bounds.contain(*x as f64) => {}
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
            (Shape::Table(fields), Value::Table(entries)) => {
                self.table(path, node, fields, entries, None);
            }
            (Shape::Tagged { tag, variants }, Value::Table(entries)) => {
                self.tagged(path, node, tag, variants, entries);
            }
            (Shape::AnyOf { plain, .. }, _)
                if plain.iter().any(|shape| check(node, shape).is_empty()) => {}
            (Shape::AnyOf { tables, .. }, Value::Table(entries)) if !tables.is_empty() => {
                self.told_apart(path, node, shape, tables, entries);
            }
            // Only one kind of array is allowed here, so the fault is inside it.
            (Shape::AnyOf { plain, .. }, Value::Array(_)) => {
                match plain
                    .iter()
                    .filter(|shape| matches!(shape, Shape::Array { .. }))
                    .collect::<Vec<_>>()[..]
                {
                    [array] => self.value(path, node, array),
                    _ => self.mismatch(path, node, shape),
                }
            }
            _ => self.mismatch(path, node, shape),
        }
    }

    fn at(&mut self, path: &mut Vec<String>, key: &str, node: &Node, shape: &Shape) {
        path.push(key.to_owned());
        self.value(path, node, shape);
        path.pop();
    }

    /// Checks a table. `form` is the form that a tagged table's tag has chosen, among all forms.
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
                self.problem(
                    node,
                    &format!("the key `{path}` is missing; it must be {}", field.shape),
                );
            }
        }
    }

    fn tagged(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        tag: &str,
        variants: &[Variant],
        entries: &[(String, Node)],
    ) {
        let names = || variants.iter().map(|variant| &variant.name);
        let Some((_, chosen)) = entries.iter().find(|(key, _)| key == tag) else {
            let path = dotted(path, tag);
            let names = quoted(names());
            return self
                .problem(node, &format!("the key `{path}` is missing; it must be one of {names}"));
        };
        let variant = match &chosen.value {
            Value::Scalar(toml::Value::String(name)) => {
                variants.iter().find(|variant| variant.name == *name)
            }
            _ => None,
        };
        match variant {
            Some(chosen) => {
                self.table(
                    path,
                    node,
                    &chosen.fields,
                    entries,
                    Some(Form { tag, chosen, variants }),
                );
            }
            None => {
                let choice = |name: &String| Choice { name: name.clone(), doc: None };
                self.at(path, tag, chosen, &Shape::Choice(names().map(choice).collect()));
            }
        }
    }

    /// Checks one of several tables, each of which has a key that the others lack.
    fn told_apart(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        shape: &Shape,
        tables: &[Variant],
        entries: &[(String, Node)],
    ) {
        if let Some(table) =
            tables.iter().find(|table| entries.iter().any(|(key, _)| *key == table.name))
        {
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
                    &format!(
                        "`{full}` does not go with {tag} = {name:?}, only with {tag} = {others}"
                    ),
                );
            }
        }
        // The table is of another trainer's configuration, whose keys have names here.
        let inner = leaves(&full, node);
        let is_foreign =
            inner.iter().any(|(path, node)| foreign::hint(path, node, self.root).is_some());
        let in_table =
            || near::key(key, fields.iter().map(|field| &field.name)).cloned().map(did_you_mean);
        let anywhere = || {
            let names: Vec<String> = self.keys.iter().map(|path| last(path).to_owned()).collect();
            near::key(key, names.iter()).and_then(|near| self.of_the_name(near))
        };
        let hint = match foreign::hint(&full, node, self.root) {
            None if is_foreign => None,
            // Outside all tables the same name in one of them goes before a similar one.
            hint if path.is_empty() => hint.or_else(|| self.of_the_name(key)).or_else(in_table),
            hint => hint.or_else(in_table).or_else(|| self.of_the_name(key)),
        };
        if hint.is_none() && inner.iter().any(|(path, node)| self.advice(path, node).is_some()) {
            for (path, node) in inner {
                let hint = self.advice(&path, node).unwrap_or_default();
                self.problem(node, &format!("unknown key `{path}`{hint}"));
            }
            return;
        }
        let several = || path.is_empty().then(|| self.all_of_the_name(key)).flatten();
        let hint =
            hint.or_else(several).or_else(anywhere).unwrap_or_else(|| the_keys(path, fields));
        self.problem(node, &format!("unknown key `{full}`{hint}"));
    }

    /// The hint for a key in a table that recipes do not have.
    fn advice(&self, path: &str, node: &Node) -> Option<String> {
        foreign::hint(path, node, self.root).or_else(|| self.of_the_name(last(path)))
    }

    /// The only key of this name in any table. The outermost table wins: `optimizer.beta1`, not
    /// `prime.optimizer.beta1`.
    fn of_the_name(&self, name: &str) -> Option<String> {
        let keys = self.named(name);
        let ends_all = |path: &&&String| keys.iter().all(|key| foreign::ends(key, path));
        Some(did_you_mean((*keys.iter().find(ends_all)?).clone()))
    }

    /// All keys of this name, where several tables have one: `eval.every`, `checkpoint.every`.
    fn all_of_the_name(&self, name: &str) -> Option<String> {
        let keys: Vec<String> = self.named(name).iter().map(|key| format!("`{key}`")).collect();
        (!keys.is_empty()).then(|| format!("; there are {}", keys.join(", ")))
    }

    /// The keys of this name in any table.
    fn named(&self, name: &str) -> Vec<&String> {
        self.keys.iter().filter(|key| last(key) == name).collect()
    }

    fn mismatch(&mut self, path: &[String], node: &Node, shape: &Shape) {
        let path = if path.is_empty() { "it".to_owned() } else { path.join(".") };
        let name = match &node.value {
            Value::Scalar(toml::Value::String(name)) if !choices(shape).is_empty() => Some(name),
            _ => None,
        };
        let (found, hint) = match name {
            None => (found(&node.value), None),
            Some(name) => {
                let near = || {
                    let known = choices(shape).into_iter().map(|choice| &choice.name);
                    near::choice(name, known, foreign::values())
                };
                let near = || near().map(|near| format!("; did you mean {near:?}?"));
                (format!("{name:?}"), foreign::value_hint(&path, name, self.root).or_else(near))
            }
        };
        let hint = hint.unwrap_or_default();
        self.problem(node, &format!("{path} must be {shape}, found {found}{hint}"));
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

/// The keys in a table and its subtables, by their whole paths; empty if it is no table.
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

fn did_you_mean(key: String) -> String {
    format!("; did you mean `{key}`?")
}

/// The keys that a table may have; empty at the top.
fn the_keys(path: &[String], fields: &[Field]) -> String {
    let mut names: Vec<&str> = fields.iter().map(|field| &field.name[..]).collect();
    names.sort_unstable();
    names.dedup();
    match path {
        [] => String::new(),
        _ => format!("; `{}` has {}", path.join("."), names.join(", ")),
    }
}

/// The strings that a value may be.
fn choices(shape: &Shape) -> Vec<&Choice> {
    match shape {
        Shape::Choice(choices) => choices.iter().collect(),
        Shape::AnyOf { plain, .. } => plain.iter().flat_map(choices).collect(),
        _ => Vec::new(),
    }
}

/// The last name of a path.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Paths of all keys, each once.
fn keys(shape: &Shape, path: &mut Vec<String>, found: &mut Vec<String>) {
    let forms: Vec<&[Field]> = match shape {
        Shape::Table(fields) => vec![fields],
        Shape::Tagged { variants, .. } => {
            variants.iter().map(|variant| &variant.fields[..]).collect()
        }
        _ => return,
    };
    for field in forms.into_iter().flatten() {
        let key = dotted(path, &field.name);
        if !found.contains(&key) {
            found.push(key);
        }
        path.push(field.name.clone());
        keys(&field.shape, path, found);
        path.pop();
    }
}

/// A value's description, as it follows "found".
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
