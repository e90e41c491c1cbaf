//! A set of problems to measure on.

use crate::error::{Error, Result};
use crate::statistics::undivided;
use crate::temperature::name_at;
use isentrope_data::benchmark::Decoding;
use isentrope_data::{Finding, Findings, Problem, Prompts, Report};
use isentrope_files::Digest;
use isentrope_model::{ModelConfig, Tokens};
use isentrope_reward::{Overlong, VerifierSettings};
use isentrope_rollout::{Judge, Prompter, Sampling};
use serde_json::Value;
use std::sync::Arc;

/// Held-out problems, with their prompts' tokens. Sets of the same problems share them.
pub struct EvaluationSet {
    /// As in the metrics' names.
    pub name: String,
    /// The problems.
    pub problems: Arc<Vec<(Problem, Vec<u32>)>>,
    /// How responses are drawn.
    pub decoding: Decoding,
    /// The set's own judge; None for the evaluator's judge.
    pub judge: Option<Arc<Judge>>,
    /// Whether this is a set again, at a further temperature.
    pub is_further: bool,
}

impl EvaluationSet {
    /// Renders the problems' prompts. Problems whose prompts cannot be rendered are left out, as
    /// bad rows of the report. `verifier` is the set's own.
    ///
    /// # Errors
    /// When no problem is left, or the verifier cannot be made.
    pub fn new(
        name: &str,
        problems: Vec<Problem>,
        report: &mut Report,
        decoding: Decoding,
        verifier: Option<&VerifierSettings>,
        prompter: &Prompter,
    ) -> Result<Self> {
        let (mut rendered, mut refused) = (Vec::new(), None);
        for problem in problems {
            match prompter.prompt_tokens(&problem.prompt) {
                Ok(tokens) => {
                    report.lossy.extend(prompter.loss(&problem.origin));
                    rendered.push((problem, tokens));
                }
                Err(what) => {
                    refused = Some(format!("{}: {what}", problem.origin));
                    report.reject(problem.origin, what);
                }
            }
        }
        if let (true, Some(refused)) = (rendered.is_empty(), refused) {
            return Err(Error::Refused(format!(
                "{name}: no problem is left to measure on; {refused}"
            )));
        }
        let judge = match verifier {
            Some(verifier) => {
                let overlong = Overlong::default();
                Some(Arc::new(Judge {
                    verifier: verifier.build()?,
                    overlong,
                    max_tokens: decoding.max_tokens,
                }))
            }
            None => None,
        };
        let problems = Arc::new(rendered);
        Ok(Self { name: name.to_owned(), problems, decoding, judge, is_further: false })
    }

    /// This set at a further temperature, under a name of its own.
    pub fn at(&self, temperature: f32) -> Self {
        Self {
            name: name_at(&self.name, temperature),
            problems: self.problems.clone(),
            decoding: Decoding { temperature, ..self.decoding },
            judge: self.judge.clone(),
            is_further: true,
        }
    }

    /// The SHA-256 of the prompts, their ground truths, the number, the temperature and the longest
    /// length of responses, and what `drawn` says of top-k, top-p, min-p and stop texts.
    pub fn sha256(&self, drawn: &Sampling) -> String {
        let mut digest = Digest::sha256();
        for (problem, tokens) in &*self.problems {
            digest.update(format!("{tokens:?} {}\n", problem.ground_truth).as_bytes());
        }
        digest.update(format!("{:?}", self.decoding).as_bytes());
        if *drawn != Sampling::default() {
            let Sampling { top_k, top_p, min_p, stop_strings, .. } = drawn;
            digest.update(format!("{top_k} {top_p} {min_p} {stop_strings:?}").as_bytes());
        }
        digest.hex()
    }

    /// Findings in the set's files, a paragraph each. Characters that the tokenizer lacks are
    /// looked for only in the problems in use, which may be fewer than the usable rows.
    pub fn findings(&self, report: &Report) -> Vec<String> {
        let asked = self.problems.len();
        match report.lossy.first().first() {
            Some(Finding { origin, problem }) if asked < report.usable => {
                let all = Report { lossy: Findings::default(), ..report.clone() };
                let lossy = format!(
                    "of the {asked} problems that are asked, {} with characters that the tokenizer \
                     lacks; the first is {origin}: {problem}",
                    report.lossy.count()
                );
                vec![all.to_string(), lossy]
            }
            _ => vec![report.to_string()],
        }
    }

    /// The keys that divide the set's problems: their sources, and the ground truths.
    pub(crate) fn division_keys(&self) -> impl Iterator<Item = (&str, &Value)> + Clone {
        self.problems.iter().map(|(problem, _)| (&*problem.data_source, &problem.ground_truth))
    }

    /// A note if there are too many kinds of problems for numbers of each.
    pub fn undivided_note(&self) -> Option<String> {
        Some(format!("{}: {}", self.name, undivided(self.division_keys())?))
    }

    /// A note on prompts that leave no room in a context for a response.
    pub fn too_long_note(&self, context: usize) -> Option<String> {
        let count = self.problems.iter().filter(|(_, tokens)| tokens.len() >= context).count();
        (count > 0).then(|| {
            format!(
                "{}: {count} of {} prompts do not fit the model's context of {context} tokens and \
                 count as not answered",
                self.name,
                self.problems.len()
            )
        })
    }

    /// A note on problems that are trained on too. A set at a further temperature has no note,
    /// because it has another set's problems.
    pub fn trained_on_note(&self, trained: &Prompts) -> Option<String> {
        let problems =
            self.problems.iter().map(|(problem, _)| problem).filter(|_| !self.is_further);
        let shared: Vec<&Problem> =
            problems.filter(|problem| trained.contains(&problem.prompt)).collect();
        let first = &shared.first()?.origin;
        Some(format!(
            "{}: {} of {} problems are in data.files too; the first is {first}: accuracy on them \
             says nothing of others",
            self.name,
            shared.len(),
            self.problems.len()
        ))
    }

    /// The work of sampling all responses to some sets, if all had the greatest length.
    pub fn work(sets: &[Self], config: &ModelConfig) -> Tokens {
        let of_problem = |decoding: Decoding, prompt: usize| {
            let response = decoding.max_tokens.min(config.context().saturating_sub(prompt));
            Tokens::of_groups(
                &config.sliding_window,
                1.0,
                decoding.sampled() as f64,
                prompt as f64,
                response as f64,
            )
        };
        let problems =
            sets.iter().flat_map(|set| set.problems.iter().map(|problem| (set.decoding, problem)));
        problems.map(|(decoding, (_, prompt))| of_problem(decoding, prompt.len())).sum()
    }

    /// The sizes of sampling some sets: the longest prompt and response together, in tokens, and
    /// the most responses at a time.
    pub fn demand(sets: &[Self], context: usize) -> (usize, usize) {
        let prompts = |set: &Self| {
            set.problems
                .iter()
                .map(|(_, tokens)| tokens.len())
                .filter(|&len| len < context)
                .max()
                .unwrap_or(0)
        };
        let longest =
            |set: &Self| prompts(set).saturating_add(set.decoding.max_tokens).min(context);
        let responses = |set: &Self| set.problems.len().saturating_mul(set.decoding.sampled());
        (sets.iter().map(longest).max().unwrap_or(0), sets.iter().map(responses).max().unwrap_or(0))
    }
}
