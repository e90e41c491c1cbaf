//! How well the theory of covariance (arXiv:2505.22617, section 3) predicts the entropy of a run
//! that has tracked it. docs/concepts/entropy.md has the formulas.

mod agreement;
mod text;

pub use agreement::{Agreement, Prediction, TheoryOfRun};
pub use text::{of_predictions, of_run};
