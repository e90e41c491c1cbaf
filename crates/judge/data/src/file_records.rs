//! Records that are read from data files.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;

use isentrope_files::sha256;

use crate::file_hash::FileHash;
use crate::rows::{self, Row, Rows};
use crate::schema::Record;
use crate::{Columns, DataSettings, Error, Finding, Order, Report, Result};

/// The usable rows of files, in the order in which they are drawn.
#[derive(Debug)]
pub(crate) struct FileRecords<T> {
    /// The rows in use, then replacements for rows too long for the model.
    rows: Vec<T>,
    /// Most rows in use.
    limit: usize,
    order: Order,
    hashes: Vec<FileHash>,
}

/// How long a record may be.
#[derive(Clone, Debug)]
pub struct Longest {
    /// Tokens at most.
    pub tokens: usize,
    /// Origin of the limit: a key of the recipe, or "the model's context".
    pub allowed_by: &'static str,
}

impl<T: Record> FileRecords<T> {
    pub(crate) fn read(
        settings: &DataSettings,
        seed: u64,
        reader: &RowReader<'_, T>,
    ) -> Result<(Self, Report)> {
        let hashes = settings.files.iter().map(|path| FileHash::of(path)).collect::<Result<_>>()?;
        let (rows, mut report) = read_rows(settings, usize::MAX, reader)?;
        let limit = settings.limit.unwrap_or(usize::MAX);
        let count = NonZeroUsize::new(rows.len().min(limit))
            .ok_or_else(|| Error::setting("data.files", "without rows", "name files with rows"))?;
        let order = Order::new(count, seed, settings.shuffle);
        report.drawn = count.get();
        Ok((Self { rows, limit, order, hashes }, report))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len().min(self.limit)
    }

    /// The rows in use.
    pub(crate) fn rows(&self) -> &[T] {
        &self.rows[..self.len()]
    }

    pub(crate) fn hashes(&self) -> &[FileHash] {
        &self.hashes
    }

    /// The row at a position, which counts on over epochs.
    pub(crate) fn at(&mut self, position: u64) -> T {
        self.rows[self.order.index(position)].clone()
    }

    /// Keeps the first rows of at most `longest` tokens, up to the limit. An error of `tokens` says
    /// why the row is unusable.
    ///
    /// # Errors
    /// When none is left.
    pub(crate) fn retain(
        &mut self,
        report: &mut Report,
        longest: &Longest,
        mut tokens: impl FnMut(&T) -> Result<usize, String>,
    ) -> Result<()> {
        let (mut kept, mut bad, mut first_bad) = (0, 0, None);
        self.rows.retain(|row| {
            if kept == self.limit {
                return false;
            }
            match tokens(row) {
                Ok(tokens) if tokens <= longest.tokens => {
                    kept += 1;
                    return true;
                }
                Ok(_) => {
                    report.too_long += 1;
                    report.usable -= 1;
                }
                Err(problem) => {
                    bad += 1;
                    first_bad.get_or_insert_with(|| format!("{}: {problem}", row.origin()));
                    report.reject(row.origin().to_owned(), problem);
                }
            }
            false
        });
        let left = NonZeroUsize::new(self.rows.len())
            .ok_or_else(|| nothing_left(report.too_long, longest, bad, first_bad))?;
        report.drawn = left.get();
        self.order = self.order.of_rows(left);
        Ok(())
    }
}

/// How rows become records.
pub(crate) struct RowReader<'a, T> {
    /// Columns to read besides the settings' own. A row with an unreadable one is bad.
    pub columns: Vec<&'static str>,
    /// Columns to read if possible, since rows may need them; None for all others.
    pub further: Option<Vec<&'static str>>,
    /// Expected columns, for messages.
    pub expected: &'a str,
    /// Largest row, in bytes, if larger than usual.
    pub row_bytes: Option<usize>,
    /// Makes a record of a row and its origin. An error is the row's defect.
    pub read: &'a dyn Fn(&Row, String) -> Result<T, String>,
}

impl<'a, T: Record> RowReader<'a, T> {
    /// Reads the layouts of training data, with these further columns; None for all.
    pub(crate) fn usual(
        read: &'a dyn Fn(&Row, String) -> Result<T, String>,
        further: Option<Vec<&'static str>>,
    ) -> Self {
        Self { columns: T::columns(), further, expected: T::EXPECTED, row_bytes: None, read }
    }
}

/// Reads all rows and keeps the first `most` usable ones.
pub(crate) fn read_rows<T: Record>(
    settings: &DataSettings,
    most: usize,
    reader: &RowReader<'_, T>,
) -> Result<(Vec<T>, Report)> {
    let Columns { prompt, answer, hint } = &settings.columns;
    let chosen = [prompt, answer, hint];
    let mut wanted: Vec<&str> = reader.columns.clone();
    wanted.push("extra_info");
    wanted.extend(chosen.into_iter().flatten().map(String::as_str));
    // A dot reaches into a column: read the whole column.
    let inner: Vec<&str> = wanted.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    wanted.extend(inner);

    let mut rows: Vec<T> = Vec::new();
    let mut report = Report::default();
    let mut seen: HashMap<[u8; 32], usize> = HashMap::new();
    for (path, name) in settings.files.iter().zip(rows::names(&settings.files)) {
        let good_before = report.usable + report.duplicates;
        let mut first_bad = None;
        let mut read = Rows::open(path, &wanted, reader.further.as_deref())?;
        if let Some(bytes) = reader.row_bytes {
            read.allow_rows_of(bytes);
        }
        let unit = read.unit();
        while let Some(next) = read.next() {
            let (number, row) = next?;
            let origin = format!("{name} {unit} {number}");
            report.rows += 1;
            let record = match row.and_then(|row| (reader.read)(&row, origin.clone())) {
                Ok(record) => record,
                Err(mut problem) => {
                    // The row may lack this column.
                    for unreadable in read.unreadable() {
                        problem += &format!("; {unreadable}");
                    }
                    first_bad.get_or_insert_with(|| format!("{origin}: {problem}"));
                    report.bad.push(Finding { origin, problem });
                    continue;
                }
            };
            if settings.deduplicate {
                let kept = *seen.entry(sha256(record.identity().as_bytes())).or_insert(rows.len());
                if let Some(kept) = rows.get(kept) {
                    report.duplicates += 1;
                    if record.contradicts(kept) {
                        let problem =
                            format!("asks what {} asks, with another ground truth", kept.origin());
                        report.conflicts.push(Finding { origin, problem });
                    }
                    continue;
                }
            }
            report.usable += 1;
            if let Some(problem) = read.unreadable().next() {
                report.unread.push(Finding {
                    origin: record.origin().to_owned(),
                    problem: problem.to_owned(),
                });
            }
            // Later rows may be duplicates of these, so the rows are kept until all are read.
            if settings.deduplicate || rows.len() < most {
                rows.push(record);
            }
        }
        if report.usable + report.duplicates == good_before {
            return Err(nothing_usable(path, &read.columns(), first_bad, reader.expected));
        }
    }
    rows.truncate(most);
    Ok((rows, report))
}

/// The error that no row is left, with the reasons.
fn nothing_left(
    too_long: usize,
    longest: &Longest,
    bad: usize,
    first_bad: Option<String>,
) -> Error {
    let mut reasons = Vec::new();
    if too_long > 0 {
        let Longest { tokens, allowed_by } = longest;
        reasons.push(format!(
            "{too_long} are longer than the {tokens} tokens that {allowed_by} allows"
        ));
    }
    if let Some(first) = first_bad {
        reasons.push(format!("{bad} cannot be used, the first, {first}"));
    }
    Error::NothingLeft { reasons: reasons.join("; ") }
}

fn nothing_usable(path: &Path, found: &[&str], first_bad: Option<String>, expected: &str) -> Error {
    if found.is_empty() && first_bad.is_none() {
        let problem = format!("is empty, without a row; expected are rows with: {expected}");
        return Error::NoUsableRow { path: path.to_owned(), problem };
    }
    let columns = if found.is_empty() { "none".into() } else { found.join(", ") };
    let first = first_bad.map_or(String::new(), |bad| format!("; the first, {bad}"));
    let problem =
        format!("no row can be used; its columns are: {columns}{first}; expected are: {expected}");
    Error::NoUsableRow { path: path.to_owned(), problem }
}
