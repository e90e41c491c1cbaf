//! Judging beside sampling: threads ask a verifier's workers about what is sampled already.
//!
//! What they find out, and for which response, does not depend on when they do.

use crate::error::{Error, Result};
use crate::judge::Judge;
use crate::observer::ProgressObserver;
use crate::peers::Place;
use crate::respond::{Responded, Taker};
use crate::response::Response;
use crate::sample::{Interrupt, Sampled, Sampler, Work};
use crate::sequence::Completion;
use isentrope_data::Problem;
use isentrope_trace::{name_thread, span};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the observer is asked whether to stop while there is nothing but verdicts to wait for.
const HEED: Duration = Duration::from_millis(100);

/// What the threads that ask have in common.
struct Bench<'a> {
    judge: &'a Judge,
    /// Of each request.
    problems: &'a [&'a Problem],
    /// Sampled, and not asked about.
    sampled: Mutex<Receiver<(Place, Completion)>>,
    /// Nothing more is to be asked about: what has not been is dropped.
    closed: AtomicBool,
}

/// A response that somebody was asked about.
struct Judged {
    place: Place,
    response: Result<Response>,
    took: Duration,
}

/// Samples, and has the verifier's workers judge meanwhile.
pub(crate) fn judge_beside<E: From<Error>>(
    sampler: Sampler<'_>,
    work: Work<'_, E>,
    problems: &[&Problem],
    (judge, workers): (&Judge, usize),
    taker: &mut Taker<'_, E>,
    observer: &mut dyn ProgressObserver,
) -> Result<Responded, E> {
    let (ask, sampled) = mpsc::channel();
    let bench = &Bench { judge, problems, sampled: Mutex::new(sampled), closed: AtomicBool::new(false) };
    thread::scope(|scope| {
        let (answer, judged) = mpsc::channel();
        let asked = work.requests.iter().map(|request| request.samples.len()).sum();
        let most = if work.peers.is_some() { usize::MAX } else { asked };
        let threads: Vec<_> = (0..workers.min(most))
            .map(|_| {
                let answer = answer.clone();
                scope.spawn(move || bench.judge_all(answer))
            })
            .collect();
        drop(answer); // so that `judged` ends with the threads
        let responded = bench.sample(sampler, work, ask, judged, taker, observer);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        responded
    })
}

impl Bench<'_> {
    /// The work of a thread: judges one response after the other until there will be no more.
    fn judge_all(&self, answer: Sender<Judged>) {
        name_thread("verification");
        loop {
            let next = self.sampled.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((place, completion)) = next else { return };
            if self.closed.load(Ordering::Relaxed) {
                continue;
            }
            let begun = Instant::now();
            let response = self.judge.response(self.problems[place.request], completion);
            if response.is_err() {
                self.closed.store(true, Ordering::Relaxed);
            }
            if answer.send(Judged { place, response, took: begun.elapsed() }).is_err() {
                return;
            }
        }
    }

    /// The work of the thread that samples: passes on what is sampled, and takes what is judged.
    fn sample<E: From<Error>>(
        &self,
        sampler: Sampler<'_>,
        work: Work<'_, E>,
        ask: Sender<(Place, Completion)>,
        judged: Receiver<Judged>,
        taker: &mut Taker<'_, E>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Responded, E> {
        let _closing = Closing(&self.closed);
        let interrupt = sampler.interrupt;
        let (mut asked, mut verdicts) = (0, Duration::ZERO);
        let mut take = |Judged { place, response, took }: Judged| {
            verdicts += took;
            taker.take(place, response?)
        };
        let each = &mut |ended: Sampled| {
            if let Some(ended) = ended {
                asked += 1;
                let _ = ask.send(ended); // never refused: `sampled` is there
            }
            judged.try_iter().try_for_each(&mut take)
        };
        let sampled = match sampler.sample(work, each, observer) {
            Ok(sampled) => sampled,
            Err(error) => {
                // What is judged need not be sampled again. The first error is told.
                let _ = judged.try_iter().try_for_each(&mut take);
                return Err(error);
            }
        };
        drop(ask);
        let _span = span("wait for verdicts");
        let begun = Instant::now();
        loop {
            if sampled.is_break() || interrupt == Interrupt::WhenAsked && observer.stop_requested() {
                self.closed.store(true, Ordering::Relaxed);
            }
            match judged.recv_timeout(HEED) {
                Ok(judged) => take(judged)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let ended = if taker.judged == asked { sampled } else { ControlFlow::Break(()) };
        Ok(Responded { ended, waited: begun.elapsed(), verdicts })
    }
}

/// Closes when it is dropped, however its scope is left: threads then end with the response that they are at.
struct Closing<'a>(&'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
