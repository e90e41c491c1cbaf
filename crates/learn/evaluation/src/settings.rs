//! The recipe's table `[eval]`.

use crate::error::{Error, Result};
use crate::temperature::Temperature;
use isentrope_data::benchmark::{Choice, Decoding};
use isentrope_rollout::{Sampling, check_stop_texts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Evaluation on held-out problems during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationSettings {
    /// Evaluates every this many steps, before the first and after the last; 0: never.
    pub every: u64,
    /// Files of held-out problems, read as `data` says; each is a set of its own, named after the
    /// file. Without any, and without `bench`, the test problems of the built-in task, if that is
    /// what is trained on.
    pub files: Vec<PathBuf>,
    /// Benchmarks, as `isentrope eval --bench` takes them: "aime24", "math500=FILE",
    /// "mine=FILE.jsonl". Each has the prompts, the decoding and the verifier of its definition,
    /// see docs/guides/evaluate.md; but `problems`, `samples`, `temperature`, `top_k`, `top_p`,
    /// `min_p` and `max_tokens` hold for benchmarks too where they are set, which the run then
    /// says.
    pub bench: Vec<String>,
    /// Uses at most the first N problems of each set, benchmarks too. Unset: 256, and all of a
    /// benchmark.
    #[schemars(range(min = 1))]
    pub problems: Option<usize>,
    /// Responses to each problem: k of mean@k and maj@k, and the largest k of pass@k. Set, it takes
    /// the place of what benchmarks define, such as the 32 of AIME. Unset: 4, and each benchmark's
    /// own.
    #[schemars(range(min = 1, max = 65536))]
    pub samples: Option<usize>,
    /// Divisor of the logits, from 0.01 to 100; 0 takes the most likely token. Set, it holds for
    /// benchmarks too. Unset: 1, and each benchmark's own. An array such as [1.0, 0.6], of at most
    /// 8, evaluates every set at each: at the first as the set itself, at each further one with the
    /// same problems as a set of its own, named `test_t0.6`, which has no part in
    /// `eval/mean_of_sets` and in the choice of the best checkpoint.
    pub temperature: Option<Temperature>,
    /// Keeps this many most likely tokens at each draw, of benchmarks too; 0 keeps all. Top-k,
    /// top-p and min-p apply in this order, after the temperature.
    pub top_k: usize,
    /// Keeps the most likely tokens that together have this probability, of benchmarks too; 1 keeps
    /// all.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub top_p: f32,
    /// Keeps tokens at least this many times as likely as the likeliest, of benchmarks too; 0 keeps
    /// all.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: f32,
    /// Longest response, in tokens. Set, it holds for benchmarks too. Unset: `rollout.max_tokens`,
    /// or `sft.max_tokens`, and each benchmark's own.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<usize>,
    /// Texts, special tokens among them, that end a response and are cut off it. Unset:
    /// `rollout.stop`, or none for SFT.
    pub stop: Option<Vec<String>>,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            every: 10,
            files: Vec::new(),
            bench: Vec::new(),
            problems: None,
            samples: None,
            temperature: None,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            max_tokens: None,
            stop: None,
        }
    }
}

/// Default number of problems of a set that is no benchmark.
pub const PROBLEMS: usize = 256;

impl EvaluationSettings {
    /// Whether to evaluate after `step` of `steps`; 0 is before the first.
    pub fn due(&self, step: u64, steps: u64) -> bool {
        self.every > 0 && (step.is_multiple_of(self.every) || step == steps)
    }

    /// How responses are drawn, before each set's decoding overrides it.
    pub fn sampling(&self) -> Sampling {
        let &Self { top_k, top_p, min_p, .. } = self;
        Sampling { top_k, top_p, min_p, ..Sampling::default() }
    }

    /// Warnings on sets that are named and never evaluated.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let named = [("files", !self.files.is_empty()), ("bench", !self.bench.is_empty())];
        let is_off = self.every == 0;
        named
            .into_iter()
            .filter(move |&(_, is_named)| is_named && is_off)
            .map(|(key, _)| format!("eval.{key} has no effect: eval.every is 0"))
    }

    /// The entries of `files`; none if `every` is 0.
    pub fn files_read(&self) -> &[PathBuf] {
        if self.every > 0 { &self.files } else { &[] }
    }

    /// The number of evaluations in a run of `steps` steps.
    pub fn evaluations(&self, steps: u64) -> u64 {
        match steps.checked_div(self.every) {
            None => 0,
            Some(times) => 1 + times + u64::from(!steps.is_multiple_of(self.every)),
        }
    }

    /// `otherwise` with the settings that the recipe gives, at the first temperature.
    pub fn decoding(&self, otherwise: Decoding) -> Decoding {
        Decoding {
            samples: self.samples.unwrap_or(otherwise.samples),
            temperature: self.temperatures().first().copied().unwrap_or(otherwise.temperature),
            max_tokens: self.max_tokens.unwrap_or(otherwise.max_tokens),
        }
    }

    /// The temperatures after the first, at which every set is evaluated again.
    pub fn further_temperatures(&self) -> &[f32] {
        self.temperatures().get(1..).unwrap_or_default()
    }

    fn temperatures(&self) -> &[f32] {
        self.temperature.as_ref().map_or(&[], Temperature::all)
    }

    /// The settings that override a benchmark's definition.
    pub(crate) fn changes(&self, defined: Decoding) -> Vec<String> {
        let Decoding { samples, temperature, max_tokens } = self.decoding(defined);
        let mut changes = Vec::new();
        if samples != defined.samples {
            changes.push(format!("eval.samples = {samples} instead of {}", defined.samples));
        }
        if let Some(set) = &self.temperature
            && set.all() != [defined.temperature]
        {
            changes.push(format!("eval.temperature = {set} instead of {}", defined.temperature));
        }
        if max_tokens != defined.max_tokens {
            changes
                .push(format!("eval.max_tokens = {max_tokens} instead of {}", defined.max_tokens));
        }
        let Self { top_k, top_p, min_p, .. } = self;
        let mut drawn = Vec::new();
        drawn.extend((*top_k != 0).then(|| format!("eval.top_k = {top_k}")));
        drawn.extend((*top_p != 1.0).then(|| format!("eval.top_p = {top_p}")));
        drawn.extend((*min_p != 0.0).then(|| format!("eval.min_p = {min_p}")));
        if temperature == 0.0 && self.further_temperatures().is_empty() && !drawn.is_empty() {
            changes.push(format!("{} without effect on greedy responses", drawn.join(", ")));
        } else {
            changes.extend(drawn);
        }
        changes.extend(self.problems.map(|problems| format!("eval.problems = {problems}")));
        changes
    }

    /// Checks every key.
    ///
    /// # Errors
    /// Names the first that is out of range.
    pub fn check(&self) -> Result<()> {
        isentrope_settings::check("eval", self)?;
        for text in &self.bench {
            Choice::parse(text)
                .map_err(|what| Error::setting("eval.bench", format!("names {what}")))?;
        }
        check_stop_texts(self.stop.as_deref().unwrap_or_default())
            .map_err(|what| Error::setting("eval.stop", what))?;
        self.temperature.as_ref().map_or(Ok(()), Temperature::check)
    }
}
