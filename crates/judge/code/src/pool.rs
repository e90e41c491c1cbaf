//! Workers of one Python and one sandbox, each started when it is first needed.

use isentrope_sandbox::Sandbox;

use crate::settings::CodeSettings;
use crate::slots::Slots;
use crate::{End, JudgeError, Python, Runner, Worker};

/// Workers.
pub struct Pool {
    /// The settings of its workers.
    pub settings: CodeSettings,
    sandbox: Sandbox,
    python: Python,
    workers: Slots<Option<Worker>>,
}

impl Pool {
    /// Finds the interpreter and the sandbox, and has a worker run a program, so that anything
    /// missing is known before the first response.
    ///
    /// # Errors
    /// [`JudgeError`].
    pub fn start(settings: &CodeSettings) -> Result<Self, JudgeError> {
        let pool = Self {
            settings: settings.clone(),
            sandbox: Sandbox::find()?,
            python: Python::find(settings.python.as_deref())?,
            workers: Slots::new((0..settings.worker_count()).map(|_| None).collect()),
        };
        pool.trial()?;
        Ok(pool)
    }

    /// The interpreter and sandbox that run programs, as a sentence without a full stop.
    pub fn describe(&self) -> String {
        let (version, program) = (self.python.version(), self.python.program().display());
        format!(
            "programs run in Python {version} ({program}), in sandboxes of {}",
            self.sandbox.tier()
        )
    }

    /// Has a worker do something. Waits until one is free.
    ///
    /// # Errors
    /// [`JudgeError`] when a worker cannot be started.
    pub fn with_worker<R>(&self, work: impl FnOnce(&mut Worker) -> R) -> Result<R, JudgeError> {
        let mut borrowed = self.workers.take();
        let worker = match &mut borrowed.slot {
            Some(worker) => worker,
            empty => {
                let limits = self.settings.worker_limits();
                empty.insert(Worker::start(&self.sandbox, &self.python, limits)?)
            }
        };
        Ok(work(worker))
    }

    fn trial(&self) -> Result<(), JudgeError> {
        let found = self.with_worker(|worker| {
            worker.script("print(int(input()) * 7)", "6\n", &self.settings.run_limits())
        })?;
        let problem = match found {
            (printed, End::Completed) if printed.trim_end() == "42" => return Ok(()),
            (printed, End::Completed) => format!("it printed {printed:?} where 42 was due"),
            (_, end) => format!("a program that prints 42 ended with {end:?}"),
        };
        let (version, program) = (self.python.version(), self.python.program().display());
        Err(JudgeError(format!(
            "the sandbox does not run Python {version} ({program}) as it should: {problem}"
        )))
    }
}
