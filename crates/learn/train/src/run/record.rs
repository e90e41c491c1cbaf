//! The measurements of a step.

use crate::clock::Clock;
use crate::metrics::Metrics;
use isentrope_run::tokens::TokenRecord;

/// The measurements of a step.
#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// The measurements that follow from the recipe alone.
    pub metrics: Metrics,
    /// How long things take.
    pub clock: Clock,
    /// The number of the rollout's responses that have gone from one rank to another.
    pub moved_responses: usize,
    /// Sentences on the run so far that follow from its evaluation.
    pub remarks: Vec<String>,
    /// The step's token records that are not yet written, in the order of the file and without
    /// texts.
    pub tokens: Vec<TokenRecord>,
}
