//! TensorBoard's event files: a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h),
//! each an [`Event`].

use super::points::Points;
use crate::{Error, Result};
use isentrope_files::{masked_crc, open_regular};
use isentrope_run::event::{Event, Message, SessionLog};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Largest record that is read, in bytes; larger ones hold pictures or sounds and are passed over.
const MAX_RECORD: u64 = 1 << 20;

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
                let event = Event::decode(record.as_slice());
                let event = event.map_err(|_| invalid("not an event".into()))?;
                add(&event, points).map_err(invalid)?;
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

/// Adds an event's points. Negative steps, which trainers give to hyperparameters, are left out,
/// and so are values that are no numbers or have no name.
fn add(event: &Event, points: &mut Points) -> Result<(), String> {
    let Ok(step) = u64::try_from(event.step) else { return Ok(()) };
    if event.session_log.as_ref().is_some_and(|log| log.status == SessionLog::START) {
        points.forget_from(step)?;
    }
    for value in event.summary.iter().flat_map(|summary| &summary.value) {
        if let Some(number) = value.simple_value
            && !value.tag.is_empty()
        {
            points.add(&value.tag, step, f64::from(number))?;
        }
    }
    Ok(())
}
