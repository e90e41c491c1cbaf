//! Rows of JSON lines.

use std::io::{self, BufRead, Read};

use serde_json::Value;

use super::Row;
use super::limits::{MAX_ROW, MAX_SIGNS, has_more_signs};

/// Reader of the lines that are not blank.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    /// Number of the latest line, from 1.
    pub(super) number: usize,
    /// Longest line, in bytes.
    pub(super) longest: usize,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn BufRead>) -> Self {
        Self { reader, number: 0, longest: MAX_ROW }
    }

    /// Reads the next line. An inner error is the line's defect; reading can go on.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<Row, String>>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.reader.by_ref().take(self.longest as u64 + 1).read_until(b'\n', &mut line)? == 0
            {
                return Ok(None);
            }
            self.number += 1;
            if line.len() > self.longest {
                if line.last() != Some(&b'\n') {
                    self.reader.skip_until(b'\n')?;
                }
                return Ok(Some(Err(format!(
                    "the line is longer than {} MiB",
                    self.longest >> 20
                ))));
            }
            let text = if self.number == 1 { without_mark(&line) } else { &line };
            if !text.trim_ascii().is_empty() {
                return Ok(Some(parse(text, "line", MAX_SIGNS)));
            }
        }
    }
}

/// Strips the byte order mark that some editors write.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Parses a row: an object of at most `signs` signs. `what` names it in messages.
pub(super) fn parse(bytes: &[u8], what: &str, signs: usize) -> Result<Row, String> {
    if has_more_signs(bytes, signs) {
        return Err(format!("the {what} has more than {signs} values and keys"));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("the {what} is not UTF-8: {error}"))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(format!("the {what} is not a JSON object")),
        Err(error) => Err(format!("the {what} is not valid JSON ({})", without_line(&error))),
    }
}

/// serde_json's line number is that within this text, 1 but for items of several lines.
pub(super) fn without_line(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column", " at column")
        .replace(" at line 2 column 0", " at its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Vec<(usize, Result<Row, String>)> {
        let mut lines = Lines::new(Box::new(io::Cursor::new(text.to_vec())));
        std::iter::from_fn(|| lines.next().unwrap().map(|row| (lines.number, row))).collect()
    }

    #[test]
    fn lines_are_numbered_and_bad_ones_do_not_stop_the_reading() {
        let text = b"\xef\xbb\xbf{\"a\": 1}\n\n  \r\n[1]\n{\"a\": \xff}\n{\"a\"\n{\"a\": \
             2}\r\n\0{}\n{\"a\": 3}";
        let rows = rows(text);
        let summary: Vec<_> = rows
            .iter()
            .map(|(number, row)| match row {
                Ok(row) => format!("{number} {}", row["a"]),
                Err(problem) => format!("{number} {problem}"),
            })
            .collect();
        assert_eq!(summary[0], "1 1");
        assert_eq!(summary[1], "4 the line is not a JSON object");
        assert!(summary[2].starts_with("5 the line is not UTF-8"), "{}", summary[2]);
        assert!(summary[3].starts_with("6 the line is not valid JSON"), "{}", summary[3]);
        assert_eq!(summary[4], "7 2");
        assert!(summary[5].starts_with("8 the line is not valid JSON"), "{}", summary[5]);
        assert_eq!(summary[6..], ["9 3"]);
    }

    #[test]
    fn huge_lines_and_deep_nesting_are_bad_rows() {
        let mut text = vec![b' '; MAX_ROW + 10];
        text.extend(b"\n{\"a\": 1}\n");
        text.extend(b"{\"a\":");
        text.extend([b'['; 100_000]);
        text.extend(b"\n{\"a\": 2}\n");
        let rows = rows(&text);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].1, Err("the line is longer than 32 MiB".into()));
        assert!(rows[1].1.is_ok() && rows[2].1.is_err() && rows[3].1.is_ok());
        assert_eq!(rows[3].0, 4);
        // Lines of exactly the limit, and one byte longer for the line's end.
        for (spaces, good) in [(MAX_ROW - 3, true), (MAX_ROW - 2, false)] {
            let mut text = b"{}".to_vec();
            text.extend(vec![b' '; spaces]);
            text.extend(b"\n{}");
            let rows = self::rows(&text);
            assert_eq!((rows.len(), rows[0].1.is_ok(), rows[1].1.is_ok()), (2, good, true));
        }
    }
}
