//! Reads a file of token records, which is not trusted.

use super::TokenRecord;
use crate::{Error, Result};
use isentrope_files::open_regular;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line that is read, in bytes: a response of some hundred thousand tokens.
const MAX_LINE: u64 = 64 << 20;
/// Most tokens that are read of a file, prompts included: some hundred bytes of memory each.
const MAX_TOKENS: usize = 1 << 22;
/// Most bytes of lines that are read of a file: its texts are held in memory.
const MAX_BYTES: usize = 256 << 20;

/// The records of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenFile {
    /// In the order of the file.
    pub records: Vec<TokenRecord>,
    /// The part of the file that was read, in words, if it has more.
    pub cut_at: Option<String>,
}

/// Reads a file of records. Only the first four million tokens, or 256 MiB, of a longer file are
/// read.
///
/// # Errors
/// When it cannot be read; malformed lines are named by file and line.
pub fn read(path: &Path) -> Result<TokenFile> {
    read_from(BufReader::new(open_regular(path)?), path)
}

/// Like [`read`], from a reader; errors name `path`.
///
/// # Errors
/// As [`read`].
pub fn read_from(mut reader: impl BufRead, path: &Path) -> Result<TokenFile> {
    let (mut file, mut line, mut tokens, mut bytes) = (TokenFile::default(), Vec::new(), 0, 0);
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(isentrope_files::Error::at(path))?;
        if read == 0 {
            break;
        }
        let invalid = |what: String| Error::invalid(path, format!("line {number}: {what}"));
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            return Err(invalid(format!("longer than {MAX_LINE} bytes")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        bytes += read;
        if bytes > MAX_BYTES && !file.records.is_empty() {
            file.cut_at = Some(format!("{} MiB", MAX_BYTES >> 20));
            break;
        }
        let record: TokenRecord =
            serde_json::from_slice(&line).map_err(|e| invalid(e.to_string()))?;
        record.check().map_err(invalid)?;
        tokens += record.tokens.len();
        if tokens > MAX_TOKENS && !file.records.is_empty() {
            file.cut_at = Some(format!("{MAX_TOKENS} tokens"));
            break;
        }
        file.records.push(record);
    }
    Ok(file)
}
