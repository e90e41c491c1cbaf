//! The memory of a teacher, a frozen model of another size than the policy.

use super::Demand;
use isentrope_kernels::{Backend, Role};
use isentrope_model::Layout;

/// A teacher's memory on a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeacherBytes {
    /// Its weights, which stay for the whole run.
    pub weights: usize,
    /// The bytes that its attention and linear layers take beside their buffers.
    pub blocks: usize,
    /// Most bytes of the host while its weights are loaded to a device with its own memory.
    pub loading: usize,
    /// Bytes of a scoring pass for each token.
    per_token: usize,
    /// Most bytes of the head's logits in a scoring pass.
    head: usize,
    /// Bytes of each token of a pass whose loss has the exact divergence from the teacher; 0 if
    /// none has.
    pub(super) row: usize,
}

impl TeacherBytes {
    /// The memory of a teacher with this layout. It scores what the run trains on.
    pub fn of(backend: &dyn Backend, layout: &Layout, demand: Demand) -> Self {
        let tokens = demand.trained.saturating_mul(demand.longest_trained);
        Self {
            weights: layout.parameters.bytes(backend, Role::Frozen),
            blocks: layout.block_bytes(backend, demand.longest_trained),
            loading: layout.loading_bytes(),
            per_token: layout.working_bytes_per_token(backend),
            head: layout.scores_bytes(backend, tokens),
            row: 0,
        }
    }

    /// The same, with this many bytes of each token of a pass whose loss has the exact divergence.
    #[must_use]
    pub fn with_rows(self, row: usize) -> Self {
        Self { row, ..self }
    }

    /// Most tokens of a pass in this many bytes, if each has `beside` bytes more.
    pub(super) fn most_tokens(self, bytes: usize, beside: usize) -> usize {
        if self.per_token == 0 {
            return usize::MAX;
        }
        bytes.saturating_sub(self.head) / (self.per_token + beside)
    }

    /// Bytes of a pass over `tokens` tokens; 0 without a teacher.
    pub(super) fn pass(self, tokens: usize) -> usize {
        self.per_token.saturating_mul(tokens).saturating_add(self.head)
    }
}
