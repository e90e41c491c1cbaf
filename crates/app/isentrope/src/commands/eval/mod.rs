//! `isentrope eval`: measure a model on benchmarks, and compare two measurements.

mod decoding;
mod measured;
mod sampling;

use crate::interrupt;
use crate::loaded_model::{Computing, Loaded};
use crate::messages;
use crate::progress::Download;
use crate::recipe;
use crate::results_table;
use crate::sampling_flags::SamplingFlags;
use crate::standard_output::print_fitted;
use crate::template_flags::PromptFlags;
use anyhow::{Result, bail};
use clap::Args;
use clap::error::ErrorKind;
use isentrope_data::benchmark::Choice;
use isentrope_data::{Columns, DataSettings};
use isentrope_environment::EnvironmentSettings;
use isentrope_evaluation::results::{Comparisons, Results};
use isentrope_evaluation::{BenchmarkFiles, Evaluator, weights_checksum};
use isentrope_model::chat_template::Date;
use isentrope_reward::{Overlong, VerifierSettings};
use isentrope_rollout::{Judge, Limits, Turns};
use measured::BenchmarkPlan;
use serde_json::{Map, Value, json};
use std::path::{Component, Path, PathBuf};

/// Measure a model on benchmarks
///
/// Benchmarks are aime24, aime25, amc, math500, omni-math, olympiadbench, minerva and gsm8k;
/// humaneval, humaneval-completion, mbpp, mbpp-sanitized, livecodebench and leetcode, whose
/// programs are run in a sandbox; the built-in tasks countdown and programs; or a file of your own.
/// Each is asked and decoded as docs/guides/evaluate.md says: AIME and AMC with 32 responses at
/// temperature 0.6, LiveCodeBench with 10 at 0.2, the tasks with 4 at temperature 1, the others
/// greedily.
///
/// The directory keeps every response and the numbers with 95 % intervals. The same command run
/// again goes on where it stopped, to the same bytes, and judges again what could not be judged.
/// With --against and without MODEL, two directories are compared and nothing is sampled.
#[derive(Args)]
#[command(override_usage = "isentrope eval <MODEL> --bench <NAME[=PLACE]>... [OPTIONS]\n       \
                            isentrope eval --against <DIR> --out <DIR>")]
pub struct Eval {
    /// A Hugging Face model directory, a hub id such as Qwen/Qwen2.5-0.5B, or the directory of an
    /// adapter, which names its base
    #[arg(value_name = "MODEL", required_unless_present = "against", requires = "bench")]
    model: Option<String>,
    /// A benchmark: NAME is fetched from the hub; NAME=PLACE is a data file (.jsonl, .json, .csv,
    /// .tsv, .parquet), or a data set on the hub (org/name:CONFIG:SPLIT,
    /// hf://datasets/org/name/FILE). A NAME of your own takes any file of problems (repeatable)
    #[arg(long, value_name = "NAME[=PLACE]", requires = "model", value_parser = Choice::parse)]
    bench: Vec<Choice>,
    /// Column of the prompts in files of your own, as a recipe's data.columns.prompt
    #[arg(long, value_name = "COLUMN")]
    prompt_column: Option<String>,
    /// Column of the answers in files of your own, as a recipe's data.columns.answer
    #[arg(long, value_name = "COLUMN")]
    answer_column: Option<String>,
    #[command(flatten)]
    prompt_flags: PromptFlags,
    /// Responses to each problem [default: the benchmark's]
    #[arg(short, long, visible_alias = "samples", value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65536))]
    n: Option<u32>,
    #[command(flatten)]
    drawing: SamplingFlags,
    /// Longest response, in tokens [default: the benchmark's, mostly 8192]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Asks only the first N problems of each benchmark
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Judges responses, as the recipe's reward.verifier: auto, math, countdown, code, or a table
    /// such as '{command=["python3","reward.py"]}' [default: the benchmark's, auto for your own]
    #[arg(long, value_name = "VERIFIER", value_parser = verifier)]
    verifier: Option<VerifierSettings>,
    /// Plays episodes of several turns, as the recipe's [environment]: a table such as
    /// '{kind="tools",tools=["calculator"]}', or a recipe that has one (docs/guides/turns.md)
    #[arg(long, value_name = "TABLE|RECIPE", value_parser = environment)]
    environment: Option<EnvironmentSettings>,
    /// The directory of the results [default: evals/ and the model's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compares with the results in this directory by a paired test
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    #[command(flatten)]
    computing: Computing,
}

/// A verifier as recipes write it; a bare word is a string.
fn verifier(text: &str) -> Result<VerifierSettings> {
    recipe::setting("--verifier", text)
}

/// An environment as recipes write it, or the environment of a recipe.
fn environment(text: &str) -> Result<EnvironmentSettings> {
    let settings: EnvironmentSettings = match text.trim_start().starts_with('{') {
        true => recipe::setting("the table", text)?,
        false => {
            let table = recipe::table_of(Path::new(text), "environment")?;
            recipe::settings(table, text)?
        }
    };
    settings.check()?;
    Ok(settings)
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let out = match (&self.out, &self.model) {
            (Some(out), _) => out.clone(),
            (None, Some(model)) => {
                let named = self.computing.adapter.as_deref().unwrap_or(Path::new(model));
                Path::new("evals").join(directory_name(&named.to_string_lossy()))
            }
            (None, None) => clap::Error::raw(
                ErrorKind::MissingRequiredArgument,
                "--against without MODEL compares two directories; name the other one with --out\n",
            )
            .exit(),
        };
        if out == Path::new("-") {
            bail!(
                "--out: results are a directory, and - is none: name one (./- is one of that name)"
            );
        }
        isentrope_files::refuse_dangling(&out)?;
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
                let comparisons = Comparisons::of(old, &out)?;
                comparisons.write(old, &out)?;
                print_fitted(&results_table::comparison(&comparisons, old, &out))
            }
            None => Ok(()),
        }
    }

    fn measure(&self, model: &str, out: &Path) -> Result<()> {
        // Defects of the benchmarks are found before the model is loaded.
        let found = self.find()?;
        self.computing.run(model, |loaded| self.measure_on(loaded, model, out, &found))
    }

    /// The command's work, once there is a model.
    fn measure_on(
        &self,
        loaded: &Loaded,
        model: &str,
        out: &Path,
        found: &[BenchmarkFiles],
    ) -> Result<()> {
        let recommended = self.drawing.recommended(&loaded.dir)?;
        let data = DataSettings { date: self.date(out)?, ..self.prompt_flags.settings() };
        let environment = self.environment.as_ref().map(EnvironmentSettings::build).transpose()?;
        let mut prompter = loaded.prompter(&data)?;
        if let Some(environment) = &environment {
            prompter.hidden_tools(environment.tools()).into_iter().for_each(messages::note);
            prompter = prompter.with_environment(&**environment);
        }
        let measured: Vec<BenchmarkPlan> = found
            .iter()
            .map(|files| BenchmarkPlan::of(self, files, &prompter, loaded))
            .collect::<Result<_>>()?;
        let settings: Map<String, Value> =
            measured.iter().map(|m| (m.set.name.clone(), m.settings.clone())).collect();
        let benchmarks: Vec<String> = settings.keys().cloned().collect();
        let mut manifest = json!({
            "isentrope": env!("CARGO_PKG_VERSION"),
            "model": {
                "path": model,
                "sha256": loaded.file_hashes()?,
                "weights": weights_checksum(&loaded.model, loaded.model.trained())?,
            },
            "seed": self.drawing.seed,
            "benchmarks": settings,
        });
        // Left out for f32, so that older results still have the same settings.
        if loaded.device.arithmetic() != "f32" {
            manifest["arithmetic"] = loaded.device.arithmetic().into();
        }
        // The date is recorded only if prompts depend on it, so that other results are equal on any
        // day.
        if let Some(date) = prompter.date() {
            manifest["date"] = date.to_string().into();
        }
        // Benchmarks without a verifier of their own share one: a command's workers start once,
        // after its files are hashed.
        let judge = Judge {
            verifier: self.verifier.clone().unwrap_or_default().build()?,
            overlong: Overlong::default(),
            max_tokens: usize::MAX,
        };
        let results = Results::open(out, manifest)?;
        messages::say(&format!("{model}: results in {}", out.display()));
        let of_environment = environment.iter().flat_map(|environment| environment.notes());
        for note in recommended.into_iter().chain(judge.verifier.notes()).chain(of_environment) {
            messages::note(&note);
        }
        let evaluator = Evaluator {
            sampling: self.drawing.truncation().ending_at(
                &prompter.eos_tokens,
                &self.drawing.stop,
                Some(&prompter.tokenizer),
            ),
            seed: self.drawing.seed,
            prompter: &prompter,
            judge: &judge,
            turns: self.environment.as_ref().zip(environment.as_deref()).map(
                |(settings, environment)| Turns::new(environment, settings.limits(), &prompter),
            ),
            limits: Limits {
                cache_bytes: loaded.cache_bytes(self.drawing.kv_memory)?,
                ..Limits::default()
            },
        };
        interrupt::wind_up_first("keeping the finished problems");
        for BenchmarkPlan { set, decoding, .. } in &measured {
            let (name, problems, samples) = (&set.name, set.problems.len(), set.decoding.samples);
            messages::say(&format!(
                "{name}: {}, responses to each: {samples}, {decoding}",
                messages::counted(problems, "problem")
            ));
            sampling::sample(&evaluator, set, loaded, &results, out)?;
        }
        let report = results.report()?;
        print_fitted(&results_table::report(&report, out))?;
        for (name, summary) in &report.benchmarks {
            let share = |what: &str| summary.estimates.get(what).map_or(0.0, |share| share.value);
            if benchmarks.contains(name) && share("faults") + share("failed") >= 1.0 - 1e-9 {
                let who = match environment {
                    Some(_) => "the environment and the verifier work",
                    None => "the verifier works",
                };
                let remedy = format!("once {who}, the same command judges them all again");
                bail!("{name}: no response could be judged; {remedy}");
            }
        }
        Ok(())
    }

    /// The chat template's date: the flag's, else the date of existing results. None means today.
    fn date(&self, out: &Path) -> Result<Option<Date>> {
        match self.prompt_flags.template_flags.date {
            Some(date) => Ok(Some(date)),
            None => Ok(Results::date(out)?),
        }
    }

    fn columns(&self) -> Columns {
        let (prompt, answer) = (self.prompt_column.clone(), self.answer_column.clone());
        Columns { prompt, answer, hint: None }
    }

    /// The files of the benchmarks. No benchmark may be asked for twice.
    fn find(&self) -> Result<Vec<BenchmarkFiles>> {
        let mut found: Vec<BenchmarkFiles> = Vec::new();
        for choice in &self.bench {
            let name = &choice.benchmark.name;
            if found.iter().any(|other| other.benchmark.name == *name) {
                bail!("--bench: {name} is asked for twice");
            }
            let mut choice = choice.clone();
            choice.benchmark.columns = self.columns();
            found.push(BenchmarkFiles::find(choice, &Download::default())?);
        }
        Ok(found)
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
