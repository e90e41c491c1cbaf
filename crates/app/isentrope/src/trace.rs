//! `--trace FILE`: where the time of one step goes, or of a command, as a file that Perfetto opens
//! (docs/reference/commands.md).

use crate::device::Device;
use crate::messages;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use isentrope_trace::{Origin, Trace};
use std::path::{Path, PathBuf};

/// Most events of a trace, but for phases: some 40 MB of memory, and twice as much on disk.
const EVENTS: usize = 500_000;

/// A trace that is to be written.
pub struct TraceFile {
    path: PathBuf,
    rank: usize,
    ranks: usize,
}

impl TraceFile {
    /// The file of one of so many ranks: the first has the name that was given, others one with
    /// their number in it. Whether it can be written is found out at once.
    ///
    /// # Errors
    /// When it cannot be, with its name.
    pub fn new(path: &Path, rank: usize, ranks: usize) -> Result<Self> {
        if path.as_os_str().is_empty() || path == Path::new("-") {
            bail!("--trace: name a file; a trace is not printed");
        }
        let path = of_rank(path, rank);
        drop(Output::create(Some(&path)).context("--trace")?);
        Ok(Self { path, rank, ranks })
    }

    /// Begins to record.
    fn begin() {
        isentrope_trace::begin(EVENTS);
    }

    /// Ends the recording, and writes it. `what` is what was traced. Returns what is to be said of
    /// it: a failure here is none of the work's.
    fn end(&self, what: &str, device: &Device) -> Vec<String> {
        device.settle();
        let Some(trace) = isentrope_trace::end() else { return Vec::new() };
        match self.write(&trace, device) {
            Ok(()) if self.rank == 0 => {
                let (path, events) = (self.path.display(), trace.events.len());
                let there = format!(
                    "the trace of {what}, {events} events, is in {path}; https://ui.perfetto.dev \
                     opens it"
                );
                [there].into_iter().chain(trace.gaps()).collect()
            }
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("the trace of {what} could not be written: {error:#}")],
        }
    }

    fn write(&self, trace: &Trace, device: &Device) -> Result<()> {
        let mut output = Output::create(Some(&self.path))?;
        let process = if self.ranks > 1 {
            format!("isentrope, rank {}", self.rank)
        } else {
            "isentrope".to_owned()
        };
        let origin = Origin { rank: self.rank, process: &process, device: &device.name() };
        trace.write(origin, &mut |text| output.text(text))?;
        output.finish()
    }

    /// Records a piece of work, and writes that if it has not failed.
    pub fn record<T>(
        &self,
        what: &str,
        device: &Device,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        Self::begin();
        let done = work()?;
        self.end(what, device).iter().for_each(|said| messages::note(said));
        Ok(done)
    }
}

/// A file's name with the number of a rank other than the first: `trace.json` is `trace.rank1.json`
/// then.
fn of_rank(path: &Path, rank: usize) -> PathBuf {
    if rank == 0 {
        return path.to_owned();
    }
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    path.with_extension(format!("rank{rank}{}", extension.unwrap_or_default()))
}

/// The trace of one step of a run.
pub struct StepTrace {
    file: TraceFile,
    device: Device,
    /// The step to trace; by default the second that is made, when everything has been used once.
    wanted: Option<u64>,
    under_way: Option<u64>,
    is_made: bool,
    /// Whether no step has begun.
    is_first: bool,
}

impl StepTrace {
    /// The trace of this step, or of the second that is made.
    pub fn new(file: TraceFile, wanted: Option<u64>, device: Device) -> Self {
        Self { file, device, wanted, under_way: None, is_made: false, is_first: true }
    }

    /// A step begins, of so many in all.
    pub fn begins(&mut self, step: u64, steps: u64) {
        // A run of one step has no second.
        let wanted = *self.wanted.get_or_insert((step + 1).min(steps));
        if wanted < step && self.is_first && self.file.rank == 0 {
            messages::warning(&format!(
                "step {wanted}, which --trace-step names, was made before; this goes on with step \
                 {step}, and traces none"
            ));
        }
        self.is_first = false;
        if step == wanted {
            self.under_way = Some(step);
            TraceFile::begin();
        }
    }

    /// The step that has begun is over. Returns what is to be said.
    pub fn is_over(&mut self) -> Vec<String> {
        let Some(step) = self.under_way.take() else { return Vec::new() };
        self.is_made = true;
        self.file.end(&format!("step {step}"), &self.device)
    }

    /// Says so where the step was not made.
    pub fn finish(&self) {
        if !self.is_made && self.file.rank == 0 {
            let which =
                self.wanted.map(|step| format!(": step {step} was not made")).unwrap_or_default();
            messages::warning(&format!("there is no trace in {}{which}", self.file.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_files_of_their_own() {
        let name = |path: &str, rank| of_rank(Path::new(path), rank).display().to_string();
        assert_eq!(name("a/trace.json", 0), "a/trace.json");
        assert_eq!(name("a/trace.json", 12), "a/trace.rank12.json");
        assert_eq!(name("a.b/trace", 1), "a.b/trace.rank1");
    }
}
