//! Models and what belongs to them, from files and back.
//! One binary: each would link the whole crate anew.

mod checkpoint_read;
mod checkpoint_write;
mod common;
mod config;
mod generation_config;
mod hub;
mod model_files;
mod oracles;
mod rope;
mod tokenizer;
