//! Limits on the unpacked size of data files. A hostile file of a few thousand bytes can unpack to
//! more than the memory; real files stay far below these limits.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use serde_json::Value;

use super::Row;

/// Largest row, in bytes: of its line or item, or of all its values.
pub(crate) const MAX_ROW: usize = 32 << 20;

/// Approximate memory of a value or a key besides its text, in bytes.
const PER_VALUE: usize = 32;

/// Most signs (`,` `:` `[` `{`) of JSON in a row, and in a document that is read as a whole.
pub(crate) const MAX_SIGNS: usize = 1 << 20;
pub(crate) const MAX_DOCUMENT_SIGNS: usize = 1 << 22;

/// Values and keys that any file may have, and values and keys per byte of a larger one.
const VALUES_ALWAYS: u64 = 1 << 21;
const VALUES_PER_BYTE: u64 = 16;

/// Unpacked bytes that any file may have.
const ALWAYS: u64 = 64 << 20;

/// Further unpacked bytes per byte of the file.
const PER_BYTE: u64 = 100;

/// Most unpacked bytes of a file of `bytes` bytes.
pub(crate) fn allowance(bytes: u64) -> u64 {
    ALWAYS.saturating_add(bytes.saturating_mul(PER_BYTE))
}

/// The message that a file exceeds its [`allowance`].
pub(crate) fn unfolds(bytes: u64) -> String {
    format!(
        "its {bytes} bytes unfold into more than {} MiB, which no data set does; it may be made \
         to do harm",
        allowance(bytes) >> 20
    )
}

/// Reader of unpacked contents that fails beyond their [`allowance`].
pub(crate) struct UnpackedReader<R> {
    inner: R,
    /// Bytes of the file.
    packed: u64,
    left: u64,
}

impl<R: Read> UnpackedReader<R> {
    /// Buffers `inner`, which unpacks a file of `packed` bytes.
    pub(crate) fn buffered(inner: R, packed: u64) -> impl BufRead {
        BufReader::with_capacity(1 << 16, Self { inner, packed, left: allowance(packed) })
    }
}

impl<R: Read> Read for UnpackedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, unfolds(self.packed)))?;
        Ok(read)
    }
}

/// Total bytes of the texts in a value.
pub(crate) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(entries) => entries.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Number of values and keys in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}

/// Budget of values and keys for the rows of a file.
pub(crate) struct ValueBudget {
    /// Bytes of the file.
    bytes: u64,
    left: u64,
    /// Largest row, in bytes.
    pub(super) row_bytes: usize,
}

impl ValueBudget {
    /// The budget of a file of `bytes` bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        Self {
            bytes,
            left: VALUES_ALWAYS.max(bytes.saturating_mul(VALUES_PER_BYTE)),
            row_bytes: MAX_ROW,
        }
    }

    /// No limit, for a stream of unknown length.
    pub(crate) fn unlimited() -> Self {
        Self { bytes: 0, left: u64::MAX, row_bytes: MAX_ROW }
    }

    /// Counts a row. An inner error: the row is too large. An outer error: the file has too many
    /// values.
    pub(crate) fn take(&mut self, row: &Row) -> Result<Result<(), String>, String> {
        let values: usize = row.values().map(|value| 1 + count(value)).sum();
        self.left = self.left.checked_sub(values as u64).ok_or_else(|| {
            format!(
                "its {} bytes unfold into more values than a data set has; it may be made to do \
                 harm",
                self.bytes
            )
        })?;
        let texts: usize = row.values().map(text_bytes).sum();
        Ok(if texts.saturating_add(values.saturating_mul(PER_VALUE)) > self.row_bytes {
            Err(format!("the row has more than {} MiB of texts and values", self.row_bytes >> 20))
        } else {
            Ok(())
        })
    }
}

/// Whether JSON has more than `most` signs outside of its texts. Parsed, each may take a hundred
/// times its byte.
pub(crate) fn has_more_signs(json: &[u8], most: usize) -> bool {
    if json.len() <= most {
        return false;
    }
    let (mut signs, mut in_text, mut escaped) = (0, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => signs += 1,
            _ => {}
        }
    }
    signs > most
}
