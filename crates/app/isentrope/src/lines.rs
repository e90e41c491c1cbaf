//! Reads rows of data files for the commands. Each error names the file and the line.

use crate::progress::Download;
use anyhow::{Context, Result, anyhow, bail};
use isentrope_data::{DataLocation, Error, PROMPT, Row, Rows, Split, find};
use serde_json::{Map, Value};
use std::fmt;
use std::io::{self, BufReader, ErrorKind, Read, Stdin, stdin};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// Time between two checks for signals while standard input is awaited, in milliseconds.
#[cfg(unix)]
const LOOK: u8 = 100;

/// One line of a file of JSON lines, or one row of another data file.
pub struct Line {
    at: String,
    number: usize,
    object: Map<String, Value>,
}

/// A line that is no JSON object. Later lines can still be read.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Unreadable {
    at: String,
    /// Number of the line in its file, from 1.
    pub number: usize,
    /// The reason.
    pub what: String,
}

/// The lines of a file, or of several, one at a time; blank lines are passed over.
pub struct Lines {
    current: Rows,
    file: PathBuf,
    /// The files after the current one.
    others: IntoIter<PathBuf>,
}

/// A prompt as a line gives it.
pub enum Prompt<'a> {
    Text(&'a str),
    Messages(&'a [Value]),
    Tokens(Vec<u32>),
}

/// All lines of a file, or of the files that match a pattern.
///
/// # Errors
/// When a file cannot be read, is empty, or a line is not a JSON object.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    all(path, Lines::open(path)?)
}

/// All lines of a file or a data set on the hub, named as in a recipe's `data.files`.
///
/// # Errors
/// As [`read`]; when the hub does not deliver.
pub fn read_prompts(path: &Path) -> Result<Vec<Line>> {
    match DataLocation::of(path) {
        place @ DataLocation::Hub { .. } => {
            all(path, Lines::of(place.files(Split::Train, &Download::default())?)?)
        }
        _ => read(path),
    }
}

fn all(path: &Path, lines: Lines) -> Result<Vec<Line>> {
    let lines = lines.collect::<Result<Vec<Line>>>()?;
    if lines.is_empty() {
        bail!("{}: the file has no lines", path.display());
    }
    Ok(lines)
}

impl Lines {
    /// Opens a file, the files that match a pattern, or standard input for `-`. A file whose name
    /// shows no format is read as JSON lines.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let file = PathBuf::from("standard input");
            let current = Rows::lines(BufReader::new(Patient(stdin())), &file);
            return Ok(Self { current, file, others: Vec::new().into_iter() });
        }
        match DataLocation::of(path) {
            place @ DataLocation::Pattern(_) => Self::of(place.files(Split::Train, &())?),
            _ => Self::of(vec![path.to_owned()]),
        }
    }

    /// Opens at least one file.
    fn of(files: Vec<PathBuf>) -> Result<Self> {
        let mut others = files.into_iter();
        let file = others.next().context("there is no file")?;
        Ok(Self { current: Rows::open_any(&file).map_err(plainly)?, file, others })
    }

    fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            if let Some(row) = self.current.next() {
                let (number, row) = row.map_err(plainly)?;
                let at = match self.current.unit() {
                    "line" => format!("{}:{number}", self.file.display()),
                    unit => format!("{} {unit} {number}", self.file.display()),
                };
                let object: Row =
                    row.map_err(|what| Unreadable { at: at.clone(), number, what })?;
                return Ok(Some(Line { at, number, object }));
            }
            let Some(file) = self.others.next() else { return Ok(None) };
            self.current = Rows::open_any(&file).map_err(plainly)?;
            self.file = file;
        }
    }
}

/// Standard input that does not wait for more once the process has been asked to end.
struct Patient(Stdin);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        {
            use nix::errno::Errno;
            use nix::poll::{PollFd, PollFlags, poll};
            use std::os::fd::AsFd;
            let mut input = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            while matches!(poll(&mut input, LOOK), Ok(0) | Err(Errno::EINTR)) {
                if crate::interrupt::requested() {
                    return Err(io::Error::other("the command has been asked to end"));
                }
            }
        }
        self.0.read(buffer)
    }
}

impl Iterator for Lines {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        self.next_line().transpose()
    }
}

/// A failure to read, without the recipe's keys.
fn plainly(error: Error) -> anyhow::Error {
    match error {
        Error::Io { path, source } if source.kind() == ErrorKind::InvalidInput => {
            anyhow!("{}: {source}; standard input is given as -", path.display())
        }
        Error::Io { path, source } => {
            anyhow::Error::new(source).context(path.display().to_string())
        }
        Error::File { path, problem } => anyhow!("{}: {problem}", path.display()),
        other => other.into(),
    }
}

/// The keys of a line, for a message.
pub fn keys_of(object: &Map<String, Value>) -> String {
    const LISTED: usize = 20;
    let mut keys: Vec<&str> = object.keys().take(LISTED).map(String::as_str).collect();
    if object.len() > LISTED {
        keys.push("...");
    }
    if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") }
}

impl Line {
    /// An error about this line.
    pub fn error(&self, what: impl fmt::Display) -> anyhow::Error {
        anyhow!("{}: {what}", self.at)
    }

    /// Which of `keys` the line has. It must have exactly one; the error names all of them and the
    /// keys that the line has.
    pub fn one_of(&self, keys: &[&'static str]) -> Result<&'static str> {
        match self.present(keys)[..] {
            [key] => Ok(key),
            [] => Err(self.lacks(keys)),
            [first, second, ..] => {
                Err(self.error(format_args!("has both {first} and {second}; one is expected")))
            }
        }
    }

    /// The error of a line without any of `keys`.
    fn lacks(&self, keys: &[&str]) -> anyhow::Error {
        let (expected, found) = (keys.join(", "), keys_of(&self.object));
        let which = if keys.len() == 1 { "the key" } else { "one of the keys" };
        self.error(format_args!("expected {which} {expected}; the line has {found}"))
    }

    /// The `keys` that the line has.
    fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|&key| self.get(key).is_some()).collect()
    }

    /// The prompt: the chosen column, else `prompt`, `messages` or `tokens`, or else the first
    /// column that holds the prompts of data sets. If there is a `prompt`, `messages` is the whole
    /// chat that begins with it, as in SFT data.
    pub fn prompt<'a>(&'a self, chosen: &'a Option<String>) -> Result<Prompt<'a>> {
        const OWN: [&str; 3] = ["prompt", "messages", "tokens"];
        let own = self.present(&OWN);
        let has_own = chosen.is_none() && !own.is_empty();
        let (key, value) = match find(&self.object, chosen, PROMPT) {
            Ok(found) if !has_own => found,
            Err(missing) if chosen.is_some() => {
                let found = keys_of(&self.object);
                return Err(self.error(format_args!("{missing}; the line has {found}")));
            }
            Err(_) if !has_own => {
                let others = PROMPT.iter().filter(|name| !OWN.contains(name));
                return Err(self.lacks(&OWN.iter().chain(others).copied().collect::<Vec<_>>()));
            }
            _ => {
                let key = if own == ["prompt", "messages"] { "prompt" } else { self.one_of(&OWN)? };
                (key, &self.object[key])
            }
        };
        match (key, value) {
            ("messages", _) => self.messages(key).map(Prompt::Messages),
            ("tokens", _) => self.tokens(key).map(Prompt::Tokens),
            (_, Value::String(text)) => Ok(Prompt::Text(text)),
            (_, Value::Array(_)) => {
                messages(value).map(Prompt::Messages).map_err(|what| self.wrong(key, what))
            }
            _ => Err(self.error(format_args!("\"{key}\" must be a string or a list of messages"))),
        }
    }

    /// Number of the line in its file, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The whole line.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    pub fn into_object(self) -> Map<String, Value> {
        self.object
    }

    /// The line's value at a key; None for null, which stands for a missing value in files of
    /// columns.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&self, key: &str) -> Result<&str> {
        match self.object.get(key) {
            Some(Value::String(text)) => Ok(text),
            None => Err(self.lacks(&[key])),
            Some(_) => Err(self.error(format_args!("\"{key}\" must be a string"))),
        }
    }

    pub fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let wrong = || {
            self.error(format_args!("\"{key}\" must be a list of token ids (whole numbers from 0)"))
        };
        let Some(Value::Array(values)) = self.object.get(key) else { return Err(wrong()) };
        values
            .iter()
            .map(|v| v.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong))
            .collect()
    }

    pub fn messages(&self, key: &str) -> Result<&[Value]> {
        messages(self.object.get(key).unwrap_or(&Value::Null)).map_err(|what| self.wrong(key, what))
    }

    fn wrong(&self, key: &str, what: &str) -> anyhow::Error {
        self.error(format_args!("\"{key}\" {what}"))
    }
}

/// The messages of a chat.
fn messages(value: &Value) -> Result<&[Value], &'static str> {
    match value {
        Value::Array(messages) if !messages.is_empty() && messages.iter().all(Value::is_object) => {
            Ok(messages)
        }
        _ => Err("must be a list of objects such as {\"role\": \"user\", \"content\": \"...\"}"),
    }
}
