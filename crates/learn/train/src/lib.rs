//! Training: reinforcement learning and SFT, from a recipe to checkpoints and metrics.
//!
//! [`rl`] has the step of reinforcement learning and reads top to bottom; [`sft`] that of
//! supervised fine-tuning. Both update through a [`learner`], and have what every [`run`] has: a
//! directory, metrics, evaluations and checkpoints.

pub mod advantage;
mod clock;
pub mod collect;
mod error;
mod examples;
mod gathering;
pub mod gradient_slice;
pub mod group;
mod layer_weights;
pub mod learner;
pub mod metrics;
pub mod minibatch;
mod model_kind;
mod models;
mod moments;
pub mod observer;
pub mod optimizer;
mod passes;
mod problems;
pub mod process_model;
pub mod ranks;
pub mod rl;
mod rollout_statistics;
pub mod run;
pub mod settings;
pub mod sft;
mod shards;
mod slice_exchange;
mod taught;
pub mod teacher;
#[cfg(test)]
mod test_support;
mod token_records;
pub mod trainer;
pub mod training_loop;
pub mod weight_slice;

pub use error::{Error, FREE_SPACE, Result};
