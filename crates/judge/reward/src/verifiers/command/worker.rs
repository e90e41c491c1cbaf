//! One worker process. Threads stand between it and who asks, so that nobody ever waits for a pipe.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::launch::{Launch, Status, WorkerProcess};
use super::printed::PrintedLines;
use super::protocol::{Misconduct, STRAY};

/// Bytes of the end of a worker's standard error that are kept.
const TAIL: usize = 8 << 10;

/// The longest wait for the last output of a worker that has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The longest time from closing standard output to a worker's end, in which it may give back
/// gigabytes of memory.
const ENDING: Duration = Duration::from_secs(5);

/// How long workers may take to end by themselves when the run is over.
const GRACE: Duration = Duration::from_secs(2);

/// A worker process.
pub struct Worker {
    process: WorkerProcess,
    /// Sends to the writing thread, where at most one question waits: a worker that answers has
    /// read its question.
    questions: SyncSender<Vec<u8>>,
    /// Receives from the reading thread; closed when standard output is.
    answers: Receiver<Result<Vec<u8>, Misconduct>>,
    stderr: Tail,
    /// The end of its last question.
    pub past: Past,
}

/// The end of the last question to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// There was none: it may still be at what it does once at its start.
    Unasked,
    /// It was judged.
    Answered,
    /// The worker failed at it, and may have kept something of that.
    Failed,
}

/// The remains of a worker.
pub struct EndedWorker {
    /// The worker's exit status, if it ended by itself.
    pub status: Option<Status>,
    /// The end of the worker's standard error since its last question.
    pub stderr: String,
}

impl EndedWorker {
    /// Whether it seems to have done what it is for, or does not say why not: it ended without an
    /// error, or without a word.
    pub fn seems_done(&self) -> bool {
        let code = self.status.as_ref().and_then(Status::code);
        code.is_some_and(|code| code == 0 || self.stderr.is_empty())
    }
}

impl Worker {
    /// Starts a worker whose lines have at most `longest` bytes. `label` is a word for who prints
    /// what a shim shows.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub fn start(launch: &Launch, longest: usize, label: &'static str) -> io::Result<Self> {
        let (process, stdin, stdout, stderr) = launch.start()?;
        let (questions, to_write) = mpsc::sync_channel(1);
        thread::spawn(move || write(stdin, &to_write));
        let (read, answers) = mpsc::sync_channel(1);
        thread::spawn(move || read_lines(stdout, longest, &read));
        Ok(Self {
            process,
            questions,
            answers,
            stderr: Tail::of(stderr, launch.greets().then(|| PrintedLines::of(label))),
            past: Past::Unasked,
        })
    }

    /// Sends a line, and waits for the next line that comes back, for so long at most. What it said
    /// to standard error until then is no part of its last words.
    ///
    /// # Errors
    /// What it does instead. It must then be ended: what else it says would answer something else.
    pub fn ask(&mut self, line: Vec<u8>, limit: Duration) -> Result<Vec<u8>, Misconduct> {
        locked(&self.stderr.kept).clear();
        match self.questions.try_send(line) {
            // One that has closed its standard input may end without a word, or may have an answer
            // left.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => return Err(Misconduct::NotReading),
        }
        let answer = match self.answers.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => Err(Misconduct::TimedOut(limit)),
            Err(RecvTimeoutError::Disconnected) => Err(Misconduct::Ended),
        };
        self.stderr.show();
        answer
    }

    /// The worker's misconduct before `deadline` without a question, such as ending.
    pub fn unasked(&self, deadline: Instant) -> Option<Misconduct> {
        match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(line)) => {
                let line = String::from_utf8_lossy(&line).trim_end().chars().take(80).collect();
                Some(Misconduct::Rubbish {
                    line,
                    problem: format!("it had not been asked; {STRAY}"),
                })
            }
            Ok(Err(misconduct)) => Some(misconduct),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Misconduct::Ended),
        }
    }

    /// Ends it with everything that it has started: now, or once it has had a moment to end by
    /// itself if it seems about to.
    pub fn end(mut self, misconduct: &Misconduct) -> EndedWorker {
        let status = match misconduct {
            Misconduct::Ended => self.process.wait_until(Instant::now() + ENDING),
            _ => None,
        };
        self.process.end();
        EndedWorker { status, stderr: self.stderr.text() }
    }

    /// Closes the worker's standard input, which asks it to end, and kills it at `deadline`.
    pub fn dismiss(self, deadline: Instant) {
        let Self { mut process, questions, answers, .. } = self;
        drop(questions);
        // Its standard output is closed when it has ended; what it may still print is nothing to
        // anyone.
        while let left @ 1.. = deadline.saturating_duration_since(Instant::now()).as_millis()
            && answers.recv_timeout(Duration::from_millis(left as u64)).is_ok()
        {}
        process.end();
    }

    /// Dismisses workers when a run is over. All are asked to end before one is waited for.
    pub fn dismiss_all(workers: impl Iterator<Item = Self>) {
        let deadline = Instant::now() + GRACE;
        let workers: Vec<Self> = workers.collect();
        thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.dismiss(deadline));
            }
        });
    }
}

fn write(mut stdin: ChildStdin, lines: &Receiver<Vec<u8>>) {
    for line in lines {
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return; // it has ended, which its standard output says too
        }
    }
}

/// Passes lines on, one at a time: what nobody asked for stays in the pipe.
fn read_lines(
    stdout: ChildStdout,
    longest: usize,
    lines: &SyncSender<Result<Vec<u8>, Misconduct>>,
) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout).take(longest as u64 + 1).read_until(b'\n', &mut line);
        let line = match read {
            Err(_) | Ok(0) => return,
            Ok(_) if line.ends_with(b"\n") => Ok(line),
            Ok(length) if length > longest => Err(Misconduct::TooLong(longest)),
            Ok(_) => return, // it ended in the middle of a line
        };
        let is_last = line.is_err();
        if lines.send(line).is_err() || is_last {
            return;
        }
    }
}

/// The end of a stream that is read to its end as it comes.
struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// The stream's lines, if they are shown.
    printed: Option<Arc<Mutex<PrintedLines>>>,
    /// Closed when the stream is.
    reading: Receiver<()>,
}

impl Tail {
    /// Reads a stream, and shows its lines by `printed`, if there is one.
    fn of(mut stream: ChildStderr, printed: Option<PrintedLines>) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::with_capacity(TAIL)));
        let (open, reading) = mpsc::sync_channel(0);
        let printed = printed.map(|printed| Arc::new(Mutex::new(printed)));
        let (keep, lines) = (kept.clone(), printed.clone());
        thread::spawn(move || {
            let _open: SyncSender<()> = open;
            let mut chunk = [0; TAIL];
            while let Ok(length @ 1..) = stream.read(&mut chunk) {
                lines.iter().for_each(|lines| locked(lines).push(&chunk[..length]));
                let mut kept = locked(&keep);
                kept.extend(&chunk[..length]);
                let excess = kept.len().saturating_sub(TAIL);
                kept.drain(..excess);
            }
            lines.iter().for_each(|lines| locked(lines).end());
        });
        Self { kept, printed, reading }
    }

    /// Shows the lines of a call that has ended.
    fn show(&self) {
        self.printed.iter().for_each(|lines| locked(lines).show());
    }

    /// The text so far, once the stream is closed or has had its time.
    fn text(&self) -> String {
        let _ = self.reading.recv_timeout(LAST_WORDS); // nothing is ever sent
        let bytes: Vec<u8> = locked(&self.kept).iter().copied().collect();
        printable(&String::from_utf8_lossy(&bytes))
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines without control characters that a terminal would obey.
pub fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', " ").trim().to_owned()
}
