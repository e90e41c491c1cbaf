//! Messages between a program and its template worker: JSON in length-prefixed frames.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Date;

/// Longest frame, in bytes: the longest text in JSON, where a character may take six bytes.
const MAX_FRAME_BYTES: u32 = 512 << 20;

/// Input of a template.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversation {
    /// Variables of the template, the messages among them.
    pub context: Map<String, Value>,
    /// Day for `strftime_now`.
    pub day: Date,
}

/// Failure to compile or render a template.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// The template itself refuses the conversation, at this line and for this reason.
    Refused(usize, String),
    /// The template is wrong.
    Invalid(String),
    /// Rendering exceeds a limit.
    Exceeded(String),
    /// The worker cannot be started, retired, or was killed from outside.
    NoWorker(String),
}

/// Writes one frame.
pub(super) fn send(to: &mut impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads the JSON of one frame.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    if from.take(length.into()).read_to_end(&mut bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
