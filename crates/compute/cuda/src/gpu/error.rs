//! Errors of GPUs.

/// Errors of GPUs. Each variant has a sentence with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The driver is missing, too old, or has refused something.
    #[error("{0}")]
    Driver(String),
    /// A library is missing or cannot be used.
    #[error("{0}")]
    Library(String),
    /// NVRTC refuses a source.
    #[error("{file} does not compile for {architecture}:\n{log}")]
    Compile {
        /// The source's name.
        file: String,
        /// The architecture's name.
        architecture: String,
        /// NVRTC's message.
        log: String,
    },
    /// The libraries cannot be fetched.
    #[error("{0}")]
    Install(String),
}
