//! Measuring a policy on held-out problems: during a run, and by the command `eval`.
//!
//! [`Evaluator::respond`] samples and judges; [`summary`] has the numbers, [`bootstrap`] their intervals, [`paired`] the
//! comparison of two policies; `votes` finds the most frequent answer. [`sets`] makes sets of problems from files,
//! benchmarks and the built-in task. [`results`] is the directory that the command keeps: [`response_log`] its responses,
//! [`report`] its numbers, [`comparisons`] two directories side by side; `setting_changes` says what differs in how they
//! were made.

pub mod bootstrap;
pub mod comparisons;
pub mod paired;
pub mod report;
pub mod response_log;
pub mod results;
pub mod sets;
mod setting_changes;
pub mod summary;
mod votes;

pub use sets::{BenchmarkFiles, EvaluationSet};
pub use summary::{Evaluation, Outcome};

use crate::collect::{Judge, item};
use crate::error::{Error, Result};
use crate::group::Response;
use crate::observer::{Observer, Phase};
use crate::prompts::Prompter;
use crate::run::{Record, Run};
use crate::sample::{Interrupt, sample_each};
use crate::settings::{at_most, stop_texts};
use isentrope_data::benchmark::{Choice, Decoding};
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_random::Purpose;
use isentrope_reward::{Judgement, Verdict};
use isentrope_rollout::{Completion, Key, Limits, Request, Sampling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Evaluation on held-out problems during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Evaluates every this many steps, before the first and after the last; 0: never.
    pub every: u64,
    /// Files of held-out problems, read as `data` says; each is a set of its own, named after the file. Without any, and
    /// without `bench`, the test problems of the built-in task, if that is what is trained on.
    pub files: Vec<PathBuf>,
    /// Benchmarks, as `isentrope eval --bench` takes them: "aime24", "math500=FILE", "mine=FILE.jsonl". Each has the
    /// prompts, the decoding and the verifier of its definition, see docs/evaluation.md; but `problems`, `samples`,
    /// `temperature` and `max_tokens` hold for benchmarks too where they are set, which the run then says.
    pub bench: Vec<String>,
    /// Uses at most the first so many problems of each set, benchmarks too. Unset: 256, and all of a benchmark.
    #[schemars(range(min = 1))]
    pub problems: Option<usize>,
    /// Responses to each problem: k of mean@k and maj@k, and the largest k of pass@k. Set, it takes the place of what
    /// benchmarks define, such as the 32 of AIME. Unset: 4, and each benchmark's own.
    #[schemars(range(min = 1))]
    pub samples: Option<usize>,
    /// Divisor of the logits, from 0.01 to 100; 0 takes the most likely token. Set, it holds for benchmarks too. Unset: 1,
    /// and each benchmark's own.
    pub temperature: Option<f32>,
    /// Longest response, in tokens. Set, it holds for benchmarks too. Unset: `rollout.max_tokens`, or `sft.max_tokens`, and each benchmark's own.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<usize>,
    /// Texts that end a response and are cut off it. Unset: `rollout.stop`, or none for SFT.
    pub stop: Option<Vec<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            every: 10,
            files: Vec::new(),
            bench: Vec::new(),
            problems: None,
            samples: None,
            temperature: None,
            max_tokens: None,
            stop: None,
        }
    }
}

/// Most responses to a problem.
const SAMPLES: usize = 1 << 16;
/// Problems of a set that is no benchmark, unless the recipe says.
pub(crate) const PROBLEMS: usize = 256;

impl Settings {
    /// Whether to evaluate after `step` of `steps`; 0 is before the first.
    pub fn due(&self, step: u64, steps: u64) -> bool {
        self.every > 0 && (step.is_multiple_of(self.every) || step == steps)
    }

    /// A decoding with what is set in its place.
    pub fn decoding(&self, otherwise: Decoding) -> Decoding {
        Decoding {
            samples: self.samples.unwrap_or(otherwise.samples),
            temperature: self.temperature.unwrap_or(otherwise.temperature),
            max_tokens: self.max_tokens.unwrap_or(otherwise.max_tokens),
        }
    }

    /// What takes the place of a benchmark's definition.
    fn changes(&self, defined: Decoding) -> Vec<String> {
        let Decoding { samples, temperature, max_tokens } = self.decoding(defined);
        let mut changes = Vec::new();
        if samples != defined.samples {
            changes.push(format!("eval.samples = {samples} instead of {}", defined.samples));
        }
        if temperature != defined.temperature {
            changes.push(format!("eval.temperature = {temperature} instead of {}", defined.temperature));
        }
        if max_tokens != defined.max_tokens {
            changes.push(format!("eval.max_tokens = {max_tokens} instead of {}", defined.max_tokens));
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
            Choice::parse(text).map_err(|what| Error::setting("eval.bench", format!("names {what}")))?;
        }
        at_most("eval.samples", self.samples.unwrap_or(1), SAMPLES)?;
        stop_texts("eval.stop", self.stop.as_deref().unwrap_or_default())?;
        let sampling = Sampling { temperature: self.temperature.unwrap_or(1.0), ..Sampling::default() };
        sampling
            .check()
            .map_err(|e| Error::setting("eval.temperature", e.to_string().replacen("temperature ", "", 1)))
    }
}

/// Everything that an evaluation needs beside the model and the problems.
pub struct Evaluator<'a> {
    /// How responses are drawn, but for what a set's decoding says.
    pub sampling: Sampling,
    /// Of the run. Each evaluation draws the same random numbers, so that differences are the policy's.
    pub seed: u64,
    /// Turns text into tokens and back.
    pub prompter: &'a Prompter,
    /// Judges the responses to sets that have no judge of their own.
    pub judge: &'a Judge,
    /// Memory of sampling.
    pub limits: Limits,
}

impl Evaluator<'_> {
    /// Evaluates on every set, keeping the responses in the run's directory and the numbers in its record.
    ///
    /// # Errors
    /// As sampling's and writing's.
    pub fn evaluate_all<B: Backend>(
        &self,
        model: &Model<B>,
        sets: &[EvaluationSet],
        run: &mut Run,
        record: &mut Record,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut evaluations = Vec::with_capacity(sets.len());
        for set in sets {
            let mut file = run.directory.evaluation(run.step, &set.name)?;
            let problems = record.clock.time("eval", || {
                let mut responses = vec![Vec::new(); set.problems.len()];
                let all: Vec<usize> = (0..set.problems.len()).collect();
                let keep = &mut |problem: usize, judged: Vec<Response>| {
                    responses[problem] = judged;
                    Ok(())
                };
                self.respond(model, set, &all, Interrupt::Never, keep, observer).map(|_| responses)
            })?;
            for ((problem, _), responses) in set.problems.iter().zip(&problems) {
                file.responses(problem, responses)?;
            }
            file.finish()?;
            let outcomes: Vec<Vec<Outcome>> =
                problems.iter().map(|responses| responses.iter().map(Outcome::from).collect()).collect();
            evaluations.push(Evaluation::of(&set.name, set.decoding.samples, &outcomes));
        }
        Evaluation::record_all(&evaluations, &mut record.metrics);
        run.evaluated(evaluations);
        Ok(())
    }

    /// Samples and judges the responses to some of a set's problems, and gives them to `each` with the problem's place in
    /// the set as soon as all of a problem's are there. A response depends on the weights, its prompt, the seed, the
    /// problem's place and its own number alone. Breaks off where the observer may and does ask for it. The observer is told
    /// why the first response that could not be judged could not.
    ///
    /// # Errors
    /// As sampling's and judging's; and what `each` returns.
    pub fn respond<B: Backend>(
        &self,
        model: &Model<B>,
        set: &EvaluationSet,
        problems: &[usize],
        interrupt: Interrupt,
        each: &mut dyn FnMut(usize, Vec<Response>) -> Result<()>,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>> {
        let Decoding { samples, temperature, max_tokens } = set.decoding;
        let sampling = Arc::new(Sampling { temperature, max_tokens, ..self.sampling.clone() });
        let context = model.context();
        let (fitting, too_long): (Vec<usize>, Vec<usize>) =
            problems.iter().partition(|&&problem| set.problems[problem].1.len() < context);
        for problem in too_long {
            each(problem, vec![unanswered(set.problems[problem].1.len(), context); samples])?;
        }
        let requests = fitting
            .iter()
            .map(|&problem| Request {
                key: Key { seed: self.seed, step: Purpose::Evaluation.word(), prompt: problem as u64 },
                prompt: set.problems[problem].1.clone(),
                samples,
                sampling: sampling.clone(),
                record: false,
            })
            .collect();
        let judge = set.judge.as_ref().unwrap_or(self.judge);
        let mut faults = Faults::default();
        let tokenizer = &self.prompter.tokenizer;
        let finished = &mut |request: usize, completions: Vec<Completion>| {
            let problem = fitting[request];
            let judged = judge.responses(vec![(&set.problems[problem].0, completions)])?;
            judged.into_iter().try_for_each(|mut responses| {
                votes::cast(&*judge.verifier, &item(&set.problems[problem].0), &mut responses);
                faults.add(problem, &responses);
                each(problem, responses)
            })
        };
        let ended = sample_each(
            model,
            None,
            tokenizer,
            requests,
            self.limits,
            (Phase::Evaluation, interrupt),
            finished,
            observer,
        )?;
        if let Some((problem, reason)) = &faults.first {
            let (name, origin) = (&set.name, &set.problems[*problem].0.origin);
            let Faults { count, of, .. } = faults;
            observer.note(&format!(
                "{name}: {count} of {of} responses could not be judged; the first ({origin}): {reason}"
            ));
        }
        Ok(ended)
    }
}

/// Responses that could not be judged.
#[derive(Default)]
struct Faults {
    count: usize,
    /// Responses altogether.
    of: usize,
    /// The first in the order of problems: the problem's place, and why.
    first: Option<(usize, String)>,
}

impl Faults {
    fn add(&mut self, problem: usize, responses: &[Response]) {
        self.of += responses.len();
        let mut faults = responses.iter().filter(|response| !response.counts());
        let Some(first) = faults.next() else { return };
        self.count += 1 + faults.count();
        if self.first.as_ref().is_none_or(|(known, _)| problem < *known) {
            self.first = Some((problem, first.judgement.reason.clone()));
        }
    }
}

/// What stands for a response to a prompt of so many tokens that leaves no room for one in the context.
fn unanswered(prompt: usize, context: usize) -> Response {
    let reason = format!("the prompt has {prompt} tokens and does not fit the model's context of {context}");
    Response {
        text: String::new(),
        tokens: Vec::new(),
        logprobs: Vec::new(),
        entropies: Vec::new(),
        truncated: true,
        judgement: Judgement::new(Verdict::Unparseable, None, reason),
        reward: 0.0,
        slots: None,
        vote: None,
    }
}
