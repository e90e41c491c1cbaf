//! The tests of LiveCodeBench's rows: public ones as a text of JSON, private ones the same or
//! packed, as base64(zlib(pickle(text))). A pickle can run code when it is loaded, so it is not
//! loaded: it must hold a single string, which is read from it.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::{Map, Value};

use super::{MOST_BYTES, MOST_LISTED, Tests, pairs, parse, too_large};

/// Reads `{"public_test_cases": ..., "private_test_cases": ..., "metadata": ...}`.
pub fn of_row(object: &Map<String, Value>) -> Result<Tests, String> {
    let mut tests = Vec::new();
    for key in ["public_test_cases", "private_test_cases"] {
        let unpacked = match object.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) if text.trim().is_empty() => continue,
            Some(Value::String(text)) if text.trim_start().starts_with('[') => {
                parse(text, MOST_LISTED)
            }
            Some(Value::String(packed)) => {
                unpack(packed).and_then(|text| parse(&text, MOST_LISTED))
            }
            Some(value) => Ok(value.clone()),
        };
        match unpacked.map_err(|e| format!("{e} (under {key:?})"))? {
            Value::Array(list) => tests.extend(list),
            _ => return Err(format!("the tests' {key:?} must be a list")),
        }
    }
    if tests.is_empty() {
        return Err("there are no tests".into());
    }
    Ok(Tests { by_value: true, ..pairs::of_list(&tests, object)? })
}

fn unpack(packed: &str) -> Result<String, String> {
    let compressed = STANDARD
        .decode(packed.trim())
        .map_err(|e| format!("the tests are neither JSON nor base64: {e}"))?;
    let mut pickle = Vec::new();
    ZlibDecoder::new(&compressed[..])
        .take(MOST_BYTES as u64 + 1)
        .read_to_end(&mut pickle)
        .map_err(|e| format!("the tests cannot be decompressed: {e}"))?;
    if pickle.len() > MOST_BYTES {
        return Err(too_large());
    }
    pickled_text(&pickle).ok_or_else(|| "the tests are no pickled text".into())
}

/// The text of a pickle (protocols 1 to 5) that holds a text and nothing else. Only the opcodes of
/// such a pickle are known; see Python's `pickletools`.
fn pickled_text(pickle: &[u8]) -> Option<String> {
    let mut rest = pickle;
    let mut text = None;
    loop {
        let (&opcode, after) = rest.split_first()?;
        rest = match opcode {
            b'.' if after.is_empty() => return text,
            0x80 | b'q' => after.get(1..)?,       // PROTO, BINPUT
            0x94 => after,                        // MEMOIZE
            b'r' => after.get(4..)?,              // LONG_BINPUT
            0x95 => after.get(8..)?,              // FRAME
            0x8c => string(after, 1, &mut text)?, // SHORT_BINUNICODE
            b'X' => string(after, 4, &mut text)?, // BINUNICODE
            0x8d => string(after, 8, &mut text)?, // BINUNICODE8
            _ => return None,
        };
    }
}

/// Reads a length of `width` bytes and a string of that length. Returns the string and the rest.
fn string<'a>(bytes: &'a [u8], width: usize, text: &mut Option<String>) -> Option<&'a [u8]> {
    let mut length = [0; 8];
    length[..width].copy_from_slice(bytes.get(..width)?);
    let (string, rest) =
        bytes[width..].split_at_checked(usize::try_from(u64::from_le_bytes(length)).ok()?)?;
    let string = std::str::from_utf8(string).ok()?.to_owned();
    text.replace(string).is_none().then_some(rest)
}
