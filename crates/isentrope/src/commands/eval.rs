//! `isentrope eval`: measure a model on benchmarks, and compare two measurements.

use crate::engine::{self, Loaded, file_hashes};
use crate::interrupt::{self, Interrupted};
use crate::output::print;
use crate::progress::{Download, Work};
use crate::results_table;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use clap::error::ErrorKind;
use isentrope_data::Settings as DataSettings;
use isentrope_data::benchmark::{Benchmark, Choice, Decoding};
use isentrope_reward::{Overlong, VerifierSettings};
use isentrope_rollout::{Limits, Sampling};
use isentrope_train::collect::Judge;
use isentrope_train::evaluation::results::{self, Results};
use isentrope_train::evaluation::{BenchmarkFiles, EvaluationSet, Evaluator, sets};
use isentrope_train::observer::{Observer, Progress, StepReport};
use isentrope_train::prompts::Prompter;
use isentrope_train::sample::Interrupt;
use serde_json::{Map, Value, json};
use std::path::{Component, Path, PathBuf};

/// Measure a model on benchmarks
///
/// Benchmarks are aime24, aime25, amc, math500, omni-math, olympiadbench, minerva and gsm8k, or a file of your own. Each is
/// asked and decoded as docs/evaluation.md says: AIME and AMC with 32 responses at temperature 0.6, the others greedily.
///
/// The directory keeps every response and the numbers with 95 % intervals. The same command run again goes on where it
/// stopped, to the same bytes. With --against and without MODEL, two directories are compared and nothing is sampled.
#[derive(Args)]
#[command(override_usage = "isentrope eval <MODEL> --bench <NAME[=PLACE]>... [OPTIONS]\n       \
                            isentrope eval --against <DIR> --out <DIR>")]
pub struct Eval {
    /// A Hugging Face model directory, or a hub id such as Qwen/Qwen2.5-0.5B
    #[arg(value_name = "MODEL", required_unless_present = "against", requires = "bench")]
    model: Option<String>,
    /// A benchmark: NAME is fetched from the hub; NAME=PLACE is a .jsonl or .parquet file, or a data set on the hub
    /// (org/name, hf://datasets/org/name/FILE). A NAME of your own takes any file of problems (repeatable)
    #[arg(long, value_name = "NAME[=PLACE]", requires = "model", value_parser = Choice::parse)]
    bench: Vec<Choice>,
    /// Responses to each problem [default: the benchmark's]
    #[arg(short, long, visible_alias = "samples", value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65536))]
    n: Option<u32>,
    /// Divisor of the logits; 0 takes the most likely token [default: the benchmark's]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Longest response, in tokens [default: 8192]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Asks only the first so many problems of each benchmark
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Of the random numbers
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Ends a response where this text occurs (repeatable)
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Judges responses, as the recipe's reward.verifier: auto, math, countdown, or a table such as
    /// '{command=["python3","reward.py"]}' [default: the benchmark's, auto for your own]
    #[arg(long, value_name = "VERIFIER", value_parser = verifier)]
    verifier: Option<VerifierSettings>,
    /// Where the results are kept [default: evals/ and the model's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compares with the results in this directory by a paired test
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Memory for keys and values, in MiB [default: half of what is available]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    kv_memory: Option<u64>,
}

/// A verifier as recipes write it; a bare word is a string.
fn verifier(text: &str) -> Result<VerifierSettings, String> {
    #[derive(serde::Deserialize)]
    struct Key {
        verifier: VerifierSettings,
    }
    let quoted = || toml::from_str::<Key>(&format!("verifier = {text:?}"));
    let key = toml::from_str::<Key>(&format!("verifier = {text}")).or_else(|_| quoted());
    key.map(|key| key.verifier).map_err(|_| {
        "it must be auto, math or countdown, or a table as reward.verifier takes it in recipes".to_owned()
    })
}

/// A benchmark that is about to be measured.
struct Measured {
    set: EvaluationSet,
    /// Everything that its results depend on, but for model and seed.
    settings: Value,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let out = match (&self.out, &self.model) {
            (Some(out), _) => out.clone(),
            (None, Some(model)) => Path::new("evals").join(directory_name(model)),
            (None, None) => clap::Error::raw(
                ErrorKind::MissingRequiredArgument,
                "--against without MODEL compares two directories; name the other one with --out\n",
            )
            .exit(),
        };
        if let Some(old) = &self.against
            && !old.join("manifest.json").is_file()
        {
            bail!("--against: {} holds no results of an evaluation", old.display());
        }
        if let Some(model) = &self.model {
            self.measure(model, &out)?;
        }
        match &self.against {
            Some(old) => {
                let comparisons = results::compare(old, &out)?;
                results::write_comparison(&comparisons, old, &out)?;
                print(&results_table::comparison(&comparisons, old, &out))
            }
            None => Ok(()),
        }
    }

    fn measure(&self, model: &str, out: &Path) -> Result<()> {
        // What can be wrong with the benchmarks is found before the model is loaded.
        let found = self.find()?;
        let loaded = engine::load(model, self.threads)?;
        let vocabulary = loaded.model.config.vocab_size;
        let prompter = Prompter::read(&loaded.dir, vocabulary, &DataSettings::default())?;
        let measured: Vec<Measured> =
            found.iter().map(|files| self.prepare(files, &prompter, &loaded)).collect::<Result<_>>()?;
        let benchmarks: Map<String, Value> =
            measured.iter().map(|m| (m.set.name.clone(), m.settings.clone())).collect();
        let manifest = json!({
            "isentrope": env!("CARGO_PKG_VERSION"),
            "model": { "path": model, "sha256": file_hashes(&loaded.dir)? },
            "seed": self.seed,
            "benchmarks": benchmarks,
        });
        let results = Results::open(out, manifest)?;
        eprintln!("{model}: results in {}", out.display());
        let judge = Judge {
            verifier: VerifierSettings::default().build()?,
            overlong: Overlong::default(),
            max_tokens: usize::MAX,
        };
        let evaluator = Evaluator {
            sampling: Sampling {
                eos_tokens: prompter.eos_tokens.clone(),
                stop_strings: self.stop.clone(),
                ..Sampling::default()
            },
            seed: self.seed,
            prompter: &prompter,
            judge: &judge,
            limits: Limits { cache_bytes: loaded.cache_bytes(self.kv_memory)?, ..Limits::default() },
        };
        interrupt::wind_up_first("keeping the finished problems");
        for Measured { set, .. } in &measured {
            self.sample(&evaluator, set, &loaded, &results, out)?;
        }
        let report = results.report()?;
        print(&results_table::report(&report, out))
    }

    /// The files of the benchmarks, each of which is asked for once.
    fn find(&self) -> Result<Vec<BenchmarkFiles>> {
        let mut found: Vec<BenchmarkFiles> = Vec::new();
        for choice in &self.bench {
            let name = &choice.benchmark.name;
            if found.iter().any(|other| other.benchmark.name == *name) {
                bail!("--bench: {name} is asked for twice");
            }
            found.push(BenchmarkFiles::find(choice.clone(), &Download::default())?);
        }
        Ok(found)
    }

    /// Reads the problems, and says what the user should know of them.
    fn prepare(&self, found: &BenchmarkFiles, prompter: &Prompter, loaded: &Loaded) -> Result<Measured> {
        let Benchmark { name, suffix, decoding, verifier, .. } = &found.benchmark;
        let its = verifier.map(VerifierSettings::from);
        let verifier = self.verifier.clone().or(its).unwrap_or_default();
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let (problems, report) = found.problems(limit, &verifier)?;
        if report.usable < report.rows {
            eprintln!("note: {name}: {report}");
        }
        let decoding = Decoding {
            samples: self.n.map_or(decoding.samples, |n| n as usize),
            temperature: self.temperature.unwrap_or(decoding.temperature),
            max_tokens: self.max_tokens.map_or(decoding.max_tokens, |max_tokens| max_tokens as usize),
        };
        let sampling = Sampling {
            temperature: decoding.temperature,
            stop_strings: self.stop.clone(),
            ..Sampling::default()
        };
        sampling.check().map_err(|e| anyhow!("--{e}"))?;
        if decoding.temperature == 0.0 && decoding.samples > 1 {
            eprintln!("note: {name}: greedy responses to a problem are all the same; set --temperature");
        }
        let count = problems.len();
        let set = EvaluationSet::new(name, problems, decoding, Some(&verifier), prompter)?;
        if let Some(note) = sets::too_long(&set, loaded.model.context()) {
            eprintln!("note: {note}");
        }
        let files: Vec<Value> = found.hashes()?.into_iter().map(|file| file.sha256.into()).collect();
        let settings = json!({
            "files_sha256": files,
            "limit": self.limit,
            "problems": count,
            "rows_left_out": report.rows - report.usable,
            "suffix": suffix,
            "samples": decoding.samples,
            "temperature": decoding.temperature,
            "max_tokens": decoding.max_tokens,
            "stop": self.stop,
            "verifier": verifier,
        });
        Ok(Measured { set, settings })
    }

    /// Samples and judges what a benchmark still lacks.
    fn sample(
        &self,
        evaluator: &Evaluator<'_>,
        set: &EvaluationSet,
        loaded: &Loaded,
        results: &Results,
        out: &Path,
    ) -> Result<()> {
        let samples = set.decoding.samples;
        let Some(mut log) = results.log(&set.name, set.problems.len(), samples)? else {
            eprintln!("{}: complete already", set.name);
            return Ok(());
        };
        let missing = log.missing();
        let done = set.problems.len() - missing.len();
        if done > 0 {
            eprintln!("{}: going on after {done} of {} problems", set.name, set.problems.len());
        }
        let mut watcher = Watcher::new(&set.name, missing.len() * samples);
        let add = &mut |place: usize, responses: Vec<_>| log.add(place, &set.problems[place].0, &responses);
        let ended =
            evaluator.respond(&loaded.model, set, &missing, Interrupt::WhenAsked, add, &mut watcher)?;
        watcher.work.finish();
        if ended.is_break() {
            let left = log.missing().len();
            let kept = format!(
                "{} of {} problems of {} are in {}; the same command goes on",
                set.problems.len() - left,
                set.problems.len(),
                set.name,
                out.display()
            );
            return Err(Interrupted { kept }.into());
        }
        Ok(log.finish()?)
    }
}

/// A directory name for a model: the parts of its path or id.
fn directory_name(model: &str) -> String {
    let parts = Path::new(model).components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    let name = parts.collect::<Vec<_>>().join("--");
    if name.is_empty() { "model".into() } else { name }
}

/// Shows how sampling goes.
struct Watcher {
    work: Work,
    name: String,
    started: std::time::Instant,
}

impl Watcher {
    fn new(name: &str, responses: usize) -> Self {
        let work = Work::new("responses", responses as u64, false);
        Self { work, name: name.to_owned(), started: std::time::Instant::now() }
    }
}

impl Observer for Watcher {
    fn stop_requested(&self) -> bool {
        interrupt::requested()
    }

    fn progress(&mut self, progress: Progress) {
        let speed = progress.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.work.advance(progress.done as u64, &format!("{}, {speed:.0} tokens/s", self.name));
    }

    fn step(&mut self, _: &StepReport<'_>) {}

    fn note(&mut self, text: &str) {
        self.work.say(&format!("note: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_directory_is_named_after_all_of_its_path() {
        for (model, name) in [
            ("Qwen/Qwen2.5-0.5B", "Qwen--Qwen2.5-0.5B"),
            ("./assets/countdown-base/", "assets--countdown-base"),
            ("../runs/a/checkpoints/step-000010", "runs--a--checkpoints--step-000010"),
            (".", "model"),
        ] {
            assert_eq!(directory_name(model), name);
        }
    }
}
