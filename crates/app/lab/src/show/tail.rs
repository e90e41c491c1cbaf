//! The last lines of a file of any length.

use crate::log::lines::{Row, without_line};
use crate::{Error, Result};
use isentrope_files::open_regular;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Most bytes that are read of a file's end.
const MOST: u64 = 4 << 20;

/// The last `count` lines of a file, in order; fewer if it has fewer, or if they are longer than 4
/// MiB. A last line without a line break is incomplete, and is left out.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn last_lines(path: &Path, count: usize) -> Result<Vec<Vec<u8>>> {
    let failed = isentrope_files::Error::at(path);
    let mut file = open_regular(path)?;
    let length = file.metadata().map_err(&failed)?.len();
    let begin = length.saturating_sub(MOST);
    file.seek(SeekFrom::Start(begin)).map_err(&failed)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(&failed)?;
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |last| last + 1);
    let whole = match begin {
        0 => &bytes[..end],
        // The first piece is the rest of a line.
        _ => bytes[..end].splitn(2, |b| *b == b'\n').nth(1).unwrap_or_default(),
    };
    let lines: Vec<&[u8]> = whole.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(count)..].iter().map(|line| line.to_vec()).collect())
}

/// The object of a line of JSON; `place` names the line in an error.
pub(super) fn row_of(line: &[u8], path: &Path, place: &str) -> Result<Row> {
    serde_json::from_slice(line)
        .map_err(|error| Error::invalid(path, format!("{place}: {}", without_line(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lines_come_from_the_end_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let last = |text: &[u8], count| {
            fs::write(&path, text).unwrap();
            let lines = last_lines(&path, count).unwrap();
            lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(last(b"a\nb\nc\nd", 2), ["b", "c"]);
        assert_eq!(last(b"a\nb\n", 5), ["a", "b"]);
        assert_eq!(last(b"", 5), [""; 0]);
        let mut long = vec![b'x'; MOST as usize + 10];
        long.extend(b"\na\nb\n");
        assert_eq!(last(&long, 5), ["a", "b"]);
        long.extend(vec![b'y'; MOST as usize]);
        long.push(b'\n');
        assert_eq!(last(&long, 5), [""; 0]);
    }
}
