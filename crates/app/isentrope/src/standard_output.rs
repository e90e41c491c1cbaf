//! Standard output. What is asked for goes there, so what cannot be written there is an error,
//! unless its reader has gone.

use crate::messages::{columns, fitted};
use crate::visible::visible;
use anyhow::{Result, anyhow, bail};
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use terminal_size::terminal_size_of;

/// Whether standard output was closed when the process began. The standard library puts /dev/null
/// in its place before `main`, which takes everything.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Calls [`look`] before the standard library is set up.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[allow(
    unsafe_code,
    reason = "only what runs before main can tell; `look` writes one flag and needs nothing set up"
)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[used]
static BEFORE_MAIN: extern "C" fn() = look;

#[cfg(any(target_os = "linux", target_os = "macos"))]
extern "C" fn look() {
    use std::os::fd::AsFd;
    CLOSED.store(io::stdout().as_fd().try_clone_to_owned().is_err(), Ordering::Relaxed);
}

/// Whoever reads what is written has seen enough, as `head` does, which is no failure.
#[derive(Debug)]
pub struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output has gone")
    }
}

impl std::error::Error for ReaderGone {}

/// Names the place of an error of writing, and tells a reader that has gone from a failure.
pub fn failed(place: impl fmt::Display, error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow!(error).context(place.to_string()),
    }
}

/// Checks that there is a standard output, before work is done for it.
pub fn check_open() -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        bail!("standard output is closed, so there is nowhere to print to");
    }
    Ok(())
}

/// Writes data, as they are, at once.
pub fn print(text: &str) -> Result<()> {
    check_open()?;
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|e| failed("standard output", e))
}

/// Writes text for people at once. On a terminal, what is hidden in it is shown escaped; a file or
/// a pipe gets it as it is.
pub fn print_text(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => print(&visible(text)),
        false => print(text),
    }
}

/// Columns of the terminal that it goes to, if it goes to one.
pub fn width() -> Option<usize> {
    if io::stdout().is_terminal() { columns(terminal_size_of(io::stdout())) } else { None }
}

/// Writes text for people at once, its lines broken between words where they are wider than the
/// terminal.
pub fn print_fitted(text: &str) -> Result<()> {
    print_text(&fitted(text, width()))
}

/// Writes what clap has to say on standard output: help and versions.
pub fn print_help(help: &clap::Error) -> Result<()> {
    check_open()?;
    help.print().and_then(|()| io::stdout().flush()).map_err(|e| failed("standard output", e))
}
