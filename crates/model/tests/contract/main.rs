//! The numerics contract at the level of models, bit by bit: a token's log-prob and entropy depend on the weights and
//! on its own prefix, a gradient on the ordered tokens and their coefficients, and neither on anything else.

mod batches;
#[path = "../common/mod.rs"]
mod common;
mod finite_differences;
mod gradients;
mod inputs;
mod machines;
mod pages;
mod recordings;
mod steps;
