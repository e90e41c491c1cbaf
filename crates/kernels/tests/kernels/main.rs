//! What is the CPU's own: the layout of its memory, the calls that it refuses because its kernels
//! rely on what they are handed, and the distributions it reads from logits. What any backend owes
//! is in `isentrope-conformance`.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![allow(missing_docs, reason = "tests are not an interface")]

mod distribution;
mod layout;
mod refusals;
mod support;
