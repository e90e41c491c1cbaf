//! The thread that owns the engine: all requests share its batches.
//!
//! A job leaves when it is done, when it fails, when its time is over, and when nobody receives its
//! events any more: its sequences are withdrawn then and their memory is free again.

use crate::api_error::{ApiError, ending, time_over};
use crate::job::{Job, Message, Update};
use crate::metrics::Metrics;
use crate::scoring::Scoring;
use isentrope_model::Model;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::{Engine, Error, Event, Key, Limits, Request, RequestId, Result};
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

/// Takes jobs until it is to end, and works on all of them together.
///
/// # Errors
/// When there is no memory for keys and values.
pub(crate) fn work(
    model: &Model,
    tokenizer: &Tokenizer,
    limits: Limits,
    messages: &Receiver<Message>,
    metrics: &Metrics,
) -> Result<()> {
    let mut worker = Worker {
        model,
        engine: Engine::new(model, Some(tokenizer), limits)?,
        chunk: limits.prefill_tokens,
        metrics,
        live: BTreeMap::new(),
        accepted: 0,
        requests: HashMap::new(),
    };
    loop {
        let message = if worker.live.is_empty() {
            messages.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            messages.try_recv()
        };
        match message {
            Ok(Message::Job(job)) => {
                worker.accept(*job);
                continue;
            }
            Err(TryRecvError::Empty) => {}
            Ok(Message::End) | Err(TryRecvError::Disconnected) => {
                worker.fail_all(&ending());
                return Ok(());
            }
        }
        worker.withdraw_ended();
        worker.score_some();
        if let Err(failure) = worker.step() {
            // An engine cannot go on after a failed step. Its requests cannot either.
            worker.fail_all(&ApiError::internal(failure.to_string()));
            drop(mem::replace(
                &mut worker.engine,
                Engine::new(
                    model,
                    Some(tokenizer),
                    Limits {
                        cache_bytes: 0, // one page, while two engines are there
                        ..limits
                    },
                )?,
            ));
            worker.engine = Engine::new(model, Some(tokenizer), limits)?;
        }
        metrics.running.store(worker.engine.running(), Ordering::Relaxed);
    }
}

struct Worker<'a> {
    model: &'a Model,
    engine: Engine<'a>,
    /// Most tokens of a prompt that are scored between two steps of the engine.
    chunk: usize,
    metrics: &'a Metrics,
    /// Jobs that have not ended, by their number.
    live: BTreeMap<u64, Live>,
    accepted: u64,
    /// The job and the prompt of each of the engine's requests.
    requests: HashMap<RequestId, (u64, usize)>,
}

/// A job that has not ended.
struct Live {
    job: Job,
    /// The engine's request for each prompt.
    requests: Vec<RequestId>,
    /// Prompts that have been scored.
    scored: usize,
    /// The scores of the next one, if they are begun.
    scoring: Option<Scoring>,
    /// Whether each choice has a token.
    begun: Vec<bool>,
    /// Choices that have not ended.
    unfinished: usize,
}

impl Live {
    fn is_done(&self) -> bool {
        self.unfinished == 0
            && (self.job.scoring.is_none() || self.scored == self.job.prompts.len())
    }

    fn send(&self, update: Update) {
        let _ = self.job.updates.send(update); // an abandoned job is dropped before the next step
    }
}

impl Worker<'_> {
    /// Begins with a job, or tells it what is wrong with it.
    fn accept(&mut self, job: Job) {
        let number = self.accepted;
        self.accepted += 1;
        let begun = vec![false; job.prompts.len() * job.samples];
        let mut live =
            Live { job, requests: Vec::new(), scored: 0, scoring: None, begun, unfinished: 0 };
        if let Err(wrong) = self.submit(number, &mut live) {
            self.withdraw(&live);
            live.send(Update::Failed(ApiError::request(wrong.to_string())));
            return;
        }
        let tokens = live.job.prompts.iter().map(Vec::len).sum::<usize>();
        self.metrics.prompt_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        live.send(Update::Accepted);
        self.live.insert(number, live);
        self.remove_done(number); // it may have nothing to do
    }

    fn submit(&mut self, number: u64, live: &mut Live) -> Result<()> {
        for (i, prompt) in live.job.prompts.iter().enumerate() {
            self.model.check_tokens(prompt)?;
            let Some(sampling) = &live.job.sampling else { continue };
            let request = self.engine.submit(Request {
                key: Key { seed: live.job.seed, step: 0, prompt: i as u64 },
                prompt: prompt.clone(),
                samples: (0..live.job.samples).collect(),
                sampling: sampling.clone(),
                cache_activations: false,
            })?;
            self.requests.insert(request, (number, i));
            live.requests.push(request);
            live.unfinished += live.job.samples;
        }
        Ok(())
    }

    /// Takes a job's sequences out of the engine.
    fn withdraw(&mut self, live: &Live) {
        for request in &live.requests {
            self.requests.remove(request);
            for sample in 0..live.job.samples {
                self.engine.withdraw(*request, sample);
            }
        }
    }

    /// Withdraws the jobs whose client has left, and those whose time is over, even if their client
    /// does not read its answer.
    fn withdraw_ended(&mut self) {
        let now = Instant::now();
        let has_ended = |live: &Live| live.job.updates.is_closed() || live.job.deadline <= now;
        let numbers = self.live.iter().filter(|(_, live)| has_ended(live)).map(|(n, _)| *n);
        for number in numbers.collect::<Vec<_>>() {
            if let Some(live) = self.live.remove(&number) {
                self.metrics.withdrawn.fetch_add(1, Ordering::Relaxed);
                self.withdraw(&live);
                live.send(Update::Failed(time_over())); // a client that has left does not hear it
            }
        }
    }

    /// Goes on with the next prompt of the oldest job that has one to score.
    fn score_some(&mut self) {
        let next = self.live.iter_mut().find_map(|(&number, live)| {
            let temperature = live.job.scoring?;
            (live.scored < live.job.prompts.len()).then_some((number, live, temperature))
        });
        let Some((number, live, temperature)) = next else { return };
        let prompt = &live.job.prompts[live.scored];
        let begun = live.scoring.take().map_or_else(|| Scoring::begin(self.model, prompt), Ok);
        let mut scoring = match begun {
            Ok(scoring) => scoring,
            Err(no_memory) => return self.fail(number, no_memory),
        };
        if !scoring.is_done(prompt) {
            if !scoring.advance(self.model, prompt, temperature, self.chunk) {
                let failure = "the model's log-probs are not finite: its weights or its \
                               configuration are damaged";
                return self.fail(number, failure);
            }
            if !scoring.is_done(prompt) {
                live.scoring = Some(scoring);
                return;
            }
        }
        live.send(Update::Scored { prompt: live.scored, scores: scoring.into_scores() });
        live.scored += 1;
        if live.job.sampling.is_none() {
            live.job.waiting.begin_one();
        }
        self.remove_done(number);
    }

    /// Advances the engine, and passes on what has happened.
    fn step(&mut self) -> Result<()> {
        if self.engine.is_idle() {
            return Ok(());
        }
        for event in self.engine.step()? {
            match event {
                Event::Token { request, sample, drawn, text } => {
                    self.metrics.sampled_tokens.fetch_add(1, Ordering::Relaxed);
                    let Some((number, prompt)) = self.requests.get(&request) else { continue };
                    let Some(live) = self.live.get_mut(number) else { continue };
                    let choice = prompt * live.job.samples + sample;
                    if !mem::replace(&mut live.begun[choice], true) {
                        live.job.waiting.begin_one();
                    }
                    live.send(Update::Token { choice, drawn, text: text.unwrap_or_default() });
                }
                Event::Finished { request, sample, completion } => {
                    let Some(&(number, prompt)) = self.requests.get(&request) else { continue };
                    let Some(live) = self.live.get_mut(&number) else { continue };
                    live.unfinished -= 1;
                    let choice = prompt * live.job.samples + sample;
                    live.send(Update::Finished { choice, completion: Box::new(completion) });
                    self.remove_done(number);
                }
                Event::NotFinite { request, position, .. } => {
                    let Some(&(number, _)) = self.requests.get(&request) else { continue };
                    self.fail(number, Error::NotFinite { position });
                }
            }
        }
        Ok(())
    }

    /// Removes a job that is done.
    fn remove_done(&mut self, number: u64) {
        if self.live.get(&number).is_some_and(Live::is_done)
            && let Some(live) = self.live.remove(&number)
        {
            for request in live.requests {
                self.requests.remove(&request);
            }
        }
    }

    /// Fails one job, because of the model or the memory.
    fn fail(&mut self, number: u64, failure: impl ToString) {
        let Some(live) = self.live.remove(&number) else { return };
        self.metrics.failures.fetch_add(1, Ordering::Relaxed);
        self.withdraw(&live);
        live.send(Update::Failed(ApiError::internal(failure.to_string())));
    }

    fn fail_all(&mut self, failure: &ApiError) {
        self.requests.clear();
        for live in mem::take(&mut self.live).into_values() {
            self.metrics.failures.fetch_add(1, Ordering::Relaxed);
            live.send(Update::Failed(failure.clone()));
        }
    }
}
