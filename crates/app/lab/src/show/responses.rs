//! The last responses of a run with their verdicts.

use super::tail::{last_lines, row_of};
use crate::Result;
use crate::log::lines::Row;
use crate::number::{fixed, number};
use crate::run::Run;
use crate::run_files::{EVALUATIONS, RunFiles};
use crate::terminal::{Look, Paint, wrapped};
use isentrope_files::names;
use serde_json::Value;
use std::path::PathBuf;

/// Number of first and of last lines that are kept if the middle of a prompt or response is left
/// out.
const TEXT_LINES: [usize; 2] = [8, 6];
/// As [`TEXT_LINES`], for the verifier's reason.
const REASON_LINES: [usize; 2] = [3, 1];

/// The last responses of each run, at most `count`.
pub(super) fn lines(runs: &[Run], count: usize, look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        let Some(files) = run.files().filter(|_| count > 0) else { continue };
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let whose = if runs.len() > 1 { format!(" {}", run.name) } else { String::new() };
        match read(&files, count) {
            Ok(Some((place, rows))) => {
                lines.extend(look.heading(&format!("last responses{whose}, {place}")));
                if rows.is_empty() {
                    lines.extend(
                        look.paragraph("none that is whole in the last 4 MiB of its file", 2),
                    );
                }
                if rows.iter().any(|row| row.contains_key("given_text")) {
                    lines.extend(look.paragraph("⟦sampled⟧ text; all other was given", 2));
                }
                lines.extend(shown(&rows, look));
            }
            Ok(None) => {}
            Err(error) => lines.extend(look.listed([error.to_string().as_str()])),
        }
    }
    lines
}

/// The last responses with their origin: the last rollout, or else the last evaluation.
fn read(files: &RunFiles, count: usize) -> Result<Option<(String, Vec<Row>)>> {
    let Some((place, path)) = last_file(files)? else { return Ok(None) };
    let lines = last_lines(&path, count)?;
    let below = lines.len();
    let at = |i: usize| format!("line {} from its end", below - i);
    let rows = lines.iter().enumerate().map(|(i, line)| row_of(line, &path, &at(i)));
    Ok(Some((place, rows.collect::<Result<_>>()?)))
}

fn last_file(files: &RunFiles) -> Result<Option<(String, PathBuf)>> {
    if let Some(step) = files.rollout_steps()?.last() {
        return Ok(Some((format!("step {step}"), files.rollout(*step))));
    }
    let dir = files.dir.join(EVALUATIONS);
    let of = |name: &str| {
        let (step, set) = name.strip_prefix("step-")?.strip_suffix(".jsonl")?.split_once('-')?;
        Some((step.parse::<u64>().ok()?, set.to_owned(), name.to_owned()))
    };
    let last = names(&dir)?.iter().filter_map(|name| of(name.to_str()?)).max();
    Ok(last.map(|(step, set, name)| {
        (format!("evaluation of {set} after step {step}"), dir.join(name))
    }))
}

/// Responses; a prompt stands above the responses to it.
fn shown(rows: &[Row], look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before = None;
    let marks = rows.iter().any(|row| row.contains_key("given_text"));
    for row in rows {
        let prompt = (row.get("prompt"), row.get("ground_truth"));
        if before != Some(prompt) {
            before = Some(prompt);
            let truth = prompt
                .1
                .map(|truth| format!("  (ground truth: {})", plain(truth)))
                .unwrap_or_default();
            let text = format!("{}{truth}", prompt.0.map(plain).unwrap_or_default());
            lines.extend(text_lines("> ", &text, look));
        }
        lines.extend(verdict(row, look));
        lines.extend(text_lines("    ", &response(row, marks), look));
    }
    lines
}

/// The text of a response; with `marks` each turn of the model is in them, as `--dry-run` shows
/// them.
fn response(row: &Row, marks: bool) -> String {
    let text = row.get("response").map(plain).unwrap_or_default();
    let given: Option<Vec<[usize; 2]>> =
        row.get("given_text").and_then(|given| serde_json::from_value(given.clone()).ok());
    let Some(given) = given else { return if marks { format!("⟦{text}⟧") } else { text } };
    let is_opened = given.first().is_some_and(|[from, _]| *from == 0);
    let mut shown = String::from(if is_opened { "" } else { "⟦" });
    let marks = ['⟧', '⟦'].into_iter().cycle();
    let mut ends = given.into_iter().flatten().zip(marks).skip(is_opened.into()).peekable();
    for (at, c) in text.chars().enumerate() {
        while let Some((_, mark)) = ends.next_if(|(end, _)| *end <= at) {
            shown.push(mark);
        }
        shown.push(c);
    }
    shown.push('⟧');
    shown
}

/// The verdict on a response, with its numbers.
fn verdict(row: &Row, look: &Look) -> Vec<String> {
    let verdict = row.get("verdict").and_then(Value::as_str).unwrap_or("not judged");
    let paint = match verdict {
        "correct" => Paint::Good,
        "wrong" => Paint::Bad,
        _ => Paint::Doubtful,
    };
    let mut details = Vec::new();
    let mut detail = |key: &str, show: &dyn Fn(f64) -> String| {
        details.extend(row.get(key).and_then(Value::as_f64).map(show));
    };
    detail("reward", &|reward| format!("reward {}", number(reward)));
    detail("tokens", &|tokens| format!("{} tokens", number(tokens)));
    detail("entropy", &|entropy| format!("entropy {}", fixed(entropy, 3)));
    if let Some(Value::Array(tokens)) = row.get("tokens") {
        details.push(format!("{} tokens", tokens.len()));
    }
    if row.get("truncated") == Some(&Value::Bool(true)) {
        let is_last_turn = row.get("out_of_turns") == Some(&Value::Bool(true));
        details.push(if is_last_turn { "cut off at the last turn" } else { "cut off" }.to_owned());
    }
    if row.get("greedy") == Some(&Value::Bool(true)) {
        details.push("greedy".to_owned());
    }
    if let Some(answer) = row.get("extracted").filter(|v| !v.is_null()) {
        details.push(format!("answer {}", plain(answer)));
    }
    if let Some(reason) = row.get("reason").and_then(Value::as_str).filter(|r| !r.is_empty()) {
        details.push(reason.to_owned());
    }
    let one_line = |text: &str| look.clean(&text.replace('\n', " "));
    let verdict = look.paint(paint, &one_line(verdict));
    shortened(
        look.paragraph(&format!("{verdict}: {}", one_line(&details.join(", "))), 2),
        REASON_LINES,
    )
}

/// Lines without their middle, if there are many.
fn shortened(mut lines: Vec<String>, [first, last]: [usize; 2]) -> Vec<String> {
    let skipped = lines.len().saturating_sub(first + last);
    if skipped > 1 {
        let indent = lines[0].len() - lines[0].trim_start().len();
        lines.splice(first..first + skipped, [format!("{:indent$}⋯ {skipped} lines ⋯", "")]);
    }
    lines
}

/// A text behind a mark, wrapped to the width, without its middle if it is long.
fn text_lines(mark: &str, text: &str, look: &Look) -> Vec<String> {
    let lines = wrapped(&look.clean(text.trim_end()), look.width.max(20) - mark.len());
    let blank = " ".repeat(mark.len());
    shortened(lines, TEXT_LINES)
        .iter()
        .enumerate()
        .map(|(i, line)| {
            format!("{}{line}", if i == 0 { mark } else { &blank }).trim_end().to_owned()
        })
        .collect()
}

/// A text itself, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
