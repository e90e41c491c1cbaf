//! Verifiers made of others.

use std::collections::BTreeMap;

use crate::{Item, Judgement, Verdict, Verifier, VerifierError};

/// The weighted sum of several verifiers' scores, with the verdict of the first that applies.
pub struct WeightedVerifier(pub Vec<(f64, Box<dyn Verifier>)>);

impl Verifier for WeightedVerifier {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let mut sums: Vec<Option<Judgement>> = vec![None; batch.len()];
        for (number, (weight, verifier)) in (1..).zip(&self.0) {
            for (sum, judgement) in sums.iter_mut().zip(verifier.verify_batch(batch)?) {
                add(sum, number, *weight, judgement);
            }
        }
        let none = || Judgement::inapplicable("no part of the sum applies to this problem");
        Ok(sums.into_iter().map(|sum| sum.map_or_else(none, with_finite_sum)).collect())
    }

    fn notes(&self) -> Vec<String> {
        self.0.iter().flat_map(|(_, verifier)| verifier.notes()).collect()
    }

    fn judges_groups(&self) -> bool {
        self.0.iter().any(|(_, verifier)| verifier.judges_groups())
    }

    /// The sum over the parts. A response is with one part at a time, so this many responses keep
    /// the workers of all parts busy.
    fn workers(&self) -> usize {
        self.0.iter().map(|(_, verifier)| verifier.workers()).sum()
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        self.0.first().map_or(a == b, |(_, verifier)| verifier.same_answer(item, a, b))
    }
}

/// Adds what part `number` found, unless that part or one before could not judge the response or
/// failed at it, or the part does not apply. What could not be judged goes before a failure.
fn add(sum: &mut Option<Judgement>, number: usize, weight: f64, part: Judgement) {
    if !part.applies {
        return;
    }
    let name = format!("part_{number}");
    let is_sum = |sum: &Judgement| sum.verdict.is_scored() && !sum.failed;
    if !is_sum(&part) {
        let goes_before = |sum: &Judgement| is_sum(sum) || sum.failed && !part.failed;
        if sum.as_ref().is_none_or(goes_before) {
            // Recipes count from 0.
            let reason = format!("{name} (weighted.{}): {}", number - 1, part.reason);
            *sum = Some(Judgement {
                failed: part.failed,
                ..Judgement::new(part.verdict, None, reason)
            });
        }
        return;
    }
    let Judgement { verdict, score, extracted, reason, metrics, .. } = part;
    let sum = sum.get_or_insert_with(|| Judgement {
        score: 0.0,
        ..Judgement::new(verdict, extracted, reason)
    });
    if is_sum(sum) {
        sum.score += weight * score;
        sum.metrics
            .extend(metrics.into_iter().map(|(metric, value)| (format!("{name}/{metric}"), value)));
        sum.metrics.insert(name, score);
    }
}

/// A sum that is no number, since weights may be as large as numbers are, is no score.
fn with_finite_sum(sum: Judgement) -> Judgement {
    if !sum.verdict.is_scored() || sum.score.is_finite() {
        return sum;
    }
    let reason =
        format!("the weighted sum of the scores is {}: it must be a finite number", sum.score);
    Judgement::new(Verdict::Fault, None, reason)
}

/// Another verifier for each data source.
pub struct ByDataSourceVerifier {
    /// The verifiers of these sources.
    pub by_data_source: BTreeMap<String, Box<dyn Verifier>>,
    /// The verifier of all other sources.
    pub otherwise: Option<Box<dyn Verifier>>,
}

impl Verifier for ByDataSourceVerifier {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        // Places in the batch by their source, all that are not named together.
        let mut places: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (place, (item, _)) in batch.iter().enumerate() {
            let named = self.by_data_source.contains_key(item.data_source);
            places.entry(named.then_some(item.data_source)).or_default().push(place);
        }
        let unknown = Judgement::new(Verdict::Fault, None, "its data source has no verifier");
        let mut judgements = vec![unknown; batch.len()];
        for (source, places) in places {
            let named = source.and_then(|source| self.by_data_source.get(source));
            let Some(verifier) = named.or(self.otherwise.as_ref()) else { continue };
            let part: Vec<_> = places.iter().map(|&place| batch[place]).collect();
            for (place, judgement) in places.into_iter().zip(verifier.verify_batch(&part)?) {
                judgements[place] = judgement;
            }
        }
        Ok(judgements)
    }

    fn workers(&self) -> usize {
        self.by_data_source.values().chain(&self.otherwise).map(|verifier| verifier.workers()).sum()
    }

    fn judges_groups(&self) -> bool {
        self.by_data_source.values().chain(&self.otherwise).any(|v| v.judges_groups())
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        let named = self.by_data_source.get(item.data_source);
        named
            .or(self.otherwise.as_ref())
            .map_or(a == b, |verifier| verifier.same_answer(item, a, b))
    }

    fn notes(&self) -> Vec<String> {
        self.by_data_source
            .values()
            .chain(&self.otherwise)
            .flat_map(|verifier| verifier.notes())
            .collect()
    }
}
