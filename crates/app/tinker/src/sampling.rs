//! Sampling from one set of weights: requests come and go in the batches of an engine.

use crate::error::{Failure, Result, contain};
use crate::memory::{PassMemory, Room};
use crate::promises::{Outcome, Promises};
use crate::requests::Prompt;
use crate::sessions::Weights;
use crate::wire::{SampleResponse, SampledSequence, bytes};
use isentrope_model::{Model, Packed, Sequence};
use isentrope_rollout::{Completion, Engine, Error, Event, FinishReason, Request, RequestId};
use prost::Message;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

/// Weights to sample from, and the memory that they take.
pub(crate) struct SampledWeights {
    pub model: Model,
    room: Option<Room>,
}

impl SampledWeights {
    /// Weights that take `room`; none if they are the base's, which always have their memory.
    pub fn new(model: Model, room: Option<Room>) -> Self {
        Self { model, room }
    }

    /// Bytes that become free if these are dropped: 0 while somebody else has them.
    pub fn freed_by_dropping(self: &Rc<Self>) -> usize {
        let room = self.room.as_ref().filter(|_| Rc::strong_count(self) == 1);
        room.map_or(0, Room::bytes)
    }
}

/// A request to sample.
pub(crate) struct SampleTask {
    /// The request's id.
    pub id: String,
    pub weights: Weights,
    pub prompt: Prompt,
}

/// Requests that are being sampled.
pub(crate) struct Running<'a> {
    model: &'a Model,
    engine: Engine<'a>,
    passes: PassMemory,
    promises: &'a Promises,
    live: HashMap<RequestId, Live>,
}

struct Live {
    id: String,
    prompt_logprobs: Option<Vec<f32>>,
    completions: Vec<Option<Completion>>,
}

impl<'a> Running<'a> {
    pub fn new(
        model: &'a Model,
        engine: Engine<'a>,
        passes: PassMemory,
        promises: &'a Promises,
    ) -> Self {
        Self { model, engine, passes, promises, live: HashMap::new() }
    }

    /// Begins with a request, or tells what is wrong with it.
    pub fn begin(&mut self, task: SampleTask) {
        let SampleTask { id, prompt, .. } = task;
        if let Err(failure) = self.submit(&id, prompt) {
            self.promises.finish(&id, Outcome::failed(&failure));
        }
    }

    fn submit(&mut self, id: &str, prompt: Prompt) -> Result<()> {
        let Prompt { tokens, samples, sampling, key, score_from } = prompt;
        let score = |from| {
            if let Some(lack) = self.passes.lack(self.model, tokens.len(), tokens.len()) {
                return Err(Failure::user(format!("prompt_logprobs: {lack}")));
            }
            contain(|| prompt_logprobs(self.model, &tokens, from)).flatten()
        };
        let prompt_logprobs = score_from.map(score).transpose()?;
        let request = Request {
            key,
            prompt: tokens,
            samples: (0..samples).collect(),
            sampling: sampling.into(),
            cache_activations: false,
        };
        let request = self.engine.submit(request).map_err(Failure::user)?;
        let completions = (0..samples).map(|_| None).collect();
        self.live.insert(request, Live { id: id.to_owned(), prompt_logprobs, completions });
        Ok(())
    }

    /// Advances all requests by a token; false if there are none.
    pub fn step(&mut self) -> bool {
        self.withdraw_unwanted();
        if self.engine.is_idle() {
            return false;
        }
        let engine = &mut self.engine;
        let events = match contain(|| engine.step().map_err(Failure::server)).flatten() {
            Ok(events) => events,
            Err(failure) => {
                // An engine cannot go on after a failed step. Its requests cannot either.
                let failure = Outcome::failed(&failure);
                for live in mem::take(&mut self.live).into_values() {
                    self.promises.finish(&live.id, failure.clone());
                }
                return false;
            }
        };
        for event in events {
            let (request, sample, completion) = match event {
                Event::Token { .. } => continue,
                Event::Finished { request, sample, completion } => (request, sample, completion),
                Event::NotFinite { request, position, .. } => {
                    self.fail(request, &Failure::server(Error::NotFinite { position }));
                    continue;
                }
            };
            let Some(live) = self.live.get_mut(&request) else { continue };
            live.completions[sample] = Some(completion);
            if live.completions.iter().all(Option::is_some)
                && let Some(live) = self.live.remove(&request)
            {
                self.promises.finish(&live.id.clone(), live.outcome());
            }
        }
        true
    }

    /// Ends a request, whose other samples are withdrawn.
    fn fail(&mut self, request: RequestId, failure: &Failure) {
        let Some(live) = self.live.remove(&request) else { return };
        live.withdraw(&mut self.engine, request);
        self.promises.finish(&live.id, Outcome::failed(failure));
    }

    /// Withdraws the requests that have been cancelled, or whose session has ended.
    fn withdraw_unwanted(&mut self) {
        let Self { engine, promises, live, .. } = self;
        live.retain(|&request, live| {
            let is_wanted = promises.is_wanted(&live.id);
            if !is_wanted {
                live.withdraw(engine, request);
            }
            is_wanted
        });
    }
}

impl Live {
    /// Withdraws the samples that have not ended.
    fn withdraw(&self, engine: &mut Engine<'_>, request: RequestId) {
        for sample in 0..self.completions.len() {
            engine.withdraw(request, sample);
        }
    }

    fn outcome(self) -> Outcome {
        let sequence = |completion: Completion| SampledSequence {
            stop_reason: i32::from(completion.finish_reason == FinishReason::Length),
            tokens: bytes(&completion.tokens, u32::to_le_bytes),
            logprobs: Some(bytes(&completion.logprobs, f32::to_le_bytes)),
        };
        let response = SampleResponse {
            sequences: self.completions.into_iter().flatten().map(sequence).collect(),
            prompt_logprobs: self.prompt_logprobs.map(|all| bytes(&all, f32::to_le_bytes)),
        };
        Outcome::Proto(response.encode_to_vec())
    }
}

/// Log-probs of a prompt's tokens from `from` on; NaN before.
fn prompt_logprobs(model: &Model, tokens: &[u32], from: usize) -> Result<Vec<f32>> {
    let mut all = vec![f32::NAN; tokens.len()];
    if tokens.len() > from {
        let packed = Packed::new(&[Sequence { tokens, score_from: from }]);
        let scores = model.score(&packed, 1.0);
        if !scores.logprobs.iter().all(|logprob| logprob.is_finite()) {
            return Err(Failure::server("the model's log-probs are not finite"));
        }
        all[from..].copy_from_slice(&scores.logprobs);
    }
    Ok(all)
}
