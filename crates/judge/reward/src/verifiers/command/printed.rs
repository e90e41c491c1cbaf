//! Shows the lines that functions and classes of the user print, one call's lines together.

use std::mem;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Most lines of a program's run that are shown.
const MOST_LINES: usize = 200;

/// Most characters of a line that are shown.
const MOST_CHARACTERS: usize = 500;

type Show = dyn Fn(&str, &str) + Send + Sync;

static SHOW: OnceLock<Box<Show>> = OnceLock::new();

/// Number of lines shown. A worker that shows lines holds the lock, so that workers take turns.
static SHOWN: Mutex<usize> = Mutex::new(0);

/// Sets `show` to show lines that functions and classes print or write to standard error, up to a
/// limit; its arguments are a word for who prints, and the line. Only the first call counts;
/// without one, lines are kept for errors alone.
pub fn show_printed(show: impl Fn(&str, &str) + Send + Sync + 'static) {
    let _ = SHOW.set(Box::new(show));
}

/// The lines of a stream that have not been shown.
pub struct PrintedLines {
    /// A word for who prints them.
    label: &'static str,
    lines: Vec<String>,
    /// The beginning of the next line.
    line: Vec<u8>,
}

impl PrintedLines {
    /// No lines, of who prints under this label.
    pub fn of(label: &'static str) -> Self {
        Self { label, lines: Vec::new(), line: Vec::new() }
    }

    /// Takes what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Only the part of a line that is shown is kept.
            let room = (4 * MOST_CHARACTERS).saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line =
            String::from_utf8_lossy(&mem::take(&mut self.line)).replace(char::is_control, " ");
        let line: String = line.trim_end().chars().take(MOST_CHARACTERS).collect();
        // One line more than is shown is kept, to know that there are more.
        if !line.is_empty() && self.lines.len() <= MOST_LINES {
            self.lines.push(line);
        }
    }

    /// Shows the lines that have come, one after the other, when a call has ended.
    pub fn show(&mut self) {
        let lines = mem::take(&mut self.lines);
        let Some(show) = SHOW.get().filter(|_| !lines.is_empty()) else { return };
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            match *shown {
                0..MOST_LINES => show(self.label, &line),
                MOST_LINES => show(self.label, "(what else is printed is not shown)"),
                _ => return,
            }
            *shown += 1;
        }
    }

    /// Shows all, when the stream has ended.
    pub fn end(&mut self) {
        self.end_line();
        self.show();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn lines_are_shown_whole_by_the_call_and_not_without_end() {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let keep = shown.clone();
        show_printed(move |label, line| {
            assert_eq!(label, "function");
            keep.lock().unwrap().push(line.to_owned());
        });
        let mut printed = PrintedLines::of("function");
        printed.push(b"  one\n\x1b[2Jtw");
        assert!(shown.lock().unwrap().is_empty(), "the call has not ended");
        printed.push(b"o\n\n");
        printed.show();
        assert_eq!(*shown.lock().unwrap(), ["  one", " [2Jtwo"]);
        printed.push(&[b'x'; 10_000]);
        printed.push(b"y\nlast");
        printed.end();
        let long = "x".repeat(MOST_CHARACTERS);
        assert_eq!(*shown.lock().unwrap(), ["  one", " [2Jtwo", &long, "last"]);
        printed.push(&b"again\n".repeat(2 * MOST_LINES));
        printed.show();
        let shown = shown.lock().unwrap();
        assert_eq!(
            (shown.len(), shown.last().unwrap().as_str()),
            (MOST_LINES + 1, "(what else is printed is not shown)")
        );
    }
}
