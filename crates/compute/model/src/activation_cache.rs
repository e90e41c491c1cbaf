//! Activations kept from sampling for the backward pass over the same rows. A token's activations
//! have the same bits in a step as in a pass over the whole sequence, so an on-policy update need
//! not compute them again.

use crate::Result;
use crate::internals::Internals;
use crate::model::Model;
use isentrope_kernels::{Backend, Buffer, DeviceIndex, Role};

/// A fixed number of slots, each with one row of the activations that a backward pass needs. They
/// are valid until the weights change.
pub struct ActivationCache {
    blocks: Vec<Block>,
    /// The last block's output, `[slots, hidden]`.
    last: Buffer,
    slots: u32,
    free: Vec<u32>,
}

/// The activations that a block's backward pass needs, each `[slots, ...]`.
struct Block {
    input: Buffer,
    internals: Internals<Buffer>,
}

/// Pairs of a step's row and its slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedRows<I = Vec<u32>> {
    pub rows: I,
    pub slots: I,
}

impl CachedRows {
    /// On the device.
    pub fn upload(&self, backend: &dyn Backend) -> CachedRows<DeviceIndex> {
        CachedRows {
            rows: backend.upload_index(&self.rows),
            slots: backend.upload_index(&self.slots),
        }
    }
}

impl ActivationCache {
    /// Makes an empty activation cache. A slot has [this
    /// size](crate::Layout::activation_bytes_per_slot).
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn new(model: &Model, slots: usize) -> Result<Self> {
        let s = &model.layout.shapes;
        let rows = |features: usize| model.backend.allocate(Role::Activation(slots, features));
        let blocks = model.layout.blocks.iter().map(|block| {
            let internals = Internals::kept(block, &model.layout).try_map(rows)?;
            Ok(Block { input: rows(s.hidden)?, internals })
        });
        let blocks = blocks.collect::<Result<_>>()?;
        let mut activation_cache =
            Self { blocks, last: rows(s.hidden)?, slots: slots as u32, free: Vec::new() };
        activation_cache.clear();
        Ok(activation_cache)
    }

    /// Frees all slots.
    pub fn clear(&mut self) {
        self.free.clear();
        self.free.extend((0..self.slots).rev());
    }

    /// Slots, taken and free.
    pub(crate) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Number of free slots.
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

    /// Stores the input of a block, `[tokens, hidden]`.
    pub(crate) fn store_input(
        &mut self,
        backend: &dyn Backend,
        block: usize,
        input: &Buffer,
        to: &CachedRows<DeviceIndex>,
    ) {
        backend.store_rows(input, &to.rows, &mut self.blocks[block].input, &to.slots);
    }

    /// Stores a block's internals, each `[tokens, ...]`.
    pub(crate) fn store_internals(
        &mut self,
        backend: &dyn Backend,
        block: usize,
        internals: &Internals<Buffer>,
        to: &CachedRows<DeviceIndex>,
    ) {
        for (from, cached) in internals.beside(&mut self.blocks[block].internals) {
            backend.store_rows(from, &to.rows, cached, &to.slots);
        }
    }

    /// Stores the last block's output, `[tokens, hidden]`.
    pub(crate) fn store_last(
        &mut self,
        backend: &dyn Backend,
        last: &Buffer,
        to: &CachedRows<DeviceIndex>,
    ) {
        backend.store_rows(last, &to.rows, &mut self.last, &to.slots);
    }

    /// A block's input and internals, in the rows of `count` slots.
    pub(crate) fn block(
        &self,
        model: &Model,
        block: usize,
        slots: &DeviceIndex,
        count: usize,
    ) -> (Buffer, Internals<Buffer>) {
        let (b, s) = (&*model.backend, &model.layout.shapes);
        let mut input = model.activations(count, s.hidden);
        b.copy_rows(&self.blocks[block].input, slots, &mut input);
        let features = Internals::kept(&model.layout.blocks[block], &model.layout);
        let mut internals = features.map(|features| model.activations(count, features));
        for (cached, to) in self.blocks[block].internals.beside(&mut internals) {
            b.copy_rows(cached, slots, to);
        }
        (input, internals)
    }

    /// The last block's output of the rows in `slots`.
    pub(crate) fn last(&self, model: &Model, slots: &[u32]) -> Buffer {
        let b = &*model.backend;
        let mut rows = model.activations(slots.len(), model.layout.shapes.hidden);
        b.copy_rows(&self.last, &b.upload_index(slots), &mut rows);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{AdapterLayout, Rank};
    use isentrope_kernels::{Cpu, CpuBuffer, Isa};
    use std::path::Path;
    use std::sync::Arc;

    fn bytes_of_slots(model: &Model) -> usize {
        let ActivationCache { blocks, last, .. } = ActivationCache::new(model, 5).unwrap();
        let len = |buffer: &Buffer| buffer.of::<CpuBuffer>().len();
        let of_block = |Block { input, internals }: Block| {
            len(&input) + internals.each().map(|buffer| len(&buffer)).sum::<usize>()
        };
        let floats = len(&last) + blocks.into_iter().map(of_block).sum::<usize>();
        let bytes = floats * size_of::<f32>();
        assert_eq!(bytes, 5 * model.layout.activation_bytes_per_slot(&*model.backend));
        bytes
    }

    /// Attention's output is not kept where the product behind it is frozen.
    #[test]
    fn a_slot_takes_the_bytes_that_are_planned_for_it() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
        let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
        for name in ["gemma3", "olmo3", "qwen2-tied", "qwen3", "qwen3-moe", "qwen3.5-moe"] {
            let model = Model::load(&models.join(name), cpu.clone()).unwrap();
            let all = bytes_of_slots(&model);
            let rank =
                |module: &str| module.ends_with("v_proj").then_some(Rank { rank: 2, scale: 1.0 });
            let of_values = AdapterLayout::new(&model.layout, rank).unwrap();
            let of_all = model.layout.with_default_adapter().adapter.unwrap();
            let adapted = |of| bytes_of_slots(&model.base().with_new_adapter(of, 1).unwrap());
            assert!(adapted(of_values) < all && adapted(of_all) == all, "{name}");
        }
    }
}
