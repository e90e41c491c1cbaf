//! Groups of features inside rows, as norms and rotations take them.

use crate::data::{POISON, assert_close, is_poison};
use crate::device::Device;
use isentrope_kernels::{Grouped, Role};

/// Where the groups of all rows start, in order.
pub fn starts(layout: Grouped, rows: usize) -> impl Iterator<Item = usize> {
    let Grouped { stride, offset, groups, features } = layout;
    (0..rows).flat_map(move |r| (0..groups).map(move |g| r * stride + offset + g * features))
}

/// Noise in the groups, poison between them.
pub fn in_groups(device: &Device<'_>, seed: u64, layout: Grouped, rows: usize) -> Vec<f32> {
    let noise = device.noise(Role::Activation(rows, layout.stride), seed);
    let mut spread = vec![POISON; noise.len()];
    for at in starts(layout, rows) {
        let group = at..at + layout.features;
        spread[group.clone()].copy_from_slice(&noise[group]);
    }
    spread
}

/// Compares the groups with `want`, one group after another, and checks that nothing between them
/// was written.
pub fn assert_groups(
    what: &str,
    layout: Grouped,
    rows: usize,
    mut got: Vec<f32>,
    want: &[f64],
    tolerance: f64,
) {
    let mut groups = Vec::new();
    for at in starts(layout, rows) {
        let group = &mut got[at..at + layout.features];
        groups.extend_from_slice(group);
        group.fill(POISON);
    }
    assert!(got.into_iter().all(is_poison), "{what}: wrote between groups");
    assert_close(what, &groups, want, tolerance);
}
