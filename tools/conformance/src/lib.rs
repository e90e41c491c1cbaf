//! The numerics contract (docs/concepts/numerics.md) as tests that any backend can be put to.
//!
//! A backend's own tests name themselves a [`Subject`] and [`run`] its [`tests`] from the `main` of
//! a test without a harness, as `tests/cpu.rs` does; every property then is a test of that binary,
//! listed and chosen by name as usual.
//!
//! `invariance` is the contract's first level, which is alike for every backend: a row's bits do
//! not depend on its company, on cuts, pages or variants. `arithmetic` is the second: the
//! operations against the subject's own scalar reference, bit for bit, and against mathematics in
//! f64, within the subject's [`Tolerance`]. `bookkeeping` tests the sampler's promises about memory
//! with the backend's page size. `oracles` compares whole models with transformers.
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

pub use models::adapted;
pub use subject::{OracleTolerance, Subject, Tolerance, Variant};

use device::Trial;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// A property's name, and its test.
type Property = (&'static str, fn(&Trial));

/// Names the properties of a file. The compiler reports a property that is not named, because it is
/// dead code.
macro_rules! properties {
    ($($name:ident),* $(,)?) => {
        /// The properties of this file.
        pub(crate) fn properties() -> Vec<$crate::Property> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $name)),*]
        }
    };
}
pub(crate) use properties;

/// Makes a test of every property, with the subject's name in front. Tests that run at the same
/// time have a subject each, because launches on one device wait for one another.
pub fn tests(
    name: &str,
    subject: impl Fn() -> Box<dyn Subject> + Send + Sync + 'static,
) -> Vec<libtest_mimic::Trial> {
    let (idle, subject) = (Arc::new(Mutex::new(Vec::<Trial>::new())), Arc::new(subject));
    let crate_name = concat!(module_path!(), "::");
    let properties = [
        invariance::properties(),
        arithmetic::properties(),
        bookkeeping::properties(),
        oracles::properties(),
    ]
    .concat();
    let test = |(property_name, property): Property| {
        let (idle, subject) = (idle.clone(), subject.clone());
        let name = format!("{name}::{}", property_name.trim_start_matches(crate_name));
        libtest_mimic::Trial::test(name, move || {
            let found = idle.lock().unwrap().pop();
            let trial = found.unwrap_or_else(|| Trial::new(subject()));
            property(&trial);
            idle.lock().unwrap().push(trial);
            Ok(())
        })
    };
    properties.into_iter().map(test).collect()
}

/// Runs the tests that the command line names: the whole `main` of a test program.
pub fn run(tests: Vec<libtest_mimic::Trial>) -> ExitCode {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests).exit_code()
}
