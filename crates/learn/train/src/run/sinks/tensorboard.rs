//! Metrics as TensorBoard's event files.
//!
//! An event file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h), each an
//! `Event` message (tensorflow/core/util/event.proto) in protobuf's wire format.

use super::appended_file::AppendedFile;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use isentrope_files::masked_crc;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The prefix of the names of event files.
const PREFIX: &str = "events.out.tfevents.";

/// An event file in a run's directory. Values are single precision, as TensorBoard keeps them.
#[derive(Debug)]
pub struct TensorBoardSink(AppendedFile);

impl TensorBoardSink {
    /// Creates an event file in a directory, which is made if missing.
    pub fn create(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        // TensorBoard reads a directory's files in the order of their names: a new one must come
        // last.
        let seconds = since_epoch().as_secs().max(latest(dir)?.map_or(0, |latest| latest + 1));
        let name = format!("{PREFIX}{seconds:010}.{}.{}", host(), std::process::id());
        let mut sink = Self(AppendedFile::create(dir.join(name))?);
        sink.event(0, &bytes_field(3, b"brain.Event:2"))?; // Event.file_version
        Ok(sink)
    }

    /// Starts another event file for a run that goes on after `last_step`. Its first event makes
    /// TensorBoard drop later steps of earlier files.
    pub fn resume(dir: &Path, last_step: u64) -> Result<Self> {
        let mut sink = Self::create(dir)?;
        let start = varint_field(1, 1); // SessionLog.status = START
        sink.event(last_step + 1, &bytes_field(7, &start))?; // Event.session_log
        Ok(sink)
    }

    /// Appends a step's metrics as one event.
    pub fn write(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in metrics.iter() {
            let mut message = bytes_field(1, tag.as_bytes()); // Summary.Value.tag
            message.push(key(2, FIXED32)); // Summary.Value.simple_value
            message.extend((value as f32).to_le_bytes());
            summary.extend(bytes_field(1, &message)); // Summary.value
        }
        self.event(step, &bytes_field(5, &summary)) // Event.summary
    }

    /// Puts the file back if it was removed or replaced. Returns its path if so.
    pub fn restore(&mut self) -> Result<Option<&Path>> {
        self.0.restore()
    }

    /// Writes an event with this content and the present time, as one TFRecord.
    fn event(&mut self, step: u64, what: &[u8]) -> Result<()> {
        let mut event = vec![key(1, FIXED64)]; // Event.wall_time, seconds
        event.extend(since_epoch().as_secs_f64().to_le_bytes());
        event.extend(varint_field(2, step)); // Event.step
        event.extend(what);
        let len = (event.len() as u64).to_le_bytes();
        let record =
            [&len[..], &masked_crc(&len).to_le_bytes(), &event, &masked_crc(&event).to_le_bytes()]
                .concat();
        self.0.append(&record)
    }
}

/// Time since 1970; a clock set before that counts as 1970.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The greatest time in the name of an event file of a directory, in seconds.
fn latest(dir: &Path) -> Result<Option<u64>> {
    let mut latest = None;
    for entry in fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
        let name = entry.map_err(|e| Error::io(dir, e))?.file_name();
        let time = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok());
        latest = latest.max(time);
    }
    Ok(latest)
}

/// The machine's name, with the characters that may stand between the dots of the file's name.
fn host() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    isentrope_ranks::host().chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// A field's number and wire type in one byte, which the numbers used here fit.
fn key(number: u8, wire_type: u8) -> u8 {
    number << 3 | wire_type
}

fn varint_field(number: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![key(number, VARINT)];
    varint(&mut bytes, value);
    bytes
}

fn bytes_field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![key(number, BYTES)];
    varint(&mut bytes, value.len() as u64);
    bytes.extend(value);
    bytes
}

/// Appends a varint: seven bits per byte, the lowest first.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
