//! One decoder for every supported family: Hugging Face directories in and out, tokenizer and chat
//! template, forward and backward.
//!
//! [`Model::load`] reads a directory; [`Model::score`], [`Model::forward`] and [`Model::backward`]
//! work on whole sequences, [`Model::step`] on growing sequences.

mod activation_cache;
pub mod adapter;
mod backward;
mod block;
pub mod chat_template;
pub mod checkpoint;
pub mod config;
mod contain;
mod delta;
mod error;
mod experts;
mod flops;
mod footprint;
pub mod generation_config;
mod gradient;
mod head_rows;
mod initialize;
mod internals;
mod json_file;
mod kv_cache;
mod layout;
mod model;
mod packed;
mod parameters;
mod pass;
mod projection;
pub mod rope;
mod rope_table;
mod router_balance;
mod router_use;
mod step;
pub mod tokenizer;

pub use activation_cache::ActivationCache;
pub use adapter::{AdapterConfig, AdapterLayout};
pub use backward::BackwardPass;
pub use checkpoint::Checkpoint;
pub use config::ModelConfig;
pub use contain::{PanicReport, contain};
pub use error::{Error, Result};
pub use flops::Tokens;
pub use gradient::Gradient;
pub use kv_cache::KvCache;
pub use layout::{Id, Layout, NamedTensor, Parameter, ParameterList};
pub use model::Model;
pub use packed::{Packed, SHARING_TOKENS, Sequence, Unit, apart, most_tokens_of_units, units};
pub use parameters::Parameters;
pub use pass::{Derivatives, ForwardPass, QueuedScores, Scores, Tape, TapeKind, Taught};
pub use rope::Rope;
pub use router_balance::RouterBalance;
pub use router_use::RouterUse;
pub use step::Step;
