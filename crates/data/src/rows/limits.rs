//! How much a data file may come to. A few thousand bytes can be made to unfold into more than any memory holds; what people
//! write does not come close to these limits.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use serde_json::Value;

/// Largest row, in bytes: of a line, of an item, or of all the texts in it.
pub(crate) const MAX_ROW: usize = 32 << 20;

/// What any file may come to, in bytes.
const ALWAYS: u64 = 64 << 20;

/// How many bytes each byte of a file may come to beyond that.
const PER_BYTE: u64 = 100;

/// How many bytes a file of so many may come to when it is unpacked.
pub(crate) fn allowance(bytes: u64) -> u64 {
    ALWAYS.saturating_add(bytes.saturating_mul(PER_BYTE))
}

/// That a file unfolds into more than its [`allowance`].
pub(crate) fn unfolds(bytes: u64) -> String {
    format!(
        "its {bytes} bytes unfold into more than {} MiB, which no data set does; it may be made to do harm",
        allowance(bytes) >> 20
    )
}

/// Unpacked contents, as long as they do not come to more than they may.
pub(crate) struct Unpacked<R> {
    inner: R,
    /// Bytes of the file.
    packed: u64,
    left: u64,
}

impl<R: Read> Unpacked<R> {
    /// `inner` unpacks a file of so many bytes.
    pub(crate) fn buffered(inner: R, packed: u64) -> impl BufRead {
        BufReader::with_capacity(1 << 16, Self { inner, packed, left: allowance(packed) })
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, unfolds(self.packed)))?;
        Ok(read)
    }
}

/// Bytes of the texts in a value.
pub(crate) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(entries) => entries.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
