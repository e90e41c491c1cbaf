//! Memory is counted before it is taken: that of models and of copies of their weights for as long
//! as they are there, that of a training pass before it begins.

use crate::error::{Failure, Result};
use crate::sessions::SILENCE;
use isentrope_budget::PassLimits;
use isentrope_budget::memory::{ParameterSets, human};
use isentrope_kernels::{Backend, Role};
use isentrope_model::{Layout, Model, TapeKind};
use std::cell::Cell;
use std::rc::Rc;

/// A remedy of short memory.
const REMEDY: &str = "or start the server with a smaller --kv-memory";
/// Bytes of a target of a token beyond its first, for each feature: rows of hidden states in f32.
const BYTES_OF_TARGET: usize = 4 * 4;
/// Such targets may take a quarter of a pass's memory.
const TARGETS_PART: usize = 4;

/// The memory for models in training, and for copies of weights to sample from.
pub(crate) struct Memory {
    bytes: usize,
    taken: Rc<Cell<usize>>,
}

/// A part of the memory, which is given back when this is dropped.
pub(crate) struct Room {
    bytes: usize,
    taken: Rc<Cell<usize>>,
}

impl Memory {
    /// A memory of this size, all of it free.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, taken: Rc::default() }
    }

    /// Bytes that are not taken.
    pub fn free(&self) -> usize {
        self.bytes - self.taken.get()
    }

    /// Takes a part of it for `what`.
    ///
    /// # Errors
    /// When so much is not free, with the numbers.
    pub fn take(&self, bytes: usize, what: &str) -> Result<Room> {
        let taken = self.taken.get();
        if bytes > self.free() {
            return Err(Failure::user(format!(
                "{what} takes {}, and models in training and copies of weights have {} of their \
                 {} already: end a session with ServiceClient.close, wait {} s for one whose \
                 script has ended, {REMEDY}",
                human(bytes),
                human(taken),
                human(self.bytes),
                SILENCE.as_secs()
            )));
        }
        self.taken.set(taken + bytes);
        Ok(Room { bytes, taken: Rc::clone(&self.taken) })
    }
}

impl Room {
    /// The part's size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.set(self.taken.get() - self.bytes);
    }
}

/// Bytes of a model in training: the weights that are trained, their gradient and moments.
pub(crate) fn training_bytes(backend: &dyn Backend, layout: &Layout) -> usize {
    let [_, gradient, moments] = ParameterSets::default().bytes(backend, layout);
    // Each row of a trained embedding may get a gradient.
    let embedded = match layout.adapter {
        Some(_) => 0,
        None => layout.embedded_bytes(backend, usize::MAX),
    };
    let weights = layout.trained().bytes(backend, Role::Weight);
    [weights, gradient, moments, embedded].into_iter().fold(0, usize::saturating_add)
}

/// The memory of one training pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassMemory {
    /// Bytes of its tape, and of all else that it takes for a while.
    pub bytes: usize,
    /// Most targets of a pass over several examples.
    pub micro_batch_tokens: usize,
}

impl PassMemory {
    /// Limits with which no pass that [fits](Self::lack) takes more.
    pub fn limits(self, model: &Model) -> PassLimits {
        let (layout, b) = (&model.layout, &*model.backend);
        let tape = layout.tape_bytes_per_token(b, TapeKind::Activations);
        let working = layout.working_bytes_per_token(b);
        let context = model.context();
        let once = layout.head_bytes(b, context).saturating_add(layout.block_bytes(b, context));
        let of_tokens = self.of_tokens().saturating_sub(once);
        PassLimits {
            micro_batch_tokens: self.micro_batch_tokens,
            tape_bytes: of_tokens / (tape + working) * tape,
            activation_slots: 0,
            by_layer: false,
            offloads_inputs: false,
            weights_in_slices: false,
        }
    }

    /// The part that is not for further targets of tokens.
    fn of_tokens(self) -> usize {
        self.bytes - self.bytes / TARGETS_PART
    }

    /// Says why a pass over these numbers of tokens and targets does not fit; none if it fits.
    pub fn lack(self, model: &Model, tokens: usize, targets: usize) -> Option<String> {
        let (layout, b) = (&model.layout, &*model.backend);
        let tape = layout.tape_bytes_per_token(b, TapeKind::BlockInputs).saturating_mul(tokens);
        let further = targets.saturating_sub(tokens).saturating_mul(model.config.hidden_size);
        let of_tokens = layout.working_bytes(b, tokens).saturating_add(tape);
        let of_tokens = of_tokens.saturating_add(layout.block_bytes(b, tokens));
        let parts = [
            (format!("{tokens} tokens"), of_tokens, self.of_tokens()),
            (
                format!("{targets} targets"),
                further.saturating_mul(BYTES_OF_TARGET),
                self.bytes / TARGETS_PART,
            ),
        ];
        parts.into_iter().find(|(_, needed, has)| needed > has).map(|(what, needed, has)| {
            let (needed, has) = (human(needed), human(has));
            format!("{what} take {needed} in a pass, which has {has}: send fewer, {REMEDY}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::tests::{base_dir, cpu};
    use std::path::Path;

    #[test]
    fn what_is_taken_is_counted_until_it_is_dropped() {
        let memory = Memory::new(10 << 20);
        let first = memory.take(7 << 20, "a model").unwrap();
        let failure = memory.take(4 << 20, "a model").map(drop).unwrap_err();
        let message = "a model takes 4 MiB, and models in training and copies of weights have 7 \
                       MiB of their 10 MiB already";
        assert!(failure.message.starts_with(message), "{}", failure.message);
        let _second = memory.take(3 << 20, "a model").unwrap();
        drop(first);
        memory.take(7 << 20, "a model").unwrap();
    }

    /// A pass that is not refused takes no more than its memory with the tape that it chooses.
    #[test]
    fn passes_stay_within_their_memory() {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures");
        let (mut whole, mut inputs, mut refused) = (0, 0, 0);
        for dir in [base_dir(), fixtures.join("models/qwen3.5")] {
            let model = Model::load_frozen(&dir, cpu()).unwrap();
            let (layout, b) = (&model.layout, &*model.backend);
            for bytes in [1 << 20, 3 << 20, 10 << 20] {
                let passes = PassMemory { bytes, micro_batch_tokens: 64 };
                let limits = passes.limits(&model);
                for tokens in 1..model.context().min(1000) {
                    if passes.lack(&model, tokens, tokens).is_some() {
                        refused += 1;
                        continue;
                    }
                    let kind = limits.tape_kind_of_set(&model, tokens);
                    let is_whole = kind == TapeKind::Activations;
                    *(if is_whole { &mut whole } else { &mut inputs }) += 1;
                    let tape = tokens * layout.tape_bytes_per_token(b, kind);
                    let of_blocks = layout.block_bytes(b, tokens);
                    let taken = tape + layout.working_bytes(b, tokens) + of_blocks;
                    assert!(taken <= bytes, "{}: {bytes} {tokens}", dir.display());
                }
            }
        }
        assert!(whole > 0 && inputs > 0 && refused > 0, "{whole} {inputs} {refused}");
    }
}
