//! Rows of JSON documents: an array of objects, or one object that holds them.
//!
//! An array is read item by item, so it may be larger than memory. JSON lines in a .json file are
//! read as such.

use std::io::{self, BufRead, Cursor, Read};

use serde_json::Value;

use super::Row;
use super::jsonl::{Lines, parse, without_mark};
use super::limits::{MAX_DOCUMENT_SIGNS, MAX_ROW, MAX_SIGNS};

/// The rows of a document.
pub(super) enum Document {
    Items(Items),
    Rows(std::vec::IntoIter<Row>),
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
            None => Ok(Self::Rows(Vec::new().into_iter())),
            Some(b'[') => {
                reader.consume(1);
                Ok(Self::Items(Items { reader, number: 0, ended: false }))
            }
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
                "one JSON object of more than {} MiB; as an array of objects, or with an object \
                 per line (.jsonl), it may be \
                 of any size",
                MAX_ROW >> 20
            )));
        }
        let object =
            parse(without_mark(&text), "file", MAX_DOCUMENT_SIGNS).map_err(Failure::Document)?;
        Ok(Self::Rows(rows_of(object).into_iter()))
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

/// Items of an array whose opening bracket has been consumed.
pub(super) struct Items {
    reader: Box<dyn BufRead>,
    /// Number of the latest item, from 1.
    pub(super) number: usize,
    ended: bool,
}

impl Items {
    /// Reads the next item. An inner error is the item's defect; reading can go on.
    pub(super) fn next(&mut self) -> Result<Option<Result<Row, String>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        match peek(&mut *self.reader)? {
            Some(b']') => {
                self.reader.consume(1);
                self.ended = true;
                return match peek(&mut *self.reader)? {
                    None => Ok(None),
                    Some(_) => Err(Failure::Document(
                        "something stands behind the end of the array".into(),
                    )),
                };
            }
            Some(b',') if self.number > 0 => self.reader.consume(1),
            _ => {}
        }
        self.number += 1;
        let mut item = Vec::new();
        let len = self.scan(&mut item)?;
        Ok(Some(if len > MAX_ROW {
            Err(format!("the item is longer than {} MiB", MAX_ROW >> 20))
        } else {
            parse(&item, "item", MAX_SIGNS)
        }))
    }

    /// Consumes the bytes up to the comma or bracket after an item and counts them. Bytes beyond
    /// the longest row are not kept.
    fn scan(&mut self, item: &mut Vec<u8>) -> Result<usize, Failure> {
        let (mut depth, mut in_text, mut escaped, mut len) = (0u64, false, false, 0usize);
        loop {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                let number = self.number;
                return Err(Failure::Document(format!(
                    "it ends within item {number} of its array: it is cut off"
                )));
            }
            let end = bytes.iter().position(|&byte| {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_text => escaped = true,
                    b'"' => in_text = !in_text,
                    _ if in_text => {}
                    b'[' | b'{' => depth += 1,
                    b',' | b']' if depth == 0 => return true,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                false
            });
            let taken = end.unwrap_or(bytes.len());
            len += taken;
            if len <= MAX_ROW {
                item.extend_from_slice(&bytes[..taken]);
            }
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(len);
            }
        }
    }
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
        loop {
            let row = match &mut document {
                Document::Items(items) => items.next(),
                Document::Rows(rows) => Ok(rows.next().map(Ok)),
                Document::Lines(lines) => lines.next().map_err(Failure::Io),
            };
            match row {
                Ok(None) => return rows,
                Ok(Some(Ok(row))) => rows.push(Value::from(row).to_string()),
                Ok(Some(Err(what))) | Err(Failure::Document(what)) => rows.push(what),
                Err(Failure::Io(error)) => panic!("{error}"),
            }
            if rows.len() > 9 {
                return rows;
            }
        }
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

    #[test]
    fn documents_that_are_broken_are_told_of() {
        for (text, part) in [
            ("[{\"a\": 1}, {\"a\"", "it ends within item 2 of its array"),
            ("[{}", "cut off"),
            ("[{}] x", "behind the end of the array"),
            ("{\"a\": ", "not valid JSON"),
            ("seven", "not valid JSON"),
            ("[{}, , {}]", "not valid JSON"),
        ] {
            assert!(read(text).iter().any(|row| row.contains(part)), "{text}: {:?}", read(text));
        }
        let deep = format!("[{}1{}]", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&deep)[0].contains("not valid JSON"));
    }
}
