//! Token records: some responses of each step, with what was measured of each of their tokens, for
//! `isentrope inspect` and `isentrope score`. Which ones follows from the seed, so that every run
//! of a recipe records the same.

mod candidate;
mod dropped;

pub(crate) use dropped::{Budget, Dropped};

use self::candidate::{Candidate, Found, Learnt};
use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::minibatch::TrainingBatch;
use crate::run::ResponseFile;
use isentrope_model::Sequence;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_objective::Objective;
use isentrope_run::tokens::{Advantages, TokenRecord};
use std::collections::{BTreeSet, HashMap};

/// The responses of a step that are recorded.
pub(crate) struct TokenRecords {
    step: u64,
    /// In the order of the file: by the step that sampled them, problem and number.
    chosen: Vec<Candidate>,
    /// Which of them is a response, by its group among those that are learnt from and its number.
    places: HashMap<(usize, usize), usize>,
}

impl TokenRecords {
    /// Chooses among the groups that the step learns from, those that it leaves to the next, and
    /// those it has dropped. What is learnt from, which `is_learnt` tells of a group's place and a
    /// response's number, comes before all else.
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
        let left =
            surplus.iter().filter(|group| group.step == budget.step).map(|group| (None, group));
        let (mut all, mut tokens) = (Vec::new(), dropped);
        for (place, group) in here.chain(left) {
            for (sample, response) in group.responses.iter().enumerate() {
                tokens += response.tokens.len();
                let is_idle = !place.is_some_and(|place| is_learnt(place, sample));
                all.push((
                    (is_idle, budget.rank(group, sample)),
                    Found::Here { place, group, sample },
                ));
            }
        }
        all.extend(
            by_rank
                .into_iter()
                .map(|(rank, candidate)| ((true, rank), Found::Dropped(candidate.into()))),
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
        chosen.sort_by_key(|(_, candidate)| {
            (candidate.sampled_step, candidate.position, candidate.sample)
        });
        for (index, (place, candidate)) in chosen.into_iter().enumerate() {
            records.places.extend(place.map(|place| ((place, candidate.sample), index)));
            records.chosen.push(candidate);
        }
        records
    }

    /// Takes in what an update of the step, from 1, says of the responses of its minibatch. Of
    /// several updates with the same response the first counts.
    pub fn learn(&mut self, update: usize, batch: &TrainingBatch, objective: &Objective) {
        for (place, tokens) in batch.responses() {
            let Some(&index) = self.places.get(&place) else { continue };
            let within = |places: &[usize]| -> Vec<usize> {
                let from = places.partition_point(|&place| place < tokens.start);
                let to = places.partition_point(|&place| place < tokens.end);
                places[from..to].iter().map(|place| place - tokens.start).collect()
            };
            self.chosen[index].learnt.get_or_insert_with(|| Learnt {
                update,
                advantages: Advantages::of(batch.advantages(tokens.clone()).to_vec()),
                mean_advantage: objective.mean_advantage,
                mean_logprob: objective.mean_logprob,
                covariances: objective.covariances[tokens.clone()]
                    .iter()
                    .map(|&v| v as f32)
                    .collect(),
                selected: within(&objective.selected),
                clipped: within(&objective.clipped),
            });
        }
    }

    /// Scores the recorded responses under the model as it is now, after the step's last update.
    /// Texts are still missing.
    ///
    /// # Errors
    /// As [`Learner::score`].
    pub fn finish(self, learner: &Learner, temperature: f32) -> Result<Vec<TokenRecord>> {
        if self.chosen.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<Vec<u32>> =
            self.chosen.iter().map(|c| [&c.prompt[..], &c.tokens].concat()).collect();
        let responses = texts.iter().zip(&self.chosen);
        let sequences: Vec<Sequence<'_>> =
            responses.map(|(tokens, c)| Sequence { tokens, score_from: c.prompt.len() }).collect();
        let after = learner.score(&sequences, temperature)?.logprobs;
        let mut at = 0;
        let record = |(candidate, tokens): (Candidate, Vec<u32>)| {
            let first = at;
            at += candidate.tokens.len();
            candidate.record(self.step, tokens, temperature, after[first..at].to_vec())
        };
        Ok(self.chosen.into_iter().zip(texts).map(record).collect())
    }
}

/// Writes records with the texts of their tokens. Apart from [`TokenRecords`], since it may fail:
/// by then the step's updates are made and measured, and what it has come to can be saved.
///
/// # Errors
/// [`Io`](isentrope_evaluation::Error::Io); as [`Tokenizer::decode`].
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
