//! The implicit process reward model of PRIME (docs/concepts/entropy.md): it rewards each token by
//! how much likelier a right response has become, and learns from the verdicts of whole responses.
//!
//! It is a [`Learner`] of its own, beside a frozen reference. [`process_loss`] computes its loss
//! from log-probs.

use crate::error::Result;
use crate::learner::{Coefficients, Learner, UpdateBatch};
use isentrope_kernels::SamplingMasks;
use isentrope_model::{Model, Sequence};
use isentrope_objective::process_loss;
use isentrope_rollout::Response;
use isentrope_run::tokens::GivenRanges;
use isentrope_trace::span;
use std::ops::Range;

/// Responses that a process model scores and learns from, with their log-probs under the reference.
pub struct ProcessBatch {
    /// Prompt and response of each, `[responses]`.
    texts: Vec<Vec<u32>>,
    prompt_lengths: Vec<usize>,
    correct: Vec<bool>,
    /// The range of each response's tokens in the batch, `[responses]`.
    tokens: Vec<Range<usize>>,
    /// Which of them were given. They have no log-ratio: phi scores the policy's own tokens.
    given: Vec<GivenRanges>,
    /// Log-probs under the reference, `[tokens]` of the responses end to end.
    reference: Vec<f32>,
}

impl ProcessBatch {
    /// Responses, each with its prompt and whether it is right. The reference scores them, in the
    /// passes of the learner.
    pub fn new<'a>(
        responses: impl Iterator<Item = (&'a [u32], &'a Response, bool)>,
        reference: &Model,
        learner: &Learner,
        temperature: f32,
    ) -> Result<Self> {
        let mut batch = Self {
            texts: Vec::new(),
            prompt_lengths: Vec::new(),
            correct: Vec::new(),
            tokens: Vec::new(),
            given: Vec::new(),
            reference: Vec::new(),
        };
        let mut end = 0;
        for (prompt, response, correct) in responses {
            batch.texts.push([prompt, &response.tokens].concat());
            batch.prompt_lengths.push(prompt.len());
            batch.correct.push(correct);
            let start = end;
            end += response.tokens.len();
            batch.tokens.push(start..end);
            batch.given.push(response.given.clone());
        }
        batch.reference =
            learner.score_with(reference, &batch.sequences(&batch.all()), temperature)?.logprobs;
        Ok(batch)
    }

    /// The places of all its responses.
    pub fn all(&self) -> Vec<usize> {
        (0..self.texts.len()).collect()
    }

    /// Tokens that go through the model: prompts and responses.
    pub fn all_tokens(&self) -> usize {
        self.texts.iter().map(Vec::len).sum()
    }

    /// log pi_phi - log pi_ref of the sampled tokens of each response under the present process
    /// model, `[responses][sampled]`.
    pub fn log_ratios(&self, learner: &Learner, temperature: f32) -> Result<Vec<Vec<f64>>> {
        let places = self.all();
        Ok(self.ratios(&places, &learner.score(&self.sequences(&places), temperature)?.logprobs))
    }

    /// Adds the gradient of the [loss](process_loss) over the responses in these places to the
    /// learner's. Returns the log-ratios that it was computed from, `[places][sampled]`.
    pub fn accumulate(
        &self,
        places: &[usize],
        learner: &mut Learner,
        beta: f64,
        temperature: f32,
    ) -> Result<Vec<Vec<f64>>> {
        let batch = UpdateBatch {
            sequences: &self.sequences(places),
            masks: &SamplingMasks::default(),
            idle: &vec![false; places.len()],
            on_policy: &vec![None; places.len()],
            temperature,
            teacher: None,
        };
        let forward = learner.forward(batch)?;
        let ratios = self.ratios(places, &forward.scores.logprobs);
        let lengths: Vec<usize> = ratios.iter().map(Vec::len).collect();
        let correct: Vec<bool> = places.iter().map(|&place| self.correct[place]).collect();
        let loss = {
            let _span = span("loss").with("targets", forward.scores.logprobs.len());
            process_loss(beta, &lengths, &ratios.concat(), &correct)
        };
        let mut slopes = loss.d_logprobs.iter().map(|&slope| slope as f32);
        let of_response = |(&place, &sampled): (&usize, &usize)| {
            let own = slopes.by_ref().take(sampled);
            self.given[place].spread(self.tokens[place].len(), own, 0.0)
        };
        let d_logprobs: Vec<f32> = places.iter().zip(&lengths).flat_map(of_response).collect();
        let derivatives = Coefficients {
            d_entropies: vec![0.0; d_logprobs.len()],
            d_logprobs,
            ..Coefficients::default()
        };
        learner.backward(forward, &derivatives)?;
        Ok(ratios)
    }

    /// Log-ratios of the responses in these places. `logprobs` are the process model's, end to end.
    fn ratios(&self, places: &[usize], logprobs: &[f32]) -> Vec<Vec<f64>> {
        let mut rest = logprobs;
        let of_response = |&place: &usize| {
            let reference = &self.reference[self.tokens[place].clone()];
            let (own, others) = rest.split_at(reference.len());
            rest = others;
            self.given[place]
                .sampled(reference.len())
                .map(|token| f64::from(own[token]) - f64::from(reference[token]))
                .collect()
        };
        places.iter().map(of_response).collect()
    }

    fn sequences(&self, places: &[usize]) -> Vec<Sequence<'_>> {
        let sequence = |&place: &usize| Sequence {
            tokens: &self.texts[place],
            score_from: self.prompt_lengths[place],
        };
        places.iter().map(sequence).collect()
    }
}
