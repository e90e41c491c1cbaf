//! The rollout of a step: groups of judged responses to learn from.
//!
//! With the filter on, groups whose responses all have the same score are dropped, since they teach nothing, and more
//! prompts are sampled until there are enough (dynamic sampling, DAPO, arXiv:2503.14476). What is left over is kept for
//! the next step.

use crate::error::{Error, Result};
use crate::group::{Group, Response};
use crate::observer::{Observer, Phase};
use crate::prompts::Prompter;
use crate::sample::sample;
use isentrope_data::{Problem, Source};
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_reward::{Item, Judgement, Verdict, Verifier, overlong_penalty};
use isentrope_rollout::{Completion, FinishReason, Key, Limits, Request, Sampling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Responses that are sampled to learn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Prompts of a rollout. With `filter`, prompts that are left after it.
    #[schemars(range(min = 1))]
    pub prompts: usize,
    /// Responses to each prompt, which make a group.
    #[schemars(range(min = 1))]
    pub responses: usize,
    /// Divisor of the logits, in sampling and in training alike; from 0.01 to 100.
    pub temperature: f32,
    /// Longest response, in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
    /// Texts that end a response and are cut off it.
    pub stop: Vec<String>,
    /// Dynamic sampling (DAPO): prompts whose responses all have the same score are dropped and replaced, and what is
    /// sampled beyond `prompts` is kept for the next step.
    pub filter: bool,
    /// With `filter`, how many times a step may sample prompts before it gives up.
    #[schemars(range(min = 1))]
    pub max_batches: usize,
    /// What happens when prompts are still missing after `max_batches`.
    pub when_short: WhenShort,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prompts: 64,
            responses: 8,
            temperature: 1.0,
            max_tokens: 1024,
            stop: Vec::new(),
            filter: false,
            max_batches: 10,
            when_short: WhenShort::Error,
        }
    }
}

/// What happens when the filter leaves too few prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// The run ends with an error.
    Error,
    /// The step trains on the prompts there are.
    Train,
}

/// Everything that a rollout needs beside the model.
pub struct Collector<'a> {
    /// Sizes and filter.
    pub settings: &'a Settings,
    /// How responses are drawn.
    pub sampling: Arc<Sampling>,
    /// Of the run.
    pub seed: u64,
    /// Whether to judge the most likely response of each prompt as well.
    pub greedy: bool,
    /// Turns problems into tokens.
    pub prompter: &'a Prompter,
    /// Judges.
    pub judge: &'a Judge,
    /// Memory of sampling.
    pub limits: Limits,
}

/// A verifier and the penalties that turn its scores into rewards.
pub struct Judge {
    /// Judges responses.
    pub verifier: Box<dyn Verifier>,
    /// Penalties.
    pub settings: isentrope_reward::Settings,
    /// Longest response, in tokens.
    pub max_tokens: usize,
}

/// The result of a rollout.
pub struct Collected {
    /// To learn from: what was carried over first, then what was sampled, in order.
    pub groups: Vec<Group>,
    /// Sampled in this step and not used: for the next.
    pub surplus: Vec<Group>,
    /// All groups sampled in this step, in order, before the filter.
    pub statistics: crate::rollout_statistics::RolloutStatistics,
    /// Groups that came from the step before.
    pub carried: usize,
    /// How many problems were taken from the source.
    pub taken: u64,
    /// Time spent on verdicts.
    pub verification: Duration,
}

impl Collector<'_> {
    /// Samples and judges until there are enough groups. `seen` is given each group that is sampled.
    ///
    /// # Errors
    /// [`Error::Run`] when the filter leaves too few groups, or no response could be judged.
    #[allow(clippy::too_many_arguments, reason = "a step's whole surroundings")]
    pub fn collect<B: Backend>(
        &self,
        model: &Model<B>,
        source: &mut Source,
        step: u64,
        position: u64,
        carried: Vec<Group>,
        seen: &mut dyn FnMut(&Group) -> Result<()>,
        observer: &mut dyn Observer,
    ) -> Result<Collected> {
        let Settings { prompts: wanted, filter, max_batches, when_short, .. } = *self.settings;
        let mut collected = Collected {
            carried: carried.len(),
            groups: carried,
            surplus: Vec::new(),
            statistics: Default::default(),
            taken: 0,
            verification: Duration::ZERO,
        };
        let (mut batches, mut fresh) = (0, 0);
        while collected.groups.len() < wanted {
            if batches == max_batches.max(1) {
                self.fell_short(&collected, batches, when_short, observer)?;
                break;
            }
            // As many as are missing at the rate at which groups have passed the filter in this step.
            let missing = wanted - collected.groups.len();
            let sampled = collected.taken as usize;
            let count = if sampled == 0 {
                missing
            } else {
                (missing * sampled).div_ceil(fresh.max(1)).clamp(missing, wanted)
            };
            let problems: Vec<Problem> =
                (0..count as u64).map(|i| source.problem(position + collected.taken + i)).collect();
            let first = position + collected.taken;
            let groups = self.sample(model, problems, step, first, collected.taken, observer)?;
            collected.taken += count as u64;
            batches += 1;
            let judging = Instant::now();
            for group in groups {
                let group = self.judge_group(group)?;
                seen(&group)?;
                collected.statistics.add(&group);
                if !filter || group.informative() {
                    fresh += 1;
                    collected.groups.push(group);
                }
            }
            collected.verification += judging.elapsed();
            collected.statistics.check_faults()?;
            if !filter {
                break;
            }
        }
        if collected.groups.len() > wanted {
            collected.surplus = collected.groups.split_off(wanted);
        }
        Ok(collected)
    }

    fn fell_short(
        &self,
        collected: &Collected,
        batches: usize,
        when_short: WhenShort,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let statistics = &collected.statistics;
        let said = format!(
            "{} of {} prompts after {batches} batches: of the {} sampled, {} were solved by all responses and {} by none",
            collected.groups.len(),
            self.settings.prompts,
            collected.taken,
            statistics.solved_all,
            statistics.solved_none
        );
        if when_short == WhenShort::Train && !collected.groups.is_empty() {
            observer.note(&format!("training on {said}"));
            return Ok(());
        }
        Err(Error::Run(format!(
            "the filter left {said}; use data of another difficulty, raise rollout.max_batches or \
             rollout.responses, or set rollout.when_short = \"train\""
        )))
    }

    fn sample<B: Backend>(
        &self,
        model: &Model<B>,
        problems: Vec<Problem>,
        step: u64,
        first_position: u64,
        first_prompt: u64,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Sampled>> {
        let prompts: Vec<Vec<u32>> =
            problems.iter().map(|p| self.prompter.tokens(p)).collect::<Result<_>>()?;
        let request = |i: usize, samples, sampling: &Arc<Sampling>| Request {
            key: Key { seed: self.seed, step, prompt: first_prompt + i as u64 },
            prompt: prompts[i].clone(),
            samples,
            sampling: sampling.clone(),
        };
        let mut requests: Vec<Request> =
            (0..prompts.len()).map(|i| request(i, self.settings.responses, &self.sampling)).collect();
        if self.greedy {
            let greedy = Arc::new(Sampling { temperature: 0.0, ..(*self.sampling).clone() });
            requests.extend((0..prompts.len()).map(|i| request(i, 1, &greedy)));
        }
        let tokenizer = &self.prompter.tokenizer;
        let mut completions =
            sample(model, tokenizer, requests, self.limits, Phase::Rollout, observer)?.into_iter();
        let sampled: Vec<_> = completions.by_ref().take(prompts.len()).collect();
        let greedy = completions.map(|mut one| one.pop()).chain(std::iter::repeat_with(|| None));
        let parts = problems.into_iter().zip(prompts).zip(sampled).zip(greedy);
        Ok((first_position..)
            .zip(parts)
            .map(|(position, (((problem, prompt), completions), greedy))| {
                let empty = Vec::new();
                let group = Group { step, position, problem, prompt, responses: empty, greedy_reward: None };
                Sampled { group, completions, greedy }
            })
            .collect())
    }

    fn judge_group(&self, sampled: Sampled) -> Result<Group> {
        let Sampled { mut group, completions, greedy } = sampled;
        group.responses = completions.into_iter().map(|c| self.judge.response(&group.problem, c)).collect();
        group.greedy_reward = greedy.map(|c| self.judge.response(&group.problem, c).reward);
        Ok(group)
    }
}

/// A group whose responses have not been judged.
struct Sampled {
    group: Group,
    completions: Vec<Completion>,
    greedy: Option<Completion>,
}

impl Judge {
    /// A response with its verdict and reward.
    pub fn response(&self, problem: &Problem, completion: Completion) -> Response {
        let text = completion.text.unwrap_or_default();
        let judgement = self.judgement(problem, &text);
        let penalty = {
            let isentrope_reward::Overlong { buffer, factor } = self.settings.overlong;
            overlong_penalty(completion.tokens.len(), self.max_tokens, buffer, factor)
        };
        Response {
            reward: judgement.score + penalty,
            text,
            tokens: completion.tokens,
            logprobs: completion.logprobs,
            entropies: completion.entropies,
            truncated: completion.finish_reason == FinishReason::Length,
            judgement,
        }
    }

    /// The verdict on a text. A score that is no number is the verifier's fault.
    pub fn judgement(&self, problem: &Problem, text: &str) -> Judgement {
        let prompt = problem.prompt.question();
        let item = Item {
            ground_truth: &problem.ground_truth,
            prompt: prompt.unwrap_or_default(),
            data_source: &problem.data_source,
            extra_info: &problem.extra_info,
        };
        let judgement = self.verifier.verify(&item, text);
        if judgement.score.is_finite() {
            return judgement;
        }
        let reason = format!("the verifier's score is {}: it must be a finite number", judgement.score);
        Judgement { verdict: Verdict::Fault, score: 0.0, reason, ..judgement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout_statistics::RolloutStatistics;
    use isentrope_data::Prompt;
    use serde_json::Value;

    /// Gives every response the same score.
    struct Constant(f64);

    impl Verifier for Constant {
        fn verify(&self, _: &Item<'_>, _: &str) -> Judgement {
            Judgement { score: self.0, ..Judgement::new(Verdict::Correct, None, "") }
        }
    }

    /// A group of two responses judged with the score.
    fn group(score: f64) -> Group {
        let settings = isentrope_reward::Settings::default();
        let judge = Judge { verifier: Box::new(Constant(score)), settings, max_tokens: 8 };
        let problem = Problem {
            prompt: Prompt::Text("?".into()),
            ground_truth: Value::Null,
            data_source: String::new(),
            extra_info: Value::Null,
            origin: "made up".into(),
        };
        let completion = Completion {
            tokens: vec![1, 2],
            logprobs: vec![-1.0; 2],
            sampling_logprobs: None,
            entropies: vec![1.0; 2],
            text: Some("!".into()),
            finish_reason: FinishReason::Stop,
        };
        let responses =
            vec![judge.response(&problem, completion.clone()), judge.response(&problem, completion)];
        Group { step: 1, position: 0, problem, prompt: vec![1], responses, greedy_reward: None }
    }

    #[test]
    fn a_reward_that_is_no_number_is_the_verifiers_fault() {
        for score in [f64::NAN, f64::INFINITY] {
            let group = group(score);
            assert!(group.responses.iter().all(|r| r.judgement.verdict == Verdict::Fault && !r.counts()));
            assert!(!group.informative() && group.accuracy().is_none());
            let mut statistics = RolloutStatistics::default();
            statistics.add(&group);
            let error = statistics.check_faults().unwrap_err().to_string();
            assert!(error.contains("could not judge any of 2 responses (made up: the verifier's score is"));
            assert!(error.contains("look at reward.verifier"), "{error}");
        }
    }

    #[test]
    fn faults_beside_verdicts_are_counted_and_do_not_end_the_run() {
        let mut statistics = RolloutStatistics::default();
        statistics.add(&group(f64::NAN));
        statistics.add(&group(1.0));
        statistics.check_faults().unwrap();
        assert_eq!(statistics.faults().map(|(count, _)| count), Some(2));
        let mut metrics = crate::metrics::Metrics::default();
        statistics.record(&mut metrics);
        assert_eq!(metrics.get("reward/mean"), Some(1.0), "over what could be judged");
        assert_eq!(metrics.get("verdict/fault"), Some(0.5));
    }
}
