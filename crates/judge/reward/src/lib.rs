//! Verifiers, which say what a response is worth, and the penalty of overlong responses. Knows no
//! network.
//!
//! `verdict` has what a verifier is asked and answers. `verifiers` has the verifiers and their
//! registry, `combined` makes one of several, and `verifier_settings` the one that a recipe asks
//! for; `by_metric` sums up what they measure beside. The crate `isentrope-grader` decides when two
//! answers of mathematics are the same.
//!
//! A verifier that cannot do its work says so ([`Verdict::Fault`], [`Verdict::TimedOut`]); such a
//! response is left out of the loss and counted, never scored 0 in silence. A response that makes a
//! verifier fail ([`Judgement::failed`]) is not left out, or a policy would learn to write what
//! does that. It has the score of the worst, and the run says so.

mod by_metric;
mod combined;
mod settings;
mod verdict;
mod verifier_settings;
mod verifiers;

pub use by_metric::ByMetric;
pub use isentrope_code::{CodeSettings, Python, Tests, Verdict as CodeVerdict};
pub use settings::{Overlong, RewardSettings, overlong_penalty};
pub use verdict::{Item, Judgement, Verdict, Verifier, in_threads};
pub use verifier_settings::{ByDataSource, Combined, Part, VerifierSettings, Weighted};
pub use verifiers::command::VerifierError;
pub use verifiers::{
    Argument, CodeVerifierSettings, CommandSettings, MathSettings, PYTHON_COMMON, PythonSettings,
    QuestionBatch, Single, VerifierName, WorkerSettings, command, countdown, launch_shim, math,
    place_and_name,
};
