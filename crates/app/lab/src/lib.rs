//! The laboratory: how a policy spends its entropy (arXiv:2505.22617), from the numbers that runs
//! write.
//!
//! - [`log`] reads the numbers of any trainer's run, [`run_files`] the other files of this
//!   program's runs, [`tokens`] their responses token by token.
//! - [`run`] has what the numbers of a run come to, computed once.
//! - [`law`] fits R = -a exp(H) + b, or says why it does not hold; [`theory`] tests how covariances
//!   tell the change of the entropy; [`methods`] computes other objectives on recorded tokens;
//!   [`alarms`] tell when a policy collapses; [`seeds`] has
//!   statistics over runs that differ in their seeds.
//! - [`report`] and [`inspect`] show runs and tokens on web pages (built from [`page`]), [`show`]
//!   on a terminal (with curves of [`text_plot`]).
//!
//! No file here knows a model or a trainer.

pub mod alarms;
pub mod inspect;
pub mod law;
pub mod log;
pub mod methods;
pub mod page;
pub mod recipes;
pub mod report;
pub mod run;
pub mod seeds;
pub mod show;
mod table;
mod terminal;
pub mod text_plot;
pub mod theory;
pub mod visible;

use isentrope_run::number;
pub use isentrope_run::{Error, Result, run_files, tokens};
