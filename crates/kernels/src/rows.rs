//! Copies and row selection.

use crate::simd::LANES;
use crate::threads::{Engine, Shared};

/// Floats below which a task is not worth its hand-over.
const LEAST: usize = 1 << 15;

/// Copies `from` to the equally long `to`.
pub(crate) fn copy(engine: &Engine, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let to = Shared::of(to);
    engine.threads.ranges(from.len(), LANES, LEAST, |range| {
        // SAFETY: ranges are disjoint.
        unsafe { to.slice(range.clone()) }.copy_from_slice(&from[range]);
    });
}

/// `to[i] = from[rows[i]]`, rows of `features` floats.
pub(crate) fn gather(engine: &Engine, features: usize, from: &[f32], rows: &[u32], to: &mut [f32]) {
    assert!(to.len() >= rows.len() * features);
    let to = Shared::of(to);
    engine.threads.ranges(rows.len(), 1, LEAST / features + 1, |range| {
        for i in range {
            let at = rows[i] as usize * features;
            // SAFETY: rows of `to` are disjoint.
            unsafe { to.slice(i * features..(i + 1) * features) }.copy_from_slice(&from[at..at + features]);
        }
    });
}

/// `to[rows[i]] = from[i]`, and zero in the other rows of the `total`. `rows` are distinct and ascending.
pub(crate) fn scatter(features: usize, from: &[f32], rows: &[u32], to: &mut [f32], total: usize) {
    let mut next = rows.iter().enumerate().peekable();
    for (r, row) in to[..total * features].chunks_exact_mut(features).enumerate() {
        match next.next_if(|&(_, &target)| target as usize == r) {
            Some((i, _)) => row.copy_from_slice(&from[i * features..(i + 1) * features]),
            None => row.fill(0.0),
        }
    }
    assert!(next.next().is_none(), "rows must ascend and lie below {total}");
}
