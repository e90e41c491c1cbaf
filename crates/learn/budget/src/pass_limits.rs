//! The limits of a training pass.

use isentrope_model::{Model, TapeKind};

/// Limits of a pass. No bit of the gradient depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLimits {
    /// Most tokens in one pass; a single larger unit of sequences has a pass of its own.
    pub micro_batch_tokens: usize,
    /// Bytes for the tapes of all passes, which forward passes keep for backward passes.
    pub tape_bytes: usize,
    /// Tokens whose activations can be cached from sampling to the update.
    pub activation_slots: usize,
}

impl PassLimits {
    /// The fastest kind of tape whose bytes for `tokens` fit in this memory; none if no kind fits.
    pub fn tape_kind(&self, model: &Model, tokens: usize) -> Option<TapeKind> {
        let bytes = |kind| model.layout.tape_bytes_per_token(&*model.backend, kind);
        [TapeKind::Activations, TapeKind::BlockInputs]
            .into_iter()
            .find(|&kind| tokens.saturating_mul(bytes(kind)) <= self.tape_bytes)
    }

    /// The kind of tape for a single pass that goes backward right after it went forward. The plan
    /// has room for at least the smaller kind.
    pub fn tape_kind_of_one(&self, model: &Model, tokens: usize) -> TapeKind {
        self.tape_kind(model, tokens).unwrap_or(TapeKind::BlockInputs)
    }
}
