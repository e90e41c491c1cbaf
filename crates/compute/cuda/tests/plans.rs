//! Plans for GPUs: what fits on which card, and that a run takes no more than its plan says.

mod cards;
mod runs;
