//! `kind = "python"` and `kind = "command"`: environments of the user's own, in processes.
//!
//! `protocol` has the lines. A process has many episodes, which stay with it. A process that does
//! anything but answer is ended, and the episode that it was asked about is at fault; its other
//! episodes are played again in a fresh one, up to where they were, when they go on.

mod protocol;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isentrope_data::Problem;
use isentrope_reward::command::{
    Greeting, HELLO, Launch, Misconduct, WATCHED, Worker, greeting, one_line, with_last_words,
};
use isentrope_reward::{PYTHON_COMMON, VerifierError, launch_shim};
use serde_json::{Value, json};

use self::protocol::{Answer, Asked};
use crate::settings::{CommandSettings, EpisodeLimits, ProcessSettings, PythonSettings};
use crate::{Environment, Episode, Fault, Reply};

/// The program in front of a class; [`PYTHON_COMMON`] stands before it.
const SHIM: &str = include_str!("shim.py");

/// An environment in processes.
pub struct Processes {
    pool: Arc<Pool>,
    notes: Vec<String>,
}

/// The processes.
struct Pool {
    launch: Launch,
    timeout: Duration,
    startup: Duration,
    /// Whether episodes are opened by messages.
    opens: bool,
    slots: Vec<Slot>,
    /// Episodes so far, which take the slots in turn.
    begun: AtomicUsize,
    /// The numbers of the episodes under way.
    live: Mutex<HashSet<u64>>,
}

/// The place of a process.
#[derive(Default)]
struct Slot {
    process: Mutex<Process>,
    /// Episodes that are over, of which their process has not been informed, by its generation.
    closed: Mutex<Vec<(u64, u64)>>,
}

/// A process, and how many there were in its place.
#[derive(Default)]
struct Process {
    worker: Option<Worker>,
    generation: u64,
}

impl Processes {
    /// Starts an environment that is a class.
    ///
    /// # Errors
    /// When it cannot be used, with the reason.
    pub fn of_class(settings: &PythonSettings) -> Result<Self, VerifierError> {
        let PythonSettings { python, interpreter, sandbox, processes, limits } = settings;
        let value = format!("{python:?}");
        let (file, class) = settings.parts().unwrap_or((python, ""));
        let (shim, longest) = (format!("{PYTHON_COMMON}{SHIM}"), protocol::LONGEST.to_string());
        let launch = launch_shim(interpreter, *sandbox, &shim, file, &[class, &longest])
            .map_err(|problem| error("python", value.clone(), problem, None))?;
        Self::start(launch, processes, limits, ("python", &value))
    }

    /// Starts an environment that is a program.
    ///
    /// # Errors
    /// As [`of_class`](Self::of_class).
    pub fn of_command(settings: &CommandSettings) -> Result<Self, VerifierError> {
        let CommandSettings { command, processes, limits } = settings;
        let launch = Launch::Command(command.clone());
        Self::start(launch, processes, limits, ("command", &format!("{command:?}")))
    }

    fn start(
        launch: Launch,
        settings: &ProcessSettings,
        limits: &EpisodeLimits,
        (key, value): (&str, &str),
    ) -> Result<Self, VerifierError> {
        let pool = Pool {
            launch,
            timeout: Duration::from_secs_f64(limits.timeout_s),
            startup: Duration::from_secs_f64(settings.startup_s),
            opens: settings.opens,
            slots: (0..settings.workers.max(1)).map(|_| Slot::default()).collect(),
            begun: AtomicUsize::new(0),
            live: Mutex::default(),
        };
        let failed = |problem: String, stderr| error(key, value.to_owned(), problem, stderr);
        let mut worker = pool.spawn().map_err(|problem| failed(problem, None))?;
        let ready = match pool.launch.greets() {
            true => pool.load(&mut worker).map(Some),
            false => worker.unasked(Instant::now() + WATCHED).map_or(Ok(None), Err),
        };
        let notes = match ready {
            Ok(Some(Greeting::Refused(why))) => {
                return Err(failed(why.replace('\n', "\n  "), None));
            }
            Ok(Some(Greeting::Hello(said))) => {
                vec![format!("environment.{key}: {said}{}", pool.launch.walls())]
            }
            Ok(None) => Vec::new(),
            Err(misconduct) => {
                let remains = worker.end(&misconduct);
                let problem = format!("a process {misconduct} before it was asked anything");
                return Err(failed(problem, Some(remains.stderr)));
            }
        };
        locked(&pool.slots[0].process).worker = Some(worker);
        Ok(Self { pool: Arc::new(pool), notes })
    }
}

fn error(key: &str, value: String, problem: String, stderr: Option<String>) -> VerifierError {
    VerifierError { key: format!("environment.{key}"), value, problem, stderr }
}

impl Environment for Processes {
    fn begin(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>, Fault> {
        let seed = seed >> 11; // 53 bits, which every language has as an integer
        // A program may draw random numbers from the number too, so the seed is the number. Two
        // episodes under way hardly ever have the same seed.
        let mut id = seed;
        let mut live = locked(&self.pool.live);
        while !live.insert(id) {
            id = id.wrapping_add(1);
        }
        drop(live);
        let begun = self.pool.begun.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Play {
            pool: Arc::clone(&self.pool),
            id,
            place: begun % self.pool.slots.len(),
            generation: None,
            questions: vec![protocol::reset(problem, seed)],
            reward: None,
        }))
    }

    fn workers(&self) -> usize {
        self.pool.slots.len()
    }

    fn opens(&self) -> bool {
        self.pool.opens
    }

    fn tools(&self) -> &[Value] {
        &[]
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// An episode.
struct Play {
    pool: Arc<Pool>,
    id: u64,
    /// The index of its process.
    place: usize,
    /// The process that knows it; None before it is asked anything.
    generation: Option<u64>,
    /// All questions of it so far: the first is its reset.
    questions: Vec<Value>,
    /// The sum of its rewards so far, if there were any.
    reward: Option<f64>,
}

impl Episode for Play {
    fn open(&mut self) -> Result<Vec<Value>, Fault> {
        Ok(self.ask().map_err(Fault)?.messages)
    }

    fn step(&mut self, text: &str) -> Result<Reply, Fault> {
        self.questions.push(json!({"step": text}));
        let answer = self.ask().map_err(Fault)?;
        let Answer { mut messages, reward, done, metrics } = answer;
        if let Some(reward) = reward {
            self.reward = Some(self.reward.unwrap_or_default() + reward);
        }
        if done {
            messages.clear();
        } else if messages.is_empty() {
            return Err(Fault("it gave no messages and did not end the episode".into()));
        }
        Ok(Reply { messages, done, reward: self.reward, metrics })
    }
}

impl Play {
    /// Asks the last question, and the earlier ones before it if the process does not know them.
    fn ask(&mut self) -> Result<Answer, String> {
        let slot = &self.pool.slots[self.place];
        let mut process = locked(&slot.process);
        let is_fresh = process.worker.is_none();
        if is_fresh {
            process.worker = Some(self.pool.fresh()?);
            process.generation += 1;
        }
        let known = self.generation == Some(process.generation);
        self.generation = Some(process.generation);
        let from = if known { self.questions.len() - 1 } else { 0 };
        let mut limit = self.pool.timeout;
        if is_fresh && !self.pool.launch.greets() {
            limit += self.pool.startup;
        }
        let mut last = Err(String::new());
        for question in &self.questions[from..] {
            let closed = std::mem::take(&mut *locked(&slot.closed));
            // A reset stands for the end of an earlier episode with the number.
            let known = |(generation, id): &&(u64, u64)| {
                *generation == process.generation && *id != self.id
            };
            let closed: Vec<u64> = closed.iter().filter(known).map(|(_, id)| *id).collect();
            let line = protocol::line(self.id, question, &closed);
            let asked = match question.get("reset") {
                Some(_) if self.pool.opens => Asked::Opening,
                Some(_) => Asked::Reset,
                None => Asked::Step,
            };
            last = self.pool.put(&mut process, line, (self.id, asked), limit);
            if last.is_err() {
                break;
            }
            limit = self.pool.timeout;
        }
        last
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        if let Some(generation) = self.generation {
            locked(&self.pool.slots[self.place].closed).push((generation, self.id));
        }
        locked(&self.pool.live).remove(&self.id);
    }
}

impl Pool {
    /// Puts a question to a process, which is ended if it does anything but answer.
    fn put(
        &self,
        process: &mut Process,
        line: Vec<u8>,
        (id, question): (u64, Asked),
        limit: Duration,
    ) -> Result<Answer, String> {
        let Some(mut worker) = process.worker.take() else {
            return Err("it has no process".into());
        };
        // A line that is there already may have the episode's number, and answers an earlier turn.
        let asked = match worker.unasked(Instant::now()) {
            Some(misconduct) => Err(misconduct),
            None => worker.ask(line, limit),
        };
        match asked.and_then(|line| protocol::answer(&line, id, question)) {
            Ok(answer) => {
                process.worker = Some(worker);
                Ok(answer)
            }
            Err(Misconduct::Failed(reason)) => {
                process.worker = Some(worker);
                Err(reason)
            }
            Err(misconduct) => Err(ended(worker, &misconduct)),
        }
    }

    fn spawn(&self) -> Result<Worker, String> {
        let started = Worker::start(&self.launch, protocol::LONGEST, "environment");
        started.map_err(|e| self.launch.failed(&e))
    }

    /// Starts a process in the place of one that has ended.
    fn fresh(&self) -> Result<Worker, String> {
        let mut worker = self.spawn()?;
        if self.launch.greets() {
            match self.load(&mut worker) {
                Ok(Greeting::Hello(_)) => {}
                Ok(Greeting::Refused(why)) => return Err(one_line(&why)),
                Err(misconduct) => return Err(ended(worker, &misconduct)),
            }
        }
        Ok(worker)
    }

    /// Waits until a fresh process has loaded its class.
    fn load(&self, worker: &mut Worker) -> Result<Greeting, Misconduct> {
        let limit = self.startup + self.timeout;
        worker.ask(HELLO.into(), limit).and_then(|line| greeting(&line))
    }
}

/// Ends a process; what it did, as a sentence.
fn ended(worker: Worker, misconduct: &Misconduct) -> String {
    let remains = worker.end(misconduct);
    format!("its process {}", with_last_words(misconduct, &remains))
}

impl Drop for Pool {
    fn drop(&mut self) {
        let workers = self.slots.iter().filter_map(|slot| locked(&slot.process).worker.take());
        Worker::dismiss_all(workers);
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
