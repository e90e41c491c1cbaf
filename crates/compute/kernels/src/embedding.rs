//! Token embeddings. They are packed like a linear layer from hidden states to the vocabulary,
//! since with tied weights it is one.

use crate::linear::Linear;
use crate::threads::{Shared, Workers};

/// `y[t] = embedding[tokens[t]]`. `y: [tokens, hidden]`.
pub(crate) fn forward(
    workers: &Workers,
    vocabulary: Linear,
    packed: &[f32],
    tokens: &[u32],
    y: &mut [f32],
) {
    assert_eq!(packed.len(), vocabulary.packed_len());
    assert!(y.len() >= tokens.len() * vocabulary.inputs);
    assert!(tokens.iter().all(|&t| (t as usize) < vocabulary.outputs));
    let y = Shared::of(y);
    workers.threads.ranges(tokens.len(), 1, (8192 / vocabulary.inputs).max(1), |range| {
        for t in range {
            // SAFETY: rows are disjoint.
            let y = unsafe { y.slice(t * vocabulary.inputs..(t + 1) * vocabulary.inputs) };
            let (start, stride) = vocabulary.row(tokens[t] as usize);
            for (y, &w) in y.iter_mut().zip(packed[start..].iter().step_by(stride)) {
                *y = w;
            }
        }
    });
}

/// `rows[slots[t]] += dy[t]`, token by token in order. `dy: [tokens, hidden]`,
/// `rows: [slots, hidden]`.
pub(crate) fn backward(
    workers: &Workers,
    hidden: usize,
    slots: &[u32],
    dy: &[f32],
    rows: &mut [f32],
) {
    assert!(dy.len() >= slots.len() * hidden);
    assert!(slots.iter().all(|&s| (s as usize + 1) * hidden <= rows.len()));
    let rows = Shared::of(rows);
    workers.threads.ranges(hidden, 16, 64, |range| {
        for (t, &slot) in slots.iter().enumerate() {
            let at = slot as usize * hidden;
            // SAFETY: feature ranges are disjoint.
            let row = unsafe { rows.slice(at + range.start..at + range.end) };
            for (r, &d) in row.iter_mut().zip(&dy[t * hidden + range.start..]) {
                *r += d;
            }
        }
    });
}

/// `packed[token] += rows[slot]` for each `(slot, token)` of `tokens`: tokens are distinct.
pub(crate) fn add_rows(vocabulary: Linear, rows: &[f32], tokens: &[u32], packed: &mut [f32]) {
    assert_eq!(packed.len(), vocabulary.packed_len());
    assert!(rows.len() >= tokens.len() * vocabulary.inputs);
    assert!(
        tokens.iter().all(|&t| (t as usize) < vocabulary.outputs),
        "a token beyond the vocabulary"
    );
    for (row, &token) in rows.chunks_exact(vocabulary.inputs).zip(tokens) {
        let (start, stride) = vocabulary.row(token as usize);
        for (p, &r) in packed[start..].iter_mut().step_by(stride).zip(row) {
            *p += r;
        }
    }
}
