//! The learner and the sinks of metrics. What is measured of the process as a whole has binaries of
//! its own. One binary: each would link the whole crate anew.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod jsonl_sink;
mod laws;
mod learner;
mod parity;
mod process_model;
mod ranks;
mod ranks_pulled;
mod reverse_kl;
mod rewards;
mod router;
mod runs;
mod shards;
mod support;
mod tensorboard_sink;
mod turns;
