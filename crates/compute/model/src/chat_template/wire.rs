//! Messages between a program and its template worker: JSON in length-prefixed frames.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest frame, in bytes: the longest text in JSON, where a character may take six bytes.
const MAX_FRAME_BYTES: u32 = 512 << 20;

/// The sources of a model's templates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sources {
    /// Rendered unless tools are given.
    pub default: String,
    /// Rendered when tools are given.
    pub tool_use: Option<String>,
}

/// Request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Compile these sources for later requests.
    Compile(Sources),
    /// Render a conversation.
    Render(Conversation),
}

/// Input of a template. Messages and values of variables follow in frames of their own, so that
/// they nest no deeper than at their origin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversation {
    /// Whether to render the "tool_use" template.
    pub tool_use: bool,
    /// Whether to render the beginning of the answer.
    pub add_generation_prompt: bool,
    /// Local time for `strftime_now`, in microseconds since 1970.
    pub now: i64,
    /// Special tokens, by role.
    pub special: Vec<(String, String)>,
    /// Number of messages that follow.
    pub messages: usize,
    /// Names of the variables whose values follow.
    pub variables: Vec<String>,
}

/// Failure to render a text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// The template itself refuses the conversation, at this line and for this reason.
    Refused(usize, String),
    /// The template is wrong.
    Invalid(String),
    /// Rendering exceeds a limit.
    Exceeded(String),
}

/// Writes one frame.
pub(super) fn send(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)
}

/// Reads one frame.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
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
    Ok(serde_json::from_slice(&bytes)?)
}
