//! Judging while sampling goes on.
//!
//! A verifier with workers has one thread per worker, which asks about each sampled response at
//! once, or about a group when its last response has ended. A verifier without workers computes on
//! the cores that sampling needs: it is asked about a batch of responses at a time. A verdict does
//! not depend on when it is asked for.

use crate::engine::Request;
use crate::error::{Error, Result};
use crate::judge::Judge;
use crate::observer::ProgressObserver;
use crate::questions::{CloseOnDrop, Questions};
use crate::respond::{Interrupt, RespondOutcome, ResponseEvent, ResponseId, ResponseSink};
use crate::response::Response;
use crate::sequence::Completion;
use isentrope_data::Problem;
use isentrope_trace::{name_thread, span};
use std::mem;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How often the observer is asked whether to stop while only verdicts are missing.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Takes sampled responses and gives them back judged.
pub struct JudgeQueue<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: Arc<Shared<'env>>,
    open: CloseOnDrop<Asked>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    questions: Sender<Asked>,
    answers: Receiver<Answer>,
    /// Cloned for each thread.
    answer: Sender<Answer>,
    /// The group of each request, where a verifier judges groups.
    groups: Option<Vec<OpenGroup>>,
    /// Responses for the next batch of a verifier without workers.
    pending: Vec<(ResponseId, Completion)>,
    batch: usize,
    sent: usize,
    answered: usize,
    waited: Duration,
    verdicts: Duration,
}

/// The state that the threads share with the queue.
struct Shared<'env> {
    judge: &'env Judge,
    /// The problem of each request.
    problems: &'env [&'env Problem],
    questions: Arc<Questions<Asked>>,
}

/// Responses that are judged together: one, or all to a request.
type Asked = Vec<(ResponseId, Completion)>;

/// The responses to a request that have ended.
struct OpenGroup {
    /// How many there will be.
    size: usize,
    ended: Asked,
}

struct Answer {
    id: ResponseId,
    response: Result<Response>,
    took: Duration,
}

impl<'scope, 'env> JudgeQueue<'scope, 'env> {
    /// An empty queue. `problems` has the problem of each request; `batch` is how many responses a
    /// verifier without workers judges at a time. A verifier that judges groups takes all samples
    /// that a request names for one.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        judge: &'env Judge,
        problems: &'env [&'env Problem],
        requests: &[Request],
        batch: usize,
    ) -> Self {
        let open = |request: &Request| OpenGroup { size: request.samples.len(), ended: Vec::new() };
        let groups =
            judge.verifier.judges_groups().then(|| requests.iter().map(open).collect::<Vec<_>>());
        let (questions, incoming) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let open = CloseOnDrop(Questions::new(incoming));
        Self {
            scope,
            shared: Arc::new(Shared { judge, problems, questions: open.0.clone() }),
            open,
            threads: Vec::new(),
            questions,
            answers,
            answer,
            groups,
            pending: Vec::new(),
            batch,
            sent: 0,
            answered: 0,
            waited: Duration::ZERO,
            verdicts: Duration::ZERO,
        }
    }

    /// Asks for verdicts on responses that have just been sampled.
    pub fn ask(&mut self, sampled: Vec<(ResponseId, Completion)>) -> Result<()> {
        let workers = self.shared.judge.verifier.workers();
        for sampled in sampled {
            self.sent += 1;
            if workers > 0 {
                let Some(asked) = self.complete(sampled) else { continue };
                if self.threads.len() < workers {
                    let (shared, answer) = (self.shared.clone(), self.answer.clone());
                    self.threads.push(self.scope.spawn(move || shared.judge_all(answer)));
                }
                let _ = self.questions.send(asked); // its receiver is in `shared`
            } else {
                self.pending.push(sampled);
                if self.pending.len() >= self.batch {
                    self.judge_pending()?;
                }
            }
        }
        Ok(())
    }

    /// Adds a response to its group, and returns the group if it is complete. Without groups the
    /// response is returned alone.
    fn complete(&mut self, sampled: (ResponseId, Completion)) -> Option<Asked> {
        let Some(groups) = &mut self.groups else { return Some(vec![sampled]) };
        let OpenGroup { size, ended } = &mut groups[sampled.0.request];
        ended.push(sampled);
        ended.sort_by_key(|(id, _)| *id);
        (ended.len() == *size).then(|| mem::take(ended))
    }

    /// The next response that has been judged, if there is one now.
    pub fn next_judged(&mut self) -> Result<Option<(ResponseId, Response)>> {
        self.answers.try_recv().ok().map(|answer| self.received(answer)).transpose()
    }

    /// Judges the responses that wait for a full batch, because nothing else is to do now.
    pub fn judge_incomplete_batch(&mut self) -> Result<()> {
        let begun = Instant::now();
        let judged = self.judge_pending();
        self.waited += begun.elapsed();
        judged
    }

    /// Waits for the verdicts that are missing and gives every response to `keep`. If sampling
    /// ended early (`sampled`), or the observer asks to stop where `interrupt` allows it, responses
    /// that no thread is judging yet are dropped.
    ///
    /// # Errors
    /// The error of `sampled`; else as [`ask`](Self::ask), and the errors of `keep`.
    pub fn finish<E: From<Error>>(
        mut self,
        sampled: Result<ControlFlow<()>, E>,
        interrupt: Interrupt,
        keep: ResponseSink<'_, E>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<RespondOutcome, E> {
        if !matches!(sampled, Ok(ControlFlow::Continue(()))) {
            self.open.0.close();
        }
        let _span = span("wait for verdicts");
        let begun = Instant::now();
        let threads = mem::take(&mut self.threads);
        let judged = self.judge_pending();
        let (sent, waited) = (self.sent, self.waited);
        let rest = self.keep_rest(interrupt, keep, observer);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        let sampled = sampled?;
        judged?;
        let (answered, verdicts) = rest?;
        let ended = if answered == sent { sampled } else { ControlFlow::Break(()) };
        Ok(RespondOutcome { ended, waited: waited + begun.elapsed(), verdicts })
    }

    /// Gives all responses that are still judged to `keep`. Returns how many were judged in all,
    /// and the time of their verdicts.
    fn keep_rest<E: From<Error>>(
        mut self,
        interrupt: Interrupt,
        keep: ResponseSink<'_, E>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(usize, Duration), E> {
        // Threads end when there are no more questions, and `answers` ends with the threads.
        (self.questions, self.answer) = (mpsc::channel().0, mpsc::channel().0);
        loop {
            if interrupt == Interrupt::WhenAsked && observer.stop_requested() {
                self.open.0.close();
            }
            match self.answers.recv_timeout(STOP_POLL_INTERVAL) {
                Ok(answer) => {
                    let (id, response) = self.received(answer)?;
                    keep(id, ResponseEvent::Judged(response))?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok((self.answered, self.verdicts)),
            }
        }
    }

    fn received(&mut self, answer: Answer) -> Result<(ResponseId, Response)> {
        self.answered += 1;
        self.verdicts += answer.took;
        Ok((answer.id, answer.response?))
    }

    fn judge_pending(&mut self) -> Result<()> {
        let (ids, completions): (Vec<_>, Vec<_>) = mem::take(&mut self.pending).into_iter().unzip();
        let begun = Instant::now();
        let problems = ids.iter().map(|id: &ResponseId| self.shared.problems[id.request]);
        let responses = self.shared.judge.responses(problems.zip(completions).collect())?;
        self.verdicts += begun.elapsed();
        for (id, response) in ids.into_iter().zip(responses) {
            let answer = Answer { id, response: Ok(response), took: Duration::ZERO };
            let _ = self.answer.send(answer); // its receiver is here
        }
        Ok(())
    }
}

impl Shared<'_> {
    /// The work of a thread: answers one question after another until there are no more.
    fn judge_all(&self, answer: Sender<Answer>) {
        name_thread("verification");
        while let Some(asked) = self.questions.next() {
            let begun = Instant::now();
            let (ids, completions): (Vec<ResponseId>, Vec<_>) = asked.into_iter().unzip();
            let problems = ids.iter().map(|id| self.problems[id.request]);
            let judged = self.judge.responses(problems.zip(completions).collect());
            let mut took = begun.elapsed();
            let responses: Vec<Result<Response>> = match judged {
                Ok(responses) => responses.into_iter().map(Ok).collect(),
                Err(error) => {
                    self.questions.close();
                    vec![Err(error)]
                }
            };
            for (id, response) in ids.into_iter().zip(responses) {
                if answer.send(Answer { id, response, took: mem::take(&mut took) }).is_err() {
                    return;
                }
            }
        }
    }
}
