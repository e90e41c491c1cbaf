//! Tests of the CPU alone: the layout of its memory, the calls that it refuses because its kernels
//! rely on their operands, and the distributions it reads from logits. `isentrope-conformance`
//! tests every backend's contract.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![allow(missing_docs, reason = "tests are not an interface")]

mod distribution;
mod layout;
mod refusals;
mod support;
