//! Worker processes that compile and render a template within hard limits.
//!
//! A worker is a second process of this program, kept for further conversations. If it dies, its
//! exit status tells which limit the template exceeded, and the next conversation starts another.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use isentrope_files::this_program;
use nix::sys::signal::Signal;
use serde::Serialize;

use super::wire::{Conversation, Failure, receive, send};
use super::worker_process::{MEMORY, SECONDS, VARIABLE, is_worker};

/// Variables that a worker inherits: paths of libraries.
const INHERITED: &[&str] = &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// A template and its worker.
#[derive(Debug)]
pub(super) struct Renderer {
    source: String,
    /// None after it has died.
    worker: Mutex<Option<Worker>>,
}

impl Renderer {
    pub fn compile(source: &str) -> Result<Self, Failure> {
        let worker = Mutex::new(Some(Worker::start(source)?));
        Ok(Self { source: source.to_owned(), worker })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn render(&self, conversation: &Conversation) -> Result<String, Failure> {
        let mut kept = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (mut worker, is_new) = match kept.take() {
                Some(worker) => (worker, false),
                None => (Worker::start(&self.source)?, true),
            };
            match worker.ask(conversation) {
                Ok(answer) => {
                    *kept = Some(worker);
                    return answer;
                }
                Err(error) => match worker.failure(&error) {
                    Failure::NoWorker(_) if !is_new => {} // another may succeed
                    failure => return Err(failure),
                },
            }
        }
    }
}

#[derive(Debug)]
struct Worker {
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a process that compiles a template.
    fn start(source: &str) -> Result<Self, Failure> {
        let mut worker = Self::spawn().map_err(|error| Failure::NoWorker(error.to_string()))?;
        match worker.ask(source) {
            Ok(answer) => answer.map(|_| worker),
            Err(error) => Err(worker.failure(&error)),
        }
    }

    fn spawn() -> io::Result<Self> {
        if is_worker() {
            return Err(io::Error::other("a chat template worker cannot start another"));
        }
        let mut command = Command::new(this_program()?);
        // The argument labels the process in process lists.
        command
            .arg("chat-template-worker")
            .env_clear()
            .env(VARIABLE, std::process::id().to_string())
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C at a terminal is for the program only, which may have more to render.
        command.process_group(0);
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self { process, input: BufWriter::new(input), output: BufReader::new(output) })
    }

    /// The worker's answer, or an error if the worker died.
    fn ask(&mut self, request: &(impl Serialize + ?Sized)) -> io::Result<Result<String, Failure>> {
        send(&mut self.input, request)?;
        Ok(serde_json::from_slice(&receive(&mut self.output)?)?)
    }

    /// The reason why the worker did not answer, by its exit status.
    fn failure(&mut self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::FileTooLarge {
            return Failure::Invalid("the conversation is too long for a chat template".to_owned());
        }
        // A process that has begun to end keeps its status.
        let _ = self.process.kill();
        let status = match self.process.wait() {
            Ok(status) => status,
            Err(error) => return Failure::NoWorker(error.to_string()),
        };
        Failure::Exceeded(match status.signal().map(Signal::try_from) {
            Some(Ok(Signal::SIGXCPU)) => format!("the template takes more than {SECONDS} s"),
            Some(Ok(Signal::SIGABRT)) => {
                format!("the template takes more than {} MiB of memory", MEMORY >> 20)
            }
            Some(Ok(Signal::SIGSEGV | Signal::SIGBUS)) => {
                "the template nests too deeply".to_owned()
            }
            _ => return Failure::NoWorker(format!("it ended with {status}")),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A template must not see the program's environment, such as a token of the hub.
    #[test]
    fn a_worker_has_an_environment_of_its_own() {
        assert!(std::env::vars_os().count() > INHERITED.len(), "cargo sets some");
        let worker = Worker::start("").unwrap();
        let environment = std::fs::read(format!("/proc/{}/environ", worker.process.id())).unwrap();
        let environment = String::from_utf8(environment).unwrap();
        let names =
            environment.split_terminator('\0').map(|entry| entry.split_once('=').unwrap().0);
        let others: Vec<_> = names.filter(|name| !INHERITED.contains(name)).collect();
        assert_eq!(others, [VARIABLE]);
    }
}
