//! The laboratory: what the entropy of a policy is spent on (arXiv:2505.22617), from the numbers that runs write.
//!
//! [`log`] reads what a run has measured, whoever has trained it; [`run_files`] what else a run of this program keeps.
//! [`law`] fits R = -a exp(H) + b and says where it does not hold. [`page`] is what web pages have in common, [`text_plot`]
//! draws curves on a terminal. [`seeds`] has what runs say that differ in their seeds. No file here knows a model or a trainer.

mod error;
pub mod law;
pub mod log;
pub mod page;
pub mod run_files;
pub mod seeds;
pub mod text_plot;

pub use error::{Error, Result};
