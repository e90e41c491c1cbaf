//! Check of settings against the ranges of their types.

use crate::shape::{Bounds, Field, Shape};
use ciborium::Value;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Display;

/// A setting that is out of range or does not fit another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}: {expected}")]
pub struct Error {
    /// The recipe's key, such as `objective.covariance.fraction`.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The values it may have, and the remedy.
    pub expected: String,
}

/// Checks every number of a table and of the tables in it against the range of its type. `table` is
/// the recipe's key of the table, empty for a whole recipe.
///
/// # Errors
/// The first number that is out of range, or not finite although there is a range; also settings
/// that no recipe can express, such as a path that is not UTF-8.
///
/// # Panics
/// As [`Shape::of`].
pub fn check<T: Serialize + JsonSchema>(table: &str, settings: &T) -> Result<(), Error> {
    // Unlike JSON and TOML, CBOR has numbers that are not finite, and all of u64.
    let value = Value::serialized(settings).map_err(|e| Error {
        key: table.to_owned(),
        value: "nothing that a recipe can say".to_owned(),
        expected: e.to_string(),
    })?;
    check_value(table, &value, &Shape::of::<T>())
}

fn check_value(key: &str, value: &Value, shape: &Shape) -> Result<(), Error> {
    match (value, shape) {
        (Value::Integer(x), Shape::Integer(bounds) | Shape::Number { bounds, .. }) => {
            let x = i128::from(*x);
            check_number(key, x as f64, bounds.contain(x as f64), &x, *bounds)
        }
        (Value::Float(x), Shape::Number { bounds, single: true }) => {
            check_number(key, *x, bounds.single().contain(*x), &(*x as f32), *bounds)
        }
        (Value::Float(x), Shape::Number { bounds, single: false }) => {
            check_number(key, *x, bounds.contain(*x), x, *bounds)
        }
        (Value::Array(values), Shape::Array { items, .. }) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(index, value)| {
                check_value(&dotted(key, &index.to_string()), value, items)
            })
        }
        (Value::Map(entries), Shape::Map(values)) => {
            entries.iter().try_for_each(|(name, value)| {
                let name = name.as_text().unwrap_or_default();
                check_value(&dotted(key, &format!("{name:?}")), value, values)
            })
        }
        (Value::Map(_), Shape::Table(fields)) => check_fields(key, value, fields),
        (Value::Map(_), Shape::Tagged { tag, variants }) => {
            let chosen = get(value, tag).and_then(Value::as_text);
            let form = variants.iter().find(|variant| Some(&*variant.name) == chosen);
            form.map_or(Ok(()), |form| check_fields(key, value, &form.fields))
        }
        (Value::Map(_), Shape::AnyOf { tables, .. }) => {
            let form = tables.iter().find(|table| get(value, &table.name).is_some());
            form.map_or(Ok(()), |form| check_fields(key, value, &form.fields))
        }
        (_, Shape::AnyOf { plain, .. }) => {
            plain.iter().try_for_each(|shape| check_value(key, value, shape))
        }
        _ => Ok(()), // texts, choices and what is off have no range
    }
}

fn check_fields(table: &str, value: &Value, fields: &[Field]) -> Result<(), Error> {
    fields.iter().try_for_each(|field| match get(value, &field.name) {
        Some(value) => check_value(&dotted(table, &field.name), value, &field.shape),
        None => Ok(()),
    })
}

fn check_number(
    key: &str,
    x: f64,
    contained: bool,
    shown: &dyn Display,
    bounds: Bounds,
) -> Result<(), Error> {
    let bounds_text = bounds.to_string();
    let bounds_text = bounds_text.trim_start_matches([',', ' ']);
    if bounds_text.is_empty() || (x.is_finite() && contained) {
        return Ok(());
    }
    let finite = if x.is_finite() { "" } else { "a finite number, " };
    Err(Error {
        key: key.to_owned(),
        value: shown.to_string(),
        expected: format!("it must be {finite}{bounds_text}"),
    })
}

fn get<'a>(table: &'a Value, key: &str) -> Option<&'a Value> {
    let mut entries = table.as_map()?.iter();
    entries.find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
}

fn dotted(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    #[derive(Clone, Serialize, JsonSchema)]
    #[serde(default)]
    struct Outer {
        #[schemars(range(min = 1))]
        count: usize,
        #[schemars(range(min = 1, max = 9))]
        optional: Option<u32>,
        #[schemars(range(min = 0.0))]
        distance: f64,
        #[schemars(range(min = 0.01, max = 1.0))]
        single: f32,
        free: f64,
        path: PathBuf,
        inner: Inner,
        rows: Vec<Inner>,
        by_name: BTreeMap<String, Inner>,
        either: Either,
        tagged: Tagged,
    }

    #[derive(Clone, Default, Serialize, JsonSchema)]
    #[serde(default)]
    struct Inner {
        #[schemars(extend("exclusiveMinimum" = -1.0), range(max = 1.0))]
        share: f64,
    }

    #[derive(Clone, Serialize, JsonSchema)]
    #[serde(untagged)]
    enum Either {
        Size(Size),
        Table { inner: Inner },
    }

    #[derive(Clone, Serialize, JsonSchema)]
    struct Size(#[schemars(range(max = 5))] u64);

    #[derive(Clone, Serialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Tagged {
        Plain,
        Sized {
            #[schemars(range(min = 2))]
            size: usize,
        },
    }

    impl Default for Outer {
        fn default() -> Self {
            Self {
                count: 1,
                optional: None,
                distance: 0.5,
                single: 0.25,
                free: 0.0,
                path: PathBuf::new(),
                inner: Inner::default(),
                rows: vec![Inner::default()],
                by_name: BTreeMap::from([("a.b".to_owned(), Inner::default())]),
                either: Either::Size(Size(5)),
                tagged: Tagged::Plain,
            }
        }
    }

    /// The error for settings that `change` makes invalid.
    fn refusal(change: impl Fn(&mut Outer)) -> String {
        let mut settings = Outer::default();
        change(&mut settings);
        check("outer", &settings).unwrap_err().to_string()
    }

    #[test]
    fn every_number_of_every_shape_is_checked() {
        check("outer", &Outer::default()).unwrap();
        check("", &Outer { optional: Some(9), free: f64::NAN, ..Outer::default() }).unwrap();
        let bad = Inner { share: -1.0 };
        for (said, expected) in [
            (refusal(|o| o.count = 0), "outer.count is 0: it must be at least 1"),
            (refusal(|o| o.optional = Some(10)), "outer.optional is 10: it must be from 1 to 9"),
            (refusal(|o| o.distance = -0.5), "outer.distance is -0.5: it must be at least 0"),
            (refusal(|o| o.single = 1.1), "outer.single is 1.1: it must be from 0.01 to 1"),
            (
                refusal(|o| o.inner = bad.clone()),
                "outer.inner.share is -1: it must be above -1 and at most 1",
            ),
            (
                refusal(|o| o.rows.push(bad.clone())),
                "outer.rows.1.share is -1: it must be above -1 and at most 1",
            ),
            (
                refusal(|o| o.by_name = BTreeMap::from([("a.b".to_owned(), bad.clone())])),
                "outer.by_name.\"a.b\".share is -1: it must be above -1 and at most 1",
            ),
            (
                refusal(|o| o.either = Either::Size(Size(u64::MAX))),
                "outer.either is 18446744073709551615: it must be",
            ),
            (
                refusal(|o| o.either = Either::Table { inner: bad.clone() }),
                "outer.either.inner.share is -1: it must be",
            ),
            (
                refusal(|o| o.tagged = Tagged::Sized { size: 1 }),
                "outer.tagged.size is 1: it must be at least 2",
            ),
        ] {
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn bounds_of_single_precision_are_rounded_to_it() {
        check("", &Outer { single: 0.01, ..Outer::default() }).unwrap(); // as f64, it is below 0.01
        let below = refusal(|o| o.single = 0.01f32.next_down());
        assert_eq!(below, "outer.single is 0.009999999: it must be from 0.01 to 1");
    }

    #[test]
    fn numbers_that_are_not_finite_are_in_no_range() {
        for (value, shown) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let expected =
                format!("outer.distance is {shown}: it must be a finite number, at least 0");
            assert_eq!(refusal(|o| o.distance = value), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_no_recipe_can_say_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let path = || PathBuf::from(std::ffi::OsString::from_vec(vec![0xff]));
        let said = refusal(|o| o.path = path());
        assert!(
            said.starts_with("outer is nothing that a recipe can say: ") && said.contains("UTF-8"),
            "{said}"
        );
    }
}
