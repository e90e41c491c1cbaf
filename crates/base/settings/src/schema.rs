//! Reader of shapes from the JSON schemas that schemars derives.

use crate::shape::{Bounds, Choice, Fallback, Field, Shape, Variant};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

impl Shape {
    /// Reads the shape of a recipe of type `T`.
    ///
    /// # Panics
    /// When recipes do not support the type: a recursive type, a tuple, an enum whose variants have
    /// settings but neither a tag nor a required key each, or an optional key that is on by
    /// default, so that nothing could turn it off.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        Self::read(settings.into_generator().into_root_schema_for::<T>().as_value())
    }

    /// # Panics
    /// As [`of`](Self::of).
    fn read(schema: &Value) -> Self {
        if let Some(names) = schema.get("enum").and_then(Value::as_array) {
            let names = names.iter().filter_map(Value::as_str);
            return Self::Choice(
                names.map(|name| Choice { name: name.to_owned(), doc: None }).collect(),
            );
        }
        if let Some(name) = schema.get("const").and_then(Value::as_str) {
            return Self::Choice(vec![Choice { name: name.to_owned(), doc: doc(schema) }]);
        }
        if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
            return Self::variants(variants);
        }
        if let Some(shapes) = schema.get("anyOf").and_then(Value::as_array) {
            let shapes: Vec<_> = shapes.iter().filter(|schema| !is_null(schema)).collect();
            return if let [only] = shapes[..] { Self::read(only) } else { Self::any_of(&shapes) };
        }
        match kind(schema) {
            Some("boolean") => Self::Boolean,
            Some("integer") => Self::Integer(bounds(schema)),
            Some("number") => {
                let single = schema.get("format").is_some_and(|format| format == "float");
                Self::Number { bounds: bounds(schema), single }
            }
            Some("string") => Self::Text,
            Some("array") => {
                let items = schema.get("items").unwrap_or_else(|| unsupported(schema));
                let length = |key| schema.get(key).and_then(Value::as_u64);
                let len = length("minItems").filter(|&min| length("maxItems") == Some(min));
                Self::Array { items: Box::new(Self::read(items)), len }
            }
            Some("object") => {
                match (schema.get("properties"), schema.get("additionalProperties")) {
                    (None, Some(values @ Value::Object(_))) => {
                        Self::Map(Box::new(Self::read(values)))
                    }
                    (properties, _) => {
                        Self::Table(fields(schema, properties.and_then(Value::as_object)))
                    }
                }
            }
            _ => unsupported(schema),
        }
    }

    /// The alternatives of an enum: strings, or tables with a tag.
    fn variants(variants: &[Value]) -> Self {
        let shapes: Vec<_> = variants.iter().map(Self::read).collect();
        if let Some(choices) = choices(&shapes) {
            return Self::Choice(choices);
        }
        let mut tagged = Vec::new();
        let mut tag = None;
        for (schema, shape) in variants.iter().zip(shapes) {
            let Self::Table(mut fields) = shape else { unsupported(schema) };
            // schemars writes the tag as a property with one possible value.
            let is_tag = |field: &Field| matches!(&field.shape, Shape::Choice(c) if c.len() == 1);
            let at = fields.iter().position(is_tag).unwrap_or_else(|| unsupported(schema));
            let Field { name: key, shape: Self::Choice(mut name), .. } = fields.remove(at) else {
                unsupported(schema)
            };
            assert!(tag.get_or_insert_with(|| key.clone()) == &key, "an enum has one tag");
            tagged.push(Variant { name: name.remove(0).name, doc: doc(schema), fields });
        }
        Self::Tagged { tag: tag.unwrap_or_default(), variants: tagged }
    }

    fn any_of(schemas: &[&Value]) -> Self {
        let (mut all_plain, mut all_tables) = (Vec::new(), Vec::new());
        for schema in schemas {
            match Self::read(schema) {
                Self::AnyOf { plain, tables } => {
                    all_plain.extend(plain);
                    all_tables.extend(tables);
                }
                Self::Table(fields) => {
                    all_tables.push(Variant { name: String::new(), doc: doc(schema), fields });
                }
                Self::Map(_) | Self::Tagged { .. } => unsupported(schema),
                shape => all_plain.push(shape),
            }
        }
        let count = |name: &String| {
            all_tables
                .iter()
                .filter(|table| table.fields.iter().any(|field| field.name == *name))
                .count()
        };
        let tells_apart = |field: &&Field| {
            matches!(field.fallback, Fallback::Required) && count(&field.name) == 1
        };
        let names: Vec<String> = all_tables
            .iter()
            .map(|table| match table.fields.iter().find(tells_apart) {
                Some(field) => field.name.clone(),
                None => panic!(
                    "a choice between tables needs a tag, or a required key in each that the \
                     others lack"
                ),
            })
            .collect();
        for (table, name) in all_tables.iter_mut().zip(names) {
            table.name = name;
        }
        Self::AnyOf { plain: all_plain, tables: all_tables }
    }
}

/// The strings of all choices; None if one of the shapes is not a choice.
fn choices(shapes: &[Shape]) -> Option<Vec<Choice>> {
    let mut all = Vec::new();
    for shape in shapes {
        let Shape::Choice(choices) = shape else { return None };
        all.extend(choices.iter().cloned());
    }
    Some(all)
}

fn fields(schema: &Value, properties: Option<&Map<String, Value>>) -> Vec<Field> {
    let required = |name: &String| {
        schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(|r| r == name))
    };
    let field = |(name, schema): (&String, &Value)| Field {
        name: name.clone(),
        doc: doc(schema),
        shape: Shape::read(schema),
        fallback: fallback(name, schema, required(name)),
    };
    properties.into_iter().flatten().map(field).collect()
}

fn fallback(name: &str, schema: &Value, required: bool) -> Fallback {
    match schema.get("default") {
        _ if required => Fallback::Required,
        None | Some(Value::Null) if is_nullable(schema) => Fallback::Off,
        Some(Value::Null) => {
            panic!("`{name}`: the default has no JSON form; use an optional key instead")
        }
        Some(_) if is_nullable(schema) => {
            panic!("`{name}`: an optional key must be off by default, else nothing can turn it off")
        }
        Some(value) => Fallback::Value(value.clone()),
        // schemars leaves out a default that cannot be written.
        None => panic!("`{name}`: the default is not known"),
    }
}

fn doc(schema: &Value) -> Option<String> {
    schema.get("description").and_then(Value::as_str).map(str::to_owned)
}

/// The type other than null.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|&kind| kind != "null"),
        _ => None,
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

fn is_nullable(schema: &Value) -> bool {
    let any_of = schema.get("anyOf").and_then(Value::as_array);
    let kinds = schema.get("type").and_then(Value::as_array);
    any_of.is_some_and(|all| all.iter().any(is_null))
        || kinds.is_some_and(|all| all.iter().any(|k| k == "null"))
}

fn bounds(schema: &Value) -> Bounds {
    let number = |key| schema.get(key).and_then(Value::as_f64);
    // A TOML integer may exceed these formats; schemars writes the bounds of shorter formats only.
    let of_format = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(f64::from(u32::MAX)),
        Some("int32") => Some(f64::from(i32::MAX)),
        _ => None,
    };
    Bounds {
        min: number("minimum"),
        above: number("exclusiveMinimum"),
        max: number("maximum").or(of_format),
        below: number("exclusiveMaximum"),
    }
}

fn unsupported(schema: &Value) -> ! {
    panic!("recipes do not support the type of this JSON schema: {schema}")
}
