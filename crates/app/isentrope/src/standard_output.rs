//! Standard output, for results. A failure to write there is an error, unless the reader has gone.

use crate::messages::{PLAIN_WIDTH, columns, fitted};
use crate::visible::visible;
use anyhow::{Result, anyhow};
use std::env;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use terminal_size::{Height, Width, terminal_size_of};

/// The reader has closed the output, as `head` does. That is no failure.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has gone")]
pub struct ReaderGone;

/// Adds the place to a write error, and distinguishes a closed reader from a failure.
pub fn failed(place: impl fmt::Display, error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow!(error).context(place.to_string()),
    }
}

/// Whether the user has not refused colours (no-color.org: an empty value refuses nothing).
pub fn allows_colors() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes text at once, control characters of a terminal included. The text must contain none that
/// are not this program's own.
pub fn draw(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|e| failed("standard output", e))
}

/// Writes text at once. A terminal gets it with control characters and direction marks escaped; a
/// file or a pipe gets it unchanged.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => draw(&visible(text)),
        false => draw(text),
    }
}

/// Columns of the terminal behind standard output; without one, `COLUMNS`, if it is set.
pub fn width() -> Option<usize> {
    if io::stdout().is_terminal() {
        return columns(terminal_size_of(io::stdout()));
    }
    let said = env::var("COLUMNS").ok()?.parse().ok()?;
    columns(Some((Width(said), Height(0))))
}

/// Columns for tables: the terminal's, but no more than in a file.
pub fn table_width() -> usize {
    width().map_or(PLAIN_WIDTH, |width| width.min(PLAIN_WIDTH))
}

/// Writes text for people at once. Lines wider than the terminal are broken between words.
pub fn print_fitted(text: &str) -> Result<()> {
    print(&fitted(text, width()))
}

/// Writes clap's help and version texts.
pub fn print_help(help: &clap::Error) -> Result<()> {
    help.print().and_then(|()| io::stdout().flush()).map_err(|e| failed("standard output", e))
}
