//! Plans for GPUs: what fits on which card, and that a run takes no more than its plan says.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod cards;
#[path = "../guide/mod.rs"]
mod guide;
#[path = "../qwen2/mod.rs"]
mod qwen2;
mod runs;
