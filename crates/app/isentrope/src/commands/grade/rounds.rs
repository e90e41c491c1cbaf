//! Judges lines in rounds. Between two rounds Ctrl-C takes effect.

use super::row::Row;
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierError, VerifierSettings};
use std::panic::resume_unwind;
use std::thread;

/// Most lines of a round, for each thread of a built-in verifier.
const LINES_PER_THREAD: usize = 64;

/// How many lines are judged together, and by how many threads.
pub struct Rounds {
    threads: usize,
    /// Lines of the next round: few at first, which may be all that a pipe has for now.
    pub size: usize,
    most: usize,
}

impl Rounds {
    /// A command or a function judges with its own workers: more threads would only wait for them,
    /// and other numbers of lines than of workers would leave some without work.
    pub fn new(settings: &VerifierSettings, threads: usize) -> Self {
        match settings.workers() {
            Some(workers) => Self { threads: 1, size: workers, most: workers },
            None => Self { threads, size: threads, most: LINES_PER_THREAD * threads },
        }
    }

    /// Judges all rows of a round, at least one, and returns the judgements in their order.
    pub fn judge(
        &mut self,
        verifier: &dyn Verifier,
        rows: &[Row],
    ) -> Result<Vec<Judgement>, VerifierError> {
        self.size = (2 * self.size).min(self.most);
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
