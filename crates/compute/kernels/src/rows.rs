//! Copies, sums and row selection.

use crate::simd::LANES;
use crate::threads::{Shared, Workers};

/// Below this number of floats a task is not worth its start.
const LEAST: usize = 1 << 15;

/// Copies `from` to the equally long `to`.
pub(crate) fn copy(workers: &Workers, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let to = Shared::of(to);
    workers.threads.ranges(from.len(), LANES, LEAST, |range| {
        // SAFETY: ranges are disjoint.
        unsafe { to.slice(range.clone()) }.copy_from_slice(&from[range]);
    });
}

/// Copies columns of rows that are `strides` floats apart, as many as fit behind `first` in both.
pub(crate) fn copy_columns(
    workers: &Workers,
    (from, to): (&[f32], &mut [f32]),
    strides: (usize, usize),
    first: (usize, usize),
    rows: usize,
) {
    let width = (strides.0 - first.0).min(strides.1 - first.1);
    assert!(from.len() >= rows * strides.0 && to.len() >= rows * strides.1);
    let to = Shared::of(to);
    workers.threads.ranges(rows, 1, LEAST / width.max(1) + 1, |range| {
        for row in range {
            let (from_row, to_row) = (row * strides.0 + first.0, row * strides.1 + first.1);
            // SAFETY: rows of `to` are disjoint, and within it.
            unsafe { to.slice(to_row..to_row + width) }
                .copy_from_slice(&from[from_row..from_row + width]);
        }
    });
}

/// Adds `from` to the equally long `to`, element by element.
pub(crate) fn add(workers: &Workers, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let to = Shared::of(to);
    workers.threads.ranges(from.len(), LANES, LEAST, |range| {
        // SAFETY: ranges are disjoint.
        let sums = unsafe { to.slice(range.clone()) };
        sums.iter_mut().zip(&from[range]).for_each(|(sum, x)| *sum += x);
    });
}

/// Multiplies each row of `x` by `factors`, element by element.
pub(crate) fn scale(workers: &Workers, factors: &[f32], x: &mut [f32]) {
    let features = factors.len().max(1);
    assert!(x.len().is_multiple_of(features), "part of a row");
    let count = x.len() / features;
    let x = Shared::of(x);
    workers.threads.ranges(count, 1, LEAST / features + 1, |range| {
        // SAFETY: rows are disjoint.
        let rows = unsafe { x.slice(range.start * features..range.end * features) };
        for row in rows.chunks_exact_mut(features) {
            row.iter_mut().zip(factors).for_each(|(x, factor)| *x *= factor);
        }
    });
}

/// `to[i] = from[rows[i]]`, rows of `features` floats.
pub(crate) fn copy_rows(
    workers: &Workers,
    features: usize,
    from: &[f32],
    rows: &[u32],
    to: &mut [f32],
) {
    assert!(to.len() >= rows.len() * features);
    let to = Shared::of(to);
    workers.threads.ranges(rows.len(), 1, LEAST / features + 1, |range| {
        for i in range {
            let at = rows[i] as usize * features;
            // SAFETY: rows of `to` are disjoint.
            unsafe { to.slice(i * features..(i + 1) * features) }
                .copy_from_slice(&from[at..at + features]);
        }
    });
}

/// `to[slots[i]] = from[rows[i]]`, in order.
pub(crate) fn store(
    workers: &Workers,
    features: usize,
    from: &[f32],
    rows: &[u32],
    to: &mut [f32],
    slots: &[u32],
) {
    assert_eq!(rows.len(), slots.len());
    let slot_count = to.len() / features;
    assert!(slots.iter().all(|&slot| (slot as usize) < slot_count), "a slot beyond the end");
    let to = Shared::of(to);
    // Tasks share the features, not the rows: slots need not be distinct.
    workers.threads.ranges(features, LANES, LEAST / rows.len().max(1) + 1, |range| {
        for (&row, &slot) in rows.iter().zip(slots) {
            let (row, slot) = (row as usize * features, slot as usize * features);
            // SAFETY: the slot is within `to`, and ranges of features are disjoint.
            unsafe { to.slice(slot + range.start..slot + range.end) }
                .copy_from_slice(&from[row + range.start..row + range.end]);
        }
    });
}

/// `to[rows[i]] += from[i]`, in order, from zeros in all of `to`.
pub(crate) fn scatter(features: usize, from: &[f32], rows: &[u32], to: &mut [f32]) {
    assert!(from.len() >= rows.len() * features);
    to.fill(0.0);
    for (from, &row) in from.chunks_exact(features).zip(rows) {
        let row = &mut to[row as usize * features..][..features];
        for (sum, &x) in row.iter_mut().zip(from) {
            *sum += x;
        }
    }
}
