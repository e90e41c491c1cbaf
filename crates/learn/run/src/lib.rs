//! A run's directory, and the numbers that follow from it alone: the trainer writes it, the
//! laboratory reads it.
//!
//! [`run_files`] names the files, [`tokens`] are the records of single tokens, [`event`] has
//! TensorBoard's messages. [`law`] fits R = -a exp(H) + b to a run's evaluations, [`alarms`] says
//! when a policy collapses; both follow a run step by step while it trains, and read its log
//! afterwards. [`sign_flip`] tests paired differences, of runs and of problems.

pub mod alarms;
mod error;
pub mod event;
pub mod law;
pub mod number;
mod origin;
pub mod run_files;
pub mod sign_flip;
pub mod student;
pub mod tokens;

pub use error::{Error, Result};
pub use origin::{ENTROPIES, Origin, WEIGHTS};
