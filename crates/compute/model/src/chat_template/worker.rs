//! Worker processes that compile and render templates within hard limits.
//!
//! A worker is a second process of this program, kept for further requests. If it dies, its exit
//! status tells which limit the template exceeded, and the next request starts another.

use std::io::{self, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use isentrope_files::this_program;
use serde_json::Value;

use super::wire::{Conversation, Failure, Request, Sources, receive, send};
use super::worker_process::{MEMORY, SECONDS, UNREADABLE, VARIABLE, is_worker};

/// Idle workers, as many as have ever been busy at once.
static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// Variables that a worker inherits: paths of libraries and of the system.
const KEPT: &[&str] = &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SystemRoot"];

/// Failure to render.
#[derive(Debug)]
pub(super) enum Error {
    /// The template is at fault.
    Template(Failure),
    /// No process can be started.
    Worker(io::Error),
}

/// Compiles `sources`, whose unique number is `id`.
pub(super) fn compile(id: u64, sources: &Sources) -> Result<(), Error> {
    with_worker(id, |worker| worker.hold(id, sources))
}

/// Renders a conversation with these messages and values of variables.
pub(super) fn render(
    id: u64,
    sources: &Sources,
    conversation: Conversation,
    messages: &[Value],
    values: &[&Value],
) -> Result<String, Error> {
    let request = Request::Render(conversation);
    with_worker(id, |worker| {
        worker.hold(id, sources)?;
        worker.ask(|input| {
            send(input, &request)?;
            messages.iter().try_for_each(|message| send(input, message))?;
            values.iter().try_for_each(|value| send(input, value))
        })
    })
}

struct Worker {
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Number of the sources that it has compiled.
    holds: Option<u64>,
}

/// Failure of a request.
enum Unanswered {
    /// The worker gave a reason and goes on.
    Failed(Failure),
    /// The worker is gone.
    Gone(io::Error),
}

fn with_worker<T>(
    id: u64,
    call: impl Fn(&mut Worker) -> Result<T, Unanswered>,
) -> Result<T, Error> {
    loop {
        let (mut worker, fresh) = match idle(id) {
            Some(worker) => (worker, false),
            None => (Worker::start().map_err(Error::Worker)?, true),
        };
        let result = match call(&mut worker) {
            Ok(done) => Ok(done),
            Err(Unanswered::Failed(failure)) => Err(Error::Template(failure)),
            Err(Unanswered::Gone(error)) => match worker.cause_of_end(error) {
                Cause::Other(_) if !fresh => continue,
                Cause::Other(what) => return Err(Error::Worker(io::Error::other(what))),
                Cause::Template(failure) => return Err(Error::Template(failure)),
            },
        };
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        return result;
    }
}

/// Takes an idle worker, preferably one that has compiled these sources.
fn idle(id: u64) -> Option<Worker> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.iter().position(|worker| worker.holds == Some(id));
    at.map(|at| idle.swap_remove(at)).or_else(|| idle.pop())
}

impl Worker {
    fn start() -> io::Result<Self> {
        if is_worker() {
            return Err(io::Error::other("a chat template worker cannot start another"));
        }
        let mut command = Command::new(this_program()?);
        // The argument labels the process in process lists.
        command
            .arg("chat-template-worker")
            .env_clear()
            .env(VARIABLE, std::process::id().to_string());
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C at a terminal is for the program only, which may have more to render.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (input, output) = (BufWriter::new(input), BufReader::new(output));
        let mut worker = Self { process, input, output, holds: None };
        match receive(&mut worker.output) {
            Ok(Ok(())) => Ok(worker),
            Ok(Err(what)) => Err(worker.discard(io::Error::other::<String>(what))),
            Err(error) => Err(worker.discard(error)),
        }
    }

    /// Compiles `sources` unless the worker has.
    fn hold(&mut self, id: u64, sources: &Sources) -> Result<(), Unanswered> {
        if self.holds != Some(id) {
            self.holds = None;
            let request = Request::Compile(sources.clone());
            self.ask(|input| send(input, &request))?;
            self.holds = Some(id);
        }
        Ok(())
    }

    fn ask(
        &mut self,
        request: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
    ) -> Result<String, Unanswered> {
        let asked = request(&mut self.input).and_then(|()| self.input.flush());
        let answer: io::Result<Result<String, Failure>> =
            asked.and_then(|()| receive(&mut self.output));
        answer.map_err(Unanswered::Gone)?.map_err(Unanswered::Failed)
    }

    /// Finds the cause of a worker's end.
    fn cause_of_end(mut self, error: io::Error) -> Cause {
        if error.kind() == io::ErrorKind::FileTooLarge {
            self.discard(error);
            let what = "the conversation is too long for a chat template".to_owned();
            return Cause::Template(Failure::Invalid(what));
        }
        drop(self.input);
        match self.process.wait() {
            Ok(status) => Cause::of(status),
            Err(error) => Cause::Other(error.to_string()),
        }
    }

    /// Kills a worker because of `error`.
    fn discard(mut self, error: io::Error) -> io::Error {
        let _ = self.process.kill();
        let _ = self.process.wait();
        error
    }
}

/// Cause of a worker's end.
enum Cause {
    /// The template failed or exceeded a limit.
    Template(Failure),
    /// The worker retired or was killed from outside; another may succeed.
    Other(String),
}

impl Cause {
    #[cfg(unix)]
    fn of(status: ExitStatus) -> Self {
        use nix::sys::signal::Signal;
        use std::os::unix::process::ExitStatusExt;

        Self::Template(Failure::Exceeded(match status.signal().map(Signal::try_from) {
            Some(Ok(Signal::SIGXCPU)) => format!("the template takes more than {SECONDS} s"),
            Some(Ok(Signal::SIGABRT)) => {
                format!("the template takes more than {} MiB of memory", MEMORY >> 20)
            }
            Some(Ok(Signal::SIGSEGV | Signal::SIGBUS)) => {
                "the template nests too deeply".to_owned()
            }
            None if status.code() == Some(UNREADABLE) => return Self::unreadable(),
            _ => return Self::Other(format!("the chat template worker ended with {status}")),
        }))
    }

    #[cfg(not(unix))]
    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Other("the chat template worker ended".to_owned()),
            Some(UNREADABLE) => Self::unreadable(),
            _ => {
                let what = "the template nests too deeply or takes too much memory".to_owned();
                Self::Template(Failure::Exceeded(what))
            }
        }
    }

    fn unreadable() -> Self {
        Self::Template(Failure::Invalid("the conversation nests too deeply".to_owned()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A template must not see the program's environment, such as a token of the hub.
    #[test]
    fn a_worker_has_an_environment_of_its_own() {
        assert!(std::env::vars_os().count() > KEPT.len(), "cargo sets some");
        let worker = Worker::start().unwrap();
        let environment = std::fs::read(format!("/proc/{}/environ", worker.process.id())).unwrap();
        let environment = String::from_utf8(environment).unwrap();
        let names =
            environment.split_terminator('\0').map(|entry| entry.split_once('=').unwrap().0);
        let others: Vec<_> = names.filter(|name| !KEPT.contains(name)).collect();
        assert_eq!(others, [VARIABLE]);
        let _ = worker.discard(io::ErrorKind::Other.into());
    }
}
