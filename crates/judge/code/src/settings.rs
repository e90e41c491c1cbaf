//! The recipe's table `reward.verifier.code`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{RunLimits, WorkerLimits};

/// Private temporary directory of a sandbox, in bytes.
const TEMPORARY: u64 = 64 << 20;

/// Most processes and threads of a sandbox. Programs start threads to have a larger stack, and
/// libraries start some for each core.
const PROCESSES: u64 = 64;

/// Memory that the interpreters take beside the program, in bytes.
const INTERPRETERS: u64 = 128 << 20;

/// How programs are judged by tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodeSettings {
    /// Programs that run at the same time, each in a sandbox of its own. Unset: one per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<usize>,
    /// The worth of a program that does not pass all of its tests.
    pub score: Score,
    /// Longest time of a test, in seconds.
    #[schemars(range(min = 0.001, max = 3600.0))]
    pub timeout_s: f64,
    /// Longest time of all tests of a response together, in seconds. What has not run by then has
    /// not passed.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub total_timeout_s: f64,
    /// Memory of a program, in MiB.
    #[schemars(range(min = 32, max = 1048576))]
    pub memory_mib: u64,
    /// Most that a program may print or return in a test, in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub output_mib: usize,
    /// How much numbers of an output, or of what a function returns, may differ from those
    /// expected, as a share of the expected number where that is more than 1; integers must be
    /// equal. Unset: not at all. A problem whose tests have a `tolerance` goes by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub tolerance: Option<f64>,
    /// The Python that runs programs, 3.8 or newer. Unset: `python3` or `python` of the search
    /// path, the first that works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
}

/// The worth of a program that does not pass all of its tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// Nothing: its tests stop at the first that it does not pass.
    #[default]
    All,
    /// The share of the tests that it passes; all of them run.
    Fraction,
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            workers: None,
            score: Score::All,
            timeout_s: 6.0,
            total_timeout_s: 60.0,
            memory_mib: 1024,
            output_mib: 16,
            tolerance: None,
            python: None,
        }
    }
}

impl CodeSettings {
    /// Programs that run at the same time.
    pub fn worker_count(&self) -> usize {
        self.workers
            .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
            .max(1)
    }

    pub(crate) fn run_limits(&self) -> RunLimits {
        RunLimits {
            wall: Duration::from_secs_f64(self.timeout_s),
            until: None,
            memory_bytes: self.memory_mib << 20,
            output_bytes: self.output_mib << 20,
        }
    }

    pub(crate) fn worker_limits(&self) -> WorkerLimits {
        WorkerLimits {
            memory_bytes: (self.memory_mib << 20) + INTERPRETERS,
            temporary_bytes: TEMPORARY,
            processes: PROCESSES,
        }
    }
}
