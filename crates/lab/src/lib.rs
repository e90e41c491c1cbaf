//! The laboratory: what the entropy of a policy is spent on (arXiv:2505.22617), from the numbers that runs write.
//!
//! [`log`] reads what a run has measured, whoever has trained it; [`run_files`] what else a run of this program keeps.
//! [`tokens`] are responses with the numbers of each token, and [`inspect`] shows who they are.
//! [`law`] fits R = -a exp(H) + b and says where it does not hold. [`page`] is what web pages have in common, [`text_plot`]
//! draws curves on a terminal, [`show`] whole runs. No file here knows a model or a trainer.
//! [`alarms`] says when a run collapses. [`law`] fits R = -a exp(H) + b and says where it does not hold. [`page`] is what web
//! pages have in common, [`text_plot`] draws curves on a terminal. No file here knows a model or a trainer.
//! [`law`] fits R = -a exp(H) + b and says where it does not hold. [`theory`] says how well covariances tell the change of the
//! entropy. [`page`] is what web pages have in common, [`text_plot`]
//! draws curves on a terminal. No file here knows a model or a trainer.
//! [`law`] fits R = -a exp(H) + b and says where it does not hold. [`report`] shows both on a web page,
//! [`page`] is what such pages have in common, [`text_plot`] draws curves on a terminal. No file here knows a model or a trainer.
//! draws curves on a terminal. [`seeds`] has what runs say that differ in their seeds. No file here knows a model or a trainer.

pub mod alarms;
mod error;
pub mod inspect;
pub mod law;
pub mod log;
pub mod page;
pub mod report;
pub mod run_files;
pub mod show;
pub mod seeds;
pub mod text_plot;
pub mod theory;
pub mod tokens;
pub mod visible;

pub use error::{Error, Result};
