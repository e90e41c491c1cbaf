//! The laboratory: what the entropy of a policy is spent on (arXiv:2505.22617), from the numbers that runs write.
//!
//! [`log`] reads what a run has measured, whoever has trained it; [`run_files`] what else a run of this program keeps.
//! [`law`] fits R = -a exp(H) + b and says where it does not hold. [`report`] shows both on a web page,
//! [`page`] is what such pages have in common, [`text_plot`] draws curves on a terminal. No file here knows a model or a trainer.

mod error;
pub mod law;
pub mod log;
pub mod page;
pub mod report;
pub mod run_files;
pub mod text_plot;

pub use error::{Error, Result};
