//! A verifier of the user's own: a command whose processes judge responses, one JSON line in, one
//! JSON line out.
//!
//! `protocol` has the lines, `worker` one process, `processes` how workers begin and end,
//! `supervisor` what ends with them; `printed` shows what functions print. A worker
//! that does anything but answer is ended and replaced. A response at which a fresh worker fails
//! scores 0; one at which another fails is put to a fresh one, so that a judgement depends on its
//! question alone. `launch` says how a worker is started: as a command, or as
//! the shim in front of a function (`crate::python`).

mod launch;
mod printed;
mod processes;
mod protocol;
mod supervisor;
mod worker;

pub use launch::{Launch, Status};
pub(crate) use launch::{Workers, interpreter_failed};
pub use printed::show_printed;
pub use protocol::{
    Greeting, HELLO, Misconduct, check_names, greeting, one_line, rubbish, without_halves,
};
pub use supervisor::supervision;
pub use worker::{EndedWorker, Worker};

use std::fmt;
use std::iter;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isentrope_code::{Slots, in_order};
use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::{Item, Judgement, Verifier};
use protocol::Question;
use worker::Past;

/// How long a fresh worker is watched before the run begins. A program that cannot work, such as
/// one whose script is not there, mostly ends within it.
pub const WATCHED: Duration = Duration::from_millis(200);

/// Questions in a row at which fresh workers of a slot may end or be silent, before a question that
/// had an answer is asked again, and the run is stopped if it has none.
const MAX_FAILURES: u32 = 8;

/// Failures at the last 64 responses at which the run is stopped: workers that answer and then
/// fail are no better than workers that never answer.
const MAX_RECENT_FAILURES: u32 = 32;

/// Ends all workers and lets none be started any more: for a program that ends without unwinding.
pub fn kill_all() {
    processes::kill_all();
    isentrope_sandbox::kill_all();
}

/// A command whose processes judge responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments, such as `["python3", "reward.py"]`. Paths are relative to the
    /// current directory.
    pub command: Vec<String>,
    /// The processes.
    #[serde(flatten)]
    pub processes: WorkerSettings,
}

/// The processes that judge, of a command and of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerSettings {
    /// Processes that judge at the same time.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: usize,
    /// Longest time for an answer, in seconds for each response that is asked about; a worker that
    /// takes longer is replaced.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub timeout_s: f64,
    /// Time that a fresh worker may take beyond that for what it loads, in seconds.
    #[schemars(range(min = 0.0, max = 86400.0))]
    pub startup_s: f64,
    /// Whether a call judges one response or a whole group. A group stays with the rank that begins
    /// it.
    pub batch: QuestionBatch,
}

/// The responses that one call judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionBatch {
    /// One response, as soon as it has ended.
    #[default]
    Response,
    /// All responses to one prompt, in the order of their numbers, once the last has ended: for
    /// rewards that compare responses with each other.
    Group,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { workers: 2, timeout_s: 10.0, startup_s: 20.0, batch: QuestionBatch::default() }
    }
}

impl Spec for CommandSettings {
    fn build(&self, key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        let workers = Workers {
            key: format!("{key}.command"),
            value: format!("{:?}", self.command),
            launch: Launch::Command(self.command.clone()),
            settings: self.processes.clone(),
        };
        Ok(Box::new(CommandVerifier::start(workers)?))
    }

    fn check(&self, key: &str) -> Result<(), Error> {
        if self.command.first().is_some_and(|program| !program.is_empty()) {
            return Ok(());
        }
        Err(Error {
            key: format!("{key}.command"),
            value: format!("{:?}", self.command),
            expected:
                "it must be a program and its arguments, such as [\"python3\", \"reward.py\"]"
                    .into(),
        })
    }

    fn workers(&self) -> Option<usize> {
        Some(self.processes.workers)
    }

    fn files(&self) -> Vec<String> {
        self.command.clone()
    }

    fn judges_groups(&self) -> bool {
        self.processes.batch == QuestionBatch::Group
    }
}

/// A verifier cannot judge any more, or never could.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {value}: {problem}{}", tail(.stderr.as_deref()))]
pub struct VerifierError {
    /// The recipe's key.
    pub key: String,
    /// The recipe's text for that key: for a command the program and its arguments.
    pub value: String,
    /// The problem.
    pub problem: String,
    /// The end of the last worker's standard error, if there was a worker.
    pub stderr: Option<String>,
}

fn tail(stderr: Option<&str>) -> String {
    match stderr {
        None => String::new(),
        Some("") => "; it wrote nothing to standard error".into(),
        Some(text) => format!("; its standard error ends with:\n  {}", text.replace('\n', "\n  ")),
    }
}

/// The place of a worker, empty between one worker and the next.
#[derive(Default)]
struct WorkerSlot {
    worker: Option<Worker>,
    /// Questions in a row at which fresh workers ended or were silent.
    failures: u32,
    /// The last question of which all responses were judged, to find out whether the verifier still
    /// works. No judgement depends on it.
    answered: Option<Question>,
}

/// The verifier. Its processes end with it.
pub(crate) struct CommandVerifier {
    workers: Workers,
    /// The workers' notes before they are asked anything.
    notes: Vec<String>,
    slots: Slots<WorkerSlot>,
    /// The last 64 responses, a bit each, in the order in which they were done with: 1 where a
    /// worker failed.
    recent: AtomicU64,
}

impl CommandVerifier {
    /// Starts the workers.
    ///
    /// # Errors
    /// When they cannot be started, end or speak before they are asked, or have no function that
    /// can be used.
    pub(crate) fn start(workers: Workers) -> Result<Self, VerifierError> {
        let (notes, slots) = (Vec::new(), Slots::new(Vec::new()));
        let mut verifier = Self { workers, notes, slots, recent: AtomicU64::new(0) };
        for _ in 0..verifier.workers.settings.workers {
            let worker = verifier.worker()?;
            verifier.slots.all().push(WorkerSlot { worker: Some(worker), ..WorkerSlot::default() });
        }
        if verifier.workers.launch.greets() {
            verifier.notes = verifier.greet()?.into_iter().collect();
        } else {
            verifier.watch()?;
        }
        Ok(verifier)
    }

    /// Watches fresh workers for a moment.
    fn watch(&mut self) -> Result<(), VerifierError> {
        let deadline = Instant::now() + WATCHED;
        let unasked = |worker: &Worker| worker.unasked(deadline);
        let failed = self.slots.all().iter_mut().find_map(|slot| {
            let misconduct = slot.worker.as_ref().and_then(unasked)?;
            Some((misconduct, slot.worker.take()?))
        });
        match failed {
            None => Ok(()),
            Some((misconduct, worker)) => {
                let remains = worker.end(&misconduct);
                let did = with_status(&misconduct, &remains);
                let advice = advice(&misconduct, &remains, &self.workers.launch);
                let problem = format!("a worker {did} before it was asked anything{advice}");
                Err(self.error(problem, Some(remains.stderr)))
            }
        }
    }

    /// Waits until all workers have loaded their function; what they say of it.
    fn greet(&mut self) -> Result<Option<String>, VerifierError> {
        let mut says = None;
        for index in 0..self.slots.all().len() {
            let Some(mut worker) = self.slots.all()[index].worker.take() else { continue };
            match self.load(&mut worker) {
                Ok(Greeting::Hello(said)) => {
                    let Workers { key, launch, .. } = &self.workers;
                    says = Some(format!("{key}: {said}{}", launch.walls()));
                }
                Ok(Greeting::Refused(why)) => {
                    return Err(self.error(why.replace('\n', "\n  "), None));
                }
                Err(misconduct) => {
                    let remains = worker.end(&misconduct);
                    let did = with_status(&misconduct, &remains);
                    let problem = format!("a worker {did} while it loaded the function");
                    return Err(self.error(problem, Some(remains.stderr)));
                }
            }
            self.slots.all()[index].worker = Some(worker);
        }
        Ok(says)
    }

    /// Waits until a fresh worker has loaded its function.
    fn load(&self, worker: &mut Worker) -> Result<Greeting, Misconduct> {
        let limit = Duration::from_secs_f64(
            self.workers.settings.startup_s + self.workers.settings.timeout_s,
        );
        worker.ask(HELLO.into(), limit).and_then(|line| greeting(&line))
    }

    fn worker(&self) -> Result<Worker, VerifierError> {
        let longest = protocol::longest_line(self.workers.settings.batch);
        Worker::start(&self.workers.launch, longest, "function")
            .map_err(|e| self.error(self.workers.launch.failed(&e), None))
    }

    fn error(&self, problem: String, stderr: Option<String>) -> VerifierError {
        self.workers.error(problem, stderr)
    }

    /// Takes down how a worker failed at a response, if it did.
    ///
    /// # Errors
    /// When workers failed at too many of the last 64.
    fn count(&self, failure: Option<&Failure>) -> Result<(), VerifierError> {
        let add = |recent: u64| recent << 1 | u64::from(failure.is_some());
        let (Ok(before) | Err(before)) =
            self.recent
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |recent| Some(add(recent)));
        match (failure, add(before).count_ones()) {
            (Some(last), recent @ MAX_RECENT_FAILURES..) => {
                let problem =
                    format!("workers failed at {recent} of the last 64 responses; the last {last}");
                Err(self.error(problem, last.stderr.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Judges a response, or a group, by the worker of a slot. Responses at which it fails
    /// [fail](Judgement::failed).
    fn judge(
        &self,
        slot: &mut WorkerSlot,
        item: &Item<'_>,
        responses: &[&str],
    ) -> Result<Vec<Judgement>, VerifierError> {
        let judged = match responses {
            [response] => vec![self.judge_alone(slot, item, response, None)?],
            _ => self.judge_group(slot, item, responses)?,
        };
        match judged.iter().map(|judged| judged.as_ref().err()).collect::<Option<Vec<_>>>() {
            Some(failed) if failed.iter().all(|failure| failure.stderr.is_some()) => {
                slot.failures += 1;
                if let Some(last) = failed.last() {
                    self.check_slot(slot, last)?;
                }
            }
            _ => slot.failures = 0,
        }
        let judgement = |judged: Result<Judgement, Failure>| {
            judged.unwrap_or_else(|failure| Judgement::failed(failure.reason))
        };
        Ok(judged.into_iter().map(judgement).collect())
    }

    /// Checks that the verifier still works if its fresh workers have failed too often in a row.
    fn check_slot(&self, slot: &mut WorkerSlot, last: &Failure) -> Result<(), VerifierError> {
        if slot.failures < MAX_FAILURES {
            return Ok(());
        }
        slot.failures = 0;
        if let Some(answered) = slot.answered.clone()
            && self.ask(slot, &answered)?.is_ok()
        {
            return Ok(());
        }
        let problem = format!(
            "{MAX_FAILURES} fresh workers in a row failed at their first question; the last {last}"
        );
        Err(self.error(problem, last.stderr.clone()))
    }

    /// Judges a response alone, perhaps because a worker failed at its group.
    fn judge_alone(
        &self,
        slot: &mut WorkerSlot,
        item: &Item<'_>,
        response: &str,
        of_group: Option<&Failure>,
    ) -> Result<Result<Judgement, Failure>, VerifierError> {
        let question = self.question(item, &[response]);
        let asked = match of_group {
            Some(failure) => self.ask(slot, &question.again(&failure.reason))?,
            None => self.ask(slot, &question)?,
        };
        self.count(asked.as_ref().err())?;
        let judged = self.settle(slot, &question, asked)?;
        Ok(judged.map(|mut judgements| judgements.remove(0)))
    }

    /// Judges a group. Where a worker fails at it, each response is put alone; the others than
    /// those at which the verifier fails are then a group without them. If it fails at that too, it
    /// fails at all. That takes at most four times the time of a group, and what workers take to
    /// start.
    fn judge_group(
        &self,
        slot: &mut WorkerSlot,
        item: &Item<'_>,
        responses: &[&str],
    ) -> Result<Vec<Result<Judgement, Failure>>, VerifierError> {
        let failure = match self.ask(slot, &self.question(item, responses))? {
            Err(failure) => failure,
            Ok(judgements) => {
                responses.iter().try_for_each(|_| self.count(None))?;
                return Ok(judgements.into_iter().map(Ok).collect());
            }
        };
        let alone =
            responses.iter().map(|response| self.judge_alone(slot, item, response, Some(&failure)));
        let mut judged = alone.collect::<Result<Vec<_>, VerifierError>>()?;
        let others: Vec<&str> =
            responses.iter().zip(&judged).filter(|(_, j)| j.is_ok()).map(|(r, _)| *r).collect();
        if others.is_empty() {
            return Ok(judged);
        }
        let question = self.question(item, &others);
        let asked = self.ask(slot, &question)?;
        let together: Vec<_> = match self.settle(slot, &question, asked)? {
            Ok(judgements) => judgements.into_iter().map(Ok).collect(),
            Err(failure) => {
                others.iter().try_for_each(|_| self.count(Some(&failure)))?;
                iter::repeat_n(failure, others.len()).map(Err).collect()
            }
        };
        let places = judged.iter_mut().filter(|judged| judged.is_ok());
        places.zip(together).for_each(|(place, judgement)| *place = judgement);
        Ok(judged)
    }

    /// The answer to a question, by a fresh worker if the one that was asked failed and another
    /// question may be the cause.
    fn settle(
        &self,
        slot: &mut WorkerSlot,
        question: &Question,
        asked: Result<Vec<Judgement>, Failure>,
    ) -> Result<Result<Vec<Judgement>, Failure>, VerifierError> {
        let failure = match asked {
            Err(failure) if !failure.is_of_question => failure,
            settled => return Ok(settled),
        };
        if let Some(worker) = slot.worker.take() {
            worker.dismiss(Instant::now());
        }
        self.ask(slot, &question.again(&failure.reason))
    }

    fn question(&self, item: &Item<'_>, responses: &[&str]) -> Question {
        let Workers { launch, settings, .. } = &self.workers;
        Question::new(item, responses, settings.batch, launch.greets())
    }

    /// Asks the worker of a slot, a fresh one if need be. A worker that does anything but answer is
    /// ended.
    fn ask(
        &self,
        slot: &mut WorkerSlot,
        question: &Question,
    ) -> Result<Result<Vec<Judgement>, Failure>, VerifierError> {
        let greets = self.workers.launch.greets();
        let (mut worker, loaded) = match slot.worker.take() {
            Some(worker) => (worker, Ok(())),
            None => {
                let mut worker = self.worker()?;
                // Loading has a time of its own. What cannot be loaded any more fails at the
                // question.
                let loaded = if greets { self.load(&mut worker).map(drop) } else { Ok(()) };
                (worker, loaded)
            }
        };
        let past = mem::replace(&mut worker.past, Past::Failed);
        let WorkerSettings { timeout_s, startup_s, .. } = self.workers.settings;
        let startup = if greets || past != Past::Unasked { 0.0 } else { startup_s };
        let limit = Duration::from_secs_f64(timeout_s * question.responses() as f64 + startup);
        let asked = loaded.and_then(|()| worker.ask(question.line.clone(), limit));
        match asked.and_then(|line| protocol::answer(&line, question)) {
            Ok(judgements) => {
                worker.past = Past::Answered;
                if judgements.iter().all(|judgement| judgement.verdict.is_scored()) {
                    slot.answered = Some(question.clone());
                }
                slot.worker = Some(worker);
                Ok(Ok(judgements))
            }
            Err(Misconduct::Failed(reason)) => {
                slot.worker = Some(worker);
                let is_of_question = past != Past::Failed || self.workers.launch.judges_apart();
                Ok(Err(Failure::of_function(reason, is_of_question)))
            }
            Err(misconduct) => {
                let remains = worker.end(&misconduct);
                let is_of_question = past == Past::Unasked;
                let launch = &self.workers.launch;
                Ok(Err(Failure::of_worker(&misconduct, remains, launch, is_of_question)))
            }
        }
    }
}

/// How a worker failed at a question. `Display` follows "the last", of workers.
#[derive(Clone)]
struct Failure {
    what: String,
    /// As the reason of a judgement.
    reason: String,
    /// Whether the question is the cause: the worker was fresh, or it raised an error at this
    /// question after it had answered the one before. What ends a worker may be left of any
    /// question before, and an error may be left of one at which there was an error.
    is_of_question: bool,
    /// The end of the standard error of a worker that has ended.
    stderr: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Failure {
    /// That of a function whose worker goes on.
    fn of_function(reason: String, is_of_question: bool) -> Self {
        let what = Misconduct::Failed(reason.clone()).to_string();
        Self { what, reason, is_of_question, stderr: None }
    }

    /// That of a worker that has been ended.
    fn of_worker(
        misconduct: &Misconduct,
        remains: EndedWorker,
        launch: &Launch,
        is_of_question: bool,
    ) -> Self {
        let advice = advice(misconduct, &remains, launch);
        Self {
            what: format!("{}{advice}", with_status(misconduct, &remains)),
            reason: format!("the worker {}{advice}", with_last_words(misconduct, &remains)),
            is_of_question,
            stderr: Some(remains.stderr),
        }
    }
}

/// A worker's misconduct, as it follows "the worker", with the status of one that ended.
fn with_status(misconduct: &Misconduct, remains: &EndedWorker) -> String {
    match (misconduct, &remains.status) {
        (Misconduct::Ended, Some(status)) => format!("{misconduct} ({status})"),
        (Misconduct::Ended, None) => "closed its standard output".to_owned(),
        _ => misconduct.to_string(),
    }
}

/// The misconduct in one line, as it follows "the worker", with the last words of a worker that
/// ended.
pub fn with_last_words(misconduct: &Misconduct, remains: &EndedWorker) -> String {
    let did = with_status(misconduct, remains);
    match remains.stderr.lines().last() {
        Some(line) if *misconduct == Misconduct::Ended => format!("{did}: {line}"),
        _ => did,
    }
}

/// Advice for a program that ended as if its work were done, such as one that answers a single
/// line.
fn advice(misconduct: &Misconduct, remains: &EndedWorker, launch: &Launch) -> &'static str {
    match (misconduct, launch) {
        (Misconduct::Ended, Launch::Command(_)) if remains.seems_done() => {
            "; a worker must read lines until its standard input ends"
        }
        _ => "",
    }
}

impl Verifier for CommandVerifier {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        if self.judges_groups() {
            let Some((item, _)) = batch.first() else { return Ok(Vec::new()) };
            let responses: Vec<&str> = batch.iter().map(|(_, response)| *response).collect();
            return self.judge(&mut self.slots.take().slot, item, &responses);
        }
        let judged = in_order(batch, self.workers(), |(item, response)| {
            self.judge(&mut self.slots.take().slot, item, &[response])
        })?;
        Ok(judged.into_iter().flatten().collect())
    }

    fn judges_groups(&self) -> bool {
        self.workers.settings.batch == QuestionBatch::Group
    }

    fn workers(&self) -> usize {
        self.workers.settings.workers.max(1)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl Drop for CommandVerifier {
    fn drop(&mut self) {
        let slots = mem::take(self.slots.all());
        Worker::dismiss_all(slots.into_iter().filter_map(|slot| slot.worker));
    }
}
