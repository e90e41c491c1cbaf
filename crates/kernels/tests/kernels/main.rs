//! Proof of the kernels: every operation against the mathematics in f64, and the numerics contract bit for bit.
//!
//! [`reference`] is the mathematics, [`support`] the data and the comparisons; a file per topic holds an operation
//! against its reference, and [`contract`] and [`attention_contract`] hold what must be equal to the last bit.
#![allow(missing_docs, reason = "tests are not an interface")]

mod adamw;
mod attention;
mod attention_contract;
mod contract;
mod embedding;
mod head;
mod linear;
mod norm;
mod reference;
mod rope;
mod rows;
mod serve;
mod support;
mod swiglu;
