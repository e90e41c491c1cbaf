//! The numbers of a run's steps: `metrics.jsonl`, `timings.jsonl` and `tensorboard/`.

use super::sinks::{JsonlSink, TensorBoardSink};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use isentrope_files::sync_directory;
use isentrope_run::run_files::{METRICS, TIMINGS};
use std::path::{Path, PathBuf};

/// Metrics and timings, for TensorBoard.
pub(super) const TENSORBOARD: &str = "tensorboard";

/// Writes a run's numbers.
pub(super) struct Log {
    metrics: JsonlSink,
    timings: JsonlSink,
    tensorboard: TensorBoardSink,
}

impl Log {
    /// Creates the files in a run's directory, which must have none of them.
    pub(super) fn create(dir: &Path) -> Result<Self> {
        Self {
            metrics: JsonlSink::create(dir.join(METRICS))?,
            timings: JsonlSink::create(dir.join(TIMINGS))?,
            tensorboard: TensorBoardSink::create(&dir.join(TENSORBOARD))?,
        }
        .with_names_on_the_disk(dir)
    }

    /// Opens the files of a run that goes on after `last_step`, and removes later steps from them.
    /// Missing earlier steps are reported to `note`.
    ///
    /// # Errors
    /// [`Error::Run`] when the metrics are not there, which a run that was resumed would never have
    /// again; as [`JsonlSink::resume`] and [`TensorBoardSink::resume`].
    pub(super) fn resume(dir: &Path, last_step: u64, note: &mut dyn FnMut(&str)) -> Result<Self> {
        let metrics = dir.join(METRICS);
        if !metrics.exists() {
            return Err(Error::Run(format!(
                "{}: is not there, and the run has made {last_step} steps: put it back, make an \
                 empty file of that name to go on without the numbers of these steps, or start \
                 anew with --overwrite",
                metrics.display()
            )));
        }
        for name in [METRICS, TIMINGS] {
            let path = dir.join(name);
            // Steps are recorded in order, so the last recorded step shows whether any is missing.
            let last = if path.exists() { JsonlSink::last_step(&path)? } else { None };
            if last.is_none_or(|last| last < last_step) {
                let first = last.map_or(0, |last| last + 1);
                note(&format!(
                    "{}: the numbers of steps {first} to {last_step} are missing, and the run goes \
                     on without them",
                    path.display()
                ));
            }
        }
        if !dir.join(TENSORBOARD).exists() {
            note(&format!("{}: is not there, and begins anew", dir.join(TENSORBOARD).display()));
        }
        Self {
            metrics: JsonlSink::resume(dir.join(METRICS), last_step)?,
            timings: JsonlSink::resume(dir.join(TIMINGS), last_step)?,
            tensorboard: TensorBoardSink::resume(&dir.join(TENSORBOARD), last_step)?,
        }
        .with_names_on_the_disk(dir)
    }

    /// Waits until the files' names are on the disk, without which their lines would be lost.
    fn with_names_on_the_disk(self, dir: &Path) -> Result<Self> {
        sync_directory(&dir.join(TENSORBOARD))?;
        sync_directory(dir)?;
        Ok(self)
    }

    /// Waits until the metrics are on the disk, so that they are there whenever a checkpoint made
    /// later is.
    pub(super) fn sync(&self) -> Result<()> {
        self.metrics.sync()?;
        self.timings.sync()
    }

    /// Puts files back that were removed or replaced, and returns their paths.
    pub(super) fn restore(&mut self) -> Result<Vec<PathBuf>> {
        let Self { metrics, timings, tensorboard } = self;
        let restored = [metrics.restore()?, timings.restore()?, tensorboard.restore()?];
        Ok(restored.into_iter().flatten().map(Path::to_owned).collect())
    }

    /// Writes the numbers of a step.
    pub(super) fn write(&mut self, step: u64, metrics: &Metrics, timings: &Metrics) -> Result<()> {
        self.metrics.write(step, metrics)?;
        self.timings.write(step, timings)?;
        self.tensorboard.write(step, metrics)?;
        self.tensorboard.write(step, timings)
    }
}
