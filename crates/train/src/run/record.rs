//! What is measured of a step.

use crate::clock::Clock;
use crate::metrics::Metrics;
use isentrope_lab::tokens::TokenRecord;

/// What is measured of a step.
#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// What follows from the recipe alone.
    pub metrics: Metrics,
    /// How long things take.
    pub clock: Clock,
    /// How many responses of its rollout have gone from one rank to another.
    pub moved_responses: usize,
    /// What its evaluation says of the run so far, in sentences.
    pub remarks: Vec<String>,
    /// What is still to be written of its tokens, in the order of the file and without texts.
    pub tokens: Vec<TokenRecord>,
}
