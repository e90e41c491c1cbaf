//! Errors of prompting, sampling and judging.

use std::path::PathBuf;

/// Failure to sample or to judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A sampling setting is out of range.
    #[error("{name} is {value}: {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed values, as part of a sentence.
        expected: &'static str,
    },
    /// Text was given to a model without a tokenizer.
    #[error("{}: there is no tokenizer.json, and training needs one to read its prompts", .0.display())]
    NoTokenizer(PathBuf),
    /// A problem cannot be presented to the model, or its responses cannot be judged.
    #[error("{origin}: {what}")]
    Problem {
        /// The file and row that it was read from.
        origin: String,
        /// The defect, as a sentence.
        what: String,
    },
    /// A prompt cannot be sampled from.
    #[error("{0}")]
    Prompt(String),
    /// The model or tokenizer failed.
    #[error(transparent)]
    Model(#[from] isentrope_model::Error),
    /// Logits are NaN or infinite, so there is no distribution to sample from.
    #[error(
        "the model's logits are not finite after {position} tokens: its weights or its \
         configuration are damaged"
    )]
    NotFinite {
        /// Number of tokens of prompt and response before the failure.
        position: usize,
    },
    /// The verifier can judge nothing any more.
    #[error(transparent)]
    Verifier(#[from] isentrope_reward::VerifierError),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
