//! A run as a process of this program.

use super::runs::PlannedRun;
use crate::device::DeviceRequest;
use crate::interrupt;
use anyhow::{Context, Result};
use isentrope_files::{make_directory, parent, this_program, write_file};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Threads and memory of the machine, or a part of them.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub threads: usize,
    /// Bytes of memory that count as free.
    pub memory: usize,
}

/// A run under way. Its process ends when this one does, because its standard input is closed.
pub struct Process {
    child: Child,
    /// Ends the run after its current step when it is dropped.
    stdin: Option<ChildStdin>,
}

/// How a run has ended.
pub enum RunOutcome {
    Done,
    /// The run was asked to end, and has saved a checkpoint.
    Interrupted,
    /// It failed, for this reason.
    Failed(String),
}

/// Bytes at the end of a log that are searched for the error.
const TAIL: u64 = 16 << 10;

impl Process {
    /// Starts the run, or goes on with it. Its recipe and its log stand beside its directory.
    ///
    /// # Errors
    /// When the files cannot be written or the program cannot be started.
    pub fn start(run: &PlannedRun, share: Share, device: Option<DeviceRequest>) -> Result<Self> {
        make_directory(parent(run.dir()))?;
        write_file(&run.recipe_file(), run.place.recipe.0.as_bytes())?;
        let path = run.log_file();
        let mut log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| path.display().to_string())?;
        let recipe = run.recipe_file();
        writeln!(log, "$ isentrope {} {} --resume", run.command.name(), recipe.display())
            .with_context(|| path.display().to_string())?;
        let program = this_program().context("this program")?;
        let memory = share.memory as f64 / f64::from(1 << 30);
        let both = log.try_clone().with_context(|| path.display().to_string())?;
        let mut command = Command::new(&program);
        command
            .arg(run.command.name())
            .arg(&recipe)
            .args(["--resume", "--end-with-standard-input"])
            .args(["--threads", &share.threads.to_string()])
            .args(["--free-memory", &memory.to_string()])
            .env("ISENTROPE_RANKS", "off") // a launcher's variables are not for it
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(both);
        if let Some(device) = device {
            command.args(["--device", &device.to_string()]);
        }
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        interrupt::ends_with_this(child.id());
        let stdin = child.stdin.take();
        Ok(Self { child, stdin })
    }

    /// Asks the run to finish its step and to save it.
    pub fn wind_up(&mut self) {
        self.stdin = None;
    }

    /// The run's outcome, once its process has ended.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn ended(&mut self, run: &PlannedRun) -> Result<Option<RunOutcome>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        interrupt::has_ended(self.child.id());
        Ok(Some(match status.code() {
            Some(0) => RunOutcome::Done,
            Some(130) => RunOutcome::Interrupted,
            _ => {
                let why = error_in(&run.log_file()).unwrap_or_else(|| status.to_string());
                RunOutcome::Failed(format!(
                    "{why} (all that it said: {})",
                    run.log_file().display()
                ))
            }
        }))
    }
}

/// The error that a log ends with.
fn error_in(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let (_, since) = tail.rsplit_once("\n$ isentrope ").unwrap_or(("", &tail)); // of this attempt
    let lines: Vec<&str> = since.lines().collect();
    let first = lines.iter().rposition(|line| line.starts_with("error: "))?;
    let more =
        lines[first + 1..].iter().take_while(|line| line.starts_with("  ")).map(|line| line.trim());
    Some(
        [lines[first].strip_prefix("error: ")?]
            .into_iter()
            .chain(more)
            .collect::<Vec<_>>()
            .join("; "),
    )
}
