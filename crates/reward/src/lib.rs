//! What a response is worth: verifiers and the penalty of overlong responses. Knows no network.
//!
//! A verifier that cannot do its work says so ([`Verdict::Fault`], [`Verdict::TimedOut`]); such a response is left out
//! of the loss and counted, never scored 0 in silence.

pub mod answer;
pub mod countdown;
mod settings;
mod verdict;

pub use settings::{Error, Overlong, Settings, VerifierName, overlong_penalty};
pub use verdict::{Item, Judgement, Verdict, Verifier};
