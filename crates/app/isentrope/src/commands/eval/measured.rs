//! A benchmark with the command's flags.

use super::Eval;
use crate::loaded_model::{Loaded, hashes_of_programs};
use crate::messages;
use anyhow::{Result, anyhow};
use isentrope_data::benchmark::{Benchmark, Decoding};
use isentrope_data::{Columns, Template};
use isentrope_evaluation::{BenchmarkFiles, EvaluationSet};
use isentrope_reward::VerifierSettings;
use isentrope_rollout::{Prompter, Sampling, template_variables};
use serde_json::{Map, Value, json};

/// A benchmark to be measured.
pub struct BenchmarkPlan {
    /// Its problems.
    pub set: EvaluationSet,
    /// How the benchmark's responses are drawn, in words.
    pub decoding: String,
    /// Everything that the results depend on, except model and seed.
    pub settings: Value,
}

impl BenchmarkPlan {
    /// Reads the problems, and prints notes about them.
    pub fn of(
        eval: &Eval,
        found: &BenchmarkFiles,
        prompter: &Prompter,
        loaded: &Loaded,
    ) -> Result<Self> {
        let Benchmark { name, suffix, decoding, verifier: its, .. } = &found.benchmark;
        let own = its.map(VerifierSettings::from).filter(|_| eval.verifier.is_none());
        let verifier = own.clone().or_else(|| eval.verifier.clone()).unwrap_or_default();
        let limit = eval.limit.map_or(usize::MAX, |limit| limit as usize);
        let (problems, mut report) = found.problems(limit, &verifier).map_err(|error| {
            // The number of a built-in task's problems is a recipe's key in the error.
            let said = error.to_string();
            match said.contains("eval.problems is") {
                true => anyhow!("{}", said.replace("eval.problems is", "--limit is")),
                false => error.into(),
            }
        })?;
        let decoding = Decoding {
            samples: eval.n.map_or(decoding.samples, |n| n as usize),
            temperature: eval.drawing.temperature(decoding),
            max_tokens: eval
                .max_tokens
                .map_or(decoding.max_tokens, |max_tokens| max_tokens as usize),
        };
        let sampling = Sampling {
            stop_strings: eval.drawing.stop.clone(),
            ..eval.drawing.sampling(decoding.temperature)?
        };
        sampling.check().map_err(|e| anyhow!("--{e}"))?;
        if decoding.temperature == 0.0
            && let Some(flags) = eval.drawing.without_effect_if_greedy()
        {
            messages::note(&format!(
                "{name}: {flags} have no effect on greedy responses; set --temperature"
            ));
        }
        if decoding.temperature == 0.0 && decoding.samples > 1 {
            messages::note(&format!(
                "{name}: greedy responses to a problem are all the same, so one is sampled; set \
                 --temperature"
            ));
        }
        let set =
            EvaluationSet::new(name, problems, &mut report, decoding, own.as_ref(), prompter)?;
        if report.usable < report.rows || report.lossy.count() > 0 || report.doubtful.count() > 0 {
            for found in set.findings(&report) {
                messages::note(&format!("{name}: {found}"));
            }
        }
        for note in
            set.too_long_note(loaded.model.context()).into_iter().chain(set.undivided_note())
        {
            messages::note(&note);
        }
        let files: Vec<Value> =
            found.hashes()?.into_iter().map(|file| file.sha256.into()).collect();
        let mut settings = json!({
            "files_sha256": files,
            "limit": eval.limit,
            "problems": set.problems.len(),
            "rows_left_out": report.rows - report.usable,
            "suffix": suffix,
            "samples": decoding.samples,
            "temperature": decoding.temperature,
            "max_tokens": decoding.max_tokens,
            "stop": eval.drawing.stop,
            "verifier": verifier,
            "verifier_files_sha256": file_hashes("--verifier", verifier.files())?,
        });
        // Left out if empty, so that older results still have the same settings.
        if let Some(environment) = &eval.environment {
            settings["environment"] = serde_json::to_value(environment)?;
            settings["environment_files_sha256"] =
                json!(file_hashes("--environment", environment.files())?);
        }
        let data = eval.prompt_flags.settings();
        let variables = template_variables(&data);
        if !variables.is_empty() {
            settings["template_variables"] = variables.into();
        }
        if data.template != Template::Auto {
            settings["template"] = serde_json::to_value(data.template)?;
        }
        if let Some(system) = data.system {
            settings["system"] = system.into();
        }
        if eval.columns() != Columns::default() {
            settings["columns"] = serde_json::to_value(eval.columns())?;
        }
        for (key, value) in eval.drawing.settings() {
            settings[key] = value;
        }
        Ok(Self { set, decoding: sampling.decoding(), settings })
    }
}

/// [`hashes_of_programs`]; None if there are none.
fn file_hashes(flag: &str, names: Vec<String>) -> Result<Option<Map<String, Value>>> {
    Ok(Some(hashes_of_programs(flag, names)?).filter(|hashes| !hashes.is_empty()))
}
