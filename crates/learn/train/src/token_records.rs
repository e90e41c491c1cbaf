//! Token records: some responses of each step, with measurements of every token, for `isentrope
//! inspect` and `isentrope score`. The seed chooses them, so that every run of a recipe records the
//! same.

use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::minibatch::TrainingBatch;
use crate::run::ResponseFile;
use isentrope_kernels::SamplingMasks;
use isentrope_model::Sequence;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_objective::Objective;
use isentrope_random::{Draws, Purpose};
use isentrope_run::tokens::{Advantages, TokenRecord};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// At most one in `SCORED_PART` tokens of a rollout is scored again, for less than 2 % of the step:
/// the step itself takes each token through the model at least once, to sample it.
const SCORED_PART: usize = 64;

/// The number of tokens that each step records, and the random order of responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordBudget {
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
type RandomPlace = (u64, u64, u64, usize);

impl RecordBudget {
    fn place(&self, group: &Group, sample: usize) -> RandomPlace {
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
            given: response.given.clone(),
            pieces: Vec::new(),
            logprobs: response.logprobs.clone(),
            entropies: response.entropies.clone(),
            logprobs_after: Vec::new(),
            entropies_after: Vec::new(),
            entropy_slopes_after: Vec::new(),
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
    budget: RecordBudget,
    by_place: BTreeMap<RandomPlace, TokenRecord>,
    /// Response tokens of these records.
    kept_tokens: usize,
    /// Response tokens of all dropped groups.
    tokens: usize,
}

impl DroppedRecords {
    pub fn new(budget: RecordBudget) -> Self {
        Self { budget, by_place: BTreeMap::new(), kept_tokens: 0, tokens: 0 }
    }

    /// Adds a group that is not learnt from.
    pub fn add(&mut self, group: &Group) {
        if self.budget.tokens == 0 {
            return;
        }
        for (sample, response) in group.responses.iter().enumerate() {
            self.kept_tokens += response.tokens.len();
            self.tokens += response.tokens.len();
            let place = self.budget.place(group, sample);
            self.by_place.insert(place, self.budget.record(group, sample));
            while let Some(last) = self.by_place.last_entry()
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
    /// The records without texts, in the order of the file: by sampling step, problem and number.
    chosen: Vec<TokenRecord>,
    /// The index of each recorded response, by its group among the learnt groups and its number in
    /// the group.
    places: HashMap<(usize, usize), usize>,
    /// Indices of the records that are scored again if the step makes updates, ascending.
    scored: Vec<usize>,
}

impl TokenRecords {
    /// Chooses among the groups that the step learns from, those that it leaves to the next, and
    /// those it has dropped. Trained responses come before all others; `is_trained_on` takes a
    /// group's place and a response's number. With `scores_all` all are scored again after the
    /// step's updates.
    pub fn choose(
        groups: &[Group],
        is_trained_on: impl Fn(usize, usize) -> bool,
        surplus: &[Group],
        dropped: DroppedRecords,
        scores_all: bool,
    ) -> Self {
        let DroppedRecords { budget, mut by_place, mut tokens, .. } = dropped;
        if budget.tokens == 0 {
            return Self::default();
        }
        let here = groups.iter().enumerate().map(|(place, group)| (Some(place), group));
        let left =
            surplus.iter().filter(|group| group.step == budget.step).map(|group| (None, group));
        let mut all: Vec<(bool, RandomPlace, Option<_>)> = Vec::new();
        for (place, group) in here.chain(left) {
            for (sample, response) in group.responses.iter().enumerate() {
                tokens += response.tokens.len();
                let is_idle = !place.is_some_and(|place| is_trained_on(place, sample));
                all.push((is_idle, budget.place(group, sample), Some((place, group))));
            }
        }
        all.extend(by_place.keys().map(|&at| (true, at, None)));
        all.sort_unstable_by_key(|&(is_idle, at, _)| (is_idle, at));

        let fits = tokens <= budget.tokens;
        let (mut of_responses, mut of_prompts, mut prompts) = (0, 0, BTreeSet::new());
        let mut to_score =
            if scores_all { usize::MAX } else { rollout_tokens(groups) / SCORED_PART };
        let mut chosen = Vec::new();
        for (_, at, here) in all {
            let (place, record) = match here {
                Some((place, group)) => (place, budget.record(group, at.3)),
                None => match by_place.remove(&at) {
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
            let is_scored = record.tokens.len() <= to_score;
            to_score -= if is_scored { record.tokens.len() } else { 0 };
            chosen.push((place, is_scored, record));
        }
        chosen.sort_by_key(|(.., record)| (record.sampled_step, record.position, record.sample));
        let mut records = Self::default();
        for (index, (place, is_scored, record)) in chosen.into_iter().enumerate() {
            records.places.extend(place.map(|place| ((place, record.sample), index)));
            records.scored.extend(is_scored.then_some(index));
            records.chosen.push(record);
        }
        records
    }

    /// Adds an update's (from 1) measurements of its minibatch's responses. If several updates have
    /// the same response, the first counts.
    pub fn learn(&mut self, update: usize, batch: &TrainingBatch, objective: &Objective) {
        for (place, tokens) in batch.responses() {
            let Some(&index) = self.places.get(&place) else { continue };
            let record = &mut self.chosen[index];
            if record.update.is_some() {
                continue;
            }
            let sampled: Vec<usize> = record.sampled().collect();
            let within = |places: &[usize]| -> Vec<usize> {
                let from = places.partition_point(|&place| place < tokens.start);
                let to = places.partition_point(|&place| place < tokens.end);
                places[from..to].iter().map(|place| sampled[place - tokens.start]).collect()
            };
            record.update = Some(update);
            record.advantages =
                Some(match Advantages::of(batch.advantages(tokens.clone()).to_vec()) {
                    Advantages::Each(each) => {
                        Advantages::Each(record.given.spread(record.len(), each, 0.0))
                    }
                    same => same,
                });
            record.mean_advantage = Some(objective.mean_advantage);
            record.mean_logprob = Some(objective.mean_logprob);
            let covariances = objective.covariances[tokens.clone()].iter().map(|&c| c as f32);
            record.covariances = record.given.spread(record.len(), covariances, 0.0);
            record.selected = within(&objective.selected);
            record.clipped = within(&objective.clipped);
        }
    }

    /// Completes the records after the step's last update. Without an update the weights are those
    /// that have sampled the step's responses, and their log-probs are known. After updates some
    /// responses are scored again; the others' log-probs are not numbers, and they have no
    /// entropies and slopes. Texts are still missing.
    pub fn finish(
        mut self,
        learner: &Learner,
        temperature: f32,
        has_updated: bool,
    ) -> Result<Vec<TokenRecord>> {
        for record in &mut self.chosen {
            record.temperature = temperature;
            record.logprobs_after = if has_updated || record.sampled_step != record.step {
                vec![f32::NAN; record.logprobs.len()]
            } else {
                record.logprobs.clone()
            };
        }
        if !has_updated || self.scored.is_empty() {
            return Ok(self.chosen);
        }
        let of_record = |&index: &usize| {
            let TokenRecord { tokens, prompt_tokens, .. } = &self.chosen[index];
            Sequence { tokens, score_from: *prompt_tokens }
        };
        let sequences: Vec<Sequence<'_>> = self.scored.iter().map(of_record).collect();
        // Records have the log-probs of the whole vocabulary: nothing is masked.
        let masks = SamplingMasks::default();
        let (scores, slopes) = learner.entropy_slopes(&sequences, &masks, temperature)?;
        let mut end = 0;
        for &index in &self.scored {
            let record = &mut self.chosen[index];
            let own = end..end + record.logprobs.len();
            end = own.end;
            record.logprobs_after = scores.logprobs[own.clone()].to_vec();
            record.entropies_after = scores.entropies[own.clone()].to_vec();
            record.entropy_slopes_after = slopes[own].to_vec();
            let given = (0..record.len()).filter(|&token| record.given.contains(token));
            for token in given {
                record.logprobs_after[token] = 0.0;
                record.entropies_after[token] = 0.0;
                record.entropy_slopes_after[token] = 0.0;
            }
        }
        Ok(self.chosen)
    }
}

/// Tokens of groups: each prompt once, and all responses.
fn rollout_tokens(groups: &[Group]) -> usize {
    let of_group = |group: &Group| {
        group.prompt.len() + group.responses.iter().map(|r| r.tokens.len()).sum::<usize>()
    };
    groups.iter().map(of_group).sum()
}

/// Writes records with the texts of their tokens. It is not a method of [`TokenRecords`] because it
/// may fail, when the step's updates are made and can still be saved.
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

/// The text that each token completes. The last token also gets any unfinished rest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantage::trained_advantages;
    use crate::ranks::TrainingRanks;
    use crate::test_support::{group, learner};
    use isentrope_budget::PassLimits;
    use isentrope_objective::{LossTerms, Minibatch, ObjectiveSettings, objective};
    use isentrope_reward::Verdict;
    use isentrope_run::tokens::{GivenRanges, is_scored};

    const LIMITS: PassLimits = PassLimits {
        micro_batch_tokens: 40,
        tape_bytes: usize::MAX,
        activation_slots: 0,
        by_layer: false,
        offloads_inputs: false,
        weights_in_slices: false,
    };

    const BUDGET: RecordBudget = RecordBudget { tokens: 30, seed: 1, step: 1 };

    /// Groups of `count` responses in all, each of one prompt token and three of its own.
    fn groups(count: usize) -> Vec<Group> {
        (0..count as u64).map(|position| Group { position, ..group(&[Some(1.0)], None) }).collect()
    }

    /// The records of a step that have log-probs after it, and the number of all records.
    fn scored(count: usize, scores_all: bool, has_updated: bool) -> (usize, usize) {
        let ranks = TrainingRanks::alone(1);
        let dropped = DroppedRecords::new(BUDGET);
        let groups = groups(count);
        let records = TokenRecords::choose(&groups, |_, _| true, &[], dropped, scores_all);
        let records = records.finish(&learner(&ranks, LIMITS), 1.0, has_updated).unwrap();
        for record in &records {
            let is_scored = has_updated && record.logprobs_after.iter().all(|l| l.is_finite());
            let expected = if is_scored { record.logprobs.len() } else { 0 };
            for numbers in [&record.entropies_after, &record.entropy_slopes_after] {
                assert_eq!(numbers.len(), expected);
                assert!(numbers.iter().all(|number| number.is_finite()));
            }
        }
        let is_known = |record: &&TokenRecord| record.logprobs_after.iter().all(|l| l.is_finite());
        (records.iter().filter(is_known).count(), records.len())
    }

    #[test]
    fn readers_of_records_know_which_verdicts_count() {
        for verdict in Verdict::ALL {
            assert_eq!(is_scored(verdict.name()), verdict.is_scored(), "{verdict:?}");
        }
    }

    #[test]
    fn records_are_scored_again_for_a_small_part_of_a_rollout() {
        for (count, scores_all, has_updated, expected) in [
            (5, false, true, (0, 5)), // 20 tokens, of which a record has 4
            (63, false, true, (0, 10)),
            (64, false, true, (1, 10)),
            (200, false, true, (3, 10)),
            (640, false, true, (10, 10)),
            (5, true, true, (5, 5)),
            (5, false, false, (5, 5)), // sampled by the weights that are still there
        ] {
            let what = format!("{count} responses, {scores_all}, {has_updated}");
            assert_eq!(scored(count, scores_all, has_updated), expected, "{what}");
        }
    }

    #[test]
    fn what_is_learnt_of_sampled_tokens_stands_at_their_places() {
        let mut given = GivenRanges::default();
        given.push(1..2);
        let mut groups = groups(2);
        groups[1].responses[0].given = given.clone();
        let each = |values: &[f64]| Some(Advantages::Each(values.to_vec()));
        let advantages = [vec![Some(Advantages::Same(0.5))], vec![each(&[1.0, 9.0, 2.0])]];
        let learnt = trained_advantages(&groups, &advantages, false);
        let batch = TrainingBatch::minibatches(&groups, &learnt, 2).next().unwrap();
        let none = Minibatch {
            lengths: &[],
            logprobs: &[],
            old_logprobs: &[],
            truncation: None,
            entropies: &[],
            old_entropies: &[],
            advantages: &[],
            terms: LossTerms::default(),
        };
        let objective = Objective {
            covariances: vec![1.0, 2.0, 3.0, 4.0, 5.0],
            selected: vec![2, 4],
            clipped: vec![3],
            ..objective(&ObjectiveSettings::default(), &none)
        };
        let dropped = DroppedRecords::new(BUDGET);
        let mut records = TokenRecords::choose(&groups, |_, _| true, &[], dropped, true);
        records.learn(1, &batch, &objective);
        let learner = learner(&TrainingRanks::alone(1), LIMITS);
        let [plain, turns] = &records.finish(&learner, 1.0, true).unwrap()[..] else { panic!() };
        assert_eq!((&plain.advantages, &plain.selected), (&Some(Advantages::Same(0.5)), &vec![2]));
        assert_eq!((&turns.advantages, &turns.given), (&each(&[1.0, 0.0, 2.0]), &given));
        assert_eq!(turns.covariances, [4.0, 0.0, 5.0]);
        assert_eq!((&turns.selected, &turns.clipped), (&vec![2], &vec![0]));
        for numbers in [&turns.logprobs_after, &turns.entropies_after, &turns.entropy_slopes_after]
        {
            let is_zero: Vec<bool> = numbers.iter().map(|&number| number == 0.0).collect();
            assert_eq!(is_zero, [false, true, false]);
        }
    }

    #[test]
    fn without_an_update_log_probs_are_those_of_sampling_and_older_ones_are_not_known() {
        let mut groups = groups(2);
        groups[1].step = 0;
        let dropped = DroppedRecords::new(BUDGET);
        let records = TokenRecords::choose(&groups, |_, _| true, &[], dropped, false);
        let learner = learner(&TrainingRanks::alone(1), LIMITS);
        let [older, sampled] = &records.finish(&learner, 1.0, false).unwrap()[..] else { panic!() };
        assert!(older.logprobs_after.iter().all(|logprob| logprob.is_nan()));
        assert_eq!(sampled.logprobs_after, sampled.logprobs);
    }
}
