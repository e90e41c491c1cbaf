//! Data sets and built-in tasks: the problems that training draws and the examples that it
//! imitates.
//!
//! [`benchmark`] defines the built-in benchmarks. [`Source`] and [`Examples`] give them by
//! position; [`evaluation_set`] gives those to measure with. Reading a file goes from its rows
//! ([`DataSettings::files`]) by their schema to problems or examples, and says in a [`Report`] what
//! is wrong with which row.

pub mod benchmark;
mod error;
mod file_hash;
mod file_records;
mod location;
mod order;
mod problem;
mod program_tests;
mod report;
mod rows;
mod schema;
mod settings;
mod source;
mod tasks;
mod warnings;

pub use error::{Error, Result};
pub use file_hash::FileHash;
pub use file_records::Longest;
pub use location::{DataLocation, FileChoice, Split};
pub use order::Order;
pub use problem::{Content, Example, Problem, Prompt, Prompts};
pub use program_tests::UnusableTests;
pub use report::{Finding, Findings, Report};
pub use rows::{Format, Row, Rows};
pub use schema::{
    GROUND_TRUTH, GroundTruth, PROMPT, Record, check_exact, find, find_ground_truth, read_prompt,
    text_of,
};
pub use settings::{Columns, DataSettings, TaskName, Template, TemplateVariable};
pub use source::{Examples, Records, Source, evaluation_set};
pub use tasks::countdown::{CountdownSettings, Demonstrations};
pub use tasks::problem_size;
pub use tasks::programs::ProgramsSettings;
