//! The laboratory: what the entropy of a policy is spent on (arXiv:2505.22617), from the numbers that runs write.
//!
//! [`log`] reads what a run has measured, whoever has trained it; [`run_files`] what else a run of this program keeps, and
//! [`tokens`] its responses with the numbers of each token. [`law`] fits R = -a exp(H) + b and says where it does not hold,
//! [`theory`] how well covariances tell the change of the entropy, [`alarms`] when a policy collapses, [`seeds`] what runs say
//! that differ in their seeds, [`selection`] what covariance methods pick inside micro-batches. [`report`] and [`inspect`] show
//! runs and tokens on web pages ([`page`] is what these have in common), [`show`] on a terminal ([`text_plot`] draws curves
//! there). No file here knows a model or a trainer.

pub mod alarms;
mod collapse;
pub mod inspect;
pub mod law;
pub mod log;
pub mod page;
pub mod recipes;
pub mod report;
pub mod seeds;
pub mod selection;
pub mod show;
pub mod text_plot;
pub mod theory;
pub mod visible;

use isentrope_run::number;
pub use isentrope_run::{Error, Result, run_files, tokens};
