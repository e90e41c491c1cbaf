//! The numerics contract (docs/numerics.md) as tests that any backend can be put to.
//!
//! A backend's own tests name themselves a [`Subject`] and call [`run`] from the `main` of a test without a harness, as
//! `tests/cpu.rs` does; every property then is a test of that binary, listed and chosen by name as usual.
//!
//! `invariance` is the contract's first level, which every backend keeps alike: bits that must not depend on the company
//! of a row, on cuts, pages, variants. `arithmetic` is the second: the operations against the subject's own scalar
//! reference, bit for bit, and against mathematics in f64, within the subject's [`Tolerance`]. `bookkeeping` is what the
//! sampler promises about memory, whatever a backend's page size. `oracles` holds whole models against transformers.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod arithmetic;
mod bookkeeping;
pub mod chains;
mod data;
mod device;
mod invariance;
mod models;
mod oracles;
mod requests;
mod serve;
mod subject;

pub use subject::{OracleTolerance, Subject, Tolerance, Variant};

use device::Trial;
use std::process::ExitCode;
use std::sync::Arc;

/// A property by its name.
type Property<S> = (&'static str, fn(&Trial<S>));

/// Names the properties of a file. One that is not named here is dead code, and the compiler says so.
macro_rules! properties {
    ($($name:ident),* $(,)?) => {
        /// The properties of this file.
        pub(crate) fn properties<S: $crate::Subject>() -> Vec<$crate::Property<S>> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $name::<S>)),*]
        }
    };
}
pub(crate) use properties;

/// Runs every property, or those that the command line asks for, as a test of its own: the whole of a test's `main`.
pub fn run<S: Subject>(subject: S) -> ExitCode {
    let trial = Arc::new(Trial::new(subject));
    let crate_name = concat!(module_path!(), "::");
    let tests = [
        invariance::properties(),
        arithmetic::properties(),
        bookkeeping::properties(),
        oracles::properties(),
    ]
    .concat();
    let tests = tests.into_iter().map(|(name, property)| {
        let (trial, name) = (trial.clone(), name.trim_start_matches(crate_name));
        libtest_mimic::Trial::test(name, move || {
            property(&trial);
            Ok(())
        })
    });
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests.collect()).exit_code()
}
