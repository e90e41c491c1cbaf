//! `isentrope doctor`: what this machine can do.

mod cuda;
mod links;

use crate::device;
use crate::memory::{Memory, human};
use crate::ranks;
use crate::standard_output::print_fitted;
use anyhow::Result;
use clap::Args;
use cuda::CudaReport;
use isentrope_hub::HubConfig;
use isentrope_kernels::{Backend, Cpu, Isa, Kind, Linear, Role};
use isentrope_reward::Python;
use isentrope_sandbox::Sandbox;
use isentrope_train::settings::RanksSettings;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Show what this machine can do: instruction set, threads, memory, measured speed, optional parts
///
/// Under a launcher of ranks (torchrun, srun, mpirun) rank 0 shows its machine, and the measured
/// links between the ranks: through the hosts, and between their GPUs if NCCL connects them.
#[derive(Args)]
pub struct Doctor {
    /// Threads [default: ISENTROPE_THREADS, else one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fetches the libraries that NVIDIA GPUs need beside their driver (NVRTC, cuBLASLt, and NCCL
    /// for several) from the Python package index, about 0.8 GB, into ~/.cache/isentrope/cuda;
    /// nothing else is done then
    #[arg(long, conflicts_with = "threads")]
    install_cuda: bool,
}

/// A part that a machine may or may not offer.
struct Part {
    name: &'static str,
    available: bool,
    why: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let available = if self.available { "yes" } else { "no" };
        writeln!(f, "  {:<17} {available}: {}", self.name, self.why)
    }
}

impl Doctor {
    pub fn run(self) -> Result<()> {
        if self.install_cuda {
            return cuda::install();
        }
        let settings = RanksSettings::default();
        ranks::together(self.threads, None, settings.patience(), |ranks| {
            if ranks.is_first() {
                show(&device::cpu(Some(ranks.threads))?)?;
            }
            if ranks.world.size() > 1 { links::show(ranks, &settings) } else { Ok(()) }
        })
    }
}

/// Prints what this machine can do.
fn show(device: &Cpu) -> Result<()> {
    let mut text = machine(device)?;
    let cuda = CudaReport::find();
    let (sandbox, escapes) = sandbox();
    for part in cuda.parts().into_iter().chain([sandbox, python(), mpi()]) {
        text += &part.to_string();
    }
    print_fitted(&format!("{text}{cuda}{escapes}"))
}

/// The CPU, its speed, the memory, and the cache of the hub.
fn machine(device: &Cpu) -> Result<String> {
    let memory = Memory::now();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let sets: Vec<String> = Isa::available().iter().map(ToString::to_string).collect();
    let mut text = format!("isentrope {}\n", env!("CARGO_PKG_VERSION"));
    writeln!(text, "  instruction set   {} (available: {})", device.isa(), sets.join(", "))?;
    writeln!(text, "  threads           {} on {cores} cores", device.threads())?;
    let (total, available) = (human(memory.total as usize), human(memory.available as usize));
    writeln!(text, "  memory            {total} in all, {available} available")?;
    for (name, rows) in [("training", 2048), ("decoding", 16)] {
        let speed = linear_speed(device, rows, 2048)?;
        writeln!(text, "  linear, {name:<9} {speed:.0} GFLOP/s ({rows} rows, 2048 x 2048)")?;
    }
    let bandwidth = bandwidth(device, &memory);
    writeln!(text, "  memory bandwidth  {bandwidth:.1} GB/s (reading and writing)")?;
    let hub = HubConfig::from_env().ok();
    let cache = hub.as_ref().map(|hub| hub.cache.display().to_string());
    let cache = cache.as_deref().unwrap_or("none: set HF_HOME");
    let token = if hub.is_some_and(|hub| hub.token.is_some()) { "with" } else { "without" };
    writeln!(text, "  model cache       {cache} ({token} a token)")?;
    Ok(text)
}

/// Median of as many runs as fill about half a second, after one to warm up; of one run if that
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

/// GFLOP/s of `y = x W^T` for this many rows and a square matrix.
fn linear_speed(device: &Cpu, rows: usize, size: usize) -> Result<f64> {
    let shape = Linear { inputs: size, outputs: size };
    let ramp =
        |len: usize| -> Vec<f32> { (0..len).map(|i| (i % 251) as f32 / 251.0 - 0.5).collect() };
    let mut x = device.buffer(Role::Activation(rows, size));
    device.write(&mut x, 0, &ramp(rows * size));
    let kind = Kind::Matrix(shape);
    let mut weights = device.allocate(Role::Weight(kind))?;
    device.pack(kind, 0, &ramp(size * size), &mut weights);
    let mut y = device.buffer(Role::Activation(rows, size));
    let mut first = vec![0.0; size];
    let seconds = median_seconds(|| {
        device.linear(shape, &x, &weights, None, &mut y, rows);
        device.read(&y, 0, &mut first); // whatever the host reads is finished
    });
    Ok(2.0 * (rows * size * size) as f64 / seconds / 1e9)
}

/// GB/s of a copy between buffers far larger than caches: each byte is read once and written once.
fn bandwidth(device: &Cpu, memory: &Memory) -> f64 {
    let role = Role::Exact(1, (128 << 20).min(memory.available as usize / 32));
    let (mut from, mut to) = (device.buffer(role), device.buffer(role));
    // Pages that were never written are all the same page of zeros, which stays in the cache.
    device.fill(&mut from, 1.0);
    device.fill(&mut to, 1.0);
    let seconds = median_seconds(|| device.copy_first_rows(&from, &mut to, 1));
    (2 * device.bytes(role)) as f64 / seconds / 1e9
}

/// The sandbox's line, and a line for each attempt to escape from it. The attempts take some
/// seconds.
fn sandbox() -> (Part, String) {
    let name = "code sandbox";
    let sandbox = match Sandbox::find() {
        Ok(sandbox) => sandbox,
        Err(why) => return (Part { name, available: false, why: why.to_string() }, String::new()),
    };
    let attempts = sandbox.self_test();
    let (all, held) = (attempts.len(), attempts.iter().filter(|attempt| attempt.held).count());
    let (tier, description) = (sandbox.tier(), sandbox.describe());
    let why = format!("{tier} ({description}); of {all} attempts to escape {held} failed");
    let escapes = attempts.iter().filter(|attempt| !attempt.held).map(|attempt| {
        format!("  a program in the sandbox can {}: {}\n", attempt.name, attempt.how)
    });
    (Part { name, available: held == all, why }, escapes.collect())
}

/// The interpreter that runs programs, unless a recipe names another.
fn python() -> Part {
    let (available, why) = match Python::find(None) {
        Ok(python) => (true, format!("{} ({})", python.version(), python.program().display())),
        Err(why) => (false, why.to_string()),
    };
    Part { name: "Python", available, why }
}

/// The launchers of ranks.
fn mpi() -> Part {
    let launchers = ["mpirun", "mpiexec", "srun"];
    let directories: Vec<PathBuf> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let in_directory =
        |name: &str| directories.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    let (available, why) = match launchers.into_iter().find_map(in_directory) {
        Some(launcher) => (true, format!("{} starts ranks", launcher.display())),
        None => (
            false,
            "no mpirun, mpiexec or srun in PATH; `train --ranks N` and torchrun need none".into(),
        ),
    };
    Part { name: "MPI", available, why }
}
