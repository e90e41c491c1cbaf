//! Measuring the policy on held-out problems.

use crate::collect::Judge;
use crate::error::{Error, Result};
use crate::group::Response;
use crate::metrics::Metrics;
use crate::observer::{Observer, Phase};
use crate::prompts::Prompter;
use crate::run::{Record, Run};
use crate::sample::sample;
use crate::settings::at_least_one;
use isentrope_data::Problem;
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_random::Purpose;
use isentrope_reward::Verdict;
use isentrope_rollout::{Key, Limits, Request, Sampling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Evaluation on held-out problems during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Evaluates every this many steps, before the first and after the last; 0: never.
    pub every: u64,
    /// Files of held-out problems, read as `data` says; each is a set of its own, named after the file. Without any, the
    /// test problems of the built-in task, if that is what is trained on.
    pub files: Vec<PathBuf>,
    /// Uses at most the first so many problems of each set.
    #[schemars(range(min = 1))]
    pub problems: usize,
    /// Responses to each problem: k of mean@k and maj@k, and the largest k of pass@k.
    #[schemars(range(min = 1))]
    pub samples: usize,
    /// Divisor of the logits, from 0.01 to 100; 0 takes the most likely token.
    pub temperature: f32,
    /// Longest response, in tokens. Unset: `rollout.max_tokens`, or `sft.max_tokens`.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { every: 10, files: Vec::new(), problems: 256, samples: 4, temperature: 1.0, max_tokens: None }
    }
}

impl Settings {
    /// Whether to evaluate after `step` of `steps`; 0 is before the first.
    pub fn due(&self, step: u64, steps: u64) -> bool {
        self.every > 0 && (step.is_multiple_of(self.every) || step == steps)
    }

    /// Checks every key.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first that is out of range.
    pub fn check(&self) -> Result<()> {
        at_least_one("eval.problems", self.problems)?;
        at_least_one("eval.samples", self.samples)?;
        if let Some(max_tokens) = self.max_tokens {
            at_least_one("eval.max_tokens", max_tokens)?;
        }
        let sampling = Sampling { temperature: self.temperature, ..Sampling::default() };
        sampling
            .check()
            .map_err(|e| Error::setting("eval.temperature", e.to_string().replacen("temperature ", "", 1)))
    }
}

/// Held-out problems, with their prompts' tokens.
pub struct EvaluationSet {
    /// As in the metrics' names.
    pub name: String,
    /// The problems.
    pub problems: Vec<(Problem, Vec<u32>)>,
}

impl EvaluationSet {
    /// Renders the problems' prompts.
    ///
    /// # Errors
    /// As [`Prompter::tokens`].
    pub fn new(name: &str, problems: Vec<Problem>, prompter: &Prompter) -> Result<Self> {
        let problems = problems
            .into_iter()
            .map(|problem| prompter.tokens(&problem).map(|tokens| (problem, tokens)))
            .collect::<Result<_>>()?;
        Ok(Self { name: name.to_owned(), problems })
    }
}

/// Everything that an evaluation needs beside the model.
pub struct Evaluator<'a> {
    /// Sizes.
    pub settings: &'a Settings,
    /// How responses are drawn.
    pub sampling: Arc<Sampling>,
    /// Of the run. Each evaluation draws the same random numbers, so that differences are the policy's.
    pub seed: u64,
    /// Turns text into tokens and back.
    pub prompter: &'a Prompter,
    /// Judges.
    pub judge: &'a Judge,
    /// Memory of sampling.
    pub limits: Limits,
}

/// How a policy did on a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The set.
    pub name: String,
    /// Responses to each problem.
    pub samples: usize,
    /// Mean over problems of the share of correct responses.
    pub mean: f64,
    /// (k, pass@k) for every power of two up to the number of responses, and that number.
    pub pass: Vec<(usize, f64)>,
    /// Share of problems whose most frequent answer is correct.
    pub majority: f64,
    /// Mean over responses of the mean entropy of their tokens, in nats.
    pub entropy: f64,
    /// Mean length, in tokens.
    pub length: f64,
    /// Share of responses that were cut off.
    pub truncated: f64,
    /// Share of responses that could not be judged; they are left out of everything above but the entropy and lengths.
    pub faults: f64,
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
            let seen = &mut |problem: &Problem, responses: &[Response]| file.responses(problem, responses);
            evaluations.push(record.clock.time("eval", || self.evaluate(model, set, seen, observer))?);
            file.finish()?;
        }
        Evaluation::record_all(&evaluations, &mut record.metrics);
        run.evaluated(evaluations);
        Ok(())
    }

    /// Samples, judges and sums up. `seen` is given each problem with its responses.
    ///
    /// # Errors
    /// As sampling's; and what `seen` returns.
    pub fn evaluate<B: Backend>(
        &self,
        model: &Model<B>,
        set: &EvaluationSet,
        seen: &mut dyn FnMut(&Problem, &[Response]) -> Result<()>,
        observer: &mut dyn Observer,
    ) -> Result<Evaluation> {
        let samples = self.settings.samples;
        let requests = (0..)
            .zip(&set.problems)
            .map(|(prompt, (_, tokens))| Request {
                key: Key { seed: self.seed, step: Purpose::Evaluation.word(), prompt },
                prompt: tokens.clone(),
                samples,
                sampling: self.sampling.clone(),
            })
            .collect();
        let tokenizer = &self.prompter.tokenizer;
        let completions = sample(model, tokenizer, requests, self.limits, Phase::Evaluation, observer)?;
        let mut judged = Vec::new();
        for ((problem, _), completions) in set.problems.iter().zip(completions) {
            let responses: Vec<Response> =
                completions.into_iter().map(|c| self.judge.response(problem, c)).collect();
            seen(problem, &responses)?;
            judged.push(responses);
        }
        Ok(Evaluation::of(&set.name, samples, &judged))
    }
}

impl Evaluation {
    /// Sums up the responses to each problem.
    pub fn of(name: &str, samples: usize, judged: &[Vec<Response>]) -> Self {
        let correct = |r: &Response| r.judgement.verdict == Verdict::Correct;
        let mut ks: Vec<usize> = std::iter::successors(Some(1), |k| Some(2 * k))
            .take_while(|&k| k < samples)
            .chain([samples])
            .collect();
        ks.dedup();
        let (mut mean, mut majority, mut problems) = (0.0, 0.0, 0usize);
        let mut pass = vec![(0.0, 0usize); ks.len()];
        for responses in judged {
            let counted: Vec<&Response> = responses.iter().filter(|r| r.counts()).collect();
            if counted.is_empty() {
                continue;
            }
            problems += 1;
            let right = counted.iter().filter(|r| correct(r)).count();
            mean += right as f64 / counted.len() as f64;
            majority += f64::from(u8::from(most_frequent(&counted).is_some_and(correct)));
            for ((sum, count), &k) in pass.iter_mut().zip(&ks) {
                if k <= counted.len() {
                    *sum += pass_at(counted.len(), right, k);
                    *count += 1;
                }
            }
        }
        let all: Vec<&Response> = judged.iter().flatten().collect();
        let over_all = |value: &dyn Fn(&Response) -> f64| {
            all.iter().map(|r| value(r)).sum::<f64>() / all.len().max(1) as f64
        };
        Self {
            name: name.to_owned(),
            samples,
            mean: mean / problems.max(1) as f64,
            pass: ks
                .into_iter()
                .zip(pass)
                .filter(|(_, (_, count))| *count > 0)
                .map(|(k, (sum, count))| (k, sum / count as f64))
                .collect(),
            majority: majority / problems.max(1) as f64,
            entropy: over_all(&Response::entropy),
            length: over_all(&|r| r.tokens.len() as f64),
            truncated: over_all(&|r| f64::from(u8::from(r.truncated))),
            faults: over_all(&|r| f64::from(u8::from(!r.counts()))),
        }
    }

    /// Every set's numbers, and the mean of the sets' accuracies where there are several.
    fn record_all(evaluations: &[Self], metrics: &mut Metrics) {
        for evaluation in evaluations {
            evaluation.record(metrics);
        }
        if evaluations.len() > 1 {
            let sum: f64 = evaluations.iter().map(|e| e.mean).sum();
            metrics.set("eval/mean_of_sets", sum / evaluations.len() as f64);
        }
    }

    /// Under the names of docs/metrics.md.
    fn record(&self, metrics: &mut Metrics) {
        let Self { name, samples, .. } = self;
        metrics.set(format!("eval/{name}/mean@{samples}"), self.mean);
        for (k, value) in &self.pass {
            metrics.set(format!("eval/{name}/pass@{k}"), *value);
        }
        metrics.set(format!("eval/{name}/maj@{samples}"), self.majority);
        metrics.set(format!("eval/{name}/entropy"), self.entropy);
        metrics.set(format!("eval/{name}/length_mean"), self.length);
        metrics.set(format!("eval/{name}/truncated"), self.truncated);
        metrics.set(format!("eval/{name}/faults"), self.faults);
    }
}

/// Probability that of k responses drawn without replacement from n, c of them correct, one is correct: the unbiased
/// estimate of pass@k (Chen et al., arXiv:2107.03374, equation 1).
pub fn pass_at(n: usize, c: usize, k: usize) -> f64 {
    if n - c < k {
        return 1.0;
    }
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

/// A response with the answer that most have; of equally frequent ones, the first given.
fn most_frequent<'a>(responses: &[&'a Response]) -> Option<&'a Response> {
    let answers: Vec<&Response> =
        responses.iter().copied().filter(|r| r.judgement.extracted.is_some()).collect();
    let votes =
        |r: &Response| answers.iter().filter(|o| o.judgement.extracted == r.judgement.extracted).count();
    // The last of equals wins in max_by_key.
    answers.iter().rev().copied().max_by_key(|r| votes(r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::Judgement;

    fn response(answer: Option<&str>, verdict: Verdict) -> Response {
        Response {
            text: String::new(),
            tokens: vec![1, 2],
            logprobs: vec![-1.0; 2],
            entropies: vec![0.5, 1.5],
            truncated: false,
            judgement: Judgement::new(verdict, answer.map(str::to_owned), ""),
            reward: 0.0,
        }
    }

    /// Counts the subsets of k responses that hold a correct one.
    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_correct_response() {
        for n in 1..=9usize {
            for c in 0..=n {
                for k in 1..=n {
                    let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == k);
                    let (mut all, mut good) = (0, 0);
                    for subset in subsets {
                        all += 1;
                        good += usize::from(subset & ((1 << c) - 1) != 0);
                    }
                    let expected = f64::from(good as u32) / f64::from(all);
                    assert!((pass_at(n, c, k) - expected).abs() < 1e-12, "{n} {c} {k}");
                }
            }
        }
    }

    #[test]
    fn faults_are_left_out_and_majorities_need_an_answer() {
        let (right, wrong, fault) = (Verdict::Correct, Verdict::Wrong, Verdict::Fault);
        let judged = [
            vec![
                response(Some("7"), right),
                response(Some("8"), wrong),
                response(Some("7"), right),
                response(None, fault),
            ],
            vec![
                response(None, Verdict::Unparseable),
                response(None, Verdict::Unparseable),
                response(Some("3"), right),
                response(Some("4"), wrong),
            ],
            vec![response(None, fault); 4],
        ];
        let evaluation = Evaluation::of("set", 4, &judged);
        assert!((evaluation.mean - (2.0 / 3.0 + 0.25) / 2.0).abs() < 1e-12);
        assert_eq!(evaluation.majority, 1.0, "of the second problem's answers the first given counts");
        assert_eq!(evaluation.pass[2], (4, 1.0), "over the only problem with four verdicts");
        assert_eq!((evaluation.faults, evaluation.entropy), (5.0 / 12.0, 1.0));
    }
}
