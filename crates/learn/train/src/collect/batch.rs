//! One batch of a rollout: the groups of consecutive problems.
//!
//! A response is read from the journal, if the step was broken off before, or else sampled and
//! judged; an episode that had begun goes on. Each of several ranks knows all problems and begins
//! with the responses to some; at the end all ranks exchange their responses.

use super::Collector;
use super::exchange::respond_with_ranks;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::observer::Phase;
use crate::run::{ResponseKey, checksum_of};
use crate::trainer::CollectContext;
use isentrope_data::Problem;
use isentrope_rollout::{
    BegunEpisodes, Interrupt, Key, PlayedTurn, Request, Response, ResponseEvent, ResponseId,
    Sampler, Sampling, Turns, respond, settle_failures,
};
use std::sync::Arc;
use std::time::Duration;

/// Responses that a verifier without workers judges at a time. It uses the cores of sampling, and a
/// single response would leave cores idle. But a response enters the journal only once it is
/// judged.
const JUDGED_AT_A_TIME: usize = 64;

/// The groups of a batch, and measurements of its sampling.
pub(super) struct Batch {
    pub groups: Vec<Group>,
    /// This rank's [`RespondOutcome::waited`](isentrope_rollout::RespondOutcome::waited).
    pub waited: Duration,
    /// This rank's [`RespondOutcome::verdicts`](isentrope_rollout::RespondOutcome::verdicts).
    pub verdicts: Duration,
    /// Responses that have gone from one rank to another.
    pub moved: usize,
    /// Tokens of responses that were read from the journals of all ranks.
    pub journalled: usize,
}

/// One prompt's responses; empty slots have none yet.
struct Slots {
    /// The index of the problem in the batch.
    place: usize,
    /// The journal's name of the first response.
    key: ResponseKey,
    /// Whether this rank begins with them.
    is_own: bool,
    responses: Vec<Option<Response>>,
}

impl Slots {
    /// The numbers of the responses that this rank is to sample.
    fn missing(&self) -> Vec<usize> {
        let is_missing = |&sample: &usize| self.is_own && self.responses[sample].is_none();
        (0..self.responses.len()).filter(is_missing).collect()
    }

    /// Puts a response into its slot, which must be empty.
    fn put(&mut self, sample: usize, response: Response) -> Result<()> {
        let Some(empty @ None) = self.responses.get_mut(sample) else {
            let prompt = self.key.prompt;
            let what = format!("response {sample} to prompt {prompt} was sampled twice");
            return Err(Error::Run(what));
        };
        *empty = Some(response);
        Ok(())
    }
}

impl Collector<'_, '_> {
    /// Samples and judges responses to `count` problems, which follow the `taken` ones of this
    /// step. The activations of the first `cached` groups are kept for the update, as far as there
    /// is room.
    pub(super) fn sample(&mut self, taken: u64, count: usize, cached: usize) -> Result<Batch> {
        let first_position = self.position + taken;
        let position = |place: usize| first_position + place as u64;
        let problems: Vec<Problem> =
            (0..count).map(|place| self.source.problem(position(place))).collect();
        let prompts: Vec<Vec<u32>> = problems
            .iter()
            .map(|p| self.context.prompter.tokens(p))
            .collect::<isentrope_rollout::Result<_>>()?;
        let checksums: Vec<u32> = problems
            .iter()
            .zip(&prompts)
            .map(|(problem, prompt)| checksum_of(problem, prompt))
            .collect::<Result<_>>()?;
        let most_likely = Arc::new(Sampling {
            temperature: 0.0,
            records_kept: false,
            ..(*self.sampling).clone()
        });
        let (mut slots, begun) = self.slots(taken, &prompts, cached, &checksums, &most_likely)?;
        let to_learn = slots.iter().filter(|slots| !slots.key.greedy);
        let journalled = to_learn.flat_map(|slots| slots.responses.iter().flatten());
        let mut parted = 0;
        let mut journalled: usize = journalled.map(Response::sampled_tokens).sum();
        let (seed, step) = (self.recipe.run.seed, self.context.step);
        let question = |slots: &Slots| {
            let Slots { place, key, .. } = *slots;
            let request = Request {
                key: Key { seed, step, prompt: key.prompt },
                prompt: prompts[place].clone(),
                samples: slots.missing(),
                sampling: if key.greedy { most_likely.clone() } else { self.sampling.clone() },
                cache_activations: !key.greedy && place < cached,
            };
            (&problems[place], request)
        };
        let questions = slots.iter().map(question).collect();
        let journal = &mut self.journal;
        let keep = &mut |ResponseId { request, sample }: ResponseId,
                         event: ResponseEvent|
         -> Result<()> {
            let slots: &mut Slots = &mut slots[request];
            let (key, of) = (ResponseKey { sample, ..slots.key }, checksums[slots.place]);
            match event {
                ResponseEvent::Replayed { turns, outcome_differs } => {
                    let (taken, rest) = begun[&ResponseId { request, sample }].split_at(turns);
                    parted += usize::from(outcome_differs || !rest.is_empty());
                    if !key.greedy {
                        journalled += taken.iter().map(PlayedTurn::sampled_tokens).sum::<usize>();
                    }
                }
                ResponseEvent::Turn(turn) => journal.add_turn(key, of, &turn)?,
                ResponseEvent::Judged(response) => {
                    journal.add(key, of, &response)?;
                    slots.put(sample, response)?;
                }
            }
            Ok(())
        };
        let CollectContext { model, prompter, judge, turns, limits, ranks, .. } = *self.context;
        let sampler = Sampler {
            model,
            activation_cache: self.context.activation_cache.as_deref_mut(),
            tokenizer: &prompter.tokenizer,
            limits,
            phase: Phase::Rollout,
            interrupt: Interrupt::Never,
            turns: turns.map(|turns| Turns { begun: Some(&begun), ..turns }),
        };
        // An environment is not to be asked for a complete episode again, so none waits.
        let batch = if turns.is_some() { 1 } else { JUDGED_AT_A_TIME };
        let observer = &mut *self.context.observer;
        let (responded, moved) = if ranks.count() == 1 {
            (respond(sampler, questions, judge, batch, keep, observer)?, 0)
        } else {
            let sampled =
                respond_with_ranks(ranks, sampler, questions, judge, batch, keep, observer)?;
            self.fill_from_other_ranks(&mut slots)?;
            sampled
        };
        let missing =
            slots.iter().flat_map(|slots| &slots.responses).filter(|r| r.is_none()).count();
        if missing > 0 {
            return Err(Error::Run(format!("{missing} responses were sampled by no rank")));
        }
        // Only the first rank's notes are shown.
        let replays = ranks.gather(vec![(journalled, begun.len(), parted)])?;
        let sum = |of: fn(&(usize, usize, usize)) -> usize| replays.iter().map(of).sum::<usize>();
        let (episodes, parted) = (sum(|(_, begun, _)| *begun), sum(|(.., parted)| *parted));
        if parted > 0 {
            self.context.observer.note(&format!(
                "step {step}: the environment has answered {parted} of {episodes} episodes \
                 otherwise than before the run was broken off, so the run differs from an \
                 unbroken one: they go on behind the new answers; let answers depend on the \
                 problem, the seed and the episode's turns alone"
            ));
        }
        let mut all = slots.into_iter().map(|slots| slots.responses.into_iter().flatten());
        let responses: Vec<Vec<Response>> =
            all.by_ref().take(count).map(Iterator::collect).collect();
        let greedy = all.map(|mut greedy| greedy.next());
        let parts = problems.into_iter().zip(prompts).zip(responses.into_iter().zip(greedy));
        let groups = parts.enumerate().map(|(place, ((problem, prompt), (responses, greedy)))| {
            let mut group =
                Group { step, position: position(place), problem, prompt, responses, greedy };
            let Group { responses, greedy, .. } = &mut group;
            settle_failures(&mut responses.iter_mut().chain(greedy).collect::<Vec<_>>());
            group
        });
        Ok(Batch {
            groups: groups.collect(),
            waited: responded.waited,
            verdicts: responded.verdicts,
            moved,
            journalled: sum(|(journalled, ..)| *journalled),
        })
    }

    /// The slots of each problem's responses, then the slot of each problem's most likely response,
    /// if the advantage needs it. Responses of this rank that the journal has are in their slots;
    /// also returns the begun episodes of others, by the number of the slots.
    fn slots(
        &mut self,
        taken: u64,
        prompts: &[Vec<u32>],
        cached: usize,
        checksums: &[u32],
        most_likely: &Sampling,
    ) -> Result<(Vec<Slots>, BegunEpisodes)> {
        let mut is_own = vec![false; prompts.len()];
        self.context
            .ranks
            .own_groups(cached, prompts.len())
            .into_iter()
            .for_each(|place| is_own[place] = true);
        let model = self.context.model;
        let vocabulary = model.config.vocab_size;
        let judges_groups = self.context.judge.verifier.judges_groups();
        let (mut slots, mut begun) = (Vec::new(), BegunEpisodes::new());
        let greedy = usize::from(self.recipe.objective.needs_greedy_baseline());
        for (greedy, samples) in [(false, self.recipe.rollout.responses), (true, greedy)] {
            for (place, &is_own) in is_own.iter().enumerate() {
                let key = |sample| ResponseKey { prompt: taken + place as u64, greedy, sample };
                let drawn_as = if greedy { most_likely } else { &*self.sampling };
                let of = checksums[place];
                let room = model.context().saturating_sub(prompts[place].len());
                let known = |sample| -> Result<Option<Response>> {
                    let known = if is_own { self.journal.take(key(sample), of)? } else { None };
                    Ok(known.filter(|known| known.can_be_of(vocabulary, drawn_as, room)))
                };
                let mut responses: Vec<Option<Response>> =
                    (0..samples).map(known).collect::<Result<_>>()?;
                // A group that is judged whole is sampled again whole.
                if judges_groups && responses.iter().any(Option::is_none) {
                    responses.fill(None);
                }
                let is_missing = |&sample: &usize| is_own && responses[sample].is_none();
                for sample in (0..samples).filter(is_missing) {
                    let turns = self.journal.take_turns(key(sample), of)?;
                    let turns = PlayedTurn::in_order(turns, vocabulary, drawn_as, room);
                    if !turns.is_empty() {
                        begun.insert(ResponseId { request: slots.len(), sample }, turns);
                    }
                }
                slots.push(Slots { place, key: key(0), is_own, responses });
            }
        }
        Ok((slots, begun))
    }

    /// Fills the empty slots with the responses of the other ranks.
    fn fill_from_other_ranks(&self, all: &mut [Slots]) -> Result<()> {
        let mut own = Vec::new();
        for (question, slots) in all.iter_mut().enumerate() {
            for (sample, response) in slots.responses.iter_mut().enumerate() {
                own.extend(response.take().map(|response| ((question, sample), response)));
            }
        }
        for ((question, sample), response) in self.context.ranks.gather(own)? {
            let slots = all.get_mut(question);
            let slots =
                slots.ok_or_else(|| Error::Run(format!("there is no question {question}")))?;
            slots.put(sample, response)?;
        }
        Ok(())
    }
}
