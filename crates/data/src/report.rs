//! What was found in data files.

use std::fmt;

/// A row with something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The row, such as `train.parquet row 17`; of files of one name with their paths.
    pub origin: String,
    /// What is wrong.
    pub problem: String,
}

/// What was found in data files. `Display` gives the counts and the first findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows read.
    pub rows: usize,
    /// Rows kept.
    pub usable: usize,
    /// Rows left out because an earlier one asks the same.
    pub duplicates: usize,
    /// Those among the duplicates whose ground truth is another than the kept row's.
    pub conflicts: Vec<Finding>,
    /// Rows left out because they have more tokens than allowed.
    pub too_long: usize,
    /// Rows that cannot be used.
    pub bad: Vec<Finding>,
    /// Rows kept of which right responses may be judged wrong, or not at all.
    pub doubtful: Vec<Finding>,
    /// Rows kept of which the model does not see everything.
    pub lossy: Vec<Finding>,
}

impl Report {
    /// Takes back a row that was thought usable.
    pub fn reject(&mut self, origin: String, problem: String) {
        self.usable = self.usable.saturating_sub(1);
        self.bad.push(Finding { origin, problem });
    }
}

/// Findings of a kind that are shown.
const SHOWN: usize = 10;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, usable, duplicates, conflicts, too_long, bad, doubtful, lossy } = self;
        write!(
            f,
            "{rows} rows: {usable} usable, {duplicates} duplicates ({} with another ground truth), {} bad",
            conflicts.len(),
            bad.len()
        )?;
        if *too_long > 0 {
            write!(f, ", {too_long} too long")?;
        }
        if !doubtful.is_empty() {
            write!(f, "; of the usable, {} whose right answers may not be found right", doubtful.len())?;
        }
        if !lossy.is_empty() {
            write!(f, "; of the usable, {} with characters that the tokenizer lacks", lossy.len())?;
        }
        for findings in [bad, conflicts, doubtful, lossy] {
            for Finding { origin, problem } in findings.iter().take(SHOWN) {
                write!(f, "\n  {origin}: {problem}")?;
            }
            if findings.len() > SHOWN {
                write!(f, "\n  and {} more like these", findings.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}
