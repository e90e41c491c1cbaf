//! Errors that end the work of all ranks. Every message names the rank, the failure and the remedy.

/// Failure of ranks to work together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ranks cannot begin: launcher, library and recipe do not fit together. Starting again
    /// will not help.
    #[error("{0}")]
    Start(String),
    /// A rank has given up. All ranks learn of it in the same exchange.
    #[error("rank {rank} ({host}): {cause}")]
    Rank {
        /// Which.
        rank: usize,
        /// Its host.
        host: String,
        /// Why, in its own words.
        cause: String,
    },
    /// All ranks have given up for the same reason.
    #[error("{0}")]
    All(String),
    /// Ranks differ in data or order that must be equal.
    #[error("{0}")]
    Disagreement(String),
    /// Bytes have arrived damaged.
    #[error("{0}")]
    Damage(String),
    /// The library that moves bytes between devices has failed on this rank.
    #[error("{0}")]
    Device(String),
    /// The engine has failed, or was ended because a rank was not heard of.
    #[error("{0}")]
    Engine(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
