//! Finds the evaluations for the law R = -a exp(H) + b, which [`isentrope_run::law`] fits.

pub mod points;

pub use isentrope_run::law::*;
