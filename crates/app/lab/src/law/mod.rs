//! The law R = -a exp(H) + b ([`isentrope_run::law`] fits it): where its evaluations come from.

pub mod points;

pub use isentrope_run::law::*;
