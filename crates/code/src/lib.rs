//! Programs judged by tests: a response's Python program is run in a jail and its results are held against what is expected.
//!
//! `python` finds the interpreter and `worker` runs programs in it, `wire` is what is said between the two.

mod python;
mod wire;
mod worker;

pub use python::{Python, PythonError};
pub use worker::{AssertionTest, End, Failure, RunLimits, Sandbox, StartError, Worker, WorkerLimits};
