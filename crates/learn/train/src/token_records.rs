//! Token records: some responses of each step, with what was measured of each of their tokens, for
//! `isentrope inspect` and `isentrope score`. Which ones follows from the seed, so that every run
//! of a recipe records the same.

use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::minibatch::TrainingBatch;
use crate::run::ResponseFile;
use isentrope_model::Sequence;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_objective::Objective;
use isentrope_random::{Draws, Purpose};
use isentrope_run::tokens::{Advantages, TokenRecord};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How much of each step is recorded, and the random order in which responses are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Most tokens of responses; as many of prompts may come with them, each prompt counted once. A
    /// rollout whose responses have no more tokens is recorded whole, whatever its prompts.
    pub tokens: usize,
    /// The run's seed.
    pub seed: u64,
    /// The step.
    pub step: u64,
}

/// A response's place in the random order: a random number, then step, position and sample, so that
/// no two are equal.
type Rank = (u64, u64, u64, usize);

impl Budget {
    fn rank(&self, group: &Group, sample: usize) -> Rank {
        let mut draws = Draws::of(self.seed, Purpose::Records, self.step, group.position);
        (draws.bits(sample as u64), group.step, group.position, sample)
    }

    /// The record of a response before the step's updates.
    fn record(&self, group: &Group, sample: usize) -> TokenRecord {
        let response = &group.responses[sample];
        TokenRecord {
            step: self.step,
            sampled_step: group.step,
            position: group.position,
            origin: group.problem.origin.clone(),
            sample,
            verdict: response.judgement.verdict.name().to_owned(),
            reward: response.reward,
            truncated: response.truncated,
            temperature: 0.0,
            prompt_text: String::new(),
            prompt_tokens: group.prompt.len(),
            tokens: [&group.prompt[..], &response.tokens].concat(),
            pieces: Vec::new(),
            logprobs: response.logprobs.clone(),
            entropies: response.entropies.clone(),
            logprobs_after: Vec::new(),
            update: None,
            advantages: None,
            mean_advantage: None,
            mean_logprob: None,
            covariances: Vec::new(),
            selected: Vec::new(),
            clipped: Vec::new(),
        }
    }
}

/// Records of responses that the filter has dropped, the first in the random order: as many as
/// could be recorded if there were no others.
pub(crate) struct DroppedRecords {
    budget: Budget,
    by_rank: BTreeMap<Rank, TokenRecord>,
    /// Response tokens of these records.
    kept_tokens: usize,
    /// Response tokens of all that was dropped.
    tokens: usize,
}

impl DroppedRecords {
    pub fn new(budget: Budget) -> Self {
        Self { budget, by_rank: BTreeMap::new(), kept_tokens: 0, tokens: 0 }
    }

    /// Takes in a group that is not learnt from.
    pub fn add(&mut self, group: &Group) {
        if self.budget.tokens == 0 {
            return;
        }
        for (sample, response) in group.responses.iter().enumerate() {
            self.kept_tokens += response.tokens.len();
            self.tokens += response.tokens.len();
            let rank = self.budget.rank(group, sample);
            self.by_rank.insert(rank, self.budget.record(group, sample));
            while let Some(last) = self.by_rank.last_entry()
                && self.kept_tokens - last.get().logprobs.len() >= self.budget.tokens
            {
                self.kept_tokens -= last.remove().logprobs.len();
            }
        }
    }
}

/// The responses of a step that are recorded.
#[derive(Default)]
pub(crate) struct TokenRecords {
    /// Without texts, in the order of the file: by the step that sampled them, problem and number.
    chosen: Vec<TokenRecord>,
    /// Which of them is a response, by its group among those that are learnt from and its number.
    places: HashMap<(usize, usize), usize>,
}

impl TokenRecords {
    /// Chooses among the groups that the step learns from, those that it leaves to the next, and
    /// those it has dropped. A response that is learnt from, which `is_trained_on` tells of a group's
    /// place and a response's number, comes before all others.
    pub fn choose(
        groups: &[Group],
        is_trained_on: impl Fn(usize, usize) -> bool,
        surplus: &[Group],
        dropped: DroppedRecords,
    ) -> Self {
        let DroppedRecords { budget, mut by_rank, mut tokens, .. } = dropped;
        if budget.tokens == 0 {
            return Self::default();
        }
        let here = groups.iter().enumerate().map(|(place, group)| (Some(place), group));
        let left =
            surplus.iter().filter(|group| group.step == budget.step).map(|group| (None, group));
        let mut all: Vec<(bool, Rank, Option<_>)> = Vec::new();
        for (place, group) in here.chain(left) {
            for (sample, response) in group.responses.iter().enumerate() {
                tokens += response.tokens.len();
                let is_idle = !place.is_some_and(|place| is_trained_on(place, sample));
                all.push((is_idle, budget.rank(group, sample), Some((place, group))));
            }
        }
        all.extend(by_rank.keys().map(|&rank| (true, rank, None)));
        all.sort_unstable_by_key(|&(is_idle, rank, _)| (is_idle, rank));

        let fits = tokens <= budget.tokens;
        let (mut of_responses, mut of_prompts, mut prompts) = (0, 0, BTreeSet::new());
        let mut chosen = Vec::new();
        for (_, rank, here) in all {
            let (place, record) = match here {
                Some((place, group)) => (place, budget.record(group, rank.3)),
                None => match by_rank.remove(&rank) {
                    Some(record) => (None, record),
                    None => continue,
                },
            };
            of_responses += record.logprobs.len();
            if prompts.insert((record.sampled_step, record.position)) {
                of_prompts += record.prompt_tokens;
            }
            let is_beyond = of_responses > budget.tokens || of_prompts > budget.tokens;
            if is_beyond && !fits && !chosen.is_empty() {
                break;
            }
            chosen.push((place, record));
        }
        chosen.sort_by_key(|(_, record)| (record.sampled_step, record.position, record.sample));
        let mut records = Self::default();
        for (index, (place, record)) in chosen.into_iter().enumerate() {
            records.places.extend(place.map(|place| ((place, record.sample), index)));
            records.chosen.push(record);
        }
        records
    }

    /// Takes in what an update of the step, from 1, says of the responses of its minibatch. Of
    /// several updates with the same response the first counts.
    pub fn learn(&mut self, update: usize, batch: &TrainingBatch, objective: &Objective) {
        for (place, tokens) in batch.responses() {
            let Some(&index) = self.places.get(&place) else { continue };
            let record = &mut self.chosen[index];
            if record.update.is_some() {
                continue;
            }
            let within = |places: &[usize]| -> Vec<usize> {
                let from = places.partition_point(|&place| place < tokens.start);
                let to = places.partition_point(|&place| place < tokens.end);
                places[from..to].iter().map(|place| place - tokens.start).collect()
            };
            record.update = Some(update);
            record.advantages = Some(Advantages::of(batch.advantages(tokens.clone()).to_vec()));
            record.mean_advantage = Some(objective.mean_advantage);
            record.mean_logprob = Some(objective.mean_logprob);
            let covariances = &objective.covariances[tokens.clone()];
            record.covariances = covariances.iter().map(|&covariance| covariance as f32).collect();
            record.selected = within(&objective.selected);
            record.clipped = within(&objective.clipped);
        }
    }

    /// Scores the recorded responses after the step's last update. Texts are still missing.
    pub fn finish(mut self, learner: &Learner, temperature: f32) -> Result<Vec<TokenRecord>> {
        if self.chosen.is_empty() {
            return Ok(Vec::new());
        }
        let sequences: Vec<Sequence<'_>> = self
            .chosen
            .iter()
            .map(|r| Sequence { tokens: &r.tokens, score_from: r.prompt_tokens })
            .collect();
        let after = learner.score(&sequences, temperature)?.logprobs;
        let mut rest = &after[..];
        for record in &mut self.chosen {
            let (own, others) = rest.split_at(record.logprobs.len());
            (record.logprobs_after, record.temperature, rest) = (own.to_vec(), temperature, others);
        }
        Ok(self.chosen)
    }
}

/// Writes records with the texts of their tokens. Apart from [`TokenRecords`], since it may fail:
/// by then the step's updates are made and measured, and what it has come to can be saved.
pub(crate) fn write(
    records: &[TokenRecord],
    tokenizer: &Tokenizer,
    mut file: ResponseFile,
) -> Result<()> {
    for record in records {
        let (prompt, response) =
            record.tokens.split_at(record.prompt_tokens.min(record.tokens.len()));
        file.record(&TokenRecord {
            prompt_text: tokenizer.decode(prompt, false)?,
            pieces: pieces(tokenizer, response)?,
            ..record.clone()
        })?;
    }
    file.finish()
}

/// The text that each token makes certain; what the last leaves unfinished is its own.
fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<Vec<String>> {
    let mut stream = tokenizer.decode_stream(true);
    let mut pieces =
        tokens.iter().map(|&token| stream.push(token)).collect::<Result<Vec<String>, _>>()?;
    let rest = stream.finish()?;
    if let Some(last) = pieces.last_mut() {
        last.push_str(&rest);
    }
    Ok(pieces)
}
