//! A response that may be recorded, and what becomes of it.

use crate::group::Group;
use isentrope_rollout::Response;
use isentrope_run::tokens::{Advantages, TokenRecord};

/// A response that may be recorded.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub sampled_step: u64,
    pub position: u64,
    pub origin: String,
    pub sample: usize,
    pub prompt: Vec<u32>,
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub entropies: Vec<f32>,
    pub verdict: &'static str,
    pub reward: f64,
    pub truncated: bool,
    pub learnt: Option<Learnt>,
}

/// An update's numbers about a response.
#[derive(Clone, Debug)]
pub(super) struct Learnt {
    pub update: usize,
    pub advantages: Advantages,
    pub mean_advantage: f64,
    pub mean_logprob: f64,
    pub covariances: Vec<f32>,
    pub selected: Vec<usize>,
    pub clipped: Vec<usize>,
}

/// A response that may be chosen.
pub(super) enum Found<'a> {
    Here { place: Option<usize>, group: &'a Group, sample: usize },
    Dropped(Box<Candidate>),
}

impl Found<'_> {
    /// Tokens of the response and of its prompt, and which problem it answers.
    pub fn extent(&self) -> (usize, usize, (u64, u64)) {
        match self {
            Self::Here { group, sample, .. } => {
                let tokens = group.responses[*sample].tokens.len();
                (tokens, group.prompt.len(), (group.step, group.position))
            }
            Self::Dropped(c) => (c.tokens.len(), c.prompt.len(), (c.sampled_step, c.position)),
        }
    }

    pub fn candidate(self) -> (Option<usize>, Candidate) {
        match self {
            Self::Here { place, group, sample } => {
                (place, Candidate::new(group, sample, &group.responses[sample]))
            }
            Self::Dropped(candidate) => (None, *candidate),
        }
    }
}

impl Candidate {
    pub fn new(group: &Group, sample: usize, response: &Response) -> Self {
        Self {
            sampled_step: group.step,
            position: group.position,
            origin: group.problem.origin.clone(),
            sample,
            prompt: group.prompt.clone(),
            tokens: response.tokens.clone(),
            logprobs: response.logprobs.clone(),
            entropies: response.entropies.clone(),
            verdict: response.judgement.verdict.name(),
            reward: response.reward,
            truncated: response.truncated,
            learnt: None,
        }
    }

    /// Its record without texts: its numbers, with those of the step that it was chosen in.
    /// `tokens` are prompt and response.
    pub fn record(
        self,
        step: u64,
        tokens: Vec<u32>,
        temperature: f32,
        logprobs_after: Vec<f32>,
    ) -> TokenRecord {
        let mut record = TokenRecord {
            step,
            sampled_step: self.sampled_step,
            position: self.position,
            origin: self.origin,
            sample: self.sample,
            verdict: self.verdict.to_owned(),
            reward: self.reward,
            truncated: self.truncated,
            temperature,
            prompt_text: String::new(),
            prompt_tokens: self.prompt.len(),
            tokens,
            pieces: Vec::new(),
            logprobs: self.logprobs,
            entropies: self.entropies,
            logprobs_after,
            update: None,
            advantages: None,
            mean_advantage: None,
            mean_logprob: None,
            covariances: Vec::new(),
            selected: Vec::new(),
            clipped: Vec::new(),
        };
        if let Some(learnt) = self.learnt {
            record.update = Some(learnt.update);
            record.advantages = Some(learnt.advantages);
            record.mean_advantage = Some(learnt.mean_advantage);
            record.mean_logprob = Some(learnt.mean_logprob);
            record.covariances = learnt.covariances;
            record.selected = learnt.selected;
            record.clipped = learnt.clipped;
        }
        record
    }
}
