//! Many responses judged at a time, each by one of several workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use isentrope_sandbox::Unavailable;
use serde_json::Value;

use crate::forms::Tests;
use crate::judge::Rules;
use crate::pool::Pool;
use crate::settings::CodeSettings;
use crate::test_cache::TestCache;
use crate::verdict::{Report, Verdict};

/// Most responses in a row that a failing sandbox may leave without a verdict; then judging ends
/// with an error.
const MOST_FAULTS: usize = 16;

/// Judges programs.
pub struct Judge {
    rules: Rules,
    pool: Pool,
    cache: TestCache,
    /// Faults of the sandbox since it last worked.
    faults: AtomicUsize,
}

/// The reason why programs cannot be judged: a sentence that says what to install or to enable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct JudgeError(pub(crate) String);

impl From<Unavailable> for JudgeError {
    fn from(error: Unavailable) -> Self {
        Self(error.to_string())
    }
}

impl Judge {
    /// Finds the interpreter and the sandbox, and has a worker run a program, so that anything
    /// missing is known before the first response.
    ///
    /// # Errors
    /// [`JudgeError`].
    pub fn start(settings: &CodeSettings) -> Result<Self, JudgeError> {
        Ok(Self {
            rules: Rules::new(settings),
            pool: Pool::start(settings)?,
            cache: TestCache::default(),
            faults: AtomicUsize::new(0),
        })
    }

    /// Programs that run at the same time.
    pub fn workers(&self) -> usize {
        self.pool.settings.worker_count()
    }

    /// The interpreter and sandbox that run programs, as a sentence without a full stop.
    pub fn describe(&self) -> String {
        self.pool.describe()
    }

    /// Judges each response by its tests, in the order of the batch.
    ///
    /// # Errors
    /// [`JudgeError`] when no more responses can be judged.
    pub fn judge(&self, batch: &[(&Value, &str)]) -> Result<Vec<Report>, JudgeError> {
        let judge = |(tests, response): &(&Value, &str)| match self.cache.problem(tests).tests() {
            Ok(tests) => self.response(tests, response),
            Err(what) => Ok(Report::untested(Verdict::UnusableTests(what.clone()))),
        };
        in_order(batch, self.workers(), judge)
    }

    fn response(&self, tests: &Tests, response: &str) -> Result<Report, JudgeError> {
        let report = self.pool.with_worker(|worker| self.rules.judge(worker, tests, response))?;
        if let Verdict::Fault(what) = &report.verdict {
            let faults = self.faults.fetch_add(1, Ordering::Relaxed) + 1;
            if faults >= MOST_FAULTS {
                return Err(JudgeError(format!(
                    "the sandbox failed at {faults} responses in a row; the last time: {what}"
                )));
            }
        } else {
            self.faults.store(0, Ordering::Relaxed);
        }
        Ok(report)
    }
}

/// Calls `judge` for each item on at most `threads` threads; the results, in the items' order.
///
/// # Errors
/// One of `judge`. After it no more are begun.
pub fn in_order<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    judge: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, R)>, E> {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(done) };
            done.push((
                index,
                judge(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?,
            ));
        }
    };
    let parts: Vec<Result<Vec<(usize, R)>, E>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(work)).collect();
        let own = work(); // the calling thread has a share too
        let join = |other: thread::ScopedJoinHandle<'_, _>| {
            other.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        };
        std::iter::once(own).chain(others.into_iter().map(join)).collect()
    });
    let mut done: Vec<(usize, R)> =
        parts.into_iter().collect::<Result<Vec<_>, E>>()?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, report)| report).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn answers_are_in_order_whoever_gives_them() {
        for (count, threads) in [(0, 4), (1, 4), (3, 1), (100, 7)] {
            let items: Vec<usize> = (0..count).collect();
            let squares = in_order(&items, threads, |i| Ok::<_, ()>(i * i)).unwrap();
            assert_eq!(squares, items.iter().map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let items: Vec<u64> = (0..2000).collect();
        let result = in_order(&items, 2, |i| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(*i));
            if *i == 3 { Err("no") } else { Ok(()) }
        });
        assert_eq!(result, Err("no"));
        assert!(begun.load(Ordering::Relaxed) < 100);
    }
}
