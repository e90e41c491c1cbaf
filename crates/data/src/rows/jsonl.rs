//! Rows of JSONL files.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};

use serde_json::Value;

use super::row::{EachRow, Row};

/// Longest line of a JSONL file, in bytes.
const MAX_LINE: usize = 16 << 20;

/// Most names of columns kept for messages.
const MAX_NAMES: usize = 32;

/// Tells of every line that is not blank, numbered from 1, and returns the names of the columns.
pub(super) fn read(mut reader: impl BufRead, name: &str, each: &mut EachRow<'_>) -> io::Result<Vec<String>> {
    let mut columns = BTreeSet::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let row = if line.len() > MAX_LINE {
            if line.last() != Some(&b'\n') {
                reader.skip_until(b'\n')?;
            }
            Err(format!("the line is longer than {} MiB", MAX_LINE >> 20))
        } else if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            parse(&line[3..])
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            parse(&line)
        };
        if let Ok(row) = &row {
            columns.extend(row.keys().take(MAX_NAMES - columns.len().min(MAX_NAMES)).cloned());
        }
        each(format!("{name} line {number}"), row);
    }
    Ok(columns.into_iter().collect())
}

fn parse(line: &[u8]) -> Result<Row, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("the line is not UTF-8: {error}"))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err("the line is not a JSON object".into()),
        Err(error) => Err(format!("the line is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Vec<(String, Result<Row, String>)> {
        let mut rows = Vec::new();
        read(text, "a.jsonl", &mut |origin, row| rows.push((origin, row))).unwrap();
        rows
    }

    #[test]
    fn lines_are_numbered_and_bad_ones_do_not_stop_the_reading() {
        let text = b"\xef\xbb\xbf{\"a\": 1}\n\n  \r\n[1]\n{\"a\": \xff}\n{\"a\"\n{\"a\": 2}\r\n{\"a\": 3}";
        let rows = rows(text);
        let summary: Vec<_> = rows
            .iter()
            .map(|(origin, row)| match row {
                Ok(row) => format!("{origin} {}", row["a"]),
                Err(problem) => format!("{origin} {problem}"),
            })
            .collect();
        assert_eq!(summary[0], "a.jsonl line 1 1");
        assert_eq!(summary[1], "a.jsonl line 4 the line is not a JSON object");
        assert!(summary[2].starts_with("a.jsonl line 5 the line is not UTF-8"), "{}", summary[2]);
        assert!(summary[3].starts_with("a.jsonl line 6 the line is not JSON"), "{}", summary[3]);
        assert_eq!(summary[4..], ["a.jsonl line 7 2", "a.jsonl line 8 3"]);
    }

    #[test]
    fn huge_lines_and_deep_nesting_are_bad_rows() {
        let mut text = vec![b' '; MAX_LINE + 10];
        text.extend(b"\n{\"a\": 1}\n");
        text.extend(b"{\"a\":");
        text.extend([b'['; 100_000]);
        text.extend(b"\n{\"a\": 2}\n");
        let rows = rows(&text);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].1, Err("the line is longer than 16 MiB".into()));
        assert!(rows[1].1.is_ok() && rows[2].1.is_err() && rows[3].1.is_ok());
        assert_eq!(rows[3].0, "a.jsonl line 4");
        // Exactly the longest, and one byte longer with the line's end as that byte.
        for (spaces, good) in [(MAX_LINE - 3, true), (MAX_LINE - 2, false)] {
            let mut text = b"{}".to_vec();
            text.extend(vec![b' '; spaces]);
            text.extend(b"\n{}");
            let rows = self::rows(&text);
            assert_eq!((rows.len(), rows[0].1.is_ok(), rows[1].1.is_ok()), (2, good, true));
        }
    }
}
