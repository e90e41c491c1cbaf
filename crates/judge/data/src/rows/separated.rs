//! Rows of CSV and TSV files. The first row names the columns; every value is a text, and an empty
//! one is null.

use std::io::{self, BufRead, ErrorKind, Read};

use csv::{ByteRecord, ReaderBuilder};
use serde_json::Value;

use super::Row;
use super::limits::{MAX_ROW, MAX_SIGNS};

/// Reader of the rows behind the first.
pub(super) struct Separated {
    reader: csv::Reader<RowLimit>,
    columns: Vec<String>,
    record: ByteRecord,
    /// Number of the latest row, from 1, without the first that names columns.
    number: usize,
}

impl Separated {
    /// Reads the names of the columns.
    ///
    /// # Errors
    /// The defect of the first row, as a clause about the file.
    pub(super) fn open(reader: Box<dyn BufRead>, delimiter: u8) -> Result<Self, String> {
        let limit = RowLimit { reader, left: MAX_ROW, last: 0, has_ended: false };
        let mut reader =
            ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(limit);
        let names = reader.byte_headers().map_err(|error| error.to_string())?;
        if names.len() > MAX_SIGNS {
            return Err(format!("its first row names {} columns", names.len()));
        }
        let mut columns: Vec<String> = Vec::with_capacity(names.len());
        for (number, name) in (1..).zip(names) {
            let name = std::str::from_utf8(name)
                .map_err(|_| format!("the name of its column {number} is not UTF-8"))?;
            columns.push(name.trim().to_owned());
        }
        if let [only] = &columns[..]
            && only.contains(';')
            && delimiter == b','
        {
            return Err("its separator is a semicolon: write it with commas".to_owned());
        }
        let mut sorted: Vec<&String> = columns.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("its first row names two columns {:?}", pair[0]));
        }
        Ok(Self { reader, columns, record: ByteRecord::new(), number: 0 })
    }

    /// The names of the columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = String> {
        self.columns.iter().cloned()
    }

    /// Reads the next row with its number. An inner error is the row's defect.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Result<Row, String>)>> {
        self.reader.get_mut().left = MAX_ROW;
        if !self.reader.read_byte_record(&mut self.record)? {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some((self.number, self.row())))
    }

    fn row(&self) -> Result<Row, String> {
        // Only within quotation marks has a value a line break, and behind the last of them the
        // file ends.
        let input = self.reader.get_ref();
        let last = self.record.iter().next_back().unwrap_or_default();
        if input.has_ended && input.last != b'"' && last.contains(&b'\n') {
            return Err(
                "a quotation mark in it is never closed, so that all lines behind it are its"
                    .into(),
            );
        }
        let (found, expected) = (self.record.len(), self.columns.len());
        if found != expected {
            return Err(format!("it has {found} values for {expected} columns"));
        }
        let value = |(name, value): (&String, &[u8])| match std::str::from_utf8(value) {
            Ok("") => Ok((name.clone(), Value::Null)),
            Ok(text) => Ok((name.clone(), text.into())),
            Err(_) => Err(format!("column {name} is not UTF-8")),
        };
        self.columns.iter().zip(&self.record).map(value).collect()
    }
}

/// A reader that fails when a row is too long, for example because a quotation mark is never
/// closed.
struct RowLimit {
    reader: Box<dyn BufRead>,
    /// Bytes that the row may still have.
    left: usize,
    /// The latest byte that ends no line.
    last: u8,
    has_ended: bool,
}

impl Read for RowLimit {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.has_ended = read == 0;
        let last = buffer[..read].iter().rfind(|byte| !matches!(byte, b'\n' | b'\r'));
        self.last = last.copied().unwrap_or(self.last);
        self.left = self.left.checked_sub(read).ok_or_else(|| {
            let problem = format!(
                "a row is longer than {} MiB; a quotation mark may not be closed",
                MAX_ROW >> 20
            );
            io::Error::new(ErrorKind::InvalidData, problem)
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn open(text: &[u8], delimiter: u8) -> Result<Separated, String> {
        Separated::open(Box::new(io::Cursor::new(text.to_vec())), delimiter)
    }

    fn rows(text: &[u8], delimiter: u8) -> Vec<(usize, Result<Value, String>)> {
        let mut rows = open(text, delimiter).unwrap();
        std::iter::from_fn(|| rows.next().unwrap())
            .map(|(number, row)| (number, row.map(Value::from)))
            .collect()
    }

    #[test]
    fn rows_are_texts_by_the_names_of_the_first() {
        let comma = b"\xef\xbb\xbfquestion,answer\r\n\"1, \"\"2\"\"\n3?\",7\r\n\r\nx,\r\n";
        let tab = b"question\tanswer\n\"1, \"\"2\"\"\n3?\"\t7\n\nx\t\n";
        for (text, delimiter) in [(&comma[..], b','), (tab, b'\t')] {
            let expected = [
                (1, Ok(json!({"question": "1, \"2\"\n3?", "answer": "7"}))),
                (2, Ok(json!({"question": "x", "answer": null}))),
            ];
            assert_eq!(rows(text, delimiter), expected);
        }
        assert!(rows(b"", b',').is_empty() && rows(b"a,b\n", b',').is_empty());
    }

    #[test]
    fn a_quotation_mark_that_is_never_closed_is_told() {
        for (text, bad) in [
            ("a,b\n1,2\n3,\"4\n5,6\n7,8\n", Some(2)),
            ("a,b\n\"1,2\n3,4", Some(1)),
            ("a,b\n1,2\n3,\"4\n5\"\n", None),
            ("a,b\n1,2\n3,\"4\n5\"", None),
            ("a,b\n1,2\n3,4", None),
        ] {
            let found = rows(text.as_bytes(), b',');
            let told = found.iter().find_map(|(number, row)| Some((*number, row.as_ref().err()?)));
            assert_eq!(told.map(|(number, _)| number), bad, "{text}");
            assert!(told.is_none_or(|(_, problem)| problem.contains("never closed")), "{text}");
        }
    }

    #[test]
    fn bad_rows_and_files_are_told() {
        let found = rows(b"a,b\n1\n1,2,3\n\xff,2\n1,2", b',');
        let problems: Vec<_> = found.iter().filter_map(|(_, row)| row.as_ref().err()).collect();
        assert_eq!(
            problems,
            [
                "it has 1 values for 2 columns",
                "it has 3 values for 2 columns",
                "column a is not UTF-8"
            ]
        );
        assert_eq!(found[3], (4, Ok(json!({"a": "1", "b": "2"}))));
        let error = |text: &[u8]| open(text, b',').err().unwrap_or_default();
        assert_eq!(error(b"a,b,a\n"), "its first row names two columns \"a\"");
        let semicolons = "its separator is a semicolon: write it with commas";
        assert_eq!(error(b"question;answer\n1+1;2\n"), semicolons);
        assert!(open(b"a;b\n1;2\n", b'\t').is_ok()); // tabs are its separator, whatever it holds
        assert_eq!(error(b"a,\xff\n"), "the name of its column 2 is not UTF-8");
        let mut open_quote = b"a\n1\n\"".to_vec();
        open_quote.resize(MAX_ROW + 100_000, b'x');
        let mut rows = open(&open_quote, b',').unwrap();
        assert!(rows.next().unwrap().is_some());
        let error = rows.next().unwrap_err().to_string();
        assert!(error.contains("a row is longer than 32 MiB; a quotation mark"), "{error}");
    }
}
