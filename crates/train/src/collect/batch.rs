//! One batch of a rollout: the groups of so many consecutive problems.
//!
//! Every rank knows all of these problems, and begins with the responses of some. What is known of them from a journal, and
//! what a rank samples and judges, its own or taken over from others, is gathered response by response, and every rank makes
//! the groups.

use super::Collector;
use super::others::Others;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::observer::Phase;
use crate::run::{Asked, checksum_of};
use isentrope_data::Problem;
use isentrope_rollout::{Interrupt, Key, Peers, Request, Response, Sampler, Sampling, respond};
use std::sync::Arc;
use std::time::Duration;

/// How many responses are sampled before a verifier without workers judges them. It computes where sampling does, and would leave
/// cores idle for a single one; but what is not judged is not in the journal.
const JUDGED_AT_A_TIME: usize = 64;

/// The groups of a batch, and how it went.
pub(super) struct Batch {
    pub groups: Vec<Group>,
    /// As of [`Responded`](isentrope_rollout::Responded), on this rank.
    pub waited: Duration,
    pub verdicts: Duration,
    /// How many responses have gone from one rank to another.
    pub moved: usize,
}

/// The responses to a prompt that are wanted, as far as they are there.
struct Wanted {
    /// Which of the batch's problems.
    place: usize,
    /// The first of them.
    asked: Asked,
    /// Whether this rank begins with them.
    is_own: bool,
    responses: Vec<Option<Response>>,
}

impl Wanted {
    /// The numbers of those that this rank begins with and that are not there.
    fn missing(&self) -> Vec<usize> {
        let is_missing = |&sample: &usize| self.is_own && self.responses[sample].is_none();
        (0..self.responses.len()).filter(is_missing).collect()
    }

    /// Takes a response to a question of which there is none yet.
    fn put(&mut self, sample: usize, response: Response) -> Result<()> {
        match self.responses.get_mut(sample) {
            Some(empty @ None) => *empty = Some(response),
            _ => {
                let Asked { prompt, .. } = self.asked;
                return Err(Error::Run(format!("response {sample} to prompt {prompt} was sampled twice")));
            }
        }
        Ok(())
    }
}

impl Collector<'_> {
    /// Samples responses to `count` problems, after the `taken` ones of this step, and judges them, together with the other
    /// ranks. The activations of the first `cached` of all groups are kept for the update, as far as there is room.
    pub(super) fn sample(&mut self, taken: u64, count: usize, cached: usize) -> Result<Batch> {
        let first_position = self.position + taken;
        let position = |place: usize| first_position + place as u64;
        let problems: Vec<Problem> = (0..count).map(|place| self.source.problem(position(place))).collect();
        let prompts: Vec<Vec<u32>> =
            problems.iter().map(|p| self.prompter.tokens(p)).collect::<isentrope_rollout::Result<_>>()?;
        let checksums: Vec<u32> = problems
            .iter()
            .zip(&prompts)
            .map(|(problem, prompt)| checksum_of(problem, prompt))
            .collect::<Result<_>>()?;
        let most_likely =
            Arc::new(Sampling { temperature: 0.0, records_kept: false, ..(*self.sampling).clone() });
        let mut wanted = self.wanted(taken, count, cached, &checksums, &most_likely);
        let question = |wanted: &Wanted| {
            let Wanted { place, asked, .. } = *wanted;
            let request = Request {
                key: Key { seed: self.seed, step: self.step, prompt: asked.prompt },
                prompt: prompts[place].clone(),
                samples: wanted.missing(),
                sampling: if asked.greedy { most_likely.clone() } else { self.sampling.clone() },
                cache_activations: !asked.greedy && place < cached,
            };
            (&problems[place], request)
        };
        let questions = wanted.iter().map(question).collect();
        let journal = &mut self.journal;
        let keep = &mut |question: usize, sample: usize, response: Response| -> Result<()> {
            let wanted: &mut Wanted = &mut wanted[question];
            journal.add(Asked { sample, ..wanted.asked }, checksums[wanted.place], &response)?;
            wanted.put(sample, response)
        };
        let sampler = Sampler {
            model: self.model,
            activation_cache: self.activation_cache.as_deref_mut(),
            tokenizer: &self.prompter.tokenizer,
            limits: self.limits,
            phase: Phase::Rollout,
            interrupt: Interrupt::Never,
        };
        let mut others = Others::of(&self.ranks);
        let peers = if self.ranks.count() > 1 { Some(&mut others as &mut dyn Peers<Error>) } else { None };
        let responded =
            respond(sampler, questions, peers, self.judge, JUDGED_AT_A_TIME, keep, self.observer)?;
        let moved = others.moved;
        self.gather(&mut wanted)?;
        let mut all = wanted.into_iter().map(|wanted| wanted.responses.into_iter().flatten());
        let responses: Vec<Vec<Response>> = all.by_ref().take(count).map(Iterator::collect).collect();
        let greedy = all.map(|mut greedy| greedy.next());
        let parts = problems.into_iter().zip(prompts).zip(responses.into_iter().zip(greedy));
        let groups = parts.enumerate().map(|(place, ((problem, prompt), (responses, greedy)))| Group {
            step: self.step,
            position: position(place),
            problem,
            prompt,
            responses,
            greedy,
        });
        Ok(Batch { groups: groups.collect(), waited: responded.waited, verdicts: responded.verdicts, moved })
    }

    /// Of each problem, its responses; then of each the most likely one, if it is wanted. This rank's own are there as far as
    /// they are known from a journal.
    fn wanted(
        &mut self,
        taken: u64,
        count: usize,
        cached: usize,
        checksums: &[u32],
        most_likely: &Sampling,
    ) -> Vec<Wanted> {
        let mut is_own = vec![false; count];
        self.ranks.own_groups(cached, count).into_iter().for_each(|place| is_own[place] = true);
        let vocabulary = self.model.config.vocab_size;
        let mut wanted = Vec::new();
        for (greedy, samples) in [(false, self.settings.responses), (true, usize::from(self.greedy))] {
            for (place, &is_own) in is_own.iter().enumerate() {
                let asked = |sample| Asked { prompt: taken + place as u64, greedy, sample };
                let drawn_as = if greedy { most_likely } else { &*self.sampling };
                let known = |sample| {
                    let known = is_own.then(|| self.journal.take(asked(sample), checksums[place]))??;
                    known.can_be_of(vocabulary, drawn_as).then_some(known)
                };
                let responses = (0..samples).map(known).collect();
                wanted.push(Wanted { place, asked: asked(0), is_own, responses });
            }
        }
        wanted
    }

    /// Completes what is wanted by what the other ranks have.
    fn gather(&self, wanted: &mut [Wanted]) -> Result<()> {
        let mut own = Vec::new();
        for (question, wanted) in wanted.iter_mut().enumerate() {
            for (sample, response) in wanted.responses.iter_mut().enumerate() {
                own.extend(response.take().map(|response| ((question, sample), response)));
            }
        }
        for ((question, sample), response) in self.ranks.gather_sampled(own)? {
            let wanted = wanted.get_mut(question);
            let wanted = wanted.ok_or_else(|| Error::Run(format!("there is no question {question}")))?;
            wanted.put(sample, response)?;
        }
        let missing = wanted.iter().flat_map(|wanted| &wanted.responses).filter(|r| r.is_none()).count();
        if missing > 0 {
            return Err(Error::Run(format!("{missing} responses were sampled by no rank")));
        }
        Ok(())
    }
}
