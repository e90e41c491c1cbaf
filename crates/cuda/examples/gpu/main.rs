//! What a GPU computes and how fast: the tensor core against its model, cuBLASLt against chains, the conformance tests on the
//! device, and every kernel against its bound. `bench/gpu.sh` builds and runs it; docs/cuda.md explains it.
//!
//! `gpu [--out DIRECTORY] [--tests DIRECTORY] [--emulated]` prints one Markdown table, and writes it and one JSON file to the
//! directory. It ends with 1 where there is no GPU to work with, or where not everything is right. `--tests` says where the
//! executables `conformance_f32` and `conformance_bf16` are. `--emulated` tries this program itself without a GPU, on small
//! sizes; its times mean nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is what it is for")]
#![allow(clippy::unwrap_used, reason = "what fails here is a measurement")]

mod probe;
mod products;
mod report;
mod speed;

use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{Cuda, Device, Dtype, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings, TensorCore};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long each of the two conformance tests may take.
const CONFORMANCE: Duration = Duration::from_secs(150);

/// How large the work is.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Sums that the probe computes, at least.
    pub probed: usize,
    /// Tokens, features and the vocabulary are divided by this.
    pub divisor: usize,
    /// A measurement goes on for so long.
    pub window: Duration,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(PathBuf::from)
    };
    let out = value("--out").unwrap_or_else(|| ".".into());
    let mut report = Report::default();
    if arguments.iter().any(|argument| argument == "--emulated") {
        let scale = Scale { probed: 1000, divisor: 64, window: Duration::from_millis(1) };
        let device = Arc::new(Emulator::new(Settings::default()));
        report.name("emulated: no time here means anything");
        measure(&device, TensorCore::Hopper, scale, &mut report);
    } else {
        let surroundings = Surroundings::of_process();
        let gpu = match Gpu::open(0, &surroundings, SOURCES) {
            Ok(gpu) => Arc::new(gpu),
            Err(error) => {
                eprintln!("nothing can be measured here: {error}");
                return ExitCode::FAILURE;
            }
        };
        let scale = Scale { probed: 1_000_000, divisor: 1, window: Duration::from_millis(60) };
        let core = if gpu.limits().capability.0 >= 9 { TensorCore::Hopper } else { TensorCore::Ampere };
        report.name(&gpu.name());
        measure(&gpu, core, scale, &mut report);
        products::sweep(&gpu, scale, &mut report);
    }
    if let Some(tests) = value("--tests") {
        conformance(&tests, &mut report);
    }
    match report.write(&out) {
        Ok(()) if report.is_right() => ExitCode::SUCCESS,
        Ok(()) => {
            eprintln!("not everything is right: see the lines with `wrong`");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{}: {error}", out.display());
            ExitCode::FAILURE
        }
    }
}

/// What any device can be asked for.
fn measure<D: Device>(device: &Arc<D>, core: TensorCore, scale: Scale, report: &mut Report) {
    let started = Instant::now();
    let bf16 = Cuda::new(device.clone(), Dtype::Bf16);
    probe::probe(&bf16, core, scale, report);
    speed::copies(&**device, scale, report);
    speed::operations(&bf16, scale, report);
    speed::operations(&Cuda::new(device.clone(), Dtype::F32), scale, report);
    eprintln!("probe and kernels: {:.0} s", started.elapsed().as_secs_f64());
}

/// The contract's tests on the device, by their own executables.
fn conformance(tests: &Path, report: &mut Report) {
    for name in ["conformance_f32", "conformance_bf16"] {
        let started = Instant::now();
        let child = Command::new(tests.join(name))
            .args(["--test-threads=1", "--format=terse"])
            .env("ISENTROPE_TEST_DEVICE", "gpu")
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                report.verdict("conformance", name, Err(format!("{}: {error}", tests.join(name).display())));
                continue;
            }
        };
        while started.elapsed() < CONFORMANCE && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text.lines().find(|line| line.starts_with("test result:")).map(str::to_owned);
        let seconds = started.elapsed().as_secs_f64();
        let verdict = match result {
            Some(line) if output.status.success() => Ok(format!("{line} ({seconds:.0} s)")),
            Some(line) => Err(line),
            None => Err(format!("no result after {seconds:.0} s")),
        };
        report.verdict("conformance", name, verdict);
    }
}
