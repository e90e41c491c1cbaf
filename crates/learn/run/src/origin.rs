//! The programs whose logs are read, and the entropies that logs have.

/// Entropies of the policy that sampled, the mean over responses first. The entropies of all
/// sampled responses come before the entropies of the filtered ones, which are trained on.
pub const ENTROPIES: [&str; 4] = [
    "policy/entropy",
    "policy/entropy_token_mean",
    "policy/entropy_filtered",
    "policy/entropy_token_mean_filtered",
];

/// Who has written a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program.
    Isentrope,
    /// verl.
    Verl,
    /// TRL, or Hugging Face's Trainer, on which it is built.
    Trl,
    /// An unknown program, whose names are kept as they are.
    Unknown,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Isentrope => "isentrope",
            Self::Verl => "verl",
            Self::Trl => "TRL",
            Self::Unknown => "unknown",
        })
    }
}

/// The metric of the weights' checksum.
pub const WEIGHTS: &str = "weights/crc32c";
