//! Data sets and built-in tasks: the problems that training draws and the examples that it imitates.
//!
//! [`benchmark`] defines the built-in benchmarks. [`Source`] and [`Examples`] give them by position; [`evaluation_set`]
//! gives those to measure with. Reading a file goes from its rows ([`Settings::files`]) by their schema to problems or
//! examples, and says in a [`Report`] what is wrong with which row.

pub mod benchmark;
pub mod countdown;
mod error;
mod files;
mod order;
mod parquet_rows;
mod problem;
mod report;
mod schema;
mod settings;
mod source;

pub use error::{Error, Result};
pub use files::FileHash;
pub use order::Order;
pub use problem::{Content, Example, Problem, Prompt};
pub use report::{Finding, Report};
pub use schema::{Record, final_answer, find};
pub use settings::{Columns, Settings, Task, Template};
pub use source::{Examples, Longest, Records, Source, evaluation_set};
