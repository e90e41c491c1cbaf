//! Metrics as TensorBoard's event files.
//!
//! An event file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h), each an
//! [`Event`].

use super::appended_file::AppendedFile;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use isentrope_files::masked_crc;
use isentrope_run::event::{Event, Message, SessionLog, Summary, SummaryValue};
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
        sink.append(Event { file_version: Some("brain.Event:2".into()), ..Event::default() })?;
        Ok(sink)
    }

    /// Starts another event file for a run that goes on after `last_step`. Its first event makes
    /// TensorBoard drop later steps of earlier files.
    pub fn resume(dir: &Path, last_step: u64) -> Result<Self> {
        let mut sink = Self::create(dir)?;
        let session_log = Some(SessionLog { status: SessionLog::START });
        sink.append(Event { step: last_step as i64 + 1, session_log, ..Event::default() })?;
        Ok(sink)
    }

    /// Appends a step's metrics as one event.
    pub fn write(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        let value = metrics
            .iter()
            .map(|(tag, value)| SummaryValue {
                tag: tag.to_owned(),
                simple_value: Some(value as f32),
            })
            .collect();
        let summary = Some(Summary { value });
        self.append(Event { step: step as i64, summary, ..Event::default() })
    }

    /// Puts the file back if it was removed or replaced. Returns its path if so.
    pub fn restore(&mut self) -> Result<Option<&Path>> {
        self.0.restore()
    }

    /// Appends an event with the present time, as one TFRecord.
    fn append(&mut self, event: Event) -> Result<()> {
        let event = Event { wall_time: since_epoch().as_secs_f64(), ..event }.encode_to_vec();
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
