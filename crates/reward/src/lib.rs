//! What a response is worth: verifiers and the penalty of overlong responses. Knows no network.
//!
//! `verdict` has what a verifier is asked and answers. [`countdown`], [`math`], `code`, [`mod@command`] and `python` are
//! verifiers, `combined` makes one of several, and `verifier_settings` the one that a recipe asks for; `by_metric` sums up
//! what they measure beside. When two answers of mathematics are the same is the business of the crate `isentrope-grader`.
//!
//! A verifier that cannot do its work says so ([`Verdict::Fault`], [`Verdict::TimedOut`]); such a response is left out
//! of the loss and counted, never scored 0 in silence.

mod by_metric;
mod code;
mod combined;
pub mod command;
pub mod countdown;
pub mod math;
mod python;
mod settings;
mod verdict;
mod verifier_settings;

pub use by_metric::ByMetric;
pub use command::VerifierError;
pub use isentrope_code::{CodeSettings, Python, Tests, Verdict as CodeVerdict};
pub use python::{Argument, PythonSettings};
pub use settings::{Error, Overlong, RewardSettings, VerifierName, overlong_penalty};
pub use verdict::{BatchVerifier, Item, Judgement, Verdict, Verifier};
pub use verifier_settings::{
    ByDataSource, CodeVerifierSettings, Combined, MathSettings, Part, Single, VerifierSettings, Weighted,
};
