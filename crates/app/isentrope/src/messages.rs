//! Messages on standard error. A failure to write one is ignored, so that the work goes on when the
//! reader is gone or a log's disk is full.

use crate::visible::capped;
use std::io::{IsTerminal, Write, stderr};
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

/// The indentation of a message's lines after the first.
const HANGING: usize = 2;
/// Lines are not wrapped for narrower terminals.
const NARROWEST: usize = 20;

/// Prints the reason why the program ends.
pub fn error(text: &str) {
    labelled("error", text);
}

/// Prints a warning.
pub fn warning(text: &str) {
    labelled("warning", text);
}

/// Prints a note.
pub fn note(text: &str) {
    labelled("note", text);
}

/// Prints the kind of the message, then the message. Its other lines are indented, so that none of
/// them can be taken for a message of its own.
pub fn labelled(label: &str, text: &str) {
    let text = capped(text.trim_end());
    let lines: Vec<String> =
        text.split('\n')
            .enumerate()
            .map(|(i, line)| {
                if i > 0 && !line.starts_with("  ") { format!("  {line}") } else { line.to_owned() }
            })
            .collect();
    write(&format!("{label}: {}", lines.join("\n")));
}

/// A count with its noun: `1 step`, `2 steps`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Prints lines of text unchanged.
pub fn say(text: &str) {
    write(&capped(text));
}

/// Columns of tables and lists where there is no terminal, such as in a file.
pub const PLAIN_WIDTH: usize = 80;

/// Columns of the terminal behind standard error, if there is one.
pub fn width() -> Option<usize> {
    if stderr().is_terminal() { columns(terminal_size_of(stderr())) } else { None }
}

/// Columns of a terminal of this size; None if it is too narrow to wrap lines for.
pub fn columns(size: Option<(Width, Height)>) -> Option<usize> {
    let (Width(width), _) = size?;
    Some(usize::from(width)).filter(|width| *width >= NARROWEST)
}

fn write(text: &str) {
    let mut text = fitted(text, width());
    text.push('\n');
    let _ = stderr().write_all(text.as_bytes());
}

/// The lines of a text, broken between words to fit a terminal.
pub fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split('\n').map(|line| wrapped(line, width)).collect::<Vec<_>>().join("\n")
}

/// Wraps a line between words to `width` columns. Further lines are indented a little more than the
/// first. A word that is wider stays whole, so that a path can be copied, and so does a command in
/// backquotes.
pub fn wrapped(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    let hanging = if indent + HANGING < width / 2 { indent + HANGING } else { 0 };
    let mut text = line[..indent].to_owned();
    let (mut column, mut is_first) = (indent, true);
    for word in words(&line[indent..]) {
        let wide = word.width();
        if is_first {
            is_first = false;
        } else if column + 1 + wide <= width {
            text.push(' ');
            column += 1;
        } else {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
            text.push_str(&" ".repeat(hanging));
            column = hanging;
        }
        text.push_str(word);
        column += wide;
    }
    text
}

/// Words, separated by spaces outside of backquotes.
fn words(line: &str) -> impl Iterator<Item = &str> {
    // The number of backquotes still to come. An odd last one encloses nothing.
    let mut backquotes = line.matches('`').count() / 2 * 2;
    line.split(move |c| {
        if c == '`' {
            backquotes = backquotes.saturating_sub(1);
        }
        c == ' ' && backquotes.is_multiple_of(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_broken_between_words_and_indented_below() {
        let line = "error: the quick brown fox jumps over the lazy dog";
        assert_eq!(wrapped(line, 80), line);
        assert_eq!(wrapped(line, 24), "error: the quick brown\n  fox jumps over the\n  lazy dog");
        assert_eq!(
            wrapped("    a bb ccc dddd eeeee ffffff", 20),
            "    a bb ccc dddd\n      eeeee ffffff"
        );
        assert_eq!(
            wrapped("to /a/very/long/path/that/stays/whole it", 20),
            "to\n  /a/very/long/path/that/stays/whole\n  it"
        );
        // Columns, not characters.
        assert_eq!(wrapped("漢字漢字 漢字漢字 漢字漢字", 20), "漢字漢字 漢字漢字\n  漢字漢字");
    }

    #[test]
    fn what_backquotes_enclose_stays_on_one_line() {
        let line =
            "  MPI               yes: `/usr/bin/mpirun -n 2 isentrope doctor` shows the ranks";
        let broken =
            "  MPI               yes:\n    `/usr/bin/mpirun -n 2 isentrope doctor` shows the ranks";
        assert_eq!(wrapped(line, 60), broken);
        assert_eq!(
            wrapped(
                "it is fetched by `isentrope doctor --install-cuda`, or by `pip install x`; then try again",
                30
            ),
            "it is fetched by\n  `isentrope doctor --install-cuda`,\n  or by `pip install x`; then\n  try again"
        );
        // One that has no partner.
        assert_eq!(
            wrapped("`a b` the quick ` brown fox jumps", 20),
            "`a b` the quick `\n  brown fox jumps"
        );
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_line_too_wide(text in "[a-zé漢` ]{0,200}", width in NARROWEST..100) {
            let shown = wrapped(&text, width);
            let bare = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(bare(&shown), bare(&text));
            let fits = |line: &str| words(line.trim_start()).count() == 1 || line.width() <= width;
            prop_assert!(shown.lines().all(fits), "{:?}", shown);
        }
    }
}
