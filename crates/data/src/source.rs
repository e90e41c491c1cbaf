//! What training draws from: data files or a built-in task, by position.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;

use isentrope_files::sha256;
use isentrope_reward::VerifierSettings;

use crate::countdown::Countdown;
use crate::files::{self, FileHash, Row};
use crate::schema::Record;
use crate::{Error, Example, Finding, Order, Problem, Report, Result, Settings, Task};

/// Problems to train on, by position.
pub type Source = Records<Problem>;

/// Examples to imitate, by position.
pub type Examples = Records<Example>;

/// Records by position. A position gives the same record whatever was asked for before, so that it is all that must be
/// kept to go on.
#[derive(Clone, Debug)]
pub struct Records<T> {
    supply: Supply<T>,
    prefix: String,
    suffix: String,
}

/// How long a record may be.
#[derive(Clone, Debug)]
pub struct Longest {
    /// Tokens at most.
    pub tokens: usize,
    /// What allows no more: a key of the recipe, or "the model's context".
    pub allowed_by: &'static str,
}

#[derive(Clone, Debug)]
enum Supply<T> {
    Files { rows: Vec<T>, order: Order, hashes: Vec<FileHash> },
    Countdown { countdown: Countdown, seed: u64 },
}

impl<T: Record> Records<T> {
    /// Reads the files, all of them, or prepares the task. The report of a task is empty.
    fn read(settings: &Settings, seed: u64, from_row: &FromRow<'_, T>) -> Result<(Self, Report)> {
        settings.check()?;
        let (supply, report) = match settings.task {
            Some(Task::Countdown) => (
                Supply::Countdown { countdown: Countdown::new(&settings.countdown)?, seed },
                Report::default(),
            ),
            None => {
                let hashes = settings.files.iter().map(|path| FileHash::of(path)).collect::<Result<_>>()?;
                let (rows, report) = read_rows(settings, from_row)?;
                let count = NonZeroUsize::new(rows.len())
                    .ok_or_else(|| Error::setting("data.files", "without rows", "name files with rows"))?;
                let order = Order::new(count, seed, settings.shuffle);
                (Supply::Files { rows, order, hashes }, report)
            }
        };
        let (prefix, suffix) = (settings.prompt_prefix.clone(), settings.prompt_suffix.clone());
        Ok((Self { supply, prefix, suffix }, report))
    }

    /// How many records there are; a task has no end.
    #[allow(clippy::len_without_is_empty, reason = "there is always a record")]
    pub fn len(&self) -> Option<usize> {
        match &self.supply {
            Supply::Files { rows, .. } => Some(rows.len()),
            Supply::Countdown { .. } => None,
        }
    }

    /// The files with their content hashes; none for a task.
    pub fn files(&self) -> &[FileHash] {
        match &self.supply {
            Supply::Files { hashes, .. } => hashes,
            Supply::Countdown { .. } => &[],
        }
    }

    /// Keeps the rows of files that have tokens, and no more than fit. `tokens` counts those of a record as it will be drawn,
    /// prefix and suffix included; its errors are what is wrong with the row, which is then among the bad ones of the report.
    /// A task has no rows.
    ///
    /// # Errors
    /// When none is left.
    pub fn retain(
        &mut self,
        report: &mut Report,
        longest: &Longest,
        mut tokens: impl FnMut(&T) -> Result<usize, String>,
    ) -> Result<()> {
        let Supply::Files { rows, order, .. } = &mut self.supply else { return Ok(()) };
        let bad_before = report.bad.len();
        rows.retain(|row| {
            let mut record = row.clone();
            surround(&mut record, &self.prefix, &self.suffix);
            match tokens(&record) {
                Ok(tokens) if tokens <= longest.tokens => return true,
                Ok(_) => {
                    report.too_long += 1;
                    report.usable -= 1;
                }
                Err(problem) => report.reject(row.origin().to_owned(), problem),
            }
            false
        });
        let left = NonZeroUsize::new(rows.len())
            .ok_or_else(|| nothing_left(report.too_long, longest, &report.bad[bad_before..]))?;
        *order = order.of_rows(left);
        Ok(())
    }

    fn record(&mut self, position: u64) -> T {
        let mut record = match &mut self.supply {
            Supply::Files { rows, order, .. } => rows[order.index(position)].clone(),
            Supply::Countdown { countdown, seed } => T::generate(countdown, *seed, position),
        };
        surround(&mut record, &self.prefix, &self.suffix);
        record
    }
}

impl Records<Problem> {
    /// Reads the files, all of them, or prepares the task. Rows whose ground truth is of no use to the verifier are among
    /// the bad ones of the report; the report of a task is empty.
    ///
    /// # Errors
    /// Settings that are out of range, files that cannot be read, and files without a usable row.
    pub fn open(settings: &Settings, seed: u64, verifier: &VerifierSettings) -> Result<(Self, Report)> {
        Self::read(settings, seed, &|row, origin| Problem::from_row(row, &settings.columns, origin, verifier))
    }

    /// The problem at a position.
    pub fn problem(&mut self, position: u64) -> Problem {
        self.record(position)
    }
}

impl Records<Example> {
    /// Reads the files, all of them, or prepares the task. The report of a task is empty.
    ///
    /// # Errors
    /// Settings that are out of range, files that cannot be read, and files without a usable row.
    pub fn open(settings: &Settings, seed: u64) -> Result<(Self, Report)> {
        Self::read(settings, seed, &|row, origin| Example::from_row(row, &settings.columns, origin))
    }

    /// The example at a position.
    pub fn example(&mut self, position: u64) -> Example {
        self.record(position)
    }
}

/// Problems to measure with, at most `n`: of a task its test problems, of files the first usable rows.
///
/// # Errors
/// As [`Source::open`]; of a task also when it has fewer than `n` test problems.
pub fn evaluation_set(
    settings: &Settings,
    n: usize,
    verifier: &VerifierSettings,
) -> Result<(Vec<Problem>, Report)> {
    settings.check()?;
    let (mut problems, report) = match settings.task {
        Some(Task::Countdown) => (Countdown::new(&settings.countdown)?.test_set(n)?, Report::default()),
        None => {
            read_rows(settings, &|row, origin| Problem::from_row(row, &settings.columns, origin, verifier))?
        }
    };
    problems.truncate(n);
    for problem in &mut problems {
        problem.prompt.surround(&settings.prompt_prefix, &settings.prompt_suffix);
    }
    Ok((problems, report))
}

/// Reads a row, given where it is; an error is what is wrong with it.
type FromRow<'a, T> = dyn Fn(&Row, String) -> Result<T, String> + 'a;

fn read_rows<T: Record>(settings: &Settings, from_row: &FromRow<'_, T>) -> Result<(Vec<T>, Report)> {
    let chosen = [&settings.columns.prompt, &settings.columns.answer];
    let mut wanted = T::columns();
    wanted.push("extra_info");
    wanted.extend(chosen.into_iter().flatten().map(String::as_str));
    // A dot reaches into a column, which is then what must be read.
    let inner: Vec<&str> = wanted.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    wanted.extend(inner);

    let mut rows: Vec<T> = Vec::new();
    let mut report = Report::default();
    let mut seen: HashMap<[u8; 32], usize> = HashMap::new();
    for (path, name) in settings.files.iter().zip(files::names(&settings.files)) {
        let good_before = report.usable + report.duplicates;
        let bad_before = report.bad.len();
        let found = files::read(path, &name, &wanted, &mut |origin, row| {
            report.rows += 1;
            let record = match row.and_then(|row| from_row(&row, origin.clone())) {
                Ok(record) => record,
                Err(problem) => return report.bad.push(Finding { origin, problem }),
            };
            if settings.deduplicate {
                let kept = *seen.entry(sha256(record.identity().as_bytes())).or_insert(rows.len());
                if let Some(kept) = rows.get(kept) {
                    report.duplicates += 1;
                    if record.contradicts(kept) {
                        let problem = format!("asks what {} asks, with another ground truth", kept.origin());
                        report.conflicts.push(Finding { origin, problem });
                    }
                    return;
                }
            }
            report.usable += 1;
            rows.push(record);
        })?;
        if report.usable + report.duplicates == good_before {
            return Err(nothing_usable::<T>(path, &found, report.bad.get(bad_before)));
        }
    }
    rows.truncate(settings.limit.unwrap_or(usize::MAX));
    Ok((rows, report))
}

/// Puts the recipe's texts around a record's prompt, if it has one of its own.
fn surround<T: Record>(record: &mut T, prefix: &str, suffix: &str) {
    if let Some(prompt) = record.prompt_mut() {
        prompt.surround(prefix, suffix);
    }
}

/// That a model can use no row, and why not.
fn nothing_left(too_long: usize, longest: &Longest, bad: &[Finding]) -> Error {
    let mut reasons = Vec::new();
    if too_long > 0 {
        let Longest { tokens, allowed_by } = longest;
        reasons.push(format!("{too_long} are longer than the {tokens} tokens that {allowed_by} allows"));
    }
    if let Some(Finding { origin, problem }) = bad.first() {
        reasons.push(format!("{} cannot be used, the first, {origin}: {problem}", bad.len()));
    }
    Error::NothingLeft { reasons: reasons.join("; ") }
}

fn nothing_usable<T: Record>(path: &Path, found: &[String], first_bad: Option<&Finding>) -> Error {
    let columns = if found.is_empty() { "none".into() } else { found.join(", ") };
    let first =
        first_bad.map_or(String::new(), |bad| format!("; the first, {}: {}", bad.origin, bad.problem));
    let expected = T::EXPECTED;
    let problem = format!("no row can be used; its columns are: {columns}{first}; expected are: {expected}");
    Error::NoUsableRow { path: path.to_owned(), problem }
}
