//! Data files as they are published and as users write them.
//! One binary: each would link the whole crate anew.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod files;
mod formats;
mod hostile;
mod parquet_by_hand;
mod parquet_files;
mod published;
