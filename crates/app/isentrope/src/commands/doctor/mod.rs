//! `isentrope doctor`: what this machine can do, and under a launcher what its ranks can.

mod cuda;
mod ranks;

use crate::device;
use crate::memory::{Memory, human};
use crate::ranks::{Ranks, together};
use crate::standard_output::{print, print_fitted};
use anyhow::Result;
use clap::Args;
use cuda::CudaReport;
use isentrope_hub::HubConfig;
use isentrope_kernels::{Backend, Cpu, Isa, Kind, Linear, Role};
use isentrope_reward::Python;
use isentrope_sandbox::{Attempt, Sandbox};
use ranks::RanksReport;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Show what this machine can do: instruction set, threads, memory, measured speed, optional parts
///
/// Under a launcher (`mpirun -n 4 isentrope doctor`) it shows the ranks as well: where each runs,
/// its threads, memory and speed, how fast they reach each other, and whether all see the directory
/// that the command is started in.
#[derive(Args)]
pub struct Doctor {
    /// Prints one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Threads [default: ISENTROPE_THREADS, else one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fetches the libraries that an NVIDIA GPU needs beside its driver (NVRTC and cuBLASLt) from
    /// the Python package index, about 0.5 GB, into ~/.cache/isentrope/cuda; nothing else is done
    /// then
    #[arg(long, conflicts_with_all = ["json", "threads"])]
    install_cuda: bool,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    instruction_set: String,
    instruction_sets_available: Vec<String>,
    cores: usize,
    threads: usize,
    memory_bytes: u64,
    memory_available_bytes: u64,
    linear: Vec<LinearSpeed>,
    memory_bandwidth_gb_per_s: f64,
    hub_cache: Option<String>,
    hub_token: bool,
    optional: Vec<Part>,
    cuda: CudaReport,
    sandbox: SandboxReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<RanksReport>,
}

/// Speed of `y = x W^T`.
#[derive(Serialize)]
struct LinearSpeed {
    shape: &'static str,
    rows: usize,
    inputs: usize,
    outputs: usize,
    gflop_per_s: f64,
}

/// A part that a machine may or may not offer.
#[derive(Serialize)]
struct Part {
    name: &'static str,
    available: bool,
    why: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {:<17} {}: {}",
            self.name,
            if self.available { "yes" } else { "no" },
            self.why
        )
    }
}

/// How programs are run that nobody trusts, and how attempts to escape went.
#[derive(Serialize)]
struct SandboxReport {
    tier: Option<String>,
    description: String,
    self_test: Vec<Attempt>,
}

impl Doctor {
    pub fn run(self) -> Result<()> {
        if self.install_cuda {
            return cuda::install();
        }
        together(self.threads, |ranks| self.examine(ranks))
    }

    /// Measures on all ranks at once, and has the first say what was found.
    fn examine(&self, ranks: &Ranks) -> Result<()> {
        let device = device::cpu(Some(ranks.threads))?;
        ranks.world.any(false)?; // so that all begin together
        let training = linear_speed(&device, "training", 2048, 2048, 2048)?;
        let ranks_report = RanksReport::gather(ranks, training.gflop_per_s)?;
        if !ranks.is_first() {
            return Ok(());
        }
        let memory = Memory::now();
        let hub = HubConfig::from_env().ok();
        let sandbox = SandboxReport::find();
        let cuda = CudaReport::find();
        let optional = cuda.parts().into_iter().chain([sandbox.part(), python(), mpi()]).collect();
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            instruction_set: device.isa().to_string(),
            instruction_sets_available: Isa::available().iter().map(ToString::to_string).collect(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads: device.threads(),
            memory_bytes: memory.total,
            memory_available_bytes: memory.available,
            linear: vec![training, linear_speed(&device, "decoding", 16, 2048, 2048)?],
            memory_bandwidth_gb_per_s: bandwidth(&device, &memory),
            hub_cache: hub.as_ref().map(|h| h.cache.display().to_string()),
            hub_token: hub.is_some_and(|h| h.token.is_some()),
            optional,
            cuda,
            sandbox,
            ranks: ranks_report,
        };
        if self.json {
            print(&(serde_json::to_string_pretty(&report)? + "\n"))
        } else {
            print_fitted(&report.to_string())
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "isentrope {}", self.version)?;
        writeln!(
            f,
            "  instruction set   {} (available: {})",
            self.instruction_set,
            self.instruction_sets_available.join(", ")
        )?;
        writeln!(f, "  threads           {} on {} cores", self.threads, self.cores)?;
        writeln!(
            f,
            "  memory            {} in all, {} available",
            human(self.memory_bytes as usize),
            human(self.memory_available_bytes as usize)
        )?;
        for speed in &self.linear {
            writeln!(
                f,
                "  linear, {:<9} {:.0} GFLOP/s ({} rows, {} x {})",
                speed.shape, speed.gflop_per_s, speed.rows, speed.inputs, speed.outputs
            )?;
        }
        writeln!(
            f,
            "  memory bandwidth  {:.1} GB/s (reading and writing)",
            self.memory_bandwidth_gb_per_s
        )?;
        let token = if self.hub_token { "with a token" } else { "without a token" };
        writeln!(
            f,
            "  model cache       {} ({token})",
            self.hub_cache.as_deref().unwrap_or("none: set HF_HOME")
        )?;
        for part in &self.optional {
            part.fmt(f)?;
        }
        self.cuda.fmt(f)?;
        for attempt in self.sandbox.self_test.iter().filter(|attempt| !attempt.held) {
            writeln!(f, "  a program in the sandbox can {}: {}", attempt.name, attempt.how)?;
        }
        self.ranks.iter().try_for_each(|ranks| ranks.fmt(f))
    }
}

/// Median of as many runs as fill about half a second, after one to warm up; of one run where that
/// takes longer.
fn median_seconds(mut run: impl FnMut()) -> f64 {
    let started = Instant::now();
    let mut seconds = Vec::new();
    while seconds.is_empty() || started.elapsed() < Duration::from_millis(400) {
        let start = Instant::now();
        run();
        seconds.push(start.elapsed().as_secs_f64());
    }
    if seconds.len() > 1 {
        seconds.remove(0);
    }
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn linear_speed(
    device: &Cpu,
    name: &'static str,
    rows: usize,
    inputs: usize,
    outputs: usize,
) -> Result<LinearSpeed> {
    let shape = Linear { inputs, outputs };
    let ramp =
        |len: usize| -> Vec<f32> { (0..len).map(|i| (i % 251) as f32 / 251.0 - 0.5).collect() };
    let mut x = device.buffer(Role::Activation(rows, inputs));
    device.write(&mut x, 0, &ramp(rows * inputs));
    let kind = Kind::Matrix(shape);
    let mut weights = device.allocate(Role::Weight(kind))?;
    device.pack(kind, 0, &ramp(inputs * outputs), &mut weights);
    let mut y = device.buffer(Role::Activation(rows, outputs));
    let mut first = vec![0.0; outputs];
    let seconds = median_seconds(|| {
        device.linear(shape, &x, &weights, None, &mut y, rows);
        device.read(&y, 0, &mut first); // whatever the host reads is finished
    });
    let flop = 2.0 * rows as f64 * inputs as f64 * outputs as f64;
    Ok(LinearSpeed { shape: name, rows, inputs, outputs, gflop_per_s: flop / seconds / 1e9 })
}

/// A copy between buffers far larger than caches: each byte is read once and written once.
fn bandwidth(device: &Cpu, memory: &Memory) -> f64 {
    let role = Role::Exact(1, (128 << 20).min(memory.available as usize / 32));
    let (mut from, mut to) = (device.buffer(role), device.buffer(role));
    // Pages that were never written to are all one page of zeros, and that is in the cache.
    device.fill(&mut from, 1.0);
    device.fill(&mut to, 1.0);
    let seconds = median_seconds(|| device.copy(&from, &mut to, 1));
    (2 * device.bytes(role)) as f64 / seconds / 1e9
}

impl SandboxReport {
    /// Finds the sandbox and tries to escape from it, which takes some seconds.
    fn find() -> Self {
        match Sandbox::find() {
            Ok(sandbox) => Self {
                tier: Some(sandbox.tier().to_string()),
                description: sandbox.describe(),
                self_test: sandbox.self_test(),
            },
            Err(why) => Self { tier: None, description: why.to_string(), self_test: Vec::new() },
        }
    }

    fn part(&self) -> Part {
        let attempts = self.self_test.len();
        let held = self.self_test.iter().filter(|attempt| attempt.held).count();
        let why = match &self.tier {
            Some(tier) => {
                format!(
                    "{tier} ({}); of {attempts} attempts to escape {held} failed",
                    self.description
                )
            }
            None => self.description.clone(),
        };
        Part { name: "code sandbox", available: self.tier.is_some() && held == attempts, why }
    }
}

/// The interpreter that runs programs, unless a recipe names another.
fn python() -> Part {
    match Python::find(None) {
        Ok(python) => {
            let why = format!("{} ({})", python.version(), python.program().display());
            Part { name: "Python", available: true, why }
        }
        Err(why) => Part { name: "Python", available: false, why: why.to_string() },
    }
}

/// The launchers of ranks.
fn mpi() -> Part {
    let launchers = ["mpirun", "mpiexec", "srun"];
    let directories: Vec<PathBuf> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let in_directory =
        |name: &str| directories.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    let (available, why) = match launchers.into_iter().find_map(in_directory) {
        Some(launcher) => {
            (true, format!("`{} -n 2 isentrope doctor` shows the ranks", launcher.display()))
        }
        None => (
            false,
            "no mpirun, mpiexec or srun in PATH; `apt-get install openmpi-bin` has one".into(),
        ),
    };
    Part { name: "MPI", available, why }
}
