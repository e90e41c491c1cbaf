//! Judging lines in rounds, so that Ctrl-C, which is heeded between them, need not wait long.

use super::row::Row;
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierError, VerifierSettings};
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

/// Most lines that are in memory together, for each thread.
const LINES_PER_THREAD: usize = 512;

/// Responses that a verifier is given at a time. A built-in one has no threads of its own for so
/// few.
const BATCH: usize = 64;

/// After a round that took longer than this the next is smaller.
const LONG: Duration = Duration::from_millis(250);

/// How many lines are judged together: few at first, more while that takes no time.
pub struct Rounds {
    threads: usize,
    batch: usize,
    fewest: usize,
    most: usize,
    size: usize,
}

impl Rounds {
    /// A command or a function judges with its own workers: more threads would only wait for them,
    /// and fewer lines than workers would leave some without work.
    pub fn new(settings: &VerifierSettings, threads: usize) -> Self {
        match settings.workers() {
            Some(workers) => {
                let batch = BATCH.max(workers);
                Self { threads: 1, batch, fewest: workers, most: batch, size: workers }
            }
            None => {
                let most = LINES_PER_THREAD * threads;
                Self { threads, batch: BATCH, fewest: threads, most, size: threads }
            }
        }
    }

    /// Lines of the next round.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The judgements of all rows of a round, which are at least one, in their order.
    pub fn judge(
        &mut self,
        verifier: &dyn Verifier,
        rows: &[Row],
    ) -> Result<Vec<Judgement>, VerifierError> {
        let begun = Instant::now();
        let judge = |share: &[Row]| -> Result<Vec<Judgement>, VerifierError> {
            let mut judgements = Vec::with_capacity(share.len());
            for rows in share.chunks(self.batch) {
                let readable = rows.iter().filter(|row| row.unreadable.is_none());
                let batch: Vec<(Item<'_>, &str)> =
                    readable.map(|row| (row.item(), row.response())).collect();
                let mut judged = verifier.verify_batch(&batch)?.into_iter();
                judgements.extend(rows.iter().filter_map(|row| match &row.unreadable {
                    Some(what) => Some(Judgement::new(Verdict::Fault, None, what.clone())),
                    None => judged.next(),
                }));
            }
            Ok(judgements)
        };
        let judgements = thread::scope(|scope| {
            let shares = rows.chunks(rows.len().div_ceil(self.threads));
            let shares: Vec<_> = shares.map(|share| scope.spawn(move || judge(share))).collect();
            let judgements = shares
                .into_iter()
                .map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic)));
            judgements.collect::<Result<Vec<_>, _>>().map(|shares| shares.concat())
        })?;
        self.took(begun.elapsed());
        Ok(judgements)
    }

    fn took(&mut self, time: Duration) {
        self.size =
            if time > LONG { self.size / 2 } else { self.size * 2 }.clamp(self.fewest, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rounds(verifier: &serde_json::Value, threads: usize) -> Rounds {
        Rounds::new(&serde_json::from_value(verifier.clone()).unwrap(), threads)
    }

    #[test]
    fn rounds_grow_while_they_are_short_and_shrink_when_they_are_long() {
        let command = json!({"command": ["a"], "workers": 3});
        let many = json!({"weighted": [
            {"verifier": "math", "weight": 1}, {"verifier": {"command": ["a"], "workers": 100}, "weight": 1}
        ]});
        for (verifier, fewest, most) in
            [(json!("math"), 2, 1024), (command, 3, 64), (many, 100, 100)]
        {
            let mut rounds = rounds(&verifier, 2);
            assert_eq!(rounds.size(), fewest, "{verifier}");
            for _ in 0..12 {
                rounds.took(Duration::from_millis(1));
            }
            assert_eq!(rounds.size(), most, "{verifier}");
            rounds.took(Duration::from_secs(1));
            assert_eq!(rounds.size(), (most / 2).max(fewest), "{verifier}");
            for _ in 0..12 {
                rounds.took(Duration::from_secs(1));
            }
            assert_eq!(rounds.size(), fewest, "{verifier}");
        }
    }
}
