//! The theory of covariance (arXiv:2505.22617, section 3): the effect of a small change of a
//! softmax policy on its entropy.
//!
//! [`check`] tests [`Claim`]s on small policies, where everything can be computed exactly.
//! [`Agreement`] says how well they foresee the entropy of a run that has tracked them.
//! docs/concepts/entropy.md has the formulas.

mod agreement;
mod case;
mod check;
mod claim;
mod policy;
mod text;

pub use agreement::{Agreement, BucketMeans, Prediction, TheoryOfRun};
pub use case::Case;
pub use check::{Check, STEPS, Step, check};
pub use claim::{CLAIMS, Claim};
pub use policy::Policy;
pub use text::{of_checks, of_predictions, of_run};
