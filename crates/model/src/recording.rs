//! Activations kept while sampling, for the backward pass over the same rows: a token's activations have the same bits in a
//! step as in a pass over the whole sequence, so an update on the policy that sampled need not compute them again.

use crate::block::Internals;
use crate::model::Model;
use isentrope_kernels::Backend;

/// A fixed number of slots, each with one row of everything that a backward pass needs of a forward pass. What a slot holds
/// is of use as long as the weights are those that computed it.
pub struct Recording<B: Backend> {
    blocks: Vec<Block<B>>,
    /// The last block's output, `[slots, hidden]`.
    last: B::Buffer,
    slots: u32,
    free: Vec<u32>,
}

/// What a block's backward pass needs. Each `[slots, ...]`.
struct Block<B: Backend> {
    input: B::Buffer,
    internals: Internals<B>,
}

/// Which rows of a step go to which slots, in pairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub rows: Vec<u32>,
    pub slots: Vec<u32>,
}

impl<B: Backend> Recording<B> {
    /// An empty recording of so many slots, each of [so many bytes](crate::Layout::recording_bytes_per_slot).
    pub fn new(model: &Model<B>, slots: usize) -> Self {
        let (b, s) = (&*model.backend, &model.layout.shapes);
        let zeros = |features: usize| b.zeros(slots * features);
        let block = |block| Block { input: zeros(s.hidden), internals: Internals::new(block, s, zeros) };
        let blocks = model.layout.blocks.iter().map(block).collect();
        let mut recording = Self { blocks, last: zeros(s.hidden), slots: slots as u32, free: Vec::new() };
        recording.clear();
        recording
    }

    /// Frees all slots.
    pub fn clear(&mut self) {
        self.free.clear();
        self.free.extend((0..self.slots).rev());
    }

    /// Slots that nobody holds.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Takes a free slot.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Frees a slot that was taken.
    pub fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Records the input of a block, `[tokens, hidden]`.
    pub(crate) fn store_input(&mut self, model: &Model<B>, block: usize, input: &B::Buffer, to: &Recorded) {
        let hidden = model.layout.shapes.hidden;
        model.backend.store_rows(hidden, input, &to.rows, &mut self.blocks[block].input, &to.slots);
    }

    /// Records a block's internals, each `[tokens, ...]`.
    pub(crate) fn store_internals(
        &mut self,
        model: &Model<B>,
        block: usize,
        internals: &Internals<B>,
        to: &Recorded,
    ) {
        let recorded = &mut self.blocks[block].internals;
        for (features, from, recorded) in internals.beside(recorded, &model.layout.shapes) {
            model.backend.store_rows(features, from, &to.rows, recorded, &to.slots);
        }
    }

    /// Records the last block's output, `[tokens, hidden]`.
    pub(crate) fn store_last(&mut self, model: &Model<B>, last: &B::Buffer, to: &Recorded) {
        let hidden = model.layout.shapes.hidden;
        model.backend.store_rows(hidden, last, &to.rows, &mut self.last, &to.slots);
    }

    /// A block's input and internals of the rows in `slots`.
    pub(crate) fn block(&self, model: &Model<B>, block: usize, slots: &[u32]) -> (B::Buffer, Internals<B>) {
        let (b, s) = (&*model.backend, &model.layout.shapes);
        let buffer = |features: usize| b.buffer(slots.len() * features);
        let mut input = buffer(s.hidden);
        b.gather_rows(s.hidden, &self.blocks[block].input, slots, &mut input);
        let mut internals = Internals::new(&model.layout.blocks[block], s, buffer);
        for (features, recorded, to) in self.blocks[block].internals.beside(&mut internals, s) {
            b.gather_rows(features, recorded, slots, to);
        }
        (input, internals)
    }

    /// The last block's output of the rows in `slots`.
    pub(crate) fn last(&self, model: &Model<B>, slots: &[u32]) -> B::Buffer {
        let (b, hidden) = (&*model.backend, model.layout.shapes.hidden);
        let mut rows = b.buffer(slots.len() * hidden);
        b.gather_rows(hidden, &self.last, slots, &mut rows);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_kernels::{Cpu, Isa};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_slot_takes_the_bytes_that_are_planned_for_it() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
        let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
        for name in ["qwen2-tied", "qwen3"] {
            let model = Model::load(&models.join(name), cpu.clone()).unwrap();
            let Recording { blocks, last, .. } = Recording::new(&model, 5);
            let mut floats = cpu.len(&last);
            for (Block { input, internals }, block) in blocks.iter().zip(&model.layout.blocks) {
                let s = &model.layout.shapes;
                let mut other = Internals::new(block, s, |_| cpu.buffer(0));
                let lengths = internals.beside(&mut other, s).map(|(_, buffer, _)| cpu.len(buffer));
                floats += cpu.len(input) + lengths.sum::<usize>();
            }
            assert_eq!(floats * size_of::<f32>(), 5 * model.layout.recording_bytes_per_slot());
        }
    }
}
