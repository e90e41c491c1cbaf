//! The minibatch of one update: from judged responses and their advantages to the loss and its
//! gradient.
//!
//! The model goes over every token behind a prompt: the targets. In a response of several turns
//! some of them were given, not sampled. The loss knows the sampled tokens alone: the scores of
//! given ones are left out before it, and their derivatives are 0 after it.

use crate::error::Result;
use crate::group::Group;
use crate::learner::{Coefficients, Learner, OnPolicy, UpdateBatch, UpdateTeacher};
use crate::teacher::damaged;
use isentrope_kernels::SamplingMasks;
use isentrope_model::{Model, RouterBalance, Scores, Sequence};
use isentrope_objective::{
    LossTerms, Minibatch, Objective, ObjectiveSettings, Truncation, objective,
};
use isentrope_rollout::Response;
use isentrope_run::tokens::{Advantages, GivenRanges};
use isentrope_trace::span;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The responses of a minibatch that are trained on.
pub struct TrainingBatch {
    /// The number of each response's group in the rollout, and the response's number in the group,
    /// `[responses]`.
    places: Vec<(usize, usize)>,
    /// Prompt and response of each, `[responses]`.
    tokens: Vec<Vec<u32>>,
    prompt_lengths: Vec<usize>,
    /// Sampled tokens of each response.
    lengths: Vec<usize>,
    /// Targets of all responses.
    targets: usize,
    /// The place of each sampled token among the targets, ascending, if some were given.
    places_of_tokens: Option<Vec<usize>>,
    /// Which tokens of each response were given, `[responses]`.
    given: Vec<GivenRanges>,
    /// Scores from when they were sampled, `[tokens]` of the responses end to end.
    sampled: Scores,
    /// The tokens that truncated sampling kept at each position, `[targets]`.
    masks: SamplingMasks,
    /// The step that sampled each response, `[responses]`.
    steps: Vec<u64>,
    /// The slots of each response in the activation cache, if it is there, `[responses]`.
    slots: Vec<Option<Vec<u32>>>,
    /// `[tokens]`.
    advantages: Vec<f64>,
}

/// The inputs of the loss besides the responses.
pub struct LossInputs<'a> {
    /// The loss.
    pub settings: &'a ObjectiveSettings,
    /// The temperature of sampling, and so of the policy in training.
    pub temperature: f32,
    /// The step whose responses are on-policy: the weights have not changed since they were
    /// sampled. Set only for a step's first update.
    pub on_policy_step: Option<u64>,
    /// The other inputs of the objective.
    pub terms: LossTerms<'a>,
    /// The teacher, if the loss has the exact reverse KL to one.
    pub teaching: Option<Teaching<'a>>,
}

/// A teacher, and the prompts that it is shown.
#[derive(Clone, Copy)]
pub struct Teaching<'a> {
    /// The teacher; none if it is the model in training, as it is before the update.
    pub model: Option<&'a Model>,
    /// The prompt of each group of the rollout, `[groups]`.
    pub prompts: &'a [Vec<u32>],
}

/// The loss of a minibatch, and measurements from the accumulation of its gradient.
pub struct BatchLoss {
    /// The loss, its derivatives and statistics.
    pub objective: Objective,
    /// Entropy of the policy in training, as `policy/entropy` measures it for a rollout: the mean
    /// over responses of the mean over their tokens, in nats.
    pub entropy: f64,
    /// Time spent outside the model.
    pub objective_time: Duration,
}

impl TrainingBatch {
    /// The minibatches of a rollout, of `prompts` groups each. `learnt` has the advantages of each
    /// response that is trained on, `[groups][responses]`. Minibatches are made lazily, because all
    /// at once would be a second rollout in memory.
    pub fn minibatches<'a>(
        groups: &'a [Group],
        learnt: &'a [Vec<Option<&'a Advantages>>],
        prompts: usize,
    ) -> impl ExactSizeIterator<Item = Self> {
        let minibatches = groups.chunks(prompts).zip(learnt.chunks(prompts)).enumerate();
        minibatches
            .map(move |(number, (groups, learnt))| Self::new(number * prompts, groups, learnt))
    }

    /// The minibatch of these groups; `first` is the number of the first in the rollout.
    fn new(first: usize, groups: &[Group], learnt: &[Vec<Option<&Advantages>>]) -> Self {
        let mut batch = Self {
            places: Vec::new(),
            tokens: Vec::new(),
            prompt_lengths: Vec::new(),
            lengths: Vec::new(),
            targets: 0,
            places_of_tokens: None,
            given: Vec::new(),
            sampled: Scores::default(),
            masks: SamplingMasks::default(),
            steps: Vec::new(),
            slots: Vec::new(),
            advantages: Vec::new(),
        };
        let whole = SamplingMasks::default();
        let (mut places, mut masks_of) = (Vec::new(), Vec::new());
        let responses =
            (first..).zip(groups.iter().zip(learnt)).flat_map(|(number, (group, learnt))| {
                let of_group = group.responses.iter().zip(learnt).enumerate();
                of_group.filter_map(move |(sample, (response, advantages))| {
                    Some(((number, sample), group, response, (*advantages)?))
                })
            });
        for (place, group, response, advantages) in responses {
            batch.places.push(place);
            let Response { tokens, given, logprobs, entropies, masks, activation_slots, .. } =
                response;
            batch.tokens.push([&group.prompt[..], tokens].concat());
            batch.prompt_lengths.push(group.prompt.len());
            batch.lengths.push(response.sampled_tokens());
            batch.given.push(given.clone());
            masks_of.push((masks.as_ref().map_or(&whole, |masks| &masks.tokens), tokens.len()));
            batch.steps.push(group.step);
            batch.slots.push(activation_slots.clone());
            for token in given.sampled(tokens.len()) {
                places.push(batch.targets + token);
                batch.sampled.logprobs.push(logprobs[token]);
                batch.sampled.entropies.push(entropies[token]);
                let log_mass = masks.as_ref().map_or(0.0, |masks| masks.log_masses[token]);
                batch.sampled.log_masses.push(log_mass);
                batch.advantages.push(advantages.at(token));
            }
            batch.targets += tokens.len();
        }
        batch.masks = SamplingMasks::concat(&masks_of);
        let were_given = batch.given.iter().any(|given| !given.is_empty());
        batch.places_of_tokens = were_given.then_some(places);
        batch
    }

    /// The responses: the number of each one's group, its number in the group, and the range of its
    /// sampled tokens in the minibatch.
    pub fn responses(&self) -> impl Iterator<Item = ((usize, usize), Range<usize>)> {
        let mut at = 0;
        self.places.iter().zip(&self.lengths).map(move |(&place, &length)| {
            at += length;
            (place, at - length..at)
        })
    }

    /// Advantages of some of the tokens.
    pub fn advantages(&self, tokens: Range<usize>) -> &[f64] {
        &self.advantages[tokens]
    }

    /// Whether there is nothing to train on.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Sampled tokens of all responses: the tokens of the loss.
    pub fn response_tokens(&self) -> usize {
        self.sampled.logprobs.len()
    }

    /// Tokens of all prompts and responses. A prompt counts once for each of its responses.
    pub fn all_tokens(&self) -> usize {
        self.tokens.iter().map(Vec::len).sum()
    }

    /// Log-probs of the responses' tokens under another model, in the learner's passes, `[tokens]`.
    pub fn logprobs(&self, model: &Model, learner: &Learner, temperature: f32) -> Result<Vec<f64>> {
        let scores = learner.score_with(model, &self.sequences(), temperature)?;
        Ok(widen(&self.of_tokens(scores.logprobs)))
    }

    /// Scores and entropy slopes of the responses' tokens under the present weights, in the
    /// learner's passes.
    pub(crate) fn entropy_slopes(
        &self,
        learner: &Learner,
        temperature: f32,
    ) -> Result<(Scores, Vec<f32>)> {
        let (scores, slopes) =
            learner.entropy_slopes(&self.sequences(), &self.masks, temperature)?;
        Ok((self.scores_of_tokens(scores), self.of_tokens(slopes)))
    }

    /// Entropies of the responses' tokens under the present weights, in the learner's passes,
    /// `[tokens]`.
    pub(crate) fn entropies(&self, learner: &Learner, temperature: f32) -> Result<Vec<f32>> {
        Ok(self.of_tokens(learner.score(&self.sequences(), temperature)?.entropies))
    }

    /// Log-probs, entropies and log-masses of the responses' tokens from when they were sampled,
    /// `[tokens]`.
    pub(crate) fn sampled(&self) -> &Scores {
        &self.sampled
    }

    /// Adds the gradient of the loss to the learner's: score, objective, backward.
    pub fn accumulate(&self, learner: &mut Learner, inputs: &LossInputs<'_>) -> Result<BatchLoss> {
        let texts = inputs.teaching.map(|of| self.taught(of.prompts)).unwrap_or_default();
        let taught = texts.iter().map(|(tokens, from)| Sequence { tokens, score_from: *from });
        let taught: Vec<Sequence<'_>> = taught.collect();
        let (teaching, sequences) = (inputs.teaching, &taught[..]);
        let teacher = teaching.map(|of| UpdateTeacher { model: of.model, sequences });
        let batch = UpdateBatch {
            sequences: &self.sequences(),
            masks: &self.masks,
            idle: &self.idle(inputs),
            on_policy: &self.on_policy(inputs),
            temperature: inputs.temperature,
            teacher,
        };
        let coefficient = inputs.settings.router_aux_coefficient;
        let balance =
            (coefficient != 0.0).then(|| learner.router_balance(batch.sequences)).transpose()?;
        let forward = learner.forward(batch)?;
        let mut loss = match &self.places_of_tokens {
            None => self.loss(&forward.scores, inputs),
            Some(_) => self.loss(&self.scores_of_tokens(forward.scores.clone()), inputs),
        };
        let derivatives = Coefficients {
            d_logprobs: self.of_targets(&loss.objective.d_logprobs),
            d_entropies: self.of_targets(&loss.objective.d_entropies),
            d_log_masses: self.of_targets(&loss.objective.d_log_masses),
            d_experts: balance.as_ref().map(|of| of.slopes(coefficient)).unwrap_or_default(),
            d_divergences: self.of_targets(&loss.objective.d_divergences),
        };
        loss.objective
            .statistics
            .add_router_balance(coefficient, balance.as_ref().map(RouterBalance::loss));
        let divergences = learner.backward(forward, &derivatives)?;
        if inputs.teaching.is_some() {
            let divergences = widen(&self.of_tokens(divergences));
            // If the policy's own scores are not finite, its update is skipped as any other.
            let is_sound = loss.objective.loss.is_finite();
            if is_sound && divergences.iter().any(|divergence| !divergence.is_finite()) {
                let what = "the divergences from the teacher";
                return Err(damaged(what, &inputs.settings.distillation));
            }
            loss.objective.add_divergences(&divergences);
        }
        Ok(loss)
    }

    /// Each response as a teacher is shown it: its tokens behind its group's prompt of these, and
    /// that prompt's length.
    fn taught(&self, prompts: &[Vec<u32>]) -> Vec<(Vec<u32>, usize)> {
        let own = self.places.iter().zip(&self.tokens).zip(&self.prompt_lengths);
        own.map(|((&(group, _), tokens), &length)| {
            ([&prompts[group], &tokens[length..]].concat(), prompts[group].len())
        })
        .collect()
    }

    /// Picks the sampled tokens' numbers out of the targets' numbers.
    fn of_tokens(&self, of_targets: Vec<f32>) -> Vec<f32> {
        match &self.places_of_tokens {
            Some(places) if !of_targets.is_empty() => {
                places.iter().map(|&place| of_targets[place]).collect()
            }
            _ => of_targets,
        }
    }

    /// Picks the sampled tokens' scores out of the targets' scores.
    fn scores_of_tokens(&self, scores: Scores) -> Scores {
        Scores {
            logprobs: self.of_tokens(scores.logprobs),
            entropies: self.of_tokens(scores.entropies),
            log_masses: self.of_tokens(scores.log_masses),
        }
    }

    /// The derivatives by the scores of the targets: 0 for given ones.
    fn of_targets(&self, of_tokens: &[f64]) -> Vec<f32> {
        let Some(places) = &self.places_of_tokens else { return narrow(of_tokens) };
        if of_tokens.is_empty() {
            return Vec::new();
        }
        let mut of_targets = vec![0.0; self.targets];
        for (&place, &derivative) in places.iter().zip(of_tokens) {
            of_targets[place] = derivative as f32;
        }
        of_targets
    }

    /// The loss at the scores of the policy in training, `[tokens]`.
    fn loss(&self, scores: &Scores, inputs: &LossInputs<'_>) -> BatchLoss {
        let _span = span("loss").with("targets", scores.logprobs.len());
        let started = Instant::now();
        let entropies = widen(&scores.entropies);
        let masses = (!self.masks.is_whole())
            .then(|| [widen(&scores.log_masses), widen(&self.sampled.log_masses)]);
        let minibatch = Minibatch {
            lengths: &self.lengths,
            logprobs: &widen(&scores.logprobs),
            old_logprobs: &widen(&self.sampled.logprobs),
            truncation: masses
                .as_ref()
                .map(|[log_masses, old_log_masses]| Truncation { log_masses, old_log_masses }),
            entropies: &entropies,
            old_entropies: &widen(&self.sampled.entropies),
            advantages: &self.advantages,
            terms: inputs.terms,
        };
        let objective = objective(inputs.settings, &minibatch);
        let of_responses = self.responses().map(|(_, tokens)| mean(&entropies[tokens]));
        let entropy = of_responses.sum::<f64>() / self.lengths.len() as f64;
        BatchLoss { objective, entropy, objective_time: started.elapsed() }
    }

    /// The sampler's scores of each response that the present weights have sampled.
    fn on_policy(&self, inputs: &LossInputs<'_>) -> Vec<Option<OnPolicy<'_>>> {
        let mut at = 0;
        let mut all = Vec::with_capacity(self.lengths.len());
        let responses = self.lengths.iter().zip(&self.steps).zip(&self.slots).zip(&self.given);
        for (((&length, &step), slots), given) in responses {
            let Scores { logprobs, entropies, log_masses } = self.sampled.part(at..at + length);
            at += length;
            let spread = |scores: Vec<f32>| given.spread(length + given.count(), scores, f32::NAN);
            let known = || {
                let scores = Scores {
                    logprobs: spread(logprobs),
                    entropies: spread(entropies),
                    log_masses: spread(log_masses),
                };
                OnPolicy { scores, slots: slots.as_deref() }
            };
            all.push((inputs.on_policy_step == Some(step)).then(known));
        }
        all
    }

    /// Whether the loss is expected to have no gradient for any response.
    pub fn is_idle(&self, inputs: &LossInputs<'_>) -> bool {
        self.idle(inputs).iter().all(|&idle| idle)
    }

    /// Which responses are expected to have no gradient: their advantages are 0, and no other term
    /// (the entropy bonus, the KL to the reference or to a teacher, the balance of experts) reaches
    /// every token.
    fn idle(&self, inputs: &LossInputs<'_>) -> Vec<bool> {
        let LossTerms { entropy_coefficient, reference_logprobs, .. } = inputs.terms;
        let reaches_all = entropy_coefficient != 0.0
            || reference_logprobs.is_some()
            || inputs.teaching.is_some()
            || inputs.settings.router_aux_coefficient != 0.0;
        let mut at = 0;
        let of_response = |&length: &usize| {
            at += length;
            !reaches_all
                && self.advantages[at - length..at].iter().all(|&advantage| advantage == 0.0)
        };
        self.lengths.iter().map(of_response).collect()
    }

    fn sequences(&self) -> Vec<Sequence<'_>> {
        let parts = self.tokens.iter().zip(&self.prompt_lengths);
        parts.map(|(tokens, &score_from)| Sequence { tokens, score_from }).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}
