//! What can go wrong while sampling.

/// Failure to sample.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A sampling setting is out of range.
    #[error("{name} is {value}: {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A prompt cannot be sampled from.
    #[error("{0}")]
    Prompt(String),
    /// The model or tokenizer failed.
    #[error(transparent)]
    Model(#[from] isentrope_model::Error),
    /// Logits are NaN or infinite, so there is no distribution to sample from.
    #[error(
        "the model's logits are not finite after {position} tokens: its weights or its configuration are damaged"
    )]
    NotFinite {
        /// Tokens of prompt and response that led there.
        position: usize,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
