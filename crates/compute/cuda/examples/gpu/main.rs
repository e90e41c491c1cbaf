//! Measures a GPU: the tensor core against its model, cuBLASLt against chains, the conformance
//! tests and those of attention's bits on the device, every kernel against its bound, and whole
//! models. `bench/gpu.sh` builds and runs it.
//!
//! `gpu [--out DIRECTORY] [--tests DIRECTORY] [--opponents SCRIPT] [--python PYTHON] [--seconds N]
//! [--parts PART,...] [--emulated]` prints one Markdown table, and writes it and one JSON file to
//! the directory, after every part, so that what is measured stays whatever happens next. It ends
//! with 1 where there is no GPU to work with, or where not everything is right. `--tests` says
//! where the executables `conformance` and `cuda` of the tests are, the program `isentrope` with
//! `quickstart.toml` and its model, and `--opponents` where `peers_gpu.py`, which `--python` runs;
//! none of them goes on for longer than so many seconds after the start. `--emulated` tries this
//! program itself without a GPU, on small sizes; its times mean nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is what it is for")]
#![allow(clippy::unwrap_used, reason = "what fails here is a measurement")]

mod grpo;
mod models;
mod opponents;
mod peak;
mod probe;
mod process;
mod products;
#[path = "../../tests/qwen2.rs"]
mod qwen2;
mod report;
mod runs;
mod speed;

use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{Cuda, Device, Dtype, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings, TensorCore};
use opponents::Opponents;
use process::{Ended, ended};
use report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tests: their executable, the module or type that their names begin with, and how many seconds
/// they may take.
const TESTS: [(&str, &str, u64); 3] =
    [("cuda", "attention_bits", 60), ("conformance", "f32", 130), ("conformance", "bf16", 130)];

/// All parts, in their order.
const PARTS: [&str; 11] = [
    "conformance",
    "tensor core",
    "memory",
    "bf16",
    "f32",
    "models",
    "GRPO",
    "runs",
    "sanitizer",
    "cuBLASLt",
    "opponents",
];

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
    let started = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)
    };
    // Programs that are started there have directories of their own.
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
    let mut run = Run { out, tests, opponents, parts, report, pulse: None, fastest: f64::INFINITY };
    if arguments.iter().any(|argument| argument == "--emulated") {
        let scale = Scale { probed: 1000, divisor: 64, window: Duration::from_millis(1) };
        let device = Arc::new(Emulator::new(Settings::default()));
        run.report.name("emulated: no time here means anything");
        run.all(&device, TensorCore::Hopper, scale, |_| {});
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
        let core =
            if gpu.limits().capability.0 >= 9 { TensorCore::Hopper } else { TensorCore::Ampere };
        run.report.name(&gpu.name());
        run.all(&gpu, core, scale, |report| products::sweep(&gpu, scale, report));
    }
    println!("{}", run.report.table());
    let is_right = run.report.is_right();
    if !is_right {
        eprintln!("not everything is right: see the lines with `wrong`");
    }
    if run.write() && is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One part after the other.
struct Run<'a> {
    out: PathBuf,
    tests: Option<PathBuf>,
    opponents: Option<Opponents>,
    /// The parts asked for.
    parts: Vec<&'a str>,
    report: Report,
    /// Seconds of a product that is the same every time, and the fewest so far.
    pulse: Option<Box<dyn FnMut() -> f64>>,
    fastest: f64,
}

impl Run<'_> {
    /// All parts. The conformance tests come first: they run in processes of their own, which end
    /// well before the time is over, and no failure of theirs keeps this one from going on.
    /// Opponents have the time that is left.
    fn all<D: Device>(
        &mut self,
        device: &Arc<D>,
        core: TensorCore,
        scale: Scale,
        products: impl FnOnce(&mut Report),
    ) {
        let (out, tests) = (self.out.clone(), self.tests.clone());
        let mut pulse = speed::pulse(device, scale);
        self.fastest = pulse();
        self.pulse = Some(Box::new(pulse));
        if let Some(tests) = &tests {
            for (executable, of, seconds) in TESTS {
                let (executable, limit) = (tests.join(executable), Duration::from_secs(seconds));
                self.part("conformance", |report| {
                    report.verdict("conformance", of, conformance(&executable, &out, of, limit));
                });
            }
        }
        let backend = |dtype| Cuda::new(device.clone(), dtype);
        self.part("tensor core", |report| probe::probe(&backend(Dtype::Bf16), core, scale, report));
        self.part("memory", |report| speed::copies(&**device, scale, report));
        self.part("bf16", |report| speed::operations(&backend(Dtype::Bf16), scale, report));
        self.part("f32", |report| speed::operations(&backend(Dtype::F32), scale, report));
        self.part("models", |report| models::models(device, scale, report));
        if let Some(tests) = &tests {
            self.part("GRPO", |report| grpo::grpo(device, tests, &out, scale, report));
            self.part("runs", |report| runs::runs(tests, &out, scale, report));
            if scale.divisor == 1 {
                self.part("sanitizer", |report| runs::sanitized(tests, &out, report));
            }
        }
        self.part("cuBLASLt", products);
        if let (Some(opponents), Some(tests)) = (self.opponents.take(), &tests) {
            self.part("opponents", |report| {
                opponents.measure(&**device, tests, &out, scale, report)
            });
        }
    }

    /// One part, and the report so far. Where it panics, that is a verdict, and the next one
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
        self.feel(name);
        self.write();
    }

    /// Says so where the GPU has become slower, as some do that others use or that are hot.
    fn feel(&mut self, name: &'static str) {
        let Some(pulse) = &mut self.pulse else { return };
        let Ok(seconds) = catch_unwind(AssertUnwindSafe(pulse)) else {
            // A GPU that has failed: the part has said so.
            self.pulse = None;
            return;
        };
        self.fastest = self.fastest.min(seconds);
        let times = seconds / self.fastest;
        if times > 1.1 {
            let said = format!(
                "a product takes {times:.1} times as long as it has: times of this part are not to be compared with others"
            );
            self.report.remark(name, "the GPU itself", &said);
        }
    }

    /// Writes the report; says so and is false where that fails.
    fn write(&self) -> bool {
        let written = self.report.write(&self.out);
        if let Err(error) = &written {
            eprintln!("{}: {error}", self.out.display());
        }
        written.is_ok()
    }
}

/// Tests on the device, by an executable that is stopped when it takes longer: those of a module or
/// type.
fn conformance(executable: &Path, out: &Path, of: &str, limit: Duration) -> Result<String, String> {
    let log = out.join(format!("{of}.log"));
    let mut command = Command::new(executable);
    command.args(["--test-threads=1", &format!("{of}::")]).env("ISENTROPE_TEST_DEVICE", "gpu");
    let Ended { status, text, seconds, .. } = ended(&mut command, &log, limit)?;
    let (result, log) = (text.lines().find(|line| line.starts_with("test result:")), log.display());
    match result {
        Some(line) if line.contains(" 0 passed") => {
            Err(format!("no test is called {of}::...: see {log}"))
        }
        Some(line) if status.success() => Ok(format!("{line} ({seconds:.0} s)")),
        Some(line) => Err(format!("{line}: see {log}")),
        None => Err(format!("no result after {seconds:.0} s: see {log}")),
    }
}
