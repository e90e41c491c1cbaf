//! Answers in `\boxed{...}` and `\fbox{...}`.

use std::collections::HashSet;

use super::super::phrases::has;
use super::super::phrases::hedges::ANOTHER;
use super::super::phrases::statements::{AND, ENDS_LIST, OR};
use super::denial::denies_next;
use super::operand::{ends_in_operator, takes_operand};
use super::segments::{Segment, segments};

/// A box that is complete.
#[derive(Clone, Copy, Debug)]
struct Box {
    /// Start of its command.
    start: usize,
    /// Start and end of its content.
    content: (usize, usize),
}

/// The content of a text's last complete box: of nested ones, the one that opens last.
pub fn last_boxed(text: &str) -> Option<&str> {
    boxes(text).iter().rev().map(|found| content(text, found)).find(|content| !is_blank(content))
}

/// The content of the last box and of the boxes in one list with it, and the place where they end.
pub fn last_boxes(text: &str) -> Option<(String, usize)> {
    let boxes = boxes(text);
    // In "It is \\boxed{5}, not \\boxed{6}." the last box is denied. If all are denied, the answer
    // is [`DENIED`].
    let is_filled = |found: &Box| !is_blank(content(text, found));
    let place =
        boxes.iter().rposition(|found| is_filled(found) && !denies_next(&text[..found.start]));
    let Some(place) = place else {
        return boxes
            .iter()
            .rfind(|found| is_filled(found))
            .map(|last| (DENIED.into(), last.content.1 + 1));
    };
    let last = boxes[place];
    let mut group = vec![last];
    for &previous in boxes[..place].iter().rev() {
        let next = group[group.len() - 1];
        if previous.content.1 >= next.start || !joins(&text[previous.content.1 + 1..next.start]) {
            break;
        }
        group.push(previous);
    }
    let mut contents: Vec<&str> = Vec::with_capacity(group.len());
    let mut seen = HashSet::new();
    for found in group.iter().rev() {
        let content = content(text, found).trim();
        if !is_blank(content) && seen.insert(content) {
            contents.push(content);
        }
    }
    Some((contents.join(", "), last.content.1 + 1))
}

/// Stands for the answer of a text that denies its boxes.
const DENIED: &str = "denied";

/// The content of a box that is never closed: as much as there is.
pub fn open_box(text: &str) -> Option<&str> {
    ["\\boxed{", "\\fbox{"]
        .iter()
        .filter_map(|command| text.rfind(command).map(|at| at + command.len()))
        .max()
        .map(|start| &text[start..])
}

/// A text up to the first box that is never closed.
pub fn before_open_box(text: &str) -> &str {
    let (_, open) = scan(text);
    open.into_iter().find_map(|(_, command)| command).map_or(text, |start| &text[..start])
}

/// The word behind a `\boxed` without braces.
pub fn bare_box(text: &str) -> Option<(String, usize)> {
    let start = text.rfind("\\boxed ")? + "\\boxed ".len();
    let word = text[start..].split(|c: char| c.is_whitespace() || c == '$').next()?;
    let word = word.trim_end_matches(['.', ',']);
    (!word.is_empty() && !word.starts_with('{')).then(|| (word.to_owned(), start + word.len()))
}

fn content<'t>(text: &'t str, found: &Box) -> &'t str {
    &text[found.content.0..found.content.1]
}

/// Whether a box is only a placeholder, as in a repeated instruction: `\boxed{}`, `\boxed{...}`.
fn is_blank(content: &str) -> bool {
    let is_mark = |c: char| c == '…' || c.is_ascii() && !c.is_ascii_alphanumeric() && c != '\\';
    matches!(content.trim(), "\\ldots" | "\\dots" | "\\cdots") || content.chars().all(is_mark)
}

/// The complete boxes in the order in which they open, without those that are only operands of a
/// formula.
fn boxes(text: &str) -> Vec<Box> {
    let (mut found, _) = scan(text);
    found.sort_unstable_by_key(|found| found.start);
    let formulas = if found.is_empty() { Vec::new() } else { segments(text) };
    found.retain(|found| !is_operand(text, &formulas, found));
    found
}

/// Whether the formula around a box computes with its content: `\frac{1}{\boxed{5}}`,
/// `-\boxed{5}`, `10^{\boxed{5}}`, `$\boxed{5}!$`.
fn is_operand(text: &str, formulas: &[Segment], found: &Box) -> bool {
    let (before, after) = (&text[..found.start], &text[found.content.1 + 1..]);
    if let Some(outer) = before.trim_end_matches(' ').strip_suffix('{') {
        return takes_operand(outer);
    }
    // "so-\boxed{5}" and "--\boxed{5}" have no sign.
    let is_signed = |rest: &str| !rest.ends_with(|c: char| c == '-' || c.is_alphabetic());
    if before.strip_suffix('-').is_some_and(is_signed) {
        return true;
    }
    let place = formulas.partition_point(|formula| formula.start <= found.start);
    let Some(formula) = place.checked_sub(1).map(|place| formulas[place]) else { return false };
    if formula.content.1 <= found.content.1 {
        return false;
    }
    let before = &text[formula.content.0..found.start];
    let after = after[..formula.content.1 - found.content.1 - 1].trim();
    let is_raised = after
        .strip_prefix('^')
        .is_some_and(|power| !power.trim_start_matches([' ', '{']).starts_with("\\circ"));
    is_raised || after == "!" || before.trim_end().ends_with('-') || ends_in_operator(before)
}

/// The complete boxes of a text; and for each brace that is never closed, the start of its content,
/// and its command if it is a box's. Escaped braces are text.
fn scan(text: &str) -> (Vec<Box>, Vec<(usize, Option<usize>)>) {
    let mut found = Vec::new();
    let mut open = Vec::new();
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => open.push((place + 1, command_start(&text[..place]))),
            b'}' => {
                if let Some((content, Some(start))) = open.pop() {
                    found.push(Box { start, content: (content, place) });
                }
            }
            _ => {}
        }
    }
    (found, open)
}

/// Start of the command of a box whose brace comes after the text.
fn command_start(text: &str) -> Option<usize> {
    let text = text.trim_end_matches(' ');
    ["\\boxed", "\\fbox"]
        .iter()
        .find(|command| text.ends_with(*command))
        .map(|command| text.len() - command.len())
}

/// Longest text between two boxes of one list, in bytes.
const MAX_GAP: usize = 60;

/// Whether the text between two boxes makes them one list: "and", a comma, nothing, with perhaps a
/// few words or a name for the next.
fn joins(gap: &str) -> bool {
    if gap.len() > MAX_GAP {
        return false;
    }
    let lower = gap.to_ascii_lowercase();
    let mut said =
        lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).peekable();
    // "\\boxed{1}. Alternatively, \\boxed{2}" gives both.
    if said.peek().is_some() && said.all(|word| has(ANOTHER, word)) {
        return true;
    }
    if gap.contains(". ") || gap.contains(".\n") || gap.contains("\n\n") {
        return false;
    }
    let (mut joined, mut names_list) = (false, false);
    let mut words = 0;
    for word in gap.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            AND | OR => (joined, names_list) = (true, true),
            "quad" | "qquad" | "text" | "textbf" | "textrm" | "mathrm" | "mbox" => {}
            word if has(ENDS_LIST, word) => return false,
            // The name before the next box: x =.
            name if name.len() <= 2 => {}
            _ => words += 1,
        }
    }
    // Adjacent boxes in one formula are a list.
    joined |= gap.contains([',', ';', '&', '+']) || !gap.contains(['$', '(', ')', '[', ']', '\n']);
    joined && words <= if names_list { 4 } else { 0 }
}
