//! Runs other programs within a time limit. Their output goes to a file, which never fills as a
//! pipe does.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// A program that has ended, or was stopped.
pub struct ProcessEnd {
    /// How.
    pub status: ExitStatus,
    /// Whether the program was stopped because its time was over.
    pub stopped: bool,
    /// Its output so far.
    pub text: String,
    /// How long it took.
    pub seconds: f64,
}

/// Runs a program, for at most `limit`.
///
/// # Errors
/// When it cannot be started, or its log not be written.
pub fn run_limited(
    command: &mut Command,
    log: &Path,
    limit: Duration,
) -> Result<ProcessEnd, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    if let Some(directory) = log.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let file = File::create(log).map_err(failed)?;
    let started = Instant::now();
    let mut child = command
        .stderr(file.try_clone().map_err(failed)?)
        .stdout(file)
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    while started.elapsed() < limit && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let stopped = !matches!(child.try_wait(), Ok(Some(_)));
    let _ = child.kill();
    let status = child.wait().map_err(failed)?;
    let text = String::from_utf8_lossy(&fs::read(log).map_err(failed)?).into_owned();
    Ok(ProcessEnd { status, stopped, text, seconds: started.elapsed().as_secs_f64() })
}
