//! Whole programs on the GPU: a recipe trained twice, to equal bytes, and once on the CPU, whose
//! bytes f32 must have. And NVIDIA's compute-sanitizer over conformance tests, where there is one.

use crate::Scale;
use crate::process::{Ended, ended};
use crate::report::Report;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long one run may take.
const RUN: Duration = Duration::from_secs(30);
/// How long a tool of compute-sanitizer may take, which slows kernels down by a hundred and more.
const SANITIZER: Duration = Duration::from_secs(25);
/// Kernels of every kind, in tests that are short.
const SANITIZED: &str = "bf16::arithmetic::";

/// Trains `quickstart.toml` by the program in the directory of tests.
pub fn runs(tests: &Path, out: &Path, scale: Scale, report: &mut Report) {
    // On the emulator next to nothing, and still every phase of a run.
    let sets: &[&str] = if scale.divisor == 1 {
        &["run.steps=5", "eval.problems=64"]
    } else {
        &[
            "run.steps=1",
            "rollout.prompts=2",
            "rollout.responses=2",
            "rollout.max_tokens=8",
            "update.prompts=1",
            "eval.every=0",
        ]
    };
    let train = |name: &str, device: &str, dtype: &str| {
        let run = out.join("runs").join(name);
        let _ = fs::remove_dir_all(&run);
        let mut command = Command::new(tests.join("isentrope"));
        command.current_dir(tests).args(["train", "quickstart.toml", "--device", device]);
        command.arg("--set").arg(format!("run.out={}", run.display()));
        command.arg("--set").arg(format!("device.dtype={dtype}"));
        for set in sets {
            command.args(["--set", set]);
        }
        let log = out.join(format!("{name}.log"));
        let Ended { status, stopped, text, seconds } = ended(&mut command, &log, RUN)?;
        if stopped {
            return Err(format!("{name} was stopped after {seconds:.0} s: see {}", log.display()));
        }
        if !status.success() {
            return Err(format!(
                "{name} has failed: {}",
                text.lines().last().unwrap_or("it says nothing")
            ));
        }
        Ok((results(&run)?, seconds))
    };
    for (dtype, devices) in [("bf16", ["cuda", "cuda"]), ("f32", ["cuda", "cpu"])] {
        let what = format!("quickstart, {dtype}: {} and {}", devices[0], devices[1]);
        let first = train(&format!("{dtype}-1"), devices[0], dtype);
        let second =
            first.and_then(|first| Ok((first, train(&format!("{dtype}-2"), devices[1], dtype)?)));
        report.verdict(
            "runs",
            &what,
            second.and_then(|((first, one), (second, other))| {
                let differing: Vec<&str> = first
                    .iter()
                    .filter(|(name, bytes)| second.get(*name) != Some(bytes))
                    .map(|(name, _)| &**name)
                    .collect();
                if differing.is_empty() && first.len() == second.len() {
                    Ok(format!("the same bytes ({one:.0} and {other:.0} s)"))
                } else {
                    Err(format!("other bytes in {}", differing.join(", ")))
                }
            }),
        );
    }
}

/// A run's metrics and weights by file name: two equal runs have the same bytes.
fn results(run: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut results =
        BTreeMap::from([("metrics.jsonl".to_owned(), read(&run.join("metrics.jsonl"))?)]);
    let checkpoints = run.join("checkpoints");
    let entries = fs::read_dir(&checkpoints)
        .map_err(|error| format!("{}: {error}", checkpoints.display()))?;
    for entry in entries.filter_map(Result::ok) {
        let weights = entry.path().join("model.safetensors");
        if weights.is_file() {
            results.insert(
                format!("{}/model.safetensors", entry.file_name().display()),
                read(&weights)?,
            );
        }
    }
    match results.len() {
        1 => Err(format!("{} has no checkpoint", checkpoints.display())),
        _ => Ok(results),
    }
}

/// Looks for accesses out of bounds and for races, by NVIDIA's tool. A machine without it has one
/// line that says so.
pub fn sanitized(tests: &Path, out: &Path, report: &mut Report) {
    let Some(sanitizer) = sanitizer() else {
        report.verdict(
            "sanitizer",
            "compute-sanitizer",
            Ok("is not here: not on PATH, not in CUDA_HOME".into()),
        );
        return;
    };
    for tool in ["memcheck", "racecheck"] {
        let mut command = Command::new(&sanitizer);
        command.args(["--tool", tool, "--error-exitcode", "9"]);
        command.arg(tests.join("conformance")).args(["--test-threads=1", SANITIZED]);
        command.env("ISENTROPE_TEST_DEVICE", "gpu");
        let log = out.join(format!("{tool}.log"));
        let verdict = ended(&mut command, &log, SANITIZER).and_then(
            |Ended { status, stopped, text, seconds }| {
                // A tool stopped for want of time has found nothing so far; it reports a finding at
                // once.
                let found = text.lines().find(|line| {
                    line.starts_with("========= ")
                        && (line.contains("Invalid") || line.contains("hazard"))
                });
                match found {
                    Some(line) => Err(format!(
                        "{}: see {}",
                        line.trim_start_matches("========= "),
                        log.display()
                    )),
                    None if stopped => {
                        Ok(format!("nothing was found until it was stopped, after {seconds:.0} s"))
                    }
                    None if text.contains(" 0 passed") => {
                        Err(format!("no test is called {SANITIZED}...: see {}", log.display()))
                    }
                    None if status.success() => Ok(format!("nothing was found in {seconds:.0} s")),
                    None => Err(format!("it has ended with {status}: see {}", log.display())),
                }
            },
        );
        report.verdict("sanitizer", tool, verdict);
    }
}

/// The tool, on PATH or in a toolkit.
fn sanitizer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let toolkits =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain(["/usr/local/cuda".into()]).map(|toolkit| toolkit.join("bin"));
    std::env::split_paths(&path)
        .chain(toolkits)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("compute-sanitizer"))
        .find(|tool| tool.is_file())
}
