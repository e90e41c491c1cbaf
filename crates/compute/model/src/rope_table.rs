//! Cosines and sines on the device, computed for the positions needed so far.

use crate::config::ModelConfig;
use crate::layout::{AttentionLayout, Rotation};
use crate::rope::Rope;
use isentrope_kernels::{Backend, Buffer, Role};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct RopeTable {
    rope: Rope,
    window_rope: Option<Rope>,
    /// Whether some layers do not rotate.
    has_still_layers: bool,
    known: RwLock<Option<Arc<Rotations>>>,
}

/// Cosines and sines.
pub(crate) struct Rotations {
    turning: Angles,
    /// The angles of layers with a window, if they are other ones.
    windowed: Option<Angles>,
    /// Cosines of 1 and sines of 0 for layers that do not rotate, if there are any: they leave
    /// every number as it is.
    still: Option<Angles>,
    pub positions: usize,
}

/// Cosine and sine of every angle, `[positions, head_dim / 2]` each.
type Angles = (Buffer, Buffer);

impl Rotations {
    /// The cosines and sines of a block.
    pub fn of(&self, attention: &AttentionLayout) -> (&Buffer, &Buffer) {
        let own = match attention.rotation {
            Rotation::Full => None,
            Rotation::Windowed => self.windowed.as_ref(),
            Rotation::Still => self.still.as_ref(),
        };
        let (cos, sin) = own.unwrap_or(&self.turning);
        (cos, sin)
    }
}

impl RopeTable {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let has_still_layers = config.rotated.contains(&false);
        let (rope, window_rope) = (config.rope.clone(), config.window_rope.clone());
        Self { rope, window_rope, has_still_layers, known: RwLock::new(None) }
    }

    /// The rotations of at least `positions` positions.
    pub(crate) fn up_to(&self, backend: &dyn Backend, positions: usize) -> Arc<Rotations> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(rotations) = known.filter(|known| known.positions >= positions) {
            return rotations;
        }
        let positions = positions.next_power_of_two().max(256);
        let upload = |rows: &[f32]| {
            let mut buffer = backend.buffer(Role::Exact(positions, rows.len() / positions));
            backend.write(&mut buffer, 0, rows);
            buffer
        };
        let angles = |rope: &Rope| {
            let (cos, sin) = rope.table(0..positions);
            (upload(&cos), upload(&sin))
        };
        let numbers = positions * self.rope.pairs();
        let still = self
            .has_still_layers
            .then(|| (upload(&vec![1.0; numbers]), upload(&vec![0.0; numbers])));
        let windowed = self.window_rope.as_ref().map(angles);
        let turning = angles(&self.rope);
        let rotations = Arc::new(Rotations { turning, windowed, still, positions });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(rotations.clone());
        rotations
    }
}
