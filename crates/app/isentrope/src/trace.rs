//! `--trace FILE`: records where the time of one step goes, in a file for Perfetto
//! (docs/reference/commands.md).

use crate::device::Device;
use crate::messages;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use isentrope_trace::{Origin, Trace};
use std::path::{Path, PathBuf};

/// Most events of a trace, phases not included: some 40 MB of memory, and twice as much on disk.
const EVENTS: usize = 500_000;

/// The trace that the flags ask for: its file, and the step if one is named.
pub struct TraceRequest {
    path: PathBuf,
    step: Option<u64>,
}

impl TraceRequest {
    /// A request for a file that can be written now.
    ///
    /// # Errors
    /// When it cannot, with its name.
    pub fn new(path: &Path, step: Option<u64>) -> Result<Self> {
        if path.as_os_str().is_empty() || path == Path::new("-") {
            bail!("--trace: name a file; a trace is not printed");
        }
        drop(Output::create(Some(path)).context("--trace")?);
        Ok(Self { path: path.to_owned(), step })
    }
}

/// The trace of one step of a run.
pub struct StepTrace {
    path: PathBuf,
    device: Device,
    /// The step to trace; by default this process's second step, when all code has run once.
    step: Option<u64>,
    is_recording: bool,
    is_made: bool,
    /// Whether no step has begun.
    is_first: bool,
}

impl StepTrace {
    pub fn new(TraceRequest { path, step }: TraceRequest, device: Device) -> Self {
        Self { path, device, step, is_recording: false, is_made: false, is_first: true }
    }

    /// A step of `steps` begins.
    pub fn begins(&mut self, step: u64, steps: u64) {
        // A run of one step has no second step.
        let traced = *self.step.get_or_insert((step + 1).min(steps));
        if traced < step && self.is_first {
            messages::warning(&format!(
                "step {traced}, which --trace-step names, was made before; this goes on with step \
                 {step}, and traces none"
            ));
        }
        self.is_first = false;
        if step == traced {
            self.is_recording = true;
            isentrope_trace::begin(EVENTS);
        }
    }

    /// The step is over. Writes the trace of the traced step, and returns notes for the user: a
    /// failure here does not end the run.
    pub fn is_over(&mut self) -> Vec<String> {
        if !std::mem::take(&mut self.is_recording) {
            return Vec::new();
        }
        self.is_made = true;
        self.device.settle();
        let Some(trace) = isentrope_trace::end() else { return Vec::new() };
        let step = self.step.unwrap_or_default();
        match self.write(&trace) {
            Ok(()) => {
                let (path, events) = (self.path.display(), trace.events.len());
                let there = format!(
                    "the trace of step {step}, {events} events, is in {path}; \
                     https://ui.perfetto.dev opens it"
                );
                [there].into_iter().chain(trace.gaps()).collect()
            }
            Err(error) => vec![format!("the trace of step {step} could not be written: {error:#}")],
        }
    }

    fn write(&self, trace: &Trace) -> Result<()> {
        let mut output = Output::create(Some(&self.path))?;
        let origin = Origin { rank: 0, process: "isentrope", device: &self.device.name() };
        trace.write(origin, &mut |text| output.text(text))?;
        output.finish()
    }

    /// Warns if the step was not made.
    pub fn finish(&self) {
        if !self.is_made {
            let which = self.step.map(|step| format!(": step {step} was not made"));
            messages::warning(&format!(
                "there is no trace in {}{}",
                self.path.display(),
                which.unwrap_or_default()
            ));
        }
    }
}
