//! Shapes: the values that a recipe may hold.

use serde_json::Value;
use std::fmt;

/// Shape of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer(Bounds),
    /// A number, not NaN.
    Number {
        /// Its bounds.
        bounds: Bounds,
        /// Whether the number is stored in single precision.
        single: bool,
    },
    /// Any string.
    Text,
    /// One of a few strings.
    Choice(Vec<Choice>),
    /// An array of a fixed or of any length.
    Array {
        /// Shape of each item.
        items: Box<Shape>,
        /// The length, if fixed.
        len: Option<u64>,
    },
    /// A table of known keys.
    Table(Vec<Field>),
    /// A table whose keys are the user's.
    Map(Box<Shape>),
    /// A table whose other keys depend on the value of one.
    Tagged {
        /// The key that decides.
        tag: String,
        /// Its values.
        variants: Vec<Variant>,
    },
    /// Any of several shapes.
    AnyOf {
        /// Shapes that are no tables.
        plain: Vec<Shape>,
        /// Tables of known keys, each named by a key that only it has and must have.
        tables: Vec<Variant>,
    },
}

/// One string of a [`Shape::Choice`].
#[derive(Clone, Debug)]
pub struct Choice {
    /// The string.
    pub name: String,
    /// Its meaning.
    pub doc: Option<String>,
}

/// One form of a table that has several.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Distinguishing mark: the tag's value in a [`Shape::Tagged`], a key in a [`Shape::AnyOf`].
    pub name: String,
    /// Its meaning.
    pub doc: Option<String>,
    /// The keys besides the tag.
    pub fields: Vec<Field>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub name: String,
    /// Its meaning.
    pub doc: Option<String>,
    /// Shape of its value.
    pub shape: Shape,
    /// Value when left out.
    pub fallback: Fallback,
}

/// Value of a key that is left out.
#[derive(Clone, Debug)]
pub enum Fallback {
    /// It cannot be left out.
    Required,
    /// Off.
    Off,
    /// This value, as JSON.
    Value(Value),
}

/// Range of allowed numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    pub(crate) min: Option<f64>,
    pub(crate) above: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) below: Option<f64>,
}

impl Bounds {
    /// Whether the number is allowed.
    pub fn contain(self, x: f64) -> bool {
        self.min.is_none_or(|min| x >= min)
            && self.above.is_none_or(|above| x > above)
            && self.max.is_none_or(|max| x <= max)
            && self.below.is_none_or(|below| x < below)
    }

    /// The bounds rounded to single precision, so that a number written like a bound equals it.
    pub(crate) fn single(self) -> Self {
        let rounded = |bound: Option<f64>| bound.map(|bound| f64::from(bound as f32));
        let Self { min, above, max, below } = self;
        Self { min: rounded(min), above: rounded(above), max: rounded(max), below: rounded(below) }
    }
}

/// Follows "a number": empty, " from 0 to 1" or ", at least 0".
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(min), Some(max)) = (self.min, self.max) {
            return write!(f, " from {min} to {max}");
        }
        let bounds = [
            ("above", self.above),
            ("at least", self.min),
            ("below", self.below),
            ("at most", self.max),
        ];
        let mut separator = ", ";
        for (word, bound) in bounds {
            if let Some(bound) = bound {
                write!(f, "{separator}{word} {bound}")?;
                separator = " and ";
            }
        }
        Ok(())
    }
}

/// Follows "must be": the values to write.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("true or false"),
            Self::Integer(bounds) => write!(f, "a whole number{bounds}"),
            Self::Number { bounds, .. } => write!(f, "a number{bounds}"),
            Self::Text => f.write_str("a string"),
            Self::Choice(choices) => match &choices[..] {
                [only] => write!(f, "{:?}", only.name),
                _ => write!(f, "one of {}", quoted(choices.iter().map(|c| &c.name))),
            },
            Self::Array { len: Some(len), .. } => write!(f, "an array of {len}"),
            Self::Array { len: None, .. } => f.write_str("an array"),
            Self::Table(_) | Self::Map(_) => f.write_str("a table"),
            Self::Tagged { tag, .. } => write!(f, "a table with the key `{tag}`"),
            Self::AnyOf { plain, tables } => {
                let tables =
                    tables.iter().map(|table| format!("a table with the key `{}`", table.name));
                let all: Vec<_> = plain.iter().map(ToString::to_string).chain(tables).collect();
                f.write_str(&all.join(", or "))
            }
        }
    }
}

/// Whether a recipe of this shape has the key with this dotted path.
pub fn has_key(shape: &Shape, path: &str) -> bool {
    let Shape::Table(fields) = shape else { return false };
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    fields
        .iter()
        .any(|field| field.name == key && rest.is_none_or(|rest| has_key(&field.shape, rest)))
}

/// `"a", "b"`.
pub fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
