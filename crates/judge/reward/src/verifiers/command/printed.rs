//! Shows the lines that functions print while they judge.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most lines of a program's run that are shown.
const MOST_LINES: usize = 200;

/// Most characters of a line that are shown.
const MOST_CHARACTERS: usize = 500;

type Show = dyn Fn(&str) + Send + Sync;

static SHOW: OnceLock<Box<Show>> = OnceLock::new();

/// Lines that have been shown.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// Has lines that functions print, or write to standard error, shown by `show`, as many as are of
/// use. Only the first call counts; without one they are kept for errors alone.
pub fn show_printed(show: impl Fn(&str) + Send + Sync + 'static) {
    let _ = SHOW.set(Box::new(show));
}

/// A stream as lines. Each is shown when it is complete.
#[derive(Default)]
pub struct PrintedLines {
    line: Vec<u8>,
}

impl PrintedLines {
    /// Takes what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Only as much of a line is kept as is shown.
            let room = (4 * MOST_CHARACTERS).saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end();
            }
        }
    }

    /// Shows what has come of a line.
    pub fn end(&mut self) {
        let line = String::from_utf8_lossy(&self.line).replace(char::is_control, " ");
        let line = line.trim_end();
        self.line.clear();
        let Some(show) = SHOW.get().filter(|_| !line.is_empty()) else { return };
        match SHOWN.fetch_add(1, Ordering::Relaxed) {
            0..MOST_LINES => show(&line.chars().take(MOST_CHARACTERS).collect::<String>()),
            MOST_LINES => show("(what else is printed is not shown)"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn lines_are_shown_whole_and_not_without_end() {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let keep = shown.clone();
        show_printed(move |line| keep.lock().unwrap().push(line.to_owned()));
        let mut printed = PrintedLines::default();
        printed.push(b"  one\n\x1b[2Jtw");
        printed.push(b"o\n\n");
        printed.push(&[b'x'; 10_000]);
        printed.push(b"y\nlast");
        printed.end();
        let long = "x".repeat(MOST_CHARACTERS);
        assert_eq!(*shown.lock().unwrap(), ["  one", " [2Jtwo", &long, "last"]);
        printed.push(&b"again\n".repeat(2 * MOST_LINES));
        let shown = shown.lock().unwrap();
        assert_eq!(
            (shown.len(), shown.last().unwrap().as_str()),
            (MOST_LINES + 1, "(what else is printed is not shown)")
        );
    }
}
