//! Measures a GPU: the tensor core against its model, every kernel against its bound, whole models,
//! and GRPO steps next to transformers' and TRL's. `bench/gpu.sh` builds and runs it.
//!
//! `gpu [--out DIRECTORY] [--tests DIRECTORY] [--opponents SCRIPT] [--python PYTHON] [--seconds N]
//! [--parts PART,...] [--emulated]` prints one Markdown table. After every part it writes the table
//! and a JSON file to the directory, so a later crash loses nothing. It exits with 1 if there is no
//! GPU to work with, or if a result is wrong. `--tests` is the directory of the program `isentrope`
//! and its built-in model, `--opponents` the path of `peers_gpu.py`, `--python` the interpreter
//! that runs it. Opponents stop N seconds after the start. `--emulated` tries this program itself
//! without a GPU, on small sizes; its times mean nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is what it is for")]
#![allow(clippy::unwrap_used, reason = "what fails here is a measurement")]

mod grpo;
mod models;
mod opponents;
mod peak;
mod probe;
mod process;
#[path = "../../tests/qwen2.rs"]
mod qwen2;
mod report;
mod speed;

use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{Cuda, Device, Dtype, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings};
use opponents::Opponents;
use report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All parts, in their order.
const PARTS: [&str; 7] = ["tensor core", "memory", "bf16", "f32", "models", "GRPO", "opponents"];

/// How large the work is.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Least number of sums that the probe computes.
    pub probed: usize,
    /// Tokens, features and the vocabulary are divided by this.
    pub divisor: usize,
    /// Length of a measurement.
    pub window: Duration,
}

fn main() -> ExitCode {
    let started = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)
    };
    // The programs are started in other directories, so paths must be absolute.
    let path = |name: &str| {
        text(name).map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()))
    };
    let parts: Vec<&str> =
        text("--parts").map_or(PARTS.to_vec(), |parts| parts.split(',').map(str::trim).collect());
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        eprintln!("there is no part {unknown:?}; there are {}", PARTS.join(", "));
        return ExitCode::FAILURE;
    }
    let seconds = text("--seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(600);
    let opponents = path("--opponents").map(|script| Opponents {
        python: text("--python").map_or("python3", |python| python).into(),
        script,
        until: started + Duration::from_secs(seconds),
    });
    let out = path("--out").unwrap_or_else(|| ".".into());
    let (tests, report) = (path("--tests"), Report::default());
    let mut run = Run { out, tests, opponents, parts, report };
    if arguments.iter().any(|argument| argument == "--emulated") {
        let scale = Scale { probed: 1000, divisor: 64, window: Duration::from_millis(1) };
        run.report.name("emulated: no time here means anything");
        let device: Arc<dyn Device> = Arc::new(Emulator::new(Settings::default()));
        run.all(&device, scale);
    } else {
        let surroundings = Surroundings::of_process();
        let gpu: Arc<dyn Device> = match Gpu::open(0, &surroundings, SOURCES) {
            Ok(gpu) => Arc::new(gpu),
            Err(error) => {
                eprintln!("nothing can be measured here: {error}");
                return ExitCode::FAILURE;
            }
        };
        let scale = Scale { probed: 1_000_000, divisor: 1, window: Duration::from_millis(60) };
        run.report.name(&gpu.name());
        run.all(&gpu, scale);
    }
    println!("{}", run.report.table());
    let is_right = run.report.is_right();
    if !is_right {
        eprintln!("not everything is right: see the lines with `wrong`");
    }
    if run.write() && is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the parts in order.
struct Run<'a> {
    out: PathBuf,
    tests: Option<PathBuf>,
    opponents: Option<Opponents>,
    /// The parts asked for.
    parts: Vec<&'a str>,
    report: Report,
}

impl Run<'_> {
    /// All parts. Opponents have the time that is left.
    fn all(&mut self, device: &Arc<dyn Device>, scale: Scale) {
        let (out, tests) = (self.out.clone(), self.tests.clone());
        let backend = |dtype| Cuda::new(device.clone(), dtype);
        self.part("tensor core", |report| probe::probe(&backend(Dtype::Bf16), scale, report));
        self.part("memory", |report| speed::copies(&**device, scale, report));
        self.part("bf16", |report| speed::operations(&backend(Dtype::Bf16), scale, report));
        self.part("f32", |report| speed::operations(&backend(Dtype::F32), scale, report));
        self.part("models", |report| models::models(device, scale, report));
        let Some(tests) = tests else { return };
        self.part("GRPO", |report| grpo::grpo(device, &tests, &out, scale, report));
        if let Some(opponents) = self.opponents.take() {
            self.part("opponents", |report| {
                opponents.measure(&**device, &tests, &out, scale, report);
            });
        }
    }

    /// Runs one part, and writes the report so far. A panic becomes a verdict, and the next part
    /// begins.
    fn part(&mut self, name: &'static str, part: impl FnOnce(&mut Report)) {
        if !self.parts.contains(&name) {
            return;
        }
        let started = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(&mut self.report))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no reason is given");
            self.report.verdict(name, "the rest of it", Err(format!("it has panicked: {said}")));
        }
        eprintln!("{name}: {:.0} s", started.elapsed().as_secs_f64());
        self.write();
    }

    /// Writes the report. If that fails, prints why and returns false.
    fn write(&self) -> bool {
        let written = self.report.write(&self.out);
        if let Err(error) = &written {
            eprintln!("{}: {error}", self.out.display());
        }
        written.is_ok()
    }
}
