//! What a program and its template worker say to each other: JSON in frames of a length and so many bytes.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest frame accepted, in bytes: a text of the greatest length in JSON, where a character may take six bytes.
const MAX_FRAME_BYTES: u32 = 512 << 20;

/// The sources of a model's templates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sources {
    /// Rendered unless tools are given.
    pub default: String,
    /// Rendered when tools are given.
    pub tool_use: Option<String>,
}

/// What a program asks of its worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// To compile these, and to render them from now on.
    Compile(Sources),
    /// To render a conversation.
    Render(Conversation),
}

/// What a template is rendered with. The messages and the values of the variables follow in frames of their own: parsed on
/// their own they nest no deeper than where they came from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversation {
    /// Whether the "tool_use" template is wanted.
    pub tool_use: bool,
    /// Whether the beginning of the answer is wanted.
    pub add_generation_prompt: bool,
    /// The local time that it is told, in microseconds since 1970.
    pub now: i64,
    /// Special tokens, by role.
    pub special: Vec<(String, String)>,
    /// How many messages follow.
    pub messages: usize,
    /// The names of the variables, of which the values follow.
    pub variables: Vec<String>,
}

/// Why there is no text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// The template itself refuses the conversation, at this line and for this reason.
    Refused(usize, String),
    /// The template is wrong.
    Invalid(String),
    /// Rendering takes more of something than it may.
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
