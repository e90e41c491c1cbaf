//! The CPU's arithmetic (docs/concepts/numerics.md, its second level) in scalar code: one chain of
//! fused multiply-adds after another. It is the default of [`Subject`](crate::Subject).

use crate::subject::{OracleTolerance, Tolerance};

/// One fused multiply-add after another, from `start`.
fn chain(start: f32, a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(start, |sum, (a, b)| a.mul_add(*b, sum))
}

/// As [`Subject::linear`](crate::Subject::linear).
pub fn linear(x: &[f32], weights: &[f32], bias: Option<f32>, residual: Option<f32>) -> f32 {
    let y = chain(bias.unwrap_or(0.0), x, weights);
    residual.map_or(y, |residual| residual + y)
}

/// As [`Subject::linear_backward_input`](crate::Subject::linear_backward_input).
pub fn linear_backward_input(dy: &[f32], weights: &[f32]) -> f32 {
    chain(0.0, dy, weights)
}

/// As [`Subject::linear_backward_weight`](crate::Subject::linear_backward_weight).
pub fn linear_backward_weight(before: f32, dy: &[f32], x: &[f32]) -> f32 {
    chain(before, dy, x)
}

/// As [`Subject::linear_backward_bias`](crate::Subject::linear_backward_bias).
pub fn linear_backward_bias(before: f32, dy: &[f32]) -> f32 {
    dy.iter().fold(before, |sum, dy| sum + dy)
}

/// As [`Subject::norm`](crate::Subject::norm): chains in 16 lanes, blocks of a tensor in f64, then
/// the tensors.
pub fn norm(tensors: &[Vec<f32>]) -> f64 {
    let block = |x: &[f32]| {
        let mut lanes = [0.0f32; 16];
        x.iter().enumerate().for_each(|(i, &v)| lanes[i % 16] = v.mul_add(v, lanes[i % 16]));
        f64::from(tree(&lanes))
    };
    tensors.iter().map(|x| x.chunks(4096).map(block).sum::<f64>()).sum::<f64>().sqrt()
}

/// The sum of sixteen partial sums, halves added to halves.
fn tree(lanes: &[f32]) -> f32 {
    if let [sum] = lanes {
        return *sum;
    }
    let (low, high) = lanes.split_at(lanes.len() / 2);
    tree(&low.iter().zip(high).map(|(a, b)| a + b).collect::<Vec<f32>>())
}

/// The allowed distance from f64 mathematics.
pub const TOLERANCE: Tolerance = Tolerance {
    linear: 3e-6,
    attention: 2e-6,
    // A score of 600 is rounded to within 6e-5, and its exponential has the same relative error.
    steep_attention: 5e-4,
    attention_gradient: 5e-6,
    attention_gradient_noise: 1e-5,
    rms_norm: 5e-7,
    rms_norm_gradient: 3e-6,
    rms_norm_weight_gradient: 4e-6,
    rope: 3e-7,
    glu: 5e-7,
    glu_gradient: 1e-6,
    scores: 3e-6,
    // A thousand terms below the spacing of floats around their sum: each may lose half of it.
    extreme_scores: 5e-6,
    head_gradient: 5e-6,
    head_gradient_noise: 1e-6,
    adamw: 1e-6,
    weight_decay: 2e-7,
    norm: 1e-6,
    shared_prompt: 1e-5,
    derivatives: 0.01,
    derivative_noise: 0.0,
    derivative_step: 0.004,
    drawn: 1e-4,
    oracles: OracleTolerance::Within(1e-4),
};
