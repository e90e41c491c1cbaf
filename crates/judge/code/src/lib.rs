//! Programs judged by tests: a response's Python program is run in a jail, and its results are
//! compared with the expected ones.
//!
//! `response` finds the program, `forms` reads the tests in the forms that data sets have them.
//! `judge` asks a worker about each test and compares what comes out (`compare`), which makes a
//! verdict (`verdict`); `batch` spreads many responses over the workers of a `pool`, and reads the
//! tests of a problem once for all of them (`test_cache`). `interpreter` runs cells of a session.
//! `python` finds the interpreter and `worker` runs programs in it, `wire` has the frames between
//! the two, and `json` reads them. Expected values never leave this process.

mod batch;
mod compare;
mod forms;
mod interpreter;
mod json;
mod judge;
mod pool;
mod python;
mod response;
mod settings;
mod slots;
mod test_cache;
mod verdict;
mod wire;
mod worker;

pub use batch::{Judge, JudgeError, in_order};
pub use forms::Tests;
pub use interpreter::{Cell, Interpreter};
pub use json::large_integer;
pub use python::Python;
pub use response::program;
pub use settings::{CodeSettings, Score};
pub use slots::{BorrowedSlot, Slots};
pub use verdict::{Report, Verdict};
pub(crate) use worker::{
    AssertionTest, End, Failure, RunLimits, Runner, TestProgress, Worker, WorkerLimits,
};
