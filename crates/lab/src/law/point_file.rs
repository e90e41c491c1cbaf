//! Points from a table of anybody's: CSV with a head, or JSON lines.

use super::Point;
use super::points::Measured;
use crate::{Error, Result};
use isentrope_files::open_regular;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line of JSON that is read, in bytes.
const MAX_LINE: u64 = 8 << 20;

/// Names that are looked for where none is given, in this order.
const STEPS: &[&str] = &["step", "Step", "_step", "global_step", "train/global_step"];
const ENTROPIES: &[&str] = &["entropy", "Entropy", "H", "policy/entropy", "actor/entropy"];
const ACCURACIES: &[&str] = &["accuracy", "Accuracy", "acc", "R", "score", "reward"];

/// Columns of a table, or keys of its lines, where the usual names are not meant.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Of steps.
    pub step: Option<String>,
    /// Of entropies, in nats.
    pub entropy: Option<String>,
    /// Of accuracies.
    pub accuracy: Option<String>,
}

/// What a cell holds.
enum Cell {
    /// Nothing: it was not measured in this row.
    Empty,
    /// Not finite where JSON has null.
    Number(f64),
}

/// A row of the table.
struct Row {
    line: u64,
    step: Cell,
    entropy: Cell,
    accuracy: Cell,
}

/// Reads a table: `.csv`, or JSON lines whatever else its name. A row without entropy or without accuracy is passed over, as
/// exports of several metrics have such; without any column of steps, rows count from 0.
///
/// # Errors
/// Names the file, the line and the column of what is malformed; says which columns there are where one is missing.
pub fn read(path: &Path, columns: &Columns) -> Result<Measured> {
    let file = open_regular(path)?;
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let (names, rows) = if is_csv { csv(path, file, columns)? } else { json(path, file, columns)? };
    let Names { step, entropy, accuracy } = names;
    let (mut points, mut notes, mut passed): (Vec<Point>, _, _) = (Vec::new(), Vec::new(), 0);
    if step.is_none() {
        notes.push("there is no column of steps: rows are counted from 0".to_owned());
    }
    let at_line = |line: u64, what: String| Error::invalid(path, format!("line {line}: {what}"));
    for (number, row) in rows.into_iter().enumerate() {
        let (Cell::Number(entropy), Cell::Number(accuracy)) = (row.entropy, row.accuracy) else {
            passed += 1;
            continue;
        };
        let step = match (&step, row.step) {
            (None, _) => number as u64,
            (Some(_), Cell::Number(value)) if (0.0..9e15).contains(&value) && libm::trunc(value) == value => {
                value as u64
            }
            (Some(name), _) => {
                return Err(at_line(row.line, format!("{name:?} must be a whole number from 0")));
            }
        };
        if let Some(before) = points.last().filter(|before| before.step >= step) {
            let what = format!(
                "step {step} does not come after step {} of the row before; a file has one run, in the order of its steps",
                before.step
            );
            return Err(at_line(row.line, what));
        }
        points.push(Point { step, entropy, accuracy });
    }
    match passed {
        0 => {}
        1 => notes.push("1 row without both numbers is passed over".into()),
        rows => notes.push(format!("{rows} rows without both numbers are passed over")),
    }
    if points.is_empty() {
        return Err(Error::invalid(path, format!("no row has both {entropy:?} and {accuracy:?}")));
    }
    if points.iter().any(|p| p.accuracy > 1.5) {
        notes.push(
            "accuracies above 1: they are taken as they are, and a, b and the ceiling are in their unit (percent, if they are)"
                .into(),
        );
    }
    let set = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Measured { set, accuracy, entropy, notes, points })
}

/// The names that are read.
struct Names {
    step: Option<String>,
    entropy: String,
    accuracy: String,
}

impl Names {
    fn of(path: &Path, columns: &Columns, there: &[String]) -> Result<Self> {
        let find = |asked: &Option<String>, usual: &[&str], what: &str| match asked {
            Some(name) if there.contains(name) => Ok(Some(name.clone())),
            Some(name) => {
                let what = format!("there is no column {name:?} (--{what}); there are: {}", shown(there));
                Err(Error::invalid(path, what))
            }
            None => {
                Ok(usual.iter().find(|name| there.iter().any(|n| n == *name)).map(|name| (*name).to_owned()))
            }
        };
        let needed = |asked: &Option<String>, usual: &[&str], what: &str| {
            find(asked, usual, what)?.ok_or_else(|| {
                let what =
                    format!("which column is the {what}? Name it with --{what}; there are: {}", shown(there));
                Error::invalid(path, what)
            })
        };
        Ok(Self {
            step: find(&columns.step, STEPS, "step")?,
            entropy: needed(&columns.entropy, ENTROPIES, "entropy")?,
            accuracy: needed(&columns.accuracy, ACCURACIES, "accuracy")?,
        })
    }
}

/// Names, as far as a sentence can hold them.
fn shown(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(30).map(|name| format!("{name:?}")).collect();
    if names.len() > shown.len() {
        shown.push(format!("and {} more", names.len() - shown.len()));
    }
    shown.join(", ")
}

fn csv(path: &Path, file: File, columns: &Columns) -> Result<(Names, Vec<Row>)> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
    let failed = |error: csv::Error| Error::invalid(path, error.to_string());
    let head: Vec<String> = reader
        .headers()
        .map_err(failed)?
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}').to_owned())
        .collect();
    let names = Names::of(path, columns, &head)?;
    let place = |name: &str| head.iter().position(|there| there == name);
    let of_step = names.step.as_deref().and_then(place);
    let (of_entropy, of_accuracy) = (place(&names.entropy), place(&names.accuracy));
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(failed)?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |place: Option<usize>| match place.and_then(|place| Some((place, record.get(place)?))) {
            None | Some((_, "")) => Ok(Cell::Empty),
            Some((place, text)) => text.parse().map(Cell::Number).map_err(|_| {
                Error::invalid(
                    path,
                    format!("line {line}, column {:?}: {text:?} is not a number", head[place]),
                )
            }),
        };
        rows.push(Row {
            line,
            step: cell(of_step)?,
            entropy: cell(of_entropy)?,
            accuracy: cell(of_accuracy)?,
        });
    }
    Ok((names, rows))
}

fn json(path: &Path, file: File, columns: &Columns) -> Result<(Names, Vec<Row>)> {
    let mut reader = BufReader::new(file);
    let (mut line, mut number, mut objects) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        number += 1;
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
        if read == 0 {
            break;
        }
        let invalid = |what: String| Error::invalid(path, format!("line {number}: {what}"));
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            return Err(invalid(format!("longer than {MAX_LINE} bytes")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let object: Map<String, Value> = serde_json::from_slice(&line).map_err(|e| invalid(e.to_string()))?;
        objects.push((number, object));
    }
    let there: BTreeSet<&String> = objects.iter().flat_map(|(_, object)| object.keys()).collect();
    let names = Names::of(path, columns, &there.into_iter().cloned().collect::<Vec<_>>())?;
    let mut rows = Vec::with_capacity(objects.len());
    for (line, object) in objects {
        let cell = |name: Option<&String>| match name.and_then(|name| Some((name, object.get(name)?))) {
            None => Ok(Cell::Empty),
            Some((_, Value::Null)) => Ok(Cell::Number(f64::NAN)),
            Some((_, Value::Number(value))) => Ok(Cell::Number(value.as_f64().unwrap_or(f64::NAN))),
            Some((name, _)) => Err(Error::invalid(path, format!("line {line}: {name:?} must be a number"))),
        };
        let (entropy, accuracy) = (cell(Some(&names.entropy))?, cell(Some(&names.accuracy))?);
        rows.push(Row { line, step: cell(names.step.as_ref())?, entropy, accuracy });
    }
    Ok((names, rows))
}
