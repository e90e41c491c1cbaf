//! Answers to problems of mathematics: found in a response, read, and compared with the ground
//! truth.
//!
//! Start with [`grade()`]. In the order of the work: `extract` finds the answer in a text; `latex`
//! cuts it into tokens; `parse` makes trees of them (`answer`, `choice`, `expression`, `matrix`),
//! and `reading` keeps every plausible tree; `equal` decides, with the algebra of `value`;
//! `explain` shows what was seen. The words of English that decide anything on the way are in
//! `phrases`. All of it is bounded, by sizes and by `fuel`: the same input gives the same grade on
//! every machine, and none takes long.

mod answer;
mod choice;
mod equal;
mod explain;
mod expression;
mod extract;
mod fuel;
mod grade;
mod ground_truth;
mod latex;
mod matrix;
mod number_kind;
mod options;
mod parse;
mod phrases;
mod reading;
mod relation;
mod value;

pub use equal::same_answer;
pub use explain::{Explanation, explain};
pub use extract::last_boxed;
pub use grade::{Grade, Outcome, grade};
pub use ground_truth::GroundTruth;
pub use options::{Extraction, Options};
