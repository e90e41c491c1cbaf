//! Token records: some responses of each step, with what was measured of each of their tokens, for `isentrope inspect` and
//! `isentrope score`. Which ones follows from the seed, so that every run of a recipe records the same.

use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::minibatch::TrainingBatch;
use crate::run::ResponseFile;
use isentrope_kernels::Backend;
use isentrope_lab::tokens::{Advantages, TokenRecord};
use isentrope_model::Sequence;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_objective::Objective;
use isentrope_random::{Draws, Purpose};
use isentrope_rollout::Response;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How much of each step is recorded, and the random order in which responses are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Most tokens of responses; as many of prompts may come with them, each prompt counted once. A rollout whose responses
    /// have no more tokens is recorded whole, whatever its prompts.
    pub tokens: usize,
    /// Of the run.
    pub seed: u64,
    /// The step.
    pub step: u64,
}

/// A response that may be recorded.
#[derive(Clone, Debug)]
struct Candidate {
    sampled_step: u64,
    position: u64,
    origin: String,
    sample: usize,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    entropies: Vec<f32>,
    verdict: &'static str,
    reward: f64,
    truncated: bool,
    learnt: Option<Learnt>,
}

/// What an update says of a response.
#[derive(Clone, Debug)]
struct Learnt {
    update: usize,
    advantage: f64,
    mean_advantage: f64,
    mean_logprob: f64,
    covariances: Vec<f32>,
    selected: Vec<usize>,
    clipped: Vec<usize>,
}

/// Where a response comes in the random order; no two are equal.
type Rank = (u64, u64, u64, usize);

impl Budget {
    fn rank(&self, group: &Group, sample: usize) -> Rank {
        let mut draws = Draws::of(self.seed, Purpose::Records, self.step, group.position);
        (draws.bits(sample as u64), group.step, group.position, sample)
    }
}

/// Responses of groups that the filter has dropped, the first in the random order: as many as could be recorded if there
/// were no others.
pub(crate) struct Dropped {
    budget: Budget,
    by_rank: BTreeMap<Rank, Candidate>,
    /// Tokens of these responses, and of all that were dropped.
    tokens: (usize, usize),
}

impl Dropped {
    pub fn new(budget: Budget) -> Self {
        Self { budget, by_rank: BTreeMap::new(), tokens: (0, 0) }
    }

    /// Takes in a group that is not learnt from.
    pub fn add(&mut self, group: &Group) {
        if self.budget.tokens == 0 {
            return;
        }
        for (sample, response) in group.responses.iter().enumerate() {
            let count = response.tokens.len();
            self.tokens = (self.tokens.0 + count, self.tokens.1 + count);
            self.by_rank.insert(self.budget.rank(group, sample), Candidate::new(group, sample, response));
            while let Some(last) = self.by_rank.last_entry()
                && self.tokens.0 - last.get().tokens.len() >= self.budget.tokens
            {
                self.tokens.0 -= last.remove().tokens.len();
            }
        }
    }
}

/// The responses of a step that are recorded.
pub(crate) struct TokenRecords {
    step: u64,
    /// In the order of the file: by the step that sampled them, problem and number.
    chosen: Vec<Candidate>,
    /// Which of them is a response, by its group among those that are learnt from and its number.
    places: HashMap<(usize, usize), usize>,
}

impl TokenRecords {
    /// Chooses among the groups that the step learns from, those that it leaves to the next, and those it has dropped. What
    /// is learnt from, which `is_learnt` tells of a group's place and a response's number, comes before all else.
    pub fn choose(
        groups: &[Group],
        is_learnt: impl Fn(usize, usize) -> bool,
        surplus: &[Group],
        dropped: Dropped,
    ) -> Self {
        let Dropped { budget, by_rank, tokens: (_, dropped) } = dropped;
        let mut records = Self { step: budget.step, chosen: Vec::new(), places: HashMap::new() };
        if budget.tokens == 0 {
            return records;
        }
        let here = groups.iter().enumerate().map(|(place, group)| (Some(place), group));
        let left = surplus.iter().filter(|group| group.step == budget.step).map(|group| (None, group));
        let (mut all, mut tokens) = (Vec::new(), dropped);
        for (place, group) in here.chain(left) {
            for (sample, response) in group.responses.iter().enumerate() {
                tokens += response.tokens.len();
                let is_idle = !place.is_some_and(|place| is_learnt(place, sample));
                all.push(((is_idle, budget.rank(group, sample)), Found::Here { place, group, sample }));
            }
        }
        all.extend(
            by_rank.into_iter().map(|(rank, candidate)| ((true, rank), Found::Dropped(candidate.into()))),
        );
        all.sort_unstable_by_key(|(order, _)| *order);

        let fits = tokens <= budget.tokens;
        let (mut of_responses, mut of_prompts, mut prompts) = (0, 0, BTreeSet::new());
        let mut chosen = Vec::new();
        for (_, found) in all {
            let (response, prompt, problem) = found.extent();
            of_responses += response;
            of_prompts += if prompts.insert(problem) { prompt } else { 0 };
            let is_beyond = of_responses > budget.tokens || of_prompts > budget.tokens;
            if is_beyond && !fits && !chosen.is_empty() {
                break;
            }
            chosen.push(found.candidate());
        }
        chosen.sort_by_key(|(_, candidate)| (candidate.sampled_step, candidate.position, candidate.sample));
        for (index, (place, candidate)) in chosen.into_iter().enumerate() {
            records.places.extend(place.map(|place| ((place, candidate.sample), index)));
            records.chosen.push(candidate);
        }
        records
    }

    /// Takes in what an update of the step, from 1, says of the responses of its minibatch, whose groups begin at `first`. Of
    /// several updates with the same response the first counts.
    pub fn learn(&mut self, first: usize, update: usize, batch: &TrainingBatch, objective: &Objective) {
        for ((group, sample), tokens) in batch.responses() {
            let Some(&index) = self.places.get(&(first + group, sample)) else { continue };
            let within = |places: &[usize]| -> Vec<usize> {
                let from = places.partition_point(|&place| place < tokens.start);
                let to = places.partition_point(|&place| place < tokens.end);
                places[from..to].iter().map(|place| place - tokens.start).collect()
            };
            self.chosen[index].learnt.get_or_insert_with(|| Learnt {
                update,
                advantage: batch.advantage(tokens.start),
                mean_advantage: objective.mean_advantage,
                mean_logprob: objective.mean_logprob,
                covariances: objective.covariances[tokens.clone()].iter().map(|&v| v as f32).collect(),
                selected: within(&objective.selected),
                clipped: within(&objective.clipped),
            });
        }
    }

    /// Scores the recorded responses under the model as it is now, after the step's last update, and writes the file.
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io); as [`Tokenizer::decode`].
    pub fn write<B: Backend>(
        self,
        learner: &Learner<B>,
        tokenizer: &Tokenizer,
        temperature: f32,
        file: impl FnOnce() -> Result<ResponseFile>,
    ) -> Result<()> {
        if self.chosen.is_empty() {
            return Ok(());
        }
        let texts: Vec<Vec<u32>> = self.chosen.iter().map(|c| [&c.prompt[..], &c.tokens].concat()).collect();
        let responses = texts.iter().zip(&self.chosen);
        let sequences: Vec<Sequence<'_>> =
            responses.map(|(tokens, c)| Sequence { tokens, score_from: c.prompt.len() }).collect();
        let after = learner.score(&sequences, temperature).logprobs;
        let mut file = file()?;
        let mut at = 0;
        for (candidate, tokens) in self.chosen.into_iter().zip(texts) {
            let count = candidate.tokens.len();
            let logprobs_after = after[at..at + count].to_vec();
            at += count;
            file.record(&candidate.record(self.step, tokens, temperature, logprobs_after, tokenizer)?)?;
        }
        file.finish()
    }
}

/// A response that may be chosen.
enum Found<'a> {
    Here { place: Option<usize>, group: &'a Group, sample: usize },
    Dropped(Box<Candidate>),
}

impl Found<'_> {
    /// Tokens of the response and of its prompt, and which problem it answers.
    fn extent(&self) -> (usize, usize, (u64, u64)) {
        match self {
            Self::Here { group, sample, .. } => {
                let tokens = group.responses[*sample].tokens.len();
                (tokens, group.prompt.len(), (group.step, group.position))
            }
            Self::Dropped(c) => (c.tokens.len(), c.prompt.len(), (c.sampled_step, c.position)),
        }
    }

    fn candidate(self) -> (Option<usize>, Candidate) {
        match self {
            Self::Here { place, group, sample } => {
                (place, Candidate::new(group, sample, &group.responses[sample]))
            }
            Self::Dropped(candidate) => (None, *candidate),
        }
    }
}

impl Candidate {
    fn new(group: &Group, sample: usize, response: &Response) -> Self {
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

    fn record(
        self,
        step: u64,
        tokens: Vec<u32>,
        temperature: f32,
        logprobs_after: Vec<f32>,
        tokenizer: &Tokenizer,
    ) -> Result<TokenRecord> {
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
            prompt_text: tokenizer.decode(&self.prompt, false)?,
            prompt_tokens: self.prompt.len(),
            tokens,
            pieces: pieces(tokenizer, &self.tokens)?,
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
            record.advantages = Some(Advantages::Same(learnt.advantage));
            record.mean_advantage = Some(learnt.mean_advantage);
            record.mean_logprob = Some(learnt.mean_logprob);
            record.covariances = learnt.covariances;
            record.selected = learnt.selected;
            record.clipped = learnt.clipped;
        }
        Ok(record)
    }
}

/// The text that each token makes certain; what the last leaves unfinished is its own.
fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<Vec<String>> {
    let mut stream = tokenizer.decode_stream(true);
    let mut pieces = tokens.iter().map(|&token| stream.push(token)).collect::<Result<Vec<String>, _>>()?;
    let rest = stream.finish()?;
    if let Some(last) = pieces.last_mut() {
        last.push_str(&rest);
    }
    Ok(pieces)
}
