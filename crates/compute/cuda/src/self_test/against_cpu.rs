//! Operations in f32, compared with the CPU's.

use super::{attention, noise, parameter, read, rows};
use crate::failure::DeviceFailure;
use isentrope_kernels::{
    AdamW, Attention, Backend, Buffer, Draw, Grouped, Kind, Linear, RmsNorm, Role, SamplingMasks,
    UpdateSlice,
};
use std::sync::Arc;

/// A shape that is no multiple of any tile, and has more than one small tile in both dimensions.
const SHAPE: Linear = Linear { inputs: 35, outputs: 71 };
/// Rows of most operations.
const ROWS: usize = 5;
/// Query heads share a head of keys, of more features than a warp has lanes.
const HEADS: Attention =
    Attention { heads: 2, kv_heads: 1, head_dim: 34, window: None, scale: 0.17 };
/// Positions of the sequences that attention is computed over: more than a page, and less.
const LENS: [usize; 2] = [19, 4];

/// Results of operations, by their names.
pub(super) fn results(backend: &dyn Backend) -> Vec<(&'static str, Vec<f32>)> {
    let mut results = on_rows(backend);
    results.extend(on_sequences(backend));
    results
}

fn on_rows(b: &dyn Backend) -> Vec<(&'static str, Vec<f32>)> {
    let Linear { inputs, outputs } = SHAPE;
    let kind = Kind::Matrix(SHAPE);
    let elements = b.element_count(kind);
    let x = rows(b, &noise(1, ROWS * inputs), inputs);
    let dy = rows(b, &noise(2, ROWS * outputs), outputs);
    let mut weights = parameter(b, Role::Weight(kind), kind, &noise(3, inputs * outputs));
    let mut dw = parameter(b, Role::Gradient(kind), kind, &noise(4, inputs * outputs));
    let mut results = Vec::new();

    let mut y = rows(b, &noise(5, ROWS * outputs), outputs);
    b.linear(SHAPE, &x, &weights, None, &mut y, ROWS);
    results.push(("a linear layer", read(b, &y, ROWS * outputs)));
    let mut dx = rows(b, &noise(6, ROWS * inputs), inputs);
    b.linear_backward_input(SHAPE, &dy, &weights, &mut dx, ROWS);
    results.push(("the gradient of a linear layer's input", read(b, &dx, ROWS * inputs)));
    b.linear_backward_weight(SHAPE, &dy, &x, &mut dw, ROWS);
    results.push(("the gradient of a linear layer's weights", kept(b, &dw, elements)));

    let vector = Kind::Vector(inputs);
    let scale = parameter(b, Role::Weight(vector), vector, &noise(7, inputs));
    let mut normed = rows(b, &noise(8, ROWS * inputs), inputs);
    b.rms_norm(Grouped::rows(inputs), RmsNorm::plain(1e-5), &x, &scale, &mut normed, ROWS);
    results.push(("a norm", read(b, &normed, ROWS * inputs)));

    let targets: Vec<u32> = (0..ROWS as u32).map(|row| row * 13 % outputs as u32).collect();
    let mut masks = SamplingMasks::default();
    for &target in &targets {
        masks.push(
            &(0..outputs as u32)
                .filter(|&token| token == target || token % 3 == 0)
                .collect::<Vec<_>>(),
        );
    }
    let mut statistics =
        b.head(SHAPE, &normed, &weights, b.upload_index(&targets), Arc::new(masks), 0.9, None);
    let scores = b.scores(&mut statistics);
    results.push(("the head's log-probs", scores.logprobs));
    results.push(("the head's entropies", scores.entropies));
    results.push(("the head's log-masses", scores.log_masses));
    let draws: Vec<Draw> = (0..ROWS)
        .map(|row| Draw::at_temperature(0.8, row, (row as f64 + 0.5) / ROWS as f64))
        .collect();
    let drawn = b.draw(SHAPE, &normed, &weights, &draws);
    // None, for logits that are not finite, is written as no token.
    let tokens = drawn.iter().map(|drawn| drawn.as_ref().map_or(-1.0, |drawn| drawn.token as f32));
    results.push(("a draw", tokens.collect()));
    let logprobs = drawn.iter().map(|drawn| drawn.as_ref().map_or(f32::NAN, |drawn| drawn.logprob));
    results.push(("a draw's log-prob", logprobs.collect()));
    let entropies =
        drawn.iter().map(|drawn| drawn.as_ref().map_or(f32::NAN, |drawn| drawn.entropy));
    results.push(("a draw's entropy", entropies.collect()));

    let mut moments = [9, 10].map(|seed| {
        let mut moment = b
            .allocate(Role::Moment(elements))
            .unwrap_or_else(|refused| DeviceFailure::from(refused).end());
        let positive: Vec<f32> = noise(seed, elements).into_iter().map(f32::abs).collect();
        b.write_elements(&mut moment, 0, &positive);
        moment
    });
    let settings = AdamW {
        learning_rate: 1e-2,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        step: 3,
        gradient_scale: 0.5,
    };
    let [first, second] = &mut moments;
    let updated = UpdateSlice {
        weights: &mut weights,
        elements: 0..elements,
        gradient: (&dw, 0),
        first,
        second,
    };
    b.adamw(settings, &mut [updated]);
    results.push(("AdamW", kept(b, &weights, elements)));
    results.push(("AdamW's first moment", kept(b, &moments[0], elements)));
    results.push(("AdamW's second moment", kept(b, &moments[1], elements)));
    results
}

fn on_sequences(b: &dyn Backend) -> Vec<(&'static str, Vec<f32>)> {
    let total: usize = LENS.iter().sum();
    let (row, width) = (HEADS.row(), HEADS.heads * HEADS.head_dim);
    let elements = noise(12, total * row);
    let qkv = rows(b, &elements, row);
    let d_out = rows(b, &noise(13, total * width), width);
    let mut d_qkv = rows(b, &noise(14, total * row), row);
    b.attention_backward(
        HEADS,
        &qkv,
        &b.upload_batch(&super::sequences(b, &LENS).0),
        &d_out,
        &mut d_qkv,
    );
    vec![
        ("attention", attention(b, HEADS, &LENS, &elements)),
        ("the gradient of attention", read(b, &d_qkv, total * row)),
    ]
}

/// A weight, a gradient or a moment, in the order in which the backend keeps it.
fn kept(backend: &dyn Backend, buffer: &Buffer, elements: usize) -> Vec<f32> {
    let mut read = vec![0.0; elements];
    backend.read_elements(buffer, 0, &mut read);
    read
}
