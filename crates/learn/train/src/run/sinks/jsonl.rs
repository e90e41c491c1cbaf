//! Metrics as JSON lines: `{"step": 3, "policy/entropy": 0.31, ...}`, one object per step.

use super::appended_file::AppendedFile;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use isentrope_files::open_regular;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Longest line that is read: a hundred thousand metrics.
const MAX_LINE: u64 = 8 << 20;

/// A file with a line per step. Numbers are the shortest decimals that read back as the same f64,
/// so that equal metrics are equal bytes; NaN and infinities are null.
#[derive(Debug)]
pub struct JsonlSink(AppendedFile);

#[derive(Serialize)]
struct Row<'a> {
    step: u64,
    #[serde(flatten)]
    metrics: &'a Metrics,
}

#[derive(Deserialize)]
struct StepOfRow {
    step: u64,
}

impl JsonlSink {
    /// Starts a file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        AppendedFile::create(path.into()).map(Self)
    }

    /// Opens a file for a run that goes on after `last_step`: lines of later steps are removed, and
    /// so is a last line that was cut off. A missing file is created.
    pub fn resume(path: impl Into<PathBuf>, last_step: u64) -> Result<Self> {
        let appended = AppendedFile::open(path.into())?;
        let (path, file) = (appended.path(), appended.file());
        let (length, _) = kept(path, file, last_step)?;
        file.set_len(length).map_err(|e| Error::io(path, e))?;
        Ok(Self(appended))
    }

    /// The last step with a whole line in the file, if there is one. A missing file has none.
    pub fn last_step(path: &Path) -> Result<Option<u64>> {
        match open_regular(path).map_err(io::Error::from) {
            Ok(file) => Ok(kept(path, &file, u64::MAX)?.1),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// Appends a step's line; it is with the operating system when this returns.
    pub fn write(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        let mut line =
            serde_json::to_vec(&Row { step, metrics }).expect("names and numbers are JSON");
        line.push(b'\n');
        self.0.append(&line)
    }

    /// Waits until all lines are on the disk, so that they are there whenever a checkpoint made
    /// later is.
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    /// Puts the file back if it was removed or replaced. Returns its path if so.
    pub fn restore(&mut self) -> Result<Option<&Path>> {
        self.0.restore()
    }
}

/// Length in bytes of the lines up to `last_step`, and the last step that has a line.
fn kept(path: &Path, file: &File, last_step: u64) -> Result<(u64, Option<u64>)> {
    let mut reader = BufReader::new(file);
    let (mut kept, mut last) = (0, None);
    for number in 1.. {
        let bad = |reason: String| {
            let place = format!("{}:{number}", path.display());
            Error::Run(format!("{place}: {reason}; repair or remove the line to resume"))
        };
        let mut line = Vec::new();
        let len = reader
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|e| Error::io(path, e))?;
        if len as u64 == MAX_LINE && !line.ends_with(b"\n") {
            return Err(bad(format!("the line is longer than {} MiB", MAX_LINE >> 20)));
        }
        if !line.ends_with(b"\n") {
            break; // the end, or a line that was cut off
        }
        let StepOfRow { step } = serde_json::from_slice(&line).map_err(|e| {
            bad(format!("not a line of metrics ({})", e.to_string().replace(" at line 1", "")))
        })?;
        if step > last_step {
            break;
        }
        kept += len as u64;
        last = Some(step);
    }
    Ok((kept, last))
}
