//! Cosines and sines on the device, computed for as many positions as have been needed.

use crate::rope::Rope;
use isentrope_kernels::{Backend, Role};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct RopeTable<B: Backend> {
    rope: Rope,
    table: RwLock<Option<Arc<Table<B>>>>,
}

/// Both `[positions, head_dim / 2]`.
pub(crate) struct Table<B: Backend> {
    pub cos: B::Buffer,
    pub sin: B::Buffer,
    positions: usize,
}

impl<B: Backend> RopeTable<B> {
    pub(crate) fn new(rope: Rope) -> Self {
        Self { rope, table: RwLock::new(None) }
    }

    /// A table of at least `positions` positions.
    pub(crate) fn up_to(&self, backend: &B, positions: usize) -> Arc<Table<B>> {
        let known = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(table) = known.filter(|t| t.positions >= positions) {
            return table;
        }
        let positions = positions.next_power_of_two().max(256);
        let (cos, sin) = self.rope.table(0..positions);
        let upload = |rows: &[f32]| {
            let mut buffer = backend.buffer(Role::Exact(positions, rows.len() / positions));
            backend.write(&mut buffer, 0, rows);
            buffer
        };
        let table = Arc::new(Table { cos: upload(&cos), sin: upload(&sin), positions });
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(table.clone());
        table
    }
}
