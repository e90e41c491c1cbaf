//! TensorBoard's event files: a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h),
//! each an `Event` message (tensorflow/core/util/event.proto) in protobuf's wire format.

use super::points::Points;
use crate::{Error, Result};
use isentrope_files::{masked_crc, open_regular};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Largest record that is read, in bytes; larger ones hold pictures or sounds and are passed over.
const MAX_RECORD: u64 = 16 << 20;

/// Whether bytes are the start of an event file.
pub(super) fn is_one(start: &[u8]) -> bool {
    matches!(start.split_first_chunk::<8>(), Some((length, rest)) if rest.first_chunk().is_some_and(
        |crc| u32::from_le_bytes(*crc) == masked_crc(length)
    ))
}

/// Adds the scalars of a file, and returns a note if the last record is incomplete.
///
/// # Errors
/// When it cannot be read; a malformed record is named.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<Option<String>> {
    let mut reader = BufReader::new(open_regular(path)?);
    let mut record = Vec::new();
    for number in 1.. {
        let invalid = |what: String| Error::invalid(path, format!("record {number}: {what}"));
        let next = next_record(&mut reader, &mut record).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => invalid(e.to_string()),
            _ => isentrope_files::Error::at(path)(e).into(),
        })?;
        match next {
            Next::Record => {
                let event = Event::of(&record).ok_or_else(|| invalid("not an event".into()))?;
                event.add_to(points).map_err(invalid)?;
            }
            Next::Passed => {}
            Next::CutOff => {
                let path = path.display();
                return Ok(Some(format!("{path}: record {number} is cut off and is left out")));
            }
            Next::End => break,
        }
    }
    Ok(None)
}

enum Next {
    Record,
    Passed,
    CutOff,
    End,
}

/// Reads a record: its length, that length's checksum, its bytes, and their checksum.
fn next_record(reader: &mut impl Read, record: &mut Vec<u8>) -> io::Result<Next> {
    let mut fill = |length: u64| {
        record.clear();
        reader.by_ref().take(length).read_to_end(record)
    };
    match fill(12)? {
        0 => return Ok(Next::End),
        12 => {}
        _ => return Ok(Next::CutOff),
    }
    if record.iter().all(|byte| *byte == 0) {
        return Ok(Next::CutOff); // space that a crash has left unwritten
    }
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let (length, crc) = record.split_at(8);
    if crc != masked_crc(length).to_le_bytes() {
        return Err(wrong("the checksum of its length is wrong"));
    }
    let length = length.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let Some(with_crc) = length.checked_add(4) else { return Ok(Next::CutOff) };
    if length > MAX_RECORD {
        let passed = io::copy(&mut reader.take(with_crc), &mut io::sink())?;
        return Ok(if passed == with_crc { Next::Passed } else { Next::CutOff });
    }
    record.clear();
    if (reader.take(with_crc).read_to_end(record)? as u64) < with_crc {
        return Ok(Next::CutOff);
    }
    let crc = record.split_off(length as usize);
    if crc != masked_crc(record).to_le_bytes() {
        return Err(wrong("its checksum is wrong"));
    }
    Ok(Next::Record)
}

/// A field's value.
#[derive(Clone, Copy)]
enum Field<'a> {
    /// A varint, or eight or four bytes.
    Number(u64),
    Bytes(&'a [u8]),
}

/// Calls `take` with the fields of a message; none if the message is malformed.
fn fields<'a>(
    mut message: &'a [u8],
    mut take: impl FnMut(u64, Field<'a>) -> Option<()>,
) -> Option<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut message)?),
            1 => Field::Number(u64::from_le_bytes(*bytes(&mut message, 8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                Field::Bytes(bytes(&mut message, length)?)
            }
            5 => Field::Number(u32::from_le_bytes(*bytes(&mut message, 4)?.first_chunk()?).into()),
            _ => return None,
        };
        take(key >> 3, field)?;
    }
    Some(())
}

fn bytes<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

/// Reads a varint: seven bits per byte, the lowest first; at most ten bytes.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = *bytes(message, 1)?.first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The scalars of an `Event`.
#[derive(Default)]
struct Event<'a> {
    step: u64,
    /// Whether the writer restarts: earlier numbers from this step on are void.
    starts: bool,
    scalars: Vec<(&'a str, f64)>,
}

impl<'a> Event<'a> {
    /// None if the message is malformed.
    fn of(message: &'a [u8]) -> Option<Self> {
        let mut event = Self::default();
        fields(message, |number, field| {
            match (number, field) {
                (2, Field::Number(number)) => event.step = number,
                (5, Field::Bytes(summary)) => fields(summary, |number, field| {
                    if let (1, Field::Bytes(value)) = (number, field) {
                        event.scalars.extend(scalar(value)?);
                    }
                    Some(())
                })?,
                // SessionLog.status = START
                (7, Field::Bytes(log)) => fields(log, |number, field| {
                    event.starts |= matches!((number, field), (1, Field::Number(1)));
                    Some(())
                })?,
                _ => {}
            }
            Some(())
        })?;
        Some(event)
    }

    /// Adds the event's points. Negative steps, which trainers give to hyperparameters, are left
    /// out.
    fn add_to(&self, points: &mut Points) -> Result<(), String> {
        if i64::try_from(self.step).is_err() {
            return Ok(());
        }
        if self.starts {
            points.forget_from(self.step)?;
        }
        self.scalars.iter().try_for_each(|(tag, value)| points.add(tag, self.step, *value))
    }
}

/// The tag and number of a `Summary.Value` that has a `simple_value`. The outer None means a
/// malformed message, the inner one another kind of value.
fn scalar(message: &[u8]) -> Option<Option<(&str, f64)>> {
    let (mut tag, mut value) = (None, None);
    fields(message, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => tag = Some(std::str::from_utf8(text).ok()?),
            (2, Field::Number(bits)) => value = Some(f64::from(f32::from_bits(bits as u32))),
            _ => {}
        }
        Some(())
    })?;
    Some(tag.zip(value))
}
