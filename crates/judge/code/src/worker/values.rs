//! JSON values as the values of Python that `python/values.py` writes and reads.

use serde_json::{Map, Value, json};

use crate::json::{self, hexadecimal, integer, is_large, large, of_hexadecimal, unknown};

/// Deepest nesting of a value.
const DEEPEST: usize = 100;

/// Values being written.
#[derive(Debug, Default)]
pub struct Values {
    /// The containers, as the message has them.
    pub objects: Vec<Value>,
}

impl Values {
    /// A list of arguments. An object whose keys are all whole numbers gets numbers as its keys, as
    /// in the harnesses of the sets that have such arguments.
    pub fn arguments(&mut self, arguments: &[Value]) -> Value {
        let elements = arguments.iter().map(|argument| match argument {
            Value::Object(object)
                if !object.is_empty() && object.keys().all(|key| is_whole(key)) =>
            {
                let keys = object
                    .keys()
                    .filter_map(|key| key.parse::<i64>().ok())
                    .map(Value::from)
                    .collect();
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
        let is_beyond = value.as_i64().is_none() && value.is_u64() || is_large(value);
        if let Some(number) = is_beyond.then(|| integer(value)).flatten() {
            return json!(["i", hexadecimal(&number)]);
        }
        match value {
            Value::Array(items) => {
                let elements = items.iter().map(|item| self.element(item)).collect();
                self.object("l", vec![elements])
            }
            Value::Object(object) => {
                let keys = object.keys().map(String::as_str).collect();
                self.dict(keys, object)
            }
            scalar => scalar.clone(),
        }
    }

    /// A dictionary with these keys.
    pub fn dict(&mut self, keys: Value, object: &Map<String, Value>) -> Value {
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

/// The value of an answer in JSON: tuples as lists, keys as texts, and what JSON has nothing for as
/// an object that says what it is, which equals nothing that is expected. An object that is
/// referred to many times is written as often: no value has more bytes than `longest`, if it were
/// printed.
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
                let number = tagged
                    .get(1)
                    .and_then(Value::as_u64)
                    .and_then(|number| usize::try_from(number).ok());
                let object =
                    number.and_then(|number| self.objects.get(number)).and_then(Value::as_array);
                self.object(object.ok_or("it refers to nothing")?, depth)
            }
            "i" => Ok(large(&of_hexadecimal(text(1)).ok_or("an integer is none")?)),
            kind => Ok(unknown(kind, tagged.get(1..).unwrap_or_default().to_vec().into())),
        }
    }

    fn object(&mut self, object: &[Value], depth: usize) -> Result<Value, Unread> {
        let mut items = |index: usize| -> Result<Vec<Value>, Unread> {
            let items =
                object.get(index).and_then(Value::as_array).ok_or("a container holds nothing")?;
            items.iter().map(|item| self.element(item, depth + 1)).collect()
        };
        match object.first().and_then(Value::as_str).unwrap_or_default() {
            "l" | "t" => Ok(items(1)?.into()),
            "d" | "od" | "counter" | "dd" => {
                let (keys, values) = (items(1)?, items(2)?);
                let keys = keys.into_iter().map(|key| match key {
                    Value::String(text) => text,
                    key => json::text(&key),
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
        let objects = json!([
            ["t", [["r", 1], ["r", 1], "x"]],
            ["d", [1, "b"], [null, ["i", "-0x10000000000000000"]]]
        ]);
        let answer = json!({"v": ["r", 0], "o": objects});
        let dict = json!({"1": null, "b": json::read("-18446744073709551616", 1).unwrap()});
        assert_eq!(read(answer), Ok(json!([dict, dict, "x"])));
        // A set is no list, and an object of a class is nothing that JSON has.
        assert_ne!(read(json!({"v": ["r", 0], "o": [["s", [1]]]})), Ok(json!([1])));
        assert!(read(json!({"v": ["x"], "o": []})).unwrap().is_object());
        // A list in itself, and one that doubles at every step.
        assert!(read(json!({"v": ["r", 0], "o": [["l", [["r", 0]]]]})).is_err());
        let doubling: Vec<_> = (1..60)
            .map(|next| json!(["l", [["r", next], ["r", next]]]))
            .chain([json!(["l", []])])
            .collect();
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
    fn large_integers_go_and_come_exactly() {
        // Each beside its decimal digits, by Python.
        for (hex, decimal) in [
            ("0x8000000000000000", "9223372036854775808"),
            ("0x20000000000000808001", "151115727451828655259649"),
            ("-0x56bc75e2d63100000", "-100000000000000000000"),
            ("-0x8000000000000001", "-9223372036854775809"),
        ] {
            let number = json::read(decimal, 1).unwrap();
            let mut values = Values::default();
            values.arguments(std::slice::from_ref(&number));
            assert_eq!(json!(values.objects), json!([["l", [["i", hex]]]]));
            assert_eq!(value(&json!({"v": ["i", hex], "o": []}), 1000), Ok(number));
        }
        for wrong in ["", "0x", "12", "0x-1", "0x1_"] {
            assert!(value(&json!({"v": ["i", wrong], "o": []}), 1000).is_err(), "{wrong}");
        }
    }
}
