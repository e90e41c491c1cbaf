//! What is measured of a step.

use crate::clock::Clock;
use crate::metrics::Metrics;

/// What is measured of a step.
#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// What follows from the recipe alone.
    pub metrics: Metrics,
    /// How long things take.
    pub clock: Clock,
    /// What its evaluation says of the run so far, in sentences.
    pub remarks: Vec<String>,
}
