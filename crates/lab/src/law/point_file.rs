//! Points from a table of anybody's: CSV with a head, or JSON lines.

use super::Point;
use super::points::Measured;
use crate::log::{csv_rows, lines};
use crate::{Error, Result};
use csv::StringRecord;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Most rows, and most different keys of JSON lines.
const MAX_ROWS: usize = 1_000_000;
const MAX_KEYS: usize = 20_000;

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
    /// Not finite where it says so, as Python's NaN does: the run has diverged.
    Number(f64),
}

/// What is read of a table.
struct Table {
    names: Names,
    rows: Vec<Row>,
    /// What is to be said of a last line that was being written.
    note: Option<String>,
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
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let Table { names, rows, note } = if is_csv { csv(path, columns)? } else { json(path, columns)? };
    let Names { step, entropy, accuracy } = names;
    let (mut points, mut notes, mut passed): (Vec<Point>, _, _) = (Vec::new(), Vec::from_iter(note), 0);
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
            (Some(name), cell) => {
                let whole = if let Cell::Number(value) = cell { lines::whole_f64(value) } else { None };
                let what = || at_line(row.line, format!("{name:?} must be a whole number from 0"));
                whole.ok_or_else(what)?
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
    Ok(Measured { set, part_of: None, accuracy, entropy, notes, points })
}

/// The names that are read.
struct Names {
    step: Option<String>,
    entropy: String,
    accuracy: String,
}

impl Names {
    fn of(columns: &Columns, there: &[String]) -> Result<Self, String> {
        let find = |asked: &Option<String>, usual: &[&str], what: &str| match asked {
            Some(name) if there.contains(name) => Ok(Some(name.clone())),
            Some(name) => Err(format!("there is no column {name:?} (--{what}); there are: {}", shown(there))),
            None => {
                Ok(usual.iter().find(|name| there.iter().any(|n| n == *name)).map(|name| (*name).to_owned()))
            }
        };
        let needed = |asked: &Option<String>, usual: &[&str], what: &str| {
            find(asked, usual, what)?.ok_or_else(|| {
                format!("which column is the {what}? Name it with --{what}; there are: {}", shown(there))
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

fn csv(path: &Path, columns: &Columns) -> Result<Table> {
    struct Heads {
        names: Names,
        step: Option<usize>,
        entropy: Option<usize>,
        accuracy: Option<usize>,
        head: StringRecord,
        rows: Vec<Row>,
    }
    let heads = |head: &StringRecord| {
        let there: Vec<String> = head.iter().map(str::to_owned).collect();
        let names = Names::of(columns, &there)?;
        let place = |name: &str| there.iter().position(|there| there == name);
        let (entropy, accuracy) = (place(&names.entropy), place(&names.accuracy));
        let step = names.step.as_deref().and_then(place);
        Ok(Heads { step, entropy, accuracy, names, head: head.clone(), rows: Vec::new() })
    };
    let read = csv_rows::read(path, heads, |heads, record, line| {
        let head = &heads.head;
        let cell = |place: Option<usize>| match place.and_then(|place| Some((place, record.get(place)?))) {
            None => Ok(Cell::Empty),
            Some((_, text)) if csv_rows::is_missing(text) => Ok(Cell::Empty),
            Some((place, text)) => match text.parse() {
                Ok(number) => Ok(Cell::Number(number)),
                Err(_) => {
                    let head = head.get(place).map(csv_rows::short).unwrap_or_default();
                    Err(format!("column {head:?}: {:?} is not a number", csv_rows::short(text)))
                }
            },
        };
        let (step, entropy) = (cell(heads.step)?, cell(heads.entropy)?);
        let row = Row { line, step, entropy, accuracy: cell(heads.accuracy)? };
        add(&mut heads.rows, row)
    })?;
    Ok(Table { names: read.names, rows: read.rows, note: None })
}

/// Reads the lines twice, so that no more than the numbers of the columns that are meant are held.
fn json(path: &Path, columns: &Columns) -> Result<Table> {
    let mut there = BTreeSet::new();
    let note = lines::each_row(path, &mut |row| {
        there.extend(row.into_iter().map(|(key, _)| key));
        if there.len() > MAX_KEYS { Err(format!("more than {MAX_KEYS} keys in all lines")) } else { Ok(()) }
    })?;
    if let (true, Some(note)) = (there.is_empty(), note) {
        return Err(Error::invalid(path, format!("no line is a JSON object; {note}")));
    }
    let names = Names::of(columns, &there.into_iter().collect::<Vec<_>>());
    let names = names.map_err(|what| Error::invalid(path, what))?;
    let mut rows = Vec::new();
    let note = lines::each_numbered_row(path, &mut |line, object| {
        let cell = |name: Option<&String>| match name.and_then(|name| Some((name, object.get(name)?))) {
            None => Ok(Cell::Empty),
            Some((_, Value::Null)) => Ok(Cell::Empty),
            Some((name, value)) => lines::number(value)
                .map(Cell::Number)
                .ok_or_else(|| format!("{:?} must be a number", csv_rows::short(name))),
        };
        let (entropy, accuracy) = (cell(Some(&names.entropy))?, cell(Some(&names.accuracy))?);
        add(&mut rows, Row { line, step: cell(names.step.as_ref())?, entropy, accuracy })
    })?;
    Ok(Table { names, rows, note })
}

fn add(rows: &mut Vec<Row>, row: Row) -> Result<(), String> {
    if rows.len() == MAX_ROWS {
        return Err(format!("more than {MAX_ROWS} rows"));
    }
    rows.push(row);
    Ok(())
}
