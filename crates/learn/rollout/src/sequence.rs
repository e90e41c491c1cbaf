//! Prompts and responses on their way through the engine.

use crate::episode_queue::EpisodeOutcome;
use crate::partial_response::PartialResponse;
use crate::random::Key;
use crate::response_masks::ResponseMasks;
use crate::sampling::Sampling;
use crate::stop::Text;
use isentrope_kernels::{Buffer, Draw, Drawn};
use isentrope_run::tokens::GivenRanges;
use std::sync::Arc;

/// Why a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-sequence token, a stop token or a stop string.
    Stop,
    /// `max_tokens`, or the end of the model's context.
    Length,
}

impl FinishReason {
    /// The name in common inference servers' formats: "stop" or "length".
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// A finished response. The vectors have one entry per token.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// Tokens, a final end-of-sequence or stop token included.
    pub tokens: Vec<u32>,
    /// Log-prob of each token under the model at the temperature (at 1 for greedy decoding), in
    /// nats.
    pub logprobs: Vec<f32>,
    /// Log-prob of each token under the distribution that it was drawn from, if that is not the
    /// model's.
    pub sampling_logprobs: Option<Vec<f32>>,
    /// Entropy of the model's distribution at each token, in nats.
    pub entropies: Vec<f32>,
    /// The tokens that truncated sampling kept at each position, if [`Sampling::records_kept`] is
    /// set.
    pub masks: Option<ResponseMasks>,
    /// Which tokens were given, in a response of several turns: their numbers are 0.
    pub given: GivenRanges,
    /// Decoded text without special tokens, up to a stop string, if the engine has a tokenizer; of
    /// several turns, the last one's.
    pub text: Option<String>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Most tokens that could follow its prompt in the model's context.
    pub room: usize,
    /// The slots of the engine's activation cache that hold the activations of each token of the
    /// prompt and of the response but its last, if all of them have been cached.
    pub activation_slots: Option<Vec<u32>>,
    /// How its episode went, if it has an environment and is complete.
    pub episode: Option<Box<EpisodeOutcome>>,
}

/// A prompt whose samples have not all started.
pub(crate) struct Group {
    pub id: usize,
    pub key: Key,
    pub prompt: Arc<[u32]>,
    pub sampling: Arc<Sampling>,
    /// The numbers of its samples.
    pub samples: Vec<usize>,
    /// Partial responses that the first samples continue, in order; later samples begin anew.
    pub partial: Vec<PartialResponse>,
    /// Samples that have started.
    pub started: usize,
    pub pages: Vec<u32>,
    /// The prompt's recurrent state, in models that have one.
    pub state_slot: Option<u32>,
    /// The activation slots of the prompt's fed tokens, if they are cached.
    pub slots: Option<Vec<u32>>,
    pub state: GroupState,
}

pub(crate) enum GroupState {
    /// Has no memory yet.
    Waiting,
    /// `done` tokens of the prompt are in the cache.
    Prefilling { done: usize },
    /// The whole prompt is in the cache. `row` of `hidden` is the final hidden state of its last
    /// token.
    Ready { hidden: Arc<Buffer>, row: u32 },
}

/// A response in the making.
pub(crate) struct Sample<'a> {
    pub id: usize,
    pub sample: usize,
    pub key: Key,
    pub prompt: Arc<[u32]>,
    pub sampling: Arc<Sampling>,
    /// Longest response that fits the settings and the context.
    pub max_tokens: usize,
    pub pages: Vec<u32>,
    /// Its recurrent state, in models that have one.
    pub state_slot: Option<u32>,
    /// Pages that are reserved for the sample and not taken yet.
    pub reserved: usize,
    /// Tokens that are in the cache, or will be after the current step.
    pub fed: usize,
    /// Without what was kept. Given tokens have log-prob and entropy 0.
    pub drawn: Vec<Drawn>,
    /// Which of them were given.
    pub given: GivenRanges,
    /// The tokens that truncated sampling kept at each position, if they are recorded.
    pub masks: Option<ResponseMasks>,
    /// The activation slots of all fed tokens, if they are cached.
    pub slots: Option<Vec<u32>>,
    /// The text so far, if it is decoded token by token.
    pub text: Option<Text<'a>>,
}

impl Sample<'_> {
    /// Tokens in the cache once the last drawn one has been fed.
    pub(crate) fn positions(&self) -> usize {
        self.prompt.len() + self.drawn.len()
    }

    /// The number of tokens to feed. `has_drawn` says whether one is drawn and not yet read. A
    /// response's last token is never fed.
    pub(crate) fn waiting(&self, has_drawn: bool) -> usize {
        if has_drawn {
            usize::from(self.drawn.len() + 1 < self.max_tokens)
        } else {
            self.positions() - self.fed
        }
    }

    /// The draw of the next token, from the row of hidden states of the last fed one.
    pub(crate) fn next(&self, row: usize) -> Draw {
        let adjustments = self.sampling.adjustments();
        let context = || self.prompt.iter().copied().chain(self.drawn.iter().map(|d| d.token));
        let penalised =
            if adjustments.repetition_penalty == 1.0 { Vec::new() } else { context().collect() };
        // The token before may be drawn and not yet read.
        let uniform = self.key.uniform(self.sample as u64, (self.fed - self.prompt.len()) as u64);
        Draw { row, adjustments, penalised, records_kept: self.sampling.records_kept, uniform }
    }
}
