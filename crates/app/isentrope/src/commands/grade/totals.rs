//! Totals over all lines.

use super::row::Row;
use crate::messages::counted;
use crate::visible::visible;
use anyhow::{Result, bail};
use isentrope_reward::{Judgement, Verdict};
use std::fmt::Write;
use std::time::Duration;

/// Most lines that are named one by one.
const NAMED: usize = 20;

/// Counts over lines.
#[derive(Default)]
pub struct Totals {
    lines: usize,
    counts: [usize; Verdict::ALL.len()],
    score: f64,
    scored: usize,
    /// Lines with an expectation that could be judged, and that could not.
    expected: usize,
    expected_unjudged: usize,
    /// Numbers of the lines whose verdict is not the expected one.
    disagreements: Vec<usize>,
    /// The first line that could not be judged: its number and why.
    unjudged: Option<(usize, String)>,
    /// Lines at which judging failed, which score 0, and the first: its number and why.
    failed: usize,
    first_failed: Option<(usize, String)>,
    /// Lines not judged correct whose ground truth may be at fault, and the first of them: its
    /// number and the fault.
    doubtful: usize,
    first_doubtful: Option<(usize, String)>,
}

impl Totals {
    pub fn lines(&self) -> usize {
        self.lines
    }

    pub fn add(&mut self, row: &Row, judgement: &Judgement) {
        self.lines += 1;
        for (count, verdict) in self.counts.iter_mut().zip(Verdict::ALL) {
            *count += usize::from(judgement.verdict == verdict);
        }
        let is_judged = judgement.verdict.is_scored();
        if is_judged {
            self.scored += 1;
            self.score += judgement.score;
            if judgement.failed {
                self.failed += 1;
                self.first_failed.get_or_insert_with(|| (row.number, judgement.reason.clone()));
            }
        } else if self.unjudged.is_none() {
            self.unjudged = Some((row.number, judgement.reason.clone()));
        }
        match row.expected() {
            Some(_) if !is_judged => self.expected_unjudged += 1,
            Some(expected) => {
                self.expected += 1;
                if (judgement.verdict == Verdict::Correct) != expected {
                    self.disagreements.push(row.number);
                }
            }
            None => {}
        }
    }

    /// Counts a line that was not judged correct, if its ground truth may be at fault.
    pub fn doubt(&mut self, row: &Row, concern: Option<String>) {
        let Some(concern) = concern else { return };
        self.doubtful += 1;
        self.first_doubtful.get_or_insert((row.number, concern));
    }

    /// The totals as lines of text.
    pub fn report(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let mut text = format!(
            "judged {} in {seconds:.2} s ({:.0} lines/s)",
            counted(self.lines, "line"),
            self.lines as f64 / seconds
        );
        let mut mark = ": ";
        for (&count, verdict) in
            self.counts.iter().zip(Verdict::ALL).filter(|(count, _)| **count > 0)
        {
            let name = verdict.name().replace('-', " ");
            let _ = write!(text, "{mark}{count} {name} ({:.1} %)", percent(count, self.lines));
            mark = ", ";
        }
        if self.scored > 0 {
            let _ = write!(text, "; mean score {:.4}", self.score / self.scored as f64);
        }
        text.push('\n');
        if let Some((number, reason)) = &self.unjudged {
            let _ = writeln!(
                text,
                "{} could not be judged; the first, line {number}: {}",
                self.lines - self.scored,
                reason
            );
        }
        if let Some((number, reason)) = &self.first_failed {
            let _ = writeln!(
                text,
                "{} score 0, since judging them failed; the first, line {number}: {reason}",
                self.failed
            );
        }
        if let Some((number, concern)) = &self.first_doubtful {
            let (count, concern) = (self.doubtful, visible(concern));
            let _ = writeln!(
                text,
                "{count} may be wrong for their ground truth; the first, line {number}: {concern}"
            );
        }
        if let Some(agreement) = self.agreement() {
            let _ = writeln!(text, "as expected: {agreement}");
        }
        text
    }

    /// Refuses a file if none of its lines could be judged.
    pub fn check_judged(&self) -> Result<()> {
        match self.unjudged.as_ref().or(self.first_failed.as_ref()) {
            Some((number, reason)) if self.scored == self.failed => {
                bail!("no line could be judged; the first, line {number}: {reason}")
            }
            _ => Ok(()),
        }
    }

    /// The share of verdicts that are as expected; none if no line has an expectation.
    fn agreement(&self) -> Option<String> {
        let unjudged = self.expected_unjudged;
        if self.expected == 0 {
            return (unjudged > 0).then(|| format!("none of {unjudged} could be judged"));
        }
        let agreements = self.expected - self.disagreements.len();
        let share = percent(agreements, self.expected);
        let mut text = format!("{agreements} of {} ({share:.1} %)", self.expected);
        if unjudged > 0 {
            let _ = write!(text, ", {unjudged} more could not be judged");
        }
        let named: Vec<String> =
            self.disagreements.iter().take(NAMED).map(usize::to_string).collect();
        if !named.is_empty() {
            let _ = write!(text, "; not so: line {}", named.join(", "));
        }
        let more = self.disagreements.len().saturating_sub(NAMED);
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        Some(text)
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}
