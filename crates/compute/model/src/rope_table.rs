//! Cosines and sines on the device, computed for the positions needed so far.

use crate::rope::Rope;
use isentrope_kernels::{Backend, Buffer, Role};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct RopeTable {
    rope: Rope,
    known: RwLock<Option<Arc<Rotations>>>,
}

/// Cosines and sines, `[positions, head_dim / 2]` each.
pub(crate) struct Rotations {
    pub cos: Buffer,
    pub sin: Buffer,
    pub positions: usize,
}

impl RopeTable {
    pub(crate) fn new(rope: Rope) -> Self {
        Self { rope, known: RwLock::new(None) }
    }

    /// The rotations of at least `positions` positions.
    pub(crate) fn up_to(&self, backend: &dyn Backend, positions: usize) -> Arc<Rotations> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(rotations) = known.filter(|known| known.positions >= positions) {
            return rotations;
        }
        let positions = positions.next_power_of_two().max(256);
        let (cos, sin) = self.rope.table(0..positions);
        let upload = |rows: &[f32]| {
            let mut buffer = backend.buffer(Role::Exact(positions, rows.len() / positions));
            backend.write(&mut buffer, 0, rows);
            buffer
        };
        let rotations = Arc::new(Rotations { cos: upload(&cos), sin: upload(&sin), positions });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(rotations.clone());
        rotations
    }
}
