//! TensorBoard's event files: a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h),
//! each an `Event` message (tensorflow/core/util/event.proto) in protobuf's wire format.

use crate::{Error, Result};
use isentrope_files::{masked_crc, open_regular};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Largest record that is read, in bytes; larger ones hold pictures or sounds and are passed over.
const MAX_RECORD: u64 = 16 << 20;

/// An event, as far as it is of numbers.
pub(super) enum Event<'a> {
    /// The writer begins anew: numbers from this step on were lost.
    Start { step: u64 },
    /// A scalar.
    Scalar { step: u64, tag: &'a str, value: f64 },
}

/// Whether bytes begin as an event file does.
pub(super) fn is_one(start: &[u8]) -> bool {
    matches!(start.split_first_chunk::<8>(), Some((length, rest)) if rest.first_chunk().is_some_and(
        |crc| u32::from_le_bytes(*crc) == masked_crc(length)
    ))
}

/// Calls `take` with the events of a file, and returns notes: if the last record was being written,
/// if numbers are of no step.
///
/// # Errors
/// When it cannot be read; a record that is malformed, or that `take` refuses, is named.
pub(super) fn each_event(
    path: &Path,
    take: &mut dyn FnMut(Event<'_>) -> Result<(), String>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut below = Below::default();
    let mut reader = BufReader::new(open_regular(path)?);
    let mut record = Vec::new();
    for number in 1.. {
        let invalid = |what: String| Error::invalid(path, format!("record {number}: {what}"));
        let next = next_record(&mut reader, &mut record).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => invalid(e.to_string()),
            _ => Error::Io { path: path.to_owned(), source: e },
        })?;
        match next {
            Next::Record => {
                let done = events(&record, &mut below, take)
                    .ok_or_else(|| invalid("not an event".into()))?;
                done.map_err(invalid)?;
            }
            Next::Passed => {}
            Next::CutOff => {
                notes.push(format!(
                    "{}: record {number} is cut off and is left out",
                    path.display()
                ));
                break;
            }
            Next::End => break,
        }
    }
    if let Below { count: count @ 1.., first } = below {
        let numbers = if count == 1 { "number is" } else { "numbers are" };
        notes.push(format!(
            "{}: {count} {numbers} of a step below 0, such as {first}, and left out",
            path.display()
        ));
    }
    Ok(notes)
}

/// Numbers of steps below 0, which writers use for numbers without a step: torch's hyperparameters'
/// `hp_metric`.
#[derive(Default)]
struct Below {
    count: usize,
    /// The first one's name, as far as a sentence can hold it.
    first: String,
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

/// Seven bits a byte, the lowest first; at most ten bytes.
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

/// Calls `take` with the content of an `Event`. None if it is malformed.
fn events(
    message: &[u8],
    below: &mut Below,
    take: &mut dyn FnMut(Event<'_>) -> Result<(), String>,
) -> Option<Result<(), String>> {
    let (mut step, mut starts, mut scalars) = (0, false, Vec::new());
    fields(message, |number, field| {
        match (number, field) {
            (2, Field::Number(number)) => step = number,
            (5, Field::Bytes(summary)) => fields(summary, |number, field| {
                if let (1, Field::Bytes(value)) = (number, field) {
                    scalars.extend(scalar(value)?);
                }
                Some(())
            })?,
            // SessionLog.status = START
            (7, Field::Bytes(log)) => fields(log, |number, field| {
                starts |= matches!((number, field), (1, Field::Number(1)));
                Some(())
            })?,
            _ => {}
        }
        Some(())
    })?;
    if i64::try_from(step).is_err() {
        if let (0, Some((tag, _))) = (below.count, scalars.first()) {
            below.first = tag.chars().take(100).collect();
        }
        below.count += scalars.len();
        return Some(Ok(()));
    }
    let take_all = || {
        if starts {
            take(Event::Start { step })?;
        }
        scalars.into_iter().try_for_each(|(tag, value)| take(Event::Scalar { step, tag, value }))
    };
    Some(take_all())
}

/// The number of a `Summary.Value`: a `simple_value`, or a tensor of one number as TensorFlow 2 and
/// torch's new style write it. The outer none is a malformed message, the inner one a text, a
/// picture or another thing that is no scalar.
fn scalar(message: &[u8]) -> Option<Option<(&str, f64)>> {
    let (mut tag, mut value, mut is_scalar) = (None, None, true);
    fields(message, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => tag = Some(std::str::from_utf8(text).ok()?),
            (2, Field::Number(bits)) => value = Some(f64::from(f32::from_bits(bits as u32))),
            (8, Field::Bytes(tensor)) => value = value.or(tensor_scalar(tensor)?),
            // SummaryMetadata.plugin_data.plugin_name
            (9, Field::Bytes(metadata)) => {
                fields(metadata, |number, field| match (number, field) {
                    (1, Field::Bytes(plugin)) => fields(plugin, |number, field| {
                        if let (1, Field::Bytes(name)) = (number, field) {
                            is_scalar &= name == b"scalars";
                        }
                        Some(())
                    }),
                    _ => Some(()),
                })?
            }
            _ => {}
        }
        Some(())
    })?;
    Some(tag.zip(value).filter(|_| is_scalar))
}

/// The number of a `TensorProto` (tensorflow/core/framework/tensor.proto) of one float. The outer
/// none is a malformed message.
fn tensor_scalar(message: &[u8]) -> Option<Option<f64>> {
    const FLOAT: u64 = 1;
    const DOUBLE: u64 = 2;
    let (mut dtype, mut found, mut dense): (_, Vec<f64>, &[u8]) = (0, Vec::new(), &[]);
    fields(message, |number, field| {
        match (number, field) {
            (1, Field::Number(number)) => dtype = number,
            (4, Field::Bytes(bytes)) => dense = bytes,
            (5, Field::Number(bits)) => found.push(f32::from_bits(bits as u32).into()),
            (6, Field::Number(bits)) => found.push(f64::from_bits(bits)),
            // Packed.
            (5, Field::Bytes(bytes)) => found.extend(floats(bytes)),
            (6, Field::Bytes(bytes)) => found.extend(doubles(bytes)),
            _ => {}
        }
        Some(())
    })?;
    match dtype {
        FLOAT => found.extend(floats(dense)),
        DOUBLE => found.extend(doubles(dense)),
        _ => return Some(None),
    }
    Some(match found[..] {
        [value] => Some(value),
        _ => None,
    })
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into())
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes))
}
