//! Cosines and sines on the device, computed for the positions needed so far.

use crate::config::ModelConfig;
use crate::layout::BlockLayout;
use crate::rope::Rope;
use isentrope_kernels::{Backend, Buffer, Role};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct RopeTable {
    rope: Rope,
    /// Whether some layers do not rotate.
    has_still_layers: bool,
    known: RwLock<Option<Arc<Rotations>>>,
}

/// Cosines and sines.
pub(crate) struct Rotations {
    turning: Angles,
    /// Cosines of 1 and sines of 0 for layers that do not rotate, if there are any: they leave
    /// every number as it is.
    still: Option<Angles>,
    pub positions: usize,
}

/// Cosine and sine of every angle, `[positions, head_dim / 2]` each.
type Angles = (Buffer, Buffer);

impl Rotations {
    /// The cosines and sines of a block.
    pub fn of(&self, block: &BlockLayout) -> (&Buffer, &Buffer) {
        let still = self.still.as_ref().filter(|_| !block.rotated);
        let (cos, sin) = still.unwrap_or(&self.turning);
        (cos, sin)
    }
}

impl RopeTable {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let has_still_layers = config.rotated.contains(&false);
        Self { rope: config.rope.clone(), has_still_layers, known: RwLock::new(None) }
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
        let still = self
            .has_still_layers
            .then(|| (upload(&vec![1.0; cos.len()]), upload(&vec![0.0; sin.len()])));
        let turning = (upload(&cos), upload(&sin));
        let rotations = Arc::new(Rotations { turning, still, positions });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(rotations.clone());
        rotations
    }
}
