//! Decides from the end of a run's process how its program ended.

use serde::Deserialize;

use super::End;

/// How a run's process ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    exit: Option<i32>,
    signal: Option<i32>,
    cpu_s: f64,
    ended_for: Option<String>,
    /// The last line of its standard error.
    #[serde(skip)]
    error: String,
    /// Remains of the run in its jail: files, or counters that have moved. If anything is left, the
    /// next run needs a new jail.
    pub left: Option<String>,
}

/// Longest line of an error that is kept, in characters.
const LONGEST_LINE: usize = 500;

impl RunReport {
    /// Reads the server's report: a line of JSON, then the end of the standard error.
    pub fn read(body: &[u8]) -> serde_json::Result<Self> {
        let (line, error) =
            body.split_at(body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len()));
        let error = String::from_utf8_lossy(error);
        let last =
            error.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Ok(Self { error: last.to_owned(), ..serde_json::from_slice(line)? })
    }

    /// The end of the program of a run that had `cpu_s` seconds of processor time.
    pub fn end(self, cpu_s: u64) -> End {
        #[expect(clippy::cast_precision_loss, reason = "a number of seconds")]
        let time_is_up = self.cpu_s >= cpu_s as f64;
        match (self.exit, self.signal) {
            _ if self.ended_for.as_deref() == Some("output") => End::OutputLimit,
            (Some(0), _) => End::Completed,
            (_, Some(XCPU)) => End::TimeLimit,
            (_, Some(KILL)) if time_is_up => End::TimeLimit,
            // The program may have killed itself; that is reported as a memory limit too.
            (_, Some(KILL)) => End::MemoryLimit,
            (_, Some(signal)) => End::RuntimeError(format!("it died of {}", signal_name(signal))),
            (exit, _) if self.error.is_empty() => {
                End::RuntimeError(format!("it ended with exit status {}", exit.unwrap_or(1)))
            }
            _ => raised(&self.error),
        }
    }
}

/// An error that a program has raised, by the last line of its traceback.
pub fn raised(line: &str) -> End {
    let name = line.split(':').next().unwrap_or_default();
    if name.ends_with("MemoryError") {
        return End::MemoryLimit;
    }
    End::RuntimeError(line.chars().take(LONGEST_LINE).collect())
}

/// Linux's numbers of signals that stand for a limit.
const KILL: i32 = 9;
const XCPU: i32 = 24;

fn signal_name(signal: i32) -> String {
    match signal {
        6 => "SIGABRT".into(),
        8 => "SIGFPE".into(),
        11 => "SIGSEGV, as from recursion that is too deep".into(),
        15 => "SIGTERM".into(),
        31 => "SIGSYS, from a system call that the sandbox does not allow".into(),
        _ => format!("signal {signal}"),
    }
}
