//! The flags of `train` and `sft`.

use super::card::Card;
use crate::device::{self, DeviceFlag, DeviceRequest};
use crate::messages::counted;
use crate::ranks::{Here, Ranks};
use crate::run_directory::latest_checkpoint;
use crate::trace::TraceRequest;
use anyhow::{Error, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use isentrope_train::run::{Existing, word};
use isentrope_train::settings::DeviceKind;
use std::path::{Path, PathBuf};

/// When a run is resumed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resume {
    /// If it has a checkpoint.
    IfAny,
    /// Always: a missing checkpoint is an error.
    Must,
}

/// Flags of every command that trains.
#[derive(Args, Default)]
pub struct RunArguments {
    /// The recipe, a TOML file; docs/reference/recipe.md has every key
    #[arg(value_name = "RECIPE", required_unless_present = "keys")]
    pub(super) recipe: Option<PathBuf>,
    /// Sets a key of the recipe, as in --set optimizer.learning_rate=1e-5 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Continues from the run's latest checkpoint, to the same bits as an uninterrupted run; begins a
    /// run that has none. With --resume=must a missing checkpoint is an error
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "if-any", conflicts_with = "overwrite")]
    resume: Option<Resume>,
    /// Removes the run in the directory and starts a new one
    #[arg(long)]
    overwrite: bool,
    /// Shows the memory and time that the run needs, the settings that the recipe changes, and the
    /// first prompts; trains nothing. Of a model on the hub, it fetches only configuration and
    /// tokenizer
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With --dry-run: shows every setting, as a recipe
    #[arg(long, requires = "dry_run")]
    pub(super) all: bool,
    /// With --dry-run: plans for a GPU sold with this many GB, such as 24, 80 or 141, by the memory
    /// that its driver shows (79.6 GiB of 80 GB), or with as many GiB if no such GPU is known; this
    /// machine needs no GPU
    #[arg(long, value_name = "GB", requires = "dry_run")]
    gpu_memory: Option<f64>,
    /// With --dry-run: plans for such a GPU (a100, a100-40gb, a100-pcie, l40s, rtx4090, h100-pcie,
    /// h100, h200, b200), and says how long a step takes at least by its data sheet
    #[arg(long, value_name = "NAME", requires = "dry_run", conflicts_with = "gpu_memory")]
    gpu: Option<String>,
    /// Starts N processes here that train together: with GPUs, one on each. N changes no bit where
    /// the recipe sets update.shards (sft.shards): N may be 1, that number, or its half, a quarter
    /// and so on while these are whole (docs/guides/several-machines.md). With --dry-run: plans for
    /// one of N, wherever they are
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// Prints what every key of a recipe means, as Markdown, and does nothing else
    #[arg(long, exclusive = true)]
    pub(super) keys: bool,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<usize>,
    #[command(flatten)]
    device: DeviceFlag,
    /// Writes where the time of one step goes, in Chrome's trace event format, which
    /// https://ui.perfetto.dev opens (docs/reference/commands.md). No result depends on it
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    trace: Option<PathBuf>,
    /// With --trace: the step to trace [default: the second step of this process]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    trace_step: Option<u64>,
    /// Counts at most this many GiB of the device's memory as free; the run takes nine tenths of
    /// that, unless memory.budget_gib is set [default: all that is free]. Results do not depend on
    /// it
    #[arg(long, value_name = "GIB")]
    free_memory: Option<f64>,
    /// Saves and ends the run after the current step when standard input ends; sweeps use it
    #[arg(long, hide = true)]
    pub(super) end_with_standard_input: bool,
}

impl RunArguments {
    /// A dry run of a recipe.
    pub fn dry(recipe: PathBuf) -> Self {
        Self { recipe: Some(recipe), dry_run: true, ..Self::default() }
    }

    /// The treatment of a run that is already in the directory.
    pub(super) fn existing(&self) -> Existing {
        match (self.resume, self.overwrite) {
            (Some(_), _) => Existing::Resume,
            (_, true) => Existing::Overwrite,
            _ => Existing::Refuse,
        }
    }

    /// Refuses a run without a checkpoint if it must be resumed.
    pub(super) fn check_resumable(&self, dir: &Path) -> Result<()> {
        let checkpoints = dir.join("checkpoints");
        if self.resume == Some(Resume::Must) && latest_checkpoint(&checkpoints).is_none() {
            bail!(
                "{}: there is no checkpoint, and --resume=must needs one; --resume begins a run that \
                 has none",
                checkpoints.display()
            );
        }
        Ok(())
    }

    /// The device to open, by the flag, the environment or the recipe's kind.
    pub(super) fn device(&self, kind: DeviceKind) -> Result<DeviceRequest> {
        device::request(&self.device, kind)
    }

    /// The most bytes of memory that count as free.
    pub(super) fn most_memory(&self) -> Result<usize> {
        match self.free_memory {
            Some(gib) if gib > 0.0 => Ok((gib * f64::from(1 << 30)) as usize),
            Some(gib) => Err(anyhow!("--free-memory is {gib}: it must be above 0")),
            None => Ok(usize::MAX),
        }
    }

    /// The GPU of a data sheet or memory size for which a dry run plans, if one is named.
    pub(super) fn card(&self) -> Result<Option<Card>> {
        match (&self.gpu, self.gpu_memory) {
            (Some(name), _) => Card::named(name).map(Some),
            (None, Some(gb)) => Card::new(gb).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The ranks to start on this machine by `isentrope {command}`, if there is no launcher.
    pub(super) fn ranks_here(&self, command: &str, shards: Option<usize>) -> Option<Here> {
        let count = self.ranks.filter(|_| !self.dry_run)? as usize;
        let recipe = self.recipe.as_deref().unwrap_or(Path::new("RECIPE"));
        let recipe = word(&recipe.display().to_string());
        let command = format!("isentrope {command} {recipe} --ranks {count}");
        Some(Here { count, shards, command })
    }

    /// Ranks that share the work: the launcher's, unless a dry run names another number.
    pub(super) fn count(&self, ranks: &Ranks) -> usize {
        self.ranks.map_or(ranks.world.size(), |ranks| ranks as usize)
    }

    /// The trace that a run with this many steps is asked for; the first rank alone makes one.
    pub(super) fn trace(&self, steps: u64, ranks: &Ranks) -> Result<Option<TraceRequest>> {
        let Some(path) = &self.trace else { return Ok(None) };
        if let Some(step) = self.trace_step.filter(|&step| step > steps) {
            let steps = counted(steps, "step");
            return Err(anyhow!("--trace-step is {step}, and the run has {steps}"));
        }
        ranks.is_first().then(|| TraceRequest::new(path, self.trace_step)).transpose()
    }

    /// A device's failure with its remedies: less memory, and how a saved run continues.
    pub(super) fn with_remedies(&self, failed: &device::Failed, checkpoints: &Path) -> Error {
        let mut said = failed.to_string();
        if failed.lacks_memory() {
            said += "; --free-memory or memory.budget_gib has the run take less";
        }
        if isentrope_files::names(checkpoints).is_ok_and(|names| !names.is_empty()) {
            let flag = if self.overwrite { "--resume in place of --overwrite" } else { "--resume" };
            said += &format!("; the same command with {flag} goes on from the last checkpoint");
        }
        Error::msg(said)
    }
}
