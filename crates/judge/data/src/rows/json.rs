//! Rows of JSON documents: an array of objects, or one object that holds them.
//!
//! A document is read whole; the items of an array are parsed one by one, because values take many
//! times their bytes. JSON lines in a .json file are read as such.

use std::io::{self, BufRead, Cursor, Read};
use std::iter::Zip;
use std::ops::{Range, RangeFrom};
use std::vec::IntoIter;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use super::Row;
use super::jsonl::{Lines, parse, without_line, without_mark};
use super::limits::{MAX_DOCUMENT_SIGNS, MAX_ROW, MAX_SIGNS};

/// The remedy for a document that is too long.
const AS_LINES: &str =
    "write it with an object per line, as .jsonl, in which it may be of any size";

/// Longest array, in bytes.
const MAX_ARRAY: usize = 1 << 30;

/// The rows of a document.
pub(super) enum Document {
    Items(Items),
    Rows(Zip<RangeFrom<usize>, IntoIter<Row>>),
    Lines(Lines),
}

/// Failure to read a document: an error of the system, or a defect of the document.
pub(super) enum Failure {
    Io(io::Error),
    Document(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Document {
    pub(super) fn open(mut reader: Box<dyn BufRead>) -> Result<Self, Failure> {
        if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
        }
        match peek(&mut *reader)? {
            None => Ok(Self::Rows((1..).zip(Vec::new()))),
            Some(b'[') => Items::open(reader, MAX_ARRAY).map(Self::Items),
            Some(_) => Self::object(reader),
        }
    }

    /// One object, or lines of them.
    fn object(mut reader: Box<dyn BufRead>) -> Result<Self, Failure> {
        let mut text = Vec::new();
        reader.by_ref().take(MAX_ROW as u64 + 1).read_until(b'\n', &mut text)?;
        if parse(&text, "line", MAX_SIGNS).is_ok() && peek(&mut *reader)?.is_some() {
            return Ok(Self::Lines(Lines::new(Box::new(Cursor::new(text).chain(reader)))));
        }
        let left = (MAX_ROW as u64 + 1).saturating_sub(text.len() as u64);
        reader.take(left).read_to_end(&mut text)?;
        if text.len() > MAX_ROW {
            return Err(Failure::Document(format!(
                "one JSON object of more than {} MiB: {AS_LINES}",
                MAX_ROW >> 20
            )));
        }
        let object =
            parse(without_mark(&text), "file", MAX_DOCUMENT_SIGNS).map_err(Failure::Document)?;
        Ok(Self::Rows((1..).zip(rows_of(object))))
    }

    /// Reads the next row with its number. An inner error is the row's defect.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Result<Row, String>)>> {
        Ok(match self {
            Self::Items(items) => items.next().map(|row| (items.number, row)),
            Self::Rows(rows) => rows.next().map(|(number, row)| (number, Ok(row))),
            Self::Lines(lines) => lines.next()?.map(|row| (lines.number, row)),
        })
    }
}

/// Skips white space and returns the next byte without consuming it.
fn peek(reader: &mut dyn BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = reader.fill_buf()?;
        match bytes.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(place) => {
                let byte = bytes[place];
                reader.consume(place);
                return Ok(Some(byte));
            }
            None if bytes.is_empty() => return Ok(None),
            None => {
                let all = bytes.len();
                reader.consume(all);
            }
        }
    }
}

/// The rows of an object that is read as a whole: the items of its list `data`, or the object
/// itself.
fn rows_of(mut object: Row) -> Vec<Row> {
    match object.get_mut("data") {
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => {
            let row = |item: Value| match item {
                Value::Object(row) => row,
                _ => Row::new(), // every one is an object
            };
            std::mem::take(items).into_iter().map(row).collect()
        }
        _ => vec![object],
    }
}

/// The items of an array.
pub(super) struct Items {
    /// The array, from its opening bracket on.
    text: Vec<u8>,
    /// Place of the opening bracket or comma before the next item, or of the closing bracket.
    place: usize,
    /// Number of the latest item, from 1.
    number: usize,
}

impl Items {
    /// Reads an array of at most `most` bytes. One that is cut off, is not JSON or has something
    /// behind its end is refused.
    fn open(reader: Box<dyn BufRead>, most: usize) -> Result<Self, Failure> {
        let mut text = Vec::new();
        reader.take(most as u64 + 1).read_to_end(&mut text)?;
        if text.len() > most {
            return Err(Failure::Document(format!(
                "a JSON array of more than {} MiB: {AS_LINES}",
                most >> 20
            )));
        }
        let mut items = Self { text, place: 0, number: 0 };
        while items.find().map_err(Failure::Document)?.is_some() {}
        Ok(Self { place: 0, number: 0, ..items })
    }

    /// Reads the next item. An error is the item's defect; reading can go on.
    fn next(&mut self) -> Option<Result<Row, String>> {
        let item = self.find().expect("the array was found whole when it was opened")?;
        Some(if item.len() > MAX_ROW {
            Err(format!("the item is longer than {} MiB", MAX_ROW >> 20))
        } else {
            parse(&self.text[item], "item", MAX_SIGNS)
        })
    }

    /// Finds the next item and the comma or bracket behind it; none behind the last item.
    fn find(&mut self) -> Result<Option<Range<usize>>, String> {
        let text = &self.text;
        let mut begin = skip_space(text, self.place + 1);
        if self.number == 0 && text.get(begin) == Some(&b']') {
            self.place = begin; // an empty array
            begin = skip_space(text, begin + 1);
        }
        if text[self.place] == b']' {
            return if begin == text.len() {
                Ok(None)
            } else {
                Err("something stands behind the end of the array".into())
            };
        }
        let number = self.number + 1;
        let cut_off = || format!("it ends within item {number} of its array: it is cut off");
        let invalid = |what: &str| format!("item {number} of its array is not valid JSON: {what}");
        let mut values = Deserializer::from_slice(&text[begin..]).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) if !error.is_eof() => {
                return Err(invalid(&format!("{} of the item", without_line(&error))));
            }
            _ => return Err(cut_off()),
        }
        let end = begin + values.byte_offset();
        let place = skip_space(text, end);
        match text.get(place) {
            Some(b',' | b']') => {}
            Some(_) => return Err(invalid("a comma is missing behind it")),
            None => return Err(cut_off()),
        }
        (self.place, self.number) = (place, number);
        Ok(Some(begin..end))
    }
}

/// The place of the first byte at or behind `place` that is no white space.
fn skip_space(text: &[u8], place: usize) -> usize {
    place + text[place..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// The rows and errors of a document that is read a few bytes at a time.
    fn read(text: &str) -> Vec<String> {
        let reader = BufReader::with_capacity(3, Cursor::new(text.as_bytes().to_vec()));
        let mut document = match Document::open(Box::new(reader)) {
            Ok(document) => document,
            Err(Failure::Document(what)) => return vec![what],
            Err(Failure::Io(error)) => panic!("{error}"),
        };
        let mut rows = Vec::new();
        while let Some((_, row)) = document.next().unwrap()
            && rows.len() < 10
        {
            rows.push(row.map_or_else(|what| what, |row| Value::from(row).to_string()));
        }
        rows
    }

    #[test]
    fn arrays_objects_and_lines_are_rows() {
        let two = ["{\"a\":1}", "{\"a\":\"[,\\\"]\"}"];
        for text in [
            "[{\"a\": 1}, {\"a\": \"[,\\\"]\"}]",
            "\u{feff} [\r\n  {\"a\": 1},\r\n  {\"a\": \"[,\\\"]\"}\r\n]\r\n",
            "{\"data\": [{\"a\": 1}, {\"a\": \"[,\\\"]\"}], \"version\": 2}",
            "{\"a\": 1}\n\n{\"a\": \"[,\\\"]\"}\n",
        ] {
            assert_eq!(read(text), two, "{text}");
        }
        assert_eq!(read("{\"a\": 1, \"b\": [2]}"), ["{\"a\":1,\"b\":[2]}"]);
        assert_eq!(read("[]"), [""; 0]);
        assert_eq!(read(" \n"), [""; 0]);
        assert_eq!(read("[1, {}]"), ["the item is not a JSON object", "{}"]);
    }

    /// A defect of a document refuses it before its first row.
    #[test]
    fn documents_that_are_broken_are_refused_when_they_are_opened() {
        for (text, part) in [
            ("[{\"a\": 1}, {\"a\"", "it ends within item 2 of its array: it is cut off"),
            ("[{\"a\": 1},", "it ends within item 2 of its array"),
            ("[{}", "it ends within item 1 of its array"),
            ("[", "it ends within item 1 of its array"),
            ("[{}] x", "something stands behind the end of the array"),
            ("[] []", "something stands behind the end of the array"),
            (
                "[{}, , {}]",
                "item 2 of its array is not valid JSON: expected value at column 1 of the item",
            ),
            ("[{},]", "item 2 of its array is not valid JSON"),
            ("[{} {}]", "item 1 of its array is not valid JSON: a comma is missing behind it"),
            ("[{}, {\"a\": NaN}]", "item 2 of its array is not valid JSON"),
            ("{\"a\": ", "not valid JSON"),
            ("seven", "not valid JSON"),
        ] {
            let rows = read(text);
            assert!(rows.len() == 1 && rows[0].contains(part), "{text}: {rows:?}");
        }
    }

    #[test]
    fn items_that_are_no_rows_do_not_stop_the_reading() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let rows = read(&format!("[{deep}, {{\"a\": \"\\ud800\"}}, {{}}]"));
        assert!(rows.len() == 3 && rows[2] == "{}", "{rows:?}");
        assert!(rows[..2].iter().all(|row| row.contains("the item is not valid JSON")), "{rows:?}");
    }

    #[test]
    fn an_array_that_is_too_long_is_refused() {
        let most = 2 << 20;
        let open = |spaces: usize| {
            let text = format!("[{}]", " ".repeat(spaces));
            Items::open(Box::new(Cursor::new(text.into_bytes())), most)
        };
        assert!(open(most - 2).is_ok());
        let Err(Failure::Document(what)) = open(most - 1) else { panic!("it was opened") };
        assert!(what.starts_with("a JSON array of more than 2 MiB: write it"), "{what}");
    }
}
