//! Findings about the rows of data files.

use std::fmt;

/// A defect of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The row, such as `train.parquet row 17`; of files of one name with their paths.
    pub origin: String,
    /// The defect.
    pub problem: String,
}

/// Rows with the same kind of defect: the count and the first rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    count: usize,
    first: Vec<Finding>,
}

/// Most findings of a kind that are kept and shown.
const SHOWN: usize = 10;

impl Findings {
    /// Adds a row.
    pub fn push(&mut self, finding: Finding) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(finding);
        }
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first rows, at most ten.
    pub fn first(&self) -> &[Finding] {
        &self.first
    }
}

impl FromIterator<Finding> for Findings {
    fn from_iter<I: IntoIterator<Item = Finding>>(findings: I) -> Self {
        let mut all = Self::default();
        all.extend(findings);
        all
    }
}

impl Extend<Finding> for Findings {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, findings: I) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }
}

/// Findings about the rows of data files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows read.
    pub rows: usize,
    /// Usable rows. Rows beyond `data.limit` are not checked for their length.
    pub usable: usize,
    /// Rows in use, which `data.limit` may make fewer than the usable; 0 outside of training.
    pub drawn: usize,
    /// Rows left out because an earlier one asks the same.
    pub duplicates: usize,
    /// Duplicates with another ground truth than the kept row's.
    pub conflicts: Findings,
    /// Rows left out because they have too many tokens.
    pub too_long: usize,
    /// Rows that cannot be used.
    pub bad: Findings,
    /// Kept rows with an unreadable column, which is taken to be null.
    pub unread: Findings,
    /// Kept rows whose right responses may be judged wrong or not at all.
    pub doubtful: Findings,
    /// Kept rows with characters that the tokenizer lacks.
    pub lossy: Findings,
}

impl Report {
    /// Counts a usable row as a bad one.
    pub fn reject(&mut self, origin: String, problem: String) {
        self.usable = self.usable.saturating_sub(1);
        self.bad.push(Finding { origin, problem });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            usable,
            drawn,
            duplicates,
            conflicts,
            too_long,
            bad,
            unread,
            doubtful,
            lossy,
        } = self;
        write!(
            f,
            "{rows} rows: {usable} usable, {duplicates} duplicates ({} with another ground \
             truth), {} bad",
            conflicts.count(),
            bad.count()
        )?;
        if *too_long > 0 {
            write!(f, ", {too_long} too long")?;
        }
        if (1..*usable).contains(drawn) {
            write!(f, "; drawn are the first {drawn} of the usable, as data.limit says")?;
        }
        if unread.count() > 0 {
            write!(f, "; of the usable, {} with a column that cannot be read", unread.count())?;
        }
        if doubtful.count() > 0 {
            write!(
                f,
                "; of the usable, {} whose right answers may not be found right",
                doubtful.count()
            )?;
        }
        if lossy.count() > 0 {
            write!(
                f,
                "; of the usable, {} with characters that the tokenizer lacks",
                lossy.count()
            )?;
        }
        for findings in [bad, conflicts, unread, doubtful, lossy] {
            for Finding { origin, problem } in findings.first() {
                write!(f, "\n  {origin}: {problem}")?;
            }
            if findings.count() > SHOWN {
                write!(f, "\n  and {} more like these", findings.count() - SHOWN)?;
            }
        }
        Ok(())
    }
}
