//! A verifier of the user's own: a command whose processes judge responses, one JSON line in, one
//! JSON line out.
//!
//! `protocol` has the lines, `worker` one process, `processes` how workers begin and end,
//! `supervisor` what ends with them; `printed` shows what functions print. A worker
//! that does anything but answer is ended and replaced, and the next is asked again: a response at
//! which the second fails too scores 0. `launch` says how a worker is started: as a command, or as
//! the shim in front of a function (`crate::python`).

mod launch;
mod printed;
mod processes;
mod protocol;
mod supervisor;
mod worker;

pub(crate) use launch::{Launch, Workers, interpreter_failed};
pub use printed::show_printed;
pub use supervisor::supervision;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use isentrope_code::{Slots, in_order};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::{Error, Item, Judgement, Verdict, Verifier};
use protocol::{Greeting, Misconduct, Question};
use worker::{EndedWorker, Worker};

/// How long a fresh worker is watched before the run begins. A program that cannot work, such as
/// one whose script is not there, mostly ends within it.
const WATCHED: Duration = Duration::from_millis(200);

/// How long workers may take to end by themselves when the run is over.
const GRACE: Duration = Duration::from_secs(2);

/// Workers that may fail at their first question, one after the other in the same slot, before the
/// run is stopped.
const MAX_FAILURES: u32 = 8;

/// Failures among the last 64 questions at which the run is stopped: workers that answer and then
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
    /// Longest time for an answer, in seconds; a worker that takes longer is replaced, and the next
    /// is asked again.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub timeout_s: f64,
    /// Time that a fresh worker may take beyond that for what it loads, in seconds.
    #[schemars(range(min = 0.0, max = 86400.0))]
    pub startup_s: f64,
    /// Whether a call judges one response or a whole group; `timeout_s` is the time of a call. A
    /// group stays with the rank that begins it.
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
    /// Workers in a row that failed before they had answered anything.
    failures: u32,
    /// The last question of which all responses were judged.
    answered: Option<Question>,
}

/// The verifier. Its processes end with it.
pub(crate) struct CommandVerifier {
    workers: Workers,
    /// The workers' notes before they are asked anything.
    notes: Vec<String>,
    slots: Slots<WorkerSlot>,
    /// The last 64 questions, a bit each, in the order in which they were done with: 1 where the
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
        worker.ask(protocol::HELLO.into(), limit).and_then(|line| protocol::greeting(&line))
    }

    fn worker(&self) -> Result<Worker, VerifierError> {
        let longest = protocol::longest_line(self.workers.settings.batch);
        Worker::start(&self.workers.launch, longest)
            .map_err(|e| self.error(self.workers.launch.failed(&e), None))
    }

    fn error(&self, problem: String, stderr: Option<String>) -> VerifierError {
        self.workers.error(problem, stderr)
    }

    /// Takes down whether a worker failed at its question; how many of the last 64 that makes.
    fn recent_failures(&self, failed: bool) -> u32 {
        let add = |recent: u64| recent << 1 | u64::from(failed);
        let (Ok(before) | Err(before)) =
            self.recent
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |recent| Some(add(recent)));
        add(before).count_ones()
    }

    /// Judges a response, or a group, by the worker of a slot.
    ///
    /// A worker that fails at it (its function raises an error; it ends, is silent or prints no
    /// answer) is replaced, and the fresh one is asked again. If that fails too, the last question
    /// that had an answer is asked once more. If it has one again, or there is none yet, the
    /// verifier works, and [the response fails](Judgement::failed); else it is not judged.
    fn judge(
        &self,
        slot: &mut WorkerSlot,
        item: &Item<'_>,
        responses: &[&str],
    ) -> Result<Vec<Judgement>, VerifierError> {
        let question = self.question(item, responses);
        let first = match self.ask(slot, &question)? {
            Ok(judgements) => {
                self.recent_failures(false);
                return Ok(judgements);
            }
            Err(failure) => failure,
        };
        let recent = self.recent_failures(true);
        if recent >= MAX_RECENT_FAILURES {
            let problem =
                format!("workers failed at {recent} of the last 64 questions; the last {first}");
            return Err(self.error(problem, first.stderr));
        }
        if let Some(worker) = slot.worker.take() {
            worker.dismiss(Instant::now());
        }
        let failure = match self.ask(slot, &question)? {
            Ok(judgements) => return Ok(judgements),
            Err(failure) => failure,
        };
        if let Some(answered) = slot.answered.clone()
            && self.ask(slot, &answered)?.is_err()
        {
            return Ok(vec![failure.of_verifier(); responses.len()]);
        }
        match responses {
            [_] => Ok(vec![failure.of_response()]),
            _ => self.judge_members(slot, item, responses, &failure),
        }
    }

    /// Judges a group at which a worker fails. The responses at which it fails alone fail; the
    /// others are judged as a group without them. Where there are none such, or the others have no
    /// answer either, these are not judged.
    fn judge_members(
        &self,
        slot: &mut WorkerSlot,
        item: &Item<'_>,
        responses: &[&str],
        failure: &Failure,
    ) -> Result<Vec<Judgement>, VerifierError> {
        let mut failed = Vec::with_capacity(responses.len());
        for response in responses {
            let alone = self.ask(slot, &self.question(item, &[response]))?;
            failed.push(alone.err().map(|failure| failure.of_response()));
        }
        let others: Vec<&str> =
            responses.iter().zip(&failed).filter(|(_, f)| f.is_none()).map(|(r, _)| *r).collect();
        let judged = match others.len() {
            0 => Vec::new(),
            all if all == responses.len() => vec![failure.of_verifier(); all],
            some => self
                .ask(slot, &self.question(item, &others))?
                .unwrap_or_else(|failure| vec![failure.of_verifier(); some]),
        };
        let mut judged = judged.into_iter();
        Ok(failed.into_iter().filter_map(|failed| failed.or_else(|| judged.next())).collect())
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
        let startup =
            if greets || worker.has_answered { 0.0 } else { self.workers.settings.startup_s };
        let limit = Duration::from_secs_f64(self.workers.settings.timeout_s + startup);
        let asked = loaded.and_then(|()| worker.ask(question.line.clone(), limit));
        let misconduct = match asked.and_then(|line| protocol::answer(&line, question)) {
            Err(misconduct) if !matches!(misconduct, Misconduct::Failed(_)) => misconduct,
            answered => {
                worker.has_answered = true;
                (slot.worker, slot.failures) = (Some(worker), 0);
                return Ok(match answered {
                    Ok(judgements) => {
                        if judgements.iter().all(|judgement| judgement.verdict.is_scored()) {
                            slot.answered = Some(question.clone());
                        }
                        Ok(judgements)
                    }
                    Err(failed) => Err(Failure::of_function(&failed)),
                });
            }
        };
        slot.failures = if worker.has_answered { 0 } else { slot.failures + 1 };
        let remains = worker.end(&misconduct);
        let failure = Failure::of_worker(&misconduct, remains, &self.workers.launch);
        if slot.failures == MAX_FAILURES {
            let problem = format!(
                "{MAX_FAILURES} fresh workers in a row failed at their first question; the last \
                 {failure}"
            );
            return Err(self.error(problem, failure.stderr));
        }
        Ok(Err(failure))
    }
}

/// How a worker failed at a question. `Display` follows "the last", of workers.
struct Failure {
    what: String,
    /// As the reason of a judgement.
    reason: String,
    /// That of a question that is not judged.
    verdict: Verdict,
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
    fn of_function(failed: &Misconduct) -> Self {
        let what = failed.to_string();
        let reason = match failed {
            Misconduct::Failed(reason) => reason.clone(),
            _ => what.clone(),
        };
        Self { what, reason, verdict: Verdict::Fault, stderr: None }
    }

    /// That of a worker that has been ended.
    fn of_worker(misconduct: &Misconduct, remains: EndedWorker, launch: &Launch) -> Self {
        let advice = advice(misconduct, &remains, launch);
        let is_late = matches!(misconduct, Misconduct::TimedOut(_));
        Self {
            what: format!("{}{advice}", with_status(misconduct, &remains)),
            reason: format!("the worker {}{advice}", with_last_words(misconduct, &remains)),
            verdict: if is_late { Verdict::TimedOut } else { Verdict::Fault },
            stderr: Some(remains.stderr),
        }
    }

    /// The judgement where the response is the cause.
    fn of_response(&self) -> Judgement {
        Judgement::failed(&*self.reason)
    }

    /// The judgement where the verifier is.
    fn of_verifier(&self) -> Judgement {
        Judgement::new(self.verdict, None, &*self.reason)
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

/// The misconduct in one line, with the last words of a worker that ended.
fn with_last_words(misconduct: &Misconduct, remains: &EndedWorker) -> String {
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
        let deadline = Instant::now() + GRACE;
        let slots = mem::take(self.slots.all());
        let workers: Vec<Worker> = slots.into_iter().filter_map(|slot| slot.worker).collect();
        // All are asked to end before one is waited for.
        thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.dismiss(deadline));
            }
        });
    }
}
