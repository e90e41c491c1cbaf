//! Training: reinforcement learning and SFT, from a recipe to checkpoints and metrics.
//!
//! [`rl`] has the step of reinforcement learning and reads top to bottom; [`sft`] that of supervised fine-tuning. Both
//! update through a [`learner`], live in a [run directory](run_directory) and go on from its [checkpoints](checkpoint).

pub mod advantage;
pub mod checkpoint;
mod clock;
pub mod collect;
mod error;
pub mod evaluation;
mod examples;
pub mod group;
pub mod learner;
pub mod metrics;
pub mod minibatch;
pub mod observer;
pub mod optimizer;
mod passes;
mod place;
pub mod plan;
mod problems;
pub mod prompts;
mod ranks;
pub mod response_file;
pub mod rl;
mod rollout_statistics;
pub mod run;
pub mod run_directory;
pub mod sample;
pub mod settings;
pub mod sft;
pub mod sinks;
pub mod trainer;
pub mod training_loop;

pub use error::{Error, Result};
