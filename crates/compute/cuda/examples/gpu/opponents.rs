//! Opponents on the same GPU: transformers and TRL, run by a Python script (`bench/peers_gpu.py`)
//! with the same shapes and numbers of tokens.

use crate::Scale;
use crate::grpo::{RUN, STEPS};
use crate::models::{MODELS, REPEATS, Sizes};
use crate::peak::most_taken;
use crate::process::{ProcessEnd, run_limited};
use crate::report::{Pace, Report};
use isentrope_cuda::Device;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Least time left with which an opponent is started.
const LEAST: Duration = Duration::from_secs(20);
/// Modules that the Python must have.
const MODULES: &str = "torch transformers trl";

/// A part of the table, the script's arguments, and whether only the smaller model is measured.
type Job = (&'static str, &'static [&'static str], bool);
const JOBS: [Job; 4] = [
    ("transformers", &["sample"], false),
    ("transformers", &["train", "--checkpointing"], false),
    ("transformers", &["train"], false),
    ("TRL", &["grpo"], true),
];

/// Who computes, and until when.
pub struct Opponents {
    pub python: PathBuf,
    pub script: PathBuf,
    pub until: Instant,
}

/// The script's last line.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScriptAnswer {
    Missing(String),
    Failed(String),
    #[serde(untagged)]
    Done {
        lines: Vec<Line>,
        versions: String,
    },
}

#[derive(Deserialize)]
struct Line {
    what: String,
    #[serde(default)]
    said: String,
    seconds: Option<f64>,
    #[serde(default)]
    tokens: usize,
}

impl Opponents {
    /// Runs all jobs, each in a process with memory of its own.
    pub fn measure(
        &self,
        device: &dyn Device,
        tests: &Path,
        out: &Path,
        scale: Scale,
        report: &mut Report,
    ) {
        for (part, asked, of_smaller) in JOBS {
            for model in &MODELS[..if of_smaller { 1 } else { MODELS.len() }] {
                let sizes = Sizes::of(model, scale);
                let free = device.memory_info().free;
                let (said, memory) =
                    most_taken(device, free, || self.ask(asked, &sizes, tests, out, scale));
                let what = |line: &str| format!("{}, {line}", sizes.name);
                match said {
                    Ok(ScriptAnswer::Done { lines, versions }) => {
                        for Line { what: line, said, seconds, tokens } in lines {
                            let said = format!("{said}; {versions}");
                            match seconds {
                                Some(seconds) => {
                                    let pace = Pace { seconds, tokens, flop: 0.0, memory };
                                    report.pace(part, &what(&line), pace, &said);
                                }
                                None => report.remark(part, &what(&line), &said),
                            }
                        }
                    }
                    // The other models would lack the module too.
                    Ok(ScriptAnswer::Missing(module)) => {
                        report.remark(part, &asked.join(" "), &self.lacks(&module));
                        break;
                    }
                    Ok(ScriptAnswer::Failed(why)) | Err(why) => {
                        report.remark(
                            part,
                            &what(&asked.join(" ")),
                            &format!("not measured: {why}"),
                        );
                    }
                }
            }
        }
    }

    /// Runs one job of the script, and returns its last line.
    fn ask(
        &self,
        asked: &[&str],
        sizes: &Sizes,
        tests: &Path,
        out: &Path,
        scale: Scale,
    ) -> Result<ScriptAnswer, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < LEAST {
            return Err("no time is left for it".into());
        }
        let config = out.join("opponents-config.json");
        fs::create_dir_all(out)
            .and_then(|()| fs::write(&config, sizes.config.to_string()))
            .map_err(|error| format!("{}: {error}", config.display()))?;
        let mut command = Command::new(&self.python);
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(&self.script).args(asked);
        command
            .arg("--config")
            .arg(config)
            .arg("--tokenizer")
            .arg(tests.join("assets/countdown-base"));
        let numbers = [
            ("--sequences", sizes.sequences),
            ("--prompt", sizes.prompt),
            ("--sampled", sizes.sampled),
            ("--group", sizes.group()),
            ("--steps", STEPS),
            ("--repeats", REPEATS),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        if scale.divisor > 1 {
            command.args(["--device", "cpu"]);
        }
        let log = out.join(format!("{}, {}.log", sizes.name, asked.join(" ")));
        let ProcessEnd { status, stopped, text, seconds } =
            run_limited(&mut command, &log, RUN.min(left)).map_err(|why| {
                format!("{why}; ISENTROPE_PYTHON names a Python that has {MODULES}")
            })?;
        if stopped {
            return Err(format!("stopped after {seconds:.0} s: see {}", log.display()));
        }
        let last = text.lines().rev().find(|line| line.starts_with('{'));
        last.filter(|_| status.success())
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| format!("it has ended with {status}: see {}", log.display()))
    }

    /// A sentence on how to install a module that this Python lacks.
    fn lacks(&self, module: &str) -> String {
        format!(
            "not measured: {} has no module {module}. Where there is a network: `pip install \
             {MODULES}`; else `pip download -d wheels {MODULES}` where there is one, and here \
             `pip install --no-index --find-links wheels {MODULES}`. ISENTROPE_PYTHON names \
             another Python",
            self.python.display()
        )
    }
}
