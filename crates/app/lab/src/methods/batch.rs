//! The recorded tokens of a step as a minibatch, and the coefficients that objectives give them.

use crate::inspect::Inspection;
use crate::tokens::{TokenRecord, is_scored};
use crate::{Error, Result};
use isentrope_objective::{
    Aggregation, LossTerms, Minibatch, ObjectiveSettings, Outcome, advantages, objective,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// An objective under a name.
#[derive(Clone, Debug)]
pub struct NamedObjective {
    /// Its name, as tables show it.
    pub name: String,
    /// The objective.
    pub settings: ObjectiveSettings,
}

impl NamedObjective {
    /// Whether it has other advantages than the `recorded` objective, for which the responses to a
    /// prompt are compared anew.
    pub(super) fn compares_anew(&self, recorded: &ObjectiveSettings) -> bool {
        let [own, recorded] = [&self.settings, recorded].map(|of| (of.advantage, &of.qae));
        own != recorded
    }
}

/// The remedy for records that lack responses.
pub(super) const RECORDS_ALL: &str = "A run with --set lab.track_theory=true and --set \
                                      lab.record_tokens=1000000 records all that it trains on.";

/// The recorded tokens that were trained on and whose log-probs after the step are known, as one
/// minibatch. The policy in training is that after the step, the policy that sampled is the old
/// one. Each array is `[tokens]`; log-probs, entropies and slopes are in nats.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedBatch {
    /// The record of each response, `[responses]`.
    pub records: Vec<usize>,
    lengths: Vec<usize>,
    pub logprobs: Vec<f64>,
    old_logprobs: Vec<f64>,
    entropies: Vec<f64>,
    old_entropies: Vec<f64>,
    pub advantages: Vec<f64>,
    /// Slope of the entropy in each token's place along the gradient of its log-prob; None if some
    /// are not recorded.
    slopes: Option<Vec<f64>>,
    /// Group, reward and length of every judged response to these prompts. An estimator compares
    /// all of them, whichever tokens are known.
    outcomes: Vec<Outcome>,
    /// The record of each outcome.
    compared: Vec<usize>,
    /// Whether all responses to each prompt are recorded.
    pub has_whole_groups: bool,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
}

impl RecordedBatch {
    /// The tokens of a step's records; with `whole` of the prompts alone all of whose responses are
    /// recorded, for an objective that compares their rewards.
    ///
    /// # Errors
    /// When there are none, with the remedy; when the run's recipe cannot be read.
    pub fn of(inspection: &Inspection, whole: bool) -> Result<Self> {
        let mut batch = Self::default();
        let (mut slopes, mut entropies_after) = (Some(Vec::new()), true);
        let records = inspection.records.iter().enumerate();
        let mut usable: Vec<(usize, &TokenRecord, Vec<f64>)> =
            records.filter_map(|(at, r)| Some((at, r, usable_advantages(r)?))).collect();
        let trained = inspection.records.iter().filter(|record| record.is_trained_on()).count();
        let scored = usable.len();
        if scored < trained {
            batch.notes.push(format!(
                "log-probs after the step are known of {scored} of {trained} responses that were \
                 trained on: the others are left out. lab.track_theory = true scores all."
            ));
        }
        let mut members: BTreeMap<(u64, u64), Vec<usize>> =
            usable.iter().map(|(_, record, _)| (group_of(record), Vec::new())).collect();
        for (index, record) in inspection.records.iter().enumerate() {
            members.entry(group_of(record)).and_modify(|own| own.push(index));
        }
        let (prompts, responses) = (members.len(), inspection.responses()?);
        // Nothing says how many there are of a run without a recipe.
        let is_whole = |own: &Vec<usize>| responses.is_none_or(|all| own.len() == all);
        batch.has_whole_groups = members.values().all(is_whole);
        if whole && !batch.has_whole_groups {
            members.retain(|_, own| is_whole(own));
            usable.retain(|(_, record, _)| members.contains_key(&group_of(record)));
            batch.notes.push(format!(
                "the method compares the responses to a prompt, and all of them are recorded of {} \
                 of {prompts} prompts: the others are left out. {RECORDS_ALL}",
                members.len()
            ));
        }
        for (group, own) in members.values().enumerate() {
            let is_judged = |index: &&usize| is_scored(&inspection.records[**index].verdict);
            for &index in own.iter().filter(is_judged) {
                let record = &inspection.records[index];
                batch.compared.push(index);
                batch.outcomes.push(Outcome {
                    group,
                    reward: record.reward,
                    tokens: record.sampled().count(),
                    greedy_reward: f64::NAN,
                });
            }
        }
        for (index, record, advantages) in usable {
            let sampled: Vec<usize> = record.sampled().collect();
            let numbers =
                |of: &[f32]| sampled.iter().map(|&at| f64::from(of[at])).collect::<Vec<_>>();
            let has_entropies = are_finite(&record.entropies_after, record.len());
            let has_slopes = are_finite(&record.entropy_slopes_after, record.len());
            entropies_after &= has_entropies;
            slopes = slopes.filter(|_| has_slopes).map(|mut slopes: Vec<f64>| {
                slopes.extend(numbers(&record.entropy_slopes_after));
                slopes
            });
            batch.records.push(index);
            batch.lengths.push(sampled.len());
            batch.logprobs.extend(numbers(&record.logprobs_after));
            batch.old_logprobs.extend(numbers(&record.logprobs));
            batch.old_entropies.extend(numbers(&record.entropies));
            let now = if has_entropies { &record.entropies_after } else { &record.entropies };
            batch.entropies.extend(numbers(now));
            batch.advantages.extend(advantages);
        }
        batch.slopes = slopes;
        if batch.logprobs.is_empty() && scored > 0 {
            let what = format!(
                "step {} of {} has no records of all responses to a prompt, which the method \
                 compares. {RECORDS_ALL}",
                inspection.step, inspection.run
            );
            return Err(Error::Refused(what));
        }
        if batch.logprobs.is_empty() {
            let what = format!(
                "step {} of {} has no records of tokens that were trained on and scored after its \
                 updates; another --step may, and a run with --set lab.track_theory=true scores \
                 all that it records",
                inspection.step, inspection.run
            );
            return Err(Error::Refused(what));
        }
        if !entropies_after {
            batch.notes.push(
                "some records have no entropies after the step: those from sampling stand in their \
                 place, so that methods which compare the two find no difference."
                    .into(),
            );
        }
        if batch.slopes.is_none() {
            batch.notes.push(
                "some records have no slopes of the entropy, because an older program wrote them \
                 or the step made no update: nothing is said of the change of entropy."
                    .into(),
            );
        }
        Ok(batch)
    }

    /// The numbers that an objective needs and the records lack, if any. `recorded` is the one
    /// whose estimator the recorded advantages have.
    pub fn lacks(
        &self,
        named: &NamedObjective,
        recorded: &ObjectiveSettings,
    ) -> Option<&'static str> {
        if self.slopes.is_none() && named.settings.needs_entropy_slopes() {
            return Some("slopes of the entropy");
        }
        let has_groups = self.has_whole_groups || !named.compares_anew(recorded);
        (!has_groups).then_some("all responses to each prompt")
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.logprobs.len()
    }

    /// The tokens of each response.
    pub fn responses(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.lengths.iter().scan(0, |end, length| {
            let start = *end;
            *end += length;
            Some(start..*end)
        })
    }

    /// The effect of an objective on the tokens. `recorded` is the one whose estimator the recorded
    /// advantages have; for another estimator they are computed anew, from the recorded rewards.
    /// Every loss is the mean over tokens here, so that objectives differ in tokens alone.
    ///
    /// # Errors
    /// When the objective needs numbers that are not recorded.
    pub fn effect(&self, named: &NamedObjective, recorded: &ObjectiveSettings) -> Result<Effect> {
        let mut settings = named.settings.clone();
        settings.aggregation = Aggregation::TokenMean;
        let needs = [
            (settings.needs_reference(), "log-probs of the reference model"),
            (settings.needs_greedy_baseline(), "rewards of greedily decoded responses"),
            (settings.is_prime(), "process rewards"),
            (settings.needs_entropy_slopes() && self.slopes.is_none(), "slopes of the entropy"),
        ];
        if let Some((_, what)) = needs.iter().find(|(needs, _)| *needs) {
            let name = &named.name;
            return Err(Error::Refused(format!("{name} needs {what}, which are not recorded")));
        }
        let anew = named.compares_anew(recorded).then(|| {
            let values = advantages(&settings, &self.outcomes);
            let by_record: BTreeMap<usize, f64> =
                self.compared.iter().copied().zip(values).collect();
            // A teacher's advantages need no verdict; an estimator has none for such a response.
            let of = |record| by_record.get(record).copied().unwrap_or(0.0);
            let each = self.records.iter().map(of).zip(&self.lengths);
            each.flat_map(|(a, &length)| std::iter::repeat_n(a, length)).collect::<Vec<f64>>()
        });
        let batch = Minibatch {
            lengths: &self.lengths,
            logprobs: &self.logprobs,
            old_logprobs: &self.old_logprobs,
            truncation: None,
            entropies: &self.entropies,
            old_entropies: &self.old_entropies,
            advantages: anew.as_deref().unwrap_or(&self.advantages),
            terms: LossTerms {
                entropy_slopes: self.slopes.as_deref(),
                entropy_coefficient: settings.entropy_bonus.coefficient,
                ..Default::default()
            },
        };
        let made = objective(&settings, &batch);
        let tokens = self.len() as f64;
        Ok(Effect {
            name: named.name.clone(),
            coefficients: made.d_logprobs.iter().map(|slope| slope * tokens).collect(),
            acts_by_entropy: made.d_entropies.iter().any(|&slope| slope != 0.0),
        })
    }

    /// Each token's part in the first-order change of the mean entropy of these tokens' places, in
    /// nats per unit of the step that descends these coefficients by the places' logits,
    /// `[tokens]`; None if no slopes are recorded.
    pub fn entropy_changes(&self, coefficients: &[f64]) -> Option<Vec<f64>> {
        let parts = coefficients.iter().zip(self.slopes.as_ref()?);
        Some(parts.map(|(c, slope)| -c * slope / self.len() as f64).collect())
    }

    /// The sum of numbers, `[tokens]`, and the standard error of the sum if responses are drawn
    /// independently; an error of 0 for a single response.
    pub fn sum_with_error(&self, numbers: &[f64]) -> (f64, f64) {
        let of_responses: Vec<f64> =
            self.responses().map(|tokens| numbers[tokens].iter().sum()).collect();
        let count = of_responses.len() as f64;
        let sum: f64 = of_responses.iter().sum();
        let squares: f64 = of_responses.iter().map(|x| (x - sum / count) * (x - sum / count)).sum();
        (sum, (squares * count / (count - 1.0).max(1.0)).sqrt())
    }
}

/// The coefficients that an objective gives the tokens.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    /// The objective's name.
    pub name: String,
    /// Derivative of the loss by each token's log-prob, times the number of tokens: -rho A of an
    /// unclipped token, `[tokens]`.
    pub coefficients: Vec<f64>,
    /// Whether the loss has a derivative by entropies too, which no coefficient shows.
    pub acts_by_entropy: bool,
}

/// The prompt of a record: its step and its position.
fn group_of(record: &TokenRecord) -> (u64, u64) {
    (record.sampled_step, record.position)
}

/// Whether there are `count` numbers, all finite.
fn are_finite(numbers: &[f32], count: usize) -> bool {
    numbers.len() == count && numbers.iter().all(|number| number.is_finite())
}

/// The advantages of a record's tokens, if all its numbers are known.
fn usable_advantages(record: &TokenRecord) -> Option<Vec<f64>> {
    let advantages = record.advantages.as_ref()?;
    let each: Vec<f64> = record.sampled().map(|token| advantages.at(token)).collect();
    let known = [&record.logprobs, &record.entropies, &record.logprobs_after]
        .iter()
        .all(|numbers| are_finite(numbers, record.len()));
    (known && each.iter().all(|a| a.is_finite()) && !each.is_empty()).then_some(each)
}
