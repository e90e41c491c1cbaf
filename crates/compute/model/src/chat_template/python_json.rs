//! Values in Python's spelling: `json.dumps` for the `tojson` filter, `str` of floats. minijinja's
//! own `tojson` escapes HTML and puts no spaces.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

/// Deepest nesting of containers; Python's limit is about a thousand.
const MAX_DEPTH: usize = 200;

/// The `tojson` filter of transformers: `tojson(ensure_ascii=false, indent=none, separators=none,
/// sort_keys=false)`, without Jinja's HTML escapes.
pub(super) fn tojson(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (args, kwargs): (&[Value], Kwargs) = from_args(&args)?;
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if args.len() > names.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut options = names.map(|_| Value::from(()));
    for (at, name) in names.into_iter().enumerate() {
        let by_name: Option<Value> = kwargs.get(name)?;
        if let Some(value) = by_name.or_else(|| args.get(at).cloned()) {
            options[at] = value;
        }
    }
    kwargs.assert_all_used()?;
    let [ensure_ascii, indent, separators, sort_keys] = options;
    let indent = match indent.kind() {
        ValueKind::None => None,
        ValueKind::String => Some(indent.to_string()),
        _ => Some(" ".repeat(usize::try_from(i64::try_from(indent)?.clamp(0, 1000)).unwrap_or(0))),
    };
    let (item_separator, key_separator) = if separators.is_none() {
        (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned())
    } else {
        let mut both = separators.try_iter()?.checked();
        match (both.next().transpose()?, both.next().transpose()?, both.next()) {
            (Some(item), Some(key), None) => (item.to_string(), key.to_string()),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "separators must be a pair of strings",
                ));
            }
        }
    };
    let mut writer = JsonWriter {
        out: String::new(),
        ensure_ascii: ensure_ascii.is_true(),
        sort_keys: sort_keys.is_true(),
        indent,
        item_separator,
        key_separator,
        depth: 0,
    };
    writer.value(value)?;
    Ok(writer.out)
}

struct JsonWriter {
    out: String,
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    depth: usize,
}

impl JsonWriter {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                self.container('[', ']', items.len(), |writer, at| writer.value(&items[at]))?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                if self.sort_keys {
                    keys.sort();
                }
                self.container('{', '}', keys.len(), |writer, at| {
                    let key = scalar(&keys[at])?.unwrap_or_else(|| keys[at].to_string());
                    writer.string(&key);
                    writer.out.push_str(&writer.key_separator.clone());
                    writer.value(&value.get_item(&keys[at])?)
                })?;
            }
            _ => match scalar(value)? {
                Some(text) => self.out.push_str(&text),
                None => return Err(not_serializable(value)),
            },
        }
        Ok(())
    }

    fn container(
        &mut self,
        open: char,
        close: char,
        length: usize,
        mut write: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        if length > 0 {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "value is nested too deeply for tojson",
                ));
            }
            for at in 0..length {
                if at > 0 {
                    self.out.push_str(&self.item_separator.clone());
                }
                self.new_line();
                write(self, at)?;
            }
            self.depth -= 1;
            self.new_line();
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(self.depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// The JSON text of none, booleans and numbers; `None` for strings and containers. Undefined is an
/// error.
fn scalar(value: &Value) -> Result<Option<String>, Error> {
    Ok(Some(match value.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Number => match float(value) {
            Some(f) if f.is_nan() => "NaN".to_owned(),
            Some(f) if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            Some(f) => float_repr(f),
            None => value.to_string(),
        },
        ValueKind::String => return Ok(None),
        _ => return Err(not_serializable(value)),
    }))
}

fn not_serializable(value: &Value) -> Error {
    Error::new(ErrorKind::BadSerialization, format!("{} is not JSON serializable", value.kind()))
}

/// The value if it is a float (and not an integer).
pub(super) fn float(value: &Value) -> Option<f64> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        f64::try_from(value.clone()).ok()
    } else {
        None
    }
}

/// A float in Python's spelling: Rust's `{:?}` with sign and two digits in the exponent.
pub(super) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{float:?}");
    match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(digits) => format!("{mantissa}e-{digits:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
    }
}

/// Python's `str` of a value, for the `string` filter.
pub(super) fn to_str(value: &Value) -> String {
    float(value).map_or_else(|| value.to_string(), float_repr)
}
