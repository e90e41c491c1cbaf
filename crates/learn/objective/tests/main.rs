//! The objective against published code, finite differences and properties.
//! One binary: each would link the whole crate anew.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod common;
mod controller;
mod distillation;
mod gradients;
mod methods;
mod micro_batches;
mod oracle;
mod prime;
mod qae;
mod saturation;
mod settings;
mod terms;
mod truncated;
