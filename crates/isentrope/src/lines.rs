//! JSON lines in: each error names the file and the line.

use crate::paths::refuse_dangling;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

/// Longest line that is read: a context of a million tokens fits many times.
const MAX_LINE: u64 = 64 << 20;

/// How often a wait for standard input is looked up from, in milliseconds.
#[cfg(unix)]
const LOOK: u8 = 100;

/// One line of a file.
pub struct Line {
    file: PathBuf,
    number: usize,
    object: Map<String, Value>,
}

/// The objects in a file of JSON lines, one at a time; blank lines are passed over.
pub struct Lines {
    reader: Box<dyn BufRead>,
    file: PathBuf,
    /// Of the line read last, from 1.
    number: usize,
}

/// All objects in a file of JSON lines.
///
/// # Errors
/// When the file cannot be read, is empty, or a line is not a JSON object.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let lines = Lines::open(path)?.collect::<Result<Vec<Line>>>()?;
    if lines.is_empty() {
        bail!("{}: the file has no lines", path.display());
    }
    Ok(lines)
}

impl Lines {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let file = PathBuf::from("standard input");
            return Ok(Self { reader: Box::new(BufReader::new(Stdin)), file, number: 0 });
        }
        refuse_dangling(path)?;
        let file = File::open(path).with_context(|| path.display().to_string())?;
        if file.metadata().with_context(|| path.display().to_string())?.is_dir() {
            bail!("{}: is a directory, not a file of JSON lines", path.display());
        }
        let mut reader = BufReader::new(file);
        let beginning = reader.fill_buf().with_context(|| path.display().to_string())?;
        if let Some(format) = other_format(path, beginning) {
            bail!("{}: is {format}; this command reads JSON lines, one object per line", path.display());
        }
        Ok(Self { reader: Box::new(reader), file: path.to_owned(), number: 0 })
    }

    /// The bytes of the next line that is not blank.
    fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            self.number += 1;
            let mut bytes = Vec::new();
            let length = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            if length.with_context(|| self.at())? == 0 {
                return Ok(None);
            }
            if bytes.len() as u64 == MAX_LINE {
                bail!("{}: the line is longer than {} MiB", self.at(), MAX_LINE >> 20);
            }
            if !bytes.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(bytes));
            }
        }
    }

    fn at(&self) -> String {
        format!("{}:{}", self.file.display(), self.number)
    }
}

/// Standard input, whose reader does not wait for more once it has been asked to end.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        {
            use nix::errno::Errno;
            use nix::poll::{PollFd, PollFlags, poll};
            use std::os::fd::AsFd;
            let stdin = stdin();
            let mut input = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            while matches!(poll(&mut input, LOOK), Ok(0) | Err(Errno::EINTR)) {
                if crate::interrupt::requested() {
                    return Err(io::Error::other("the command has been asked to end"));
                }
            }
        }
        stdin().lock().read(buffer)
    }
}

/// What a file is that people have instead of JSON lines, by its first bytes or, of text, by its name.
fn other_format(path: &Path, beginning: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &str); 3] = [
        (b"PAR1", "a Parquet file"),
        (b"\x1f\x8b", "a gzip file"),
        (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    ];
    if let Some((_, format)) = magic.into_iter().find(|(bytes, _)| beginning.starts_with(bytes)) {
        return Some(format);
    }
    let is_object = beginning.trim_ascii_start().starts_with(b"{");
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" | "tsv" if !is_object => Some("a table of separated values"),
        _ => None,
    }
}

impl Iterator for Lines {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        let bytes = match self.next_bytes() {
            Ok(bytes) => bytes?,
            Err(error) => return Some(Err(error)),
        };
        Some(match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Line { file: self.file.clone(), number: self.number, object }),
            Ok(_) => Err(anyhow!("{}: the line is not a JSON object", self.at())),
            Err(e) => Err(anyhow!("{}: the line is not valid JSON ({})", self.at(), without_line(&e))),
        })
    }
}

/// serde_json counts lines within the text it was given, which is always line 1 here.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column", " at column").replace(" at line 2 column 0", " at its end")
}

impl Line {
    /// An error about this line.
    pub fn error(&self, what: impl std::fmt::Display) -> anyhow::Error {
        anyhow!("{}:{}: {what}", self.file.display(), self.number)
    }

    /// Which of `keys` the line has: exactly one, or an error that names them all.
    pub fn one_of(&self, keys: &[&'static str]) -> Result<&'static str> {
        let present: Vec<&'static str> =
            keys.iter().copied().filter(|&k| self.object.contains_key(k)).collect();
        match present[..] {
            [key] => Ok(key),
            [] => Err(self.error(format_args!("expected one of the keys {}", keys.join(", ")))),
            [first, second, ..] => {
                Err(self.error(format_args!("has both {first} and {second}; one is expected")))
            }
        }
    }

    /// Number of the line in its file, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// All that the line says.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    pub fn into_object(self) -> Map<String, Value> {
        self.object
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key)
    }

    pub fn text(&self, key: &str) -> Result<&str> {
        match self.object.get(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(self.error(format_args!("\"{key}\" must be a string"))),
        }
    }

    pub fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let wrong =
            || self.error(format_args!("\"{key}\" must be a list of token ids (whole numbers from 0)"));
        let Some(Value::Array(values)) = self.object.get(key) else { return Err(wrong()) };
        values.iter().map(|v| v.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)).collect()
    }

    pub fn messages(&self) -> Result<&[Value]> {
        match self.object.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() && messages.iter().all(Value::is_object) => {
                Ok(messages)
            }
            _ => Err(self.error(
                "\"messages\" must be a list of objects such as {\"role\": \"user\", \"content\": \"...\"}",
            )),
        }
    }
}
