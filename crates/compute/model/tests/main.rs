//! Models and what belongs to them, from files and back.
//! One binary: each would link the whole crate anew.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod adapter;
mod adapter_files;
mod checkpoint_read;
mod checkpoint_write;
mod common;
mod config;
mod generation_config;
mod model_files;
mod rope;
mod router_balance;
mod tokenizer;
mod tokenizer_limits;
