//! Judges lines in rounds. Between two rounds Ctrl-C takes effect.

use super::row::Row;
use anyhow::{Result, bail};
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierError, VerifierSettings};
use std::panic::resume_unwind;
use std::thread;

/// Most lines of a round, for each thread of a built-in verifier.
const LINES_PER_THREAD: usize = 64;

/// Most lines of a group.
const MOST_OF_GROUP: usize = 4096;

/// How many lines are judged together, and by how many threads.
pub struct Rounds {
    threads: usize,
    /// Lines of the next round: few at first, which may be all that a pipe has for now.
    size: usize,
    most: usize,
    /// Whether a round is a group: lines with one problem that follow each other.
    is_group: bool,
    /// The first line of the next group.
    next: Option<Row>,
}

impl Rounds {
    /// A command or a function judges with its own workers: more threads would only wait for them,
    /// and other numbers of lines than of workers would leave some without work.
    pub fn new(settings: &VerifierSettings, threads: usize) -> Self {
        let (threads, size, most) = match settings.workers() {
            Some(workers) => (1, workers, workers),
            None => (threads, threads, LINES_PER_THREAD * threads),
        };
        Self { threads, size, most, is_group: settings.judges_groups(), next: None }
    }

    /// The rows of the next round, none after the last.
    ///
    /// # Errors
    /// Those of `rows`; when a group is too long.
    pub fn read(&mut self, rows: &mut impl Iterator<Item = Result<Row>>) -> Result<Vec<Row>> {
        if !self.is_group {
            let round = rows.take(self.size).collect();
            self.size = (2 * self.size).min(self.most);
            return round;
        }
        let mut group: Vec<Row> = self.next.take().into_iter().collect();
        for row in rows {
            let row = row?;
            if group.last().is_some_and(|last| !last.has_problem_of(&row)) {
                self.next = Some(row);
                break;
            }
            if group.len() == MOST_OF_GROUP {
                bail!(
                    "line {}: {MOST_OF_GROUP} lines before it have its prompt and its ground \
                     truth, and reward.verifier has batch = \"group\": a group has at most so many",
                    row.number
                );
            }
            group.push(row);
        }
        Ok(group)
    }

    /// Judges all rows of a round, at least one, and returns the judgements in their order.
    pub fn judge(
        &self,
        verifier: &dyn Verifier,
        rows: &[Row],
    ) -> Result<Vec<Judgement>, VerifierError> {
        let judge = |share: &[Row]| -> Result<Vec<Judgement>, VerifierError> {
            let readable = share.iter().filter(|row| row.unreadable.is_none());
            let batch: Vec<(Item<'_>, &str)> =
                readable.map(|row| (row.item(), row.response())).collect();
            let mut judged = verifier.verify_batch(&batch)?.into_iter();
            let judgement = |row: &Row| match &row.unreadable {
                Some(what) => Some(Judgement::new(Verdict::Fault, None, what.clone())),
                None => judged.next(),
            };
            Ok(share.iter().filter_map(judgement).collect())
        };
        thread::scope(|scope| {
            let shares = rows.chunks(rows.len().div_ceil(self.threads));
            let shares: Vec<_> = shares.map(|share| scope.spawn(move || judge(share))).collect();
            let judgements = shares
                .into_iter()
                .map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic)));
            judgements.collect::<Result<Vec<_>, _>>().map(|shares| shares.concat())
        })
    }
}
