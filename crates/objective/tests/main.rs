//! The objective against published code, finite differences and properties.
//! One binary: each would link the whole crate anew.

mod common;
mod gradients;
mod micro_batches;
mod oracle;
mod settings;
mod terms;
