//! Plans for GPUs: what fits on which card, and that a run takes no more memory than its plan says.

mod cards;
mod runs;
