//! Plans for GPUs: what fits on which card, and that a run takes no more memory than its plan says.

mod cards;
mod cost;
mod delta;
mod passes;
mod ranks;
mod runs;

/// Short-lived uploads, such as row numbers. A real device's plan counts them as the program's own
/// memory.
const MOMENT: usize = 96 << 10;
