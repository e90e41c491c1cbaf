//! JSON values as the values of Python that `python/values.py` writes and reads.

use serde_json::{Map, Value, json};

/// Deepest nesting of a value.
const DEEPEST: usize = 100;

/// Values being written.
#[derive(Debug, Default)]
pub struct Values {
    /// The containers, as the message has them.
    pub objects: Vec<Value>,
}

impl Values {
    /// A list of arguments. An object whose keys are all whole numbers gets numbers as its keys, as in the harnesses of the sets
    /// that have such arguments.
    pub fn arguments(&mut self, arguments: &[Value]) -> Value {
        let elements = arguments.iter().map(|argument| match argument {
            Value::Object(object) if !object.is_empty() && object.keys().all(|key| is_whole(key)) => {
                let keys = object.keys().filter_map(|key| key.parse::<i64>().ok()).map(Value::from).collect();
                self.dict(keys, object)
            }
            argument => self.element(argument),
        });
        let elements = elements.collect();
        self.object("l", vec![elements])
    }

    /// A tuple of elements.
    pub fn tuple(&mut self, elements: Vec<Value>) -> Value {
        self.object("t", vec![elements.into()])
    }

    fn element(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => {
                let elements = items.iter().map(|item| self.element(item)).collect();
                self.object("l", vec![elements])
            }
            Value::Object(object) => {
                let keys = object.keys().map(String::as_str).collect();
                self.dict(keys, object)
            }
            Value::Number(number) if number.as_i64().is_none() && number.is_u64() => {
                json!(["i", format!("{:#x}", number.as_u64().unwrap_or_default())])
            }
            scalar => scalar.clone(),
        }
    }

    fn dict(&mut self, keys: Value, object: &Map<String, Value>) -> Value {
        let values = object.values().map(|value| self.element(value)).collect();
        self.object("d", vec![keys, values])
    }

    fn object(&mut self, tag: &str, content: Vec<Value>) -> Value {
        let number = self.objects.len();
        self.objects.push([vec![tag.into()], content].concat().into());
        json!(["r", number])
    }
}

fn is_whole(key: &str) -> bool {
    key.parse::<i64>().is_ok_and(|number| number.to_string() == key)
}

/// The value of an answer in JSON: tuples as lists, keys as texts, and what JSON has nothing for as an object that says what it
/// is, which equals nothing that is expected. An object that is referred to many times is written as often: no value has more
/// bytes than `longest`, if it were printed.
///
/// # Errors
/// [`Unread`] when there is something wrong with it.
pub fn value(answer: &Value, longest: usize) -> Result<Value, Unread> {
    let objects = answer["o"].as_array().ok_or("it has no objects")?;
    let mut reader = Reader { objects, left: longest };
    reader.element(&answer["v"], 0)
}

/// Why a value cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Unread {
    /// It is longer than it may be.
    TooLong,
    /// It is none: why.
    Malformed(String),
}

impl From<&str> for Unread {
    fn from(problem: &str) -> Self {
        Self::Malformed(problem.to_owned())
    }
}

struct Reader<'a> {
    objects: &'a [Value],
    /// Bytes that the value may still come to.
    left: usize,
}

impl Reader<'_> {
    /// Takes down what is about to be copied.
    fn take(&mut self, copied: &Value) -> Result<(), Unread> {
        // At least a sign and a comma.
        let length = 2 + copied.as_str().map_or(0, str::len);
        self.left = self.left.checked_sub(length).ok_or(Unread::TooLong)?;
        copied.as_array().into_iter().flatten().try_for_each(|part| self.take(part))?;
        copied.as_object().into_iter().flat_map(Map::values).try_for_each(|part| self.take(part))
    }

    fn element(&mut self, element: &Value, depth: usize) -> Result<Value, Unread> {
        if depth > DEEPEST {
            return Err("it is nested too deep, or holds itself".into());
        }
        self.take(element)?;
        let Value::Array(tagged) = element else { return Ok(element.clone()) };
        let text = |index: usize| tagged.get(index).and_then(Value::as_str).unwrap_or_default();
        match text(0) {
            "r" => {
                let number =
                    tagged.get(1).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
                let object = number.and_then(|number| self.objects.get(number)).and_then(Value::as_array);
                self.object(object.ok_or("it refers to nothing")?, depth)
            }
            // Larger than a number of JSON: as near as that comes, which is also how what is expected was read.
            "i" => Ok(match text(1).strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16)) {
                Some(Ok(number)) => number.into(),
                _ => large(text(1)).map_or_else(|| unknown("int", Value::Null), Value::from),
            }),
            kind => Ok(unknown(kind, tagged.get(1..).unwrap_or_default().to_vec().into())),
        }
    }

    fn object(&mut self, object: &[Value], depth: usize) -> Result<Value, Unread> {
        let mut items = |index: usize| -> Result<Vec<Value>, Unread> {
            let items = object.get(index).and_then(Value::as_array).ok_or("a container holds nothing")?;
            items.iter().map(|item| self.element(item, depth + 1)).collect()
        };
        match object.first().and_then(Value::as_str).unwrap_or_default() {
            "l" | "t" => Ok(items(1)?.into()),
            "record" => Ok(items(3)?.into()),
            "d" | "od" | "counter" | "dd" => {
                let (keys, values) = (items(1)?, items(2)?);
                let keys = keys.into_iter().map(|key| match key {
                    Value::String(text) => text,
                    key => key.to_string(),
                });
                Ok(keys.zip(values).collect::<Map<_, _>>().into())
            }
            kind => {
                let content = object.get(1).unwrap_or(&Value::Null);
                self.take(content)?;
                Ok(unknown(kind, content.clone()))
            }
        }
    }
}

/// What JSON has nothing for.
fn unknown(kind: &str, content: Value) -> Value {
    json!({"a value of Python": kind, "holds": content})
}

/// A number that Python has written in hexadecimal, rounded.
fn large(text: &str) -> Option<f64> {
    let (digits, sign) = match text.strip_prefix('-') {
        Some(rest) => (rest.strip_prefix("0x")?, -1.0),
        None => (text.strip_prefix("0x")?, 1.0),
    };
    // The first 16 digits exceed what a float holds by more than it takes to round, if what follows is not forgotten.
    let (first, rest) = digits.split_at_checked(16.min(digits.len()))?;
    let mut head = u64::from_str_radix(first, 16).ok()?;
    if rest.bytes().any(|digit| digit != b'0') {
        head |= 1;
    }
    let exponent = i32::try_from(rest.len().checked_mul(4)?).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "this is the rounding")]
    let value = sign * head as f64 * 2f64.powi(exponent);
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_written_as_python_reads_them() {
        let mut values = Values::default();
        let arguments = [
            json!([1, "a", [null, 2.5]]),
            json!({"1": true, "-2": []}),
            json!({"1": 1, "01": 2}),
            json!(u64::MAX),
        ];
        assert_eq!(values.arguments(&arguments), json!(["r", 5]));
        let objects = json!([
            ["l", [null, 2.5]],
            ["l", [1, "a", ["r", 0]]],
            ["l", []],
            ["d", [1, -2], [true, ["r", 2]]],
            ["d", ["1", "01"], [1, 2]],
            ["l", [["r", 1], ["r", 3], ["r", 4], ["i", "0xffffffffffffffff"]]],
        ]);
        assert_eq!(json!(values.objects), objects);
    }

    #[test]
    fn values_are_read_as_json() {
        let read = |answer: Value| value(&answer, 10_000);
        let objects =
            json!([["t", [["r", 1], ["r", 1], "x"]], ["d", [1, "b"], [null, ["i", "-0x10000000000000000"]]]]);
        let answer = json!({"v": ["r", 0], "o": objects});
        let dict = json!({"1": null, "b": -18_446_744_073_709_551_616.0});
        assert_eq!(read(answer), Ok(json!([dict, dict, "x"])));
        // A set is no list, and an object of a class is nothing that JSON has.
        assert_ne!(read(json!({"v": ["r", 0], "o": [["s", [1]]]})), Ok(json!([1])));
        assert!(read(json!({"v": ["h", 0, ["c", 1, "A", []]], "o": []})).unwrap().is_object());
        // A list in itself, and one that doubles at every step.
        assert!(read(json!({"v": ["r", 0], "o": [["l", [["r", 0]]]]})).is_err());
        let doubling: Vec<_> =
            (1..60).map(|next| json!(["l", [["r", next], ["r", next]]])).chain([json!(["l", []])]).collect();
        assert!(read(json!({"v": ["r", 0], "o": doubling})).is_err());
        for wrong in [
            json!({"v": 1}),
            json!({"v": ["r", 0], "o": []}),
            json!({"v": ["r", -1], "o": [3]}),
            json!({"v": ["r", 0], "o": [["l"]]}),
        ] {
            assert!(read(wrong).is_err());
        }
    }

    #[test]
    fn large_numbers_are_rounded_as_floats_are_read() {
        // Each beside its decimal digits, by Python.
        for (hex, decimal) in [
            ("0x8000000000000000", "9223372036854775808"),
            ("0x20000000000000800001", "151115727451828655259649"),
            ("-0x56bc75e2d63100000", "-100000000000000000000"),
            ("0x2000000000000100000000", "38685626227668133858410496"),
        ] {
            assert_eq!(large(hex), Some(decimal.parse().unwrap()), "{hex}");
        }
        assert_eq!(large(&format!("0x{}", "f".repeat(300))), None);
    }
}
