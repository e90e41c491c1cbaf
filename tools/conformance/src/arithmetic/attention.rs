//! Attention against the reference.

use crate::arithmetic::reference;
use crate::data::{assert_close, wide};
use crate::device::{Trial, width};
use crate::properties;
use crate::serve::Sequences;
use isentrope_kernels::{Attention, Role, Run};

properties!(forward, backward, backward_of_a_shared_beginning, steep_scores);

/// (heads, key-value heads): one head, MHA, GQA, MQA, a group larger than a tile.
const HEADS: [(usize, usize); 6] = [(1, 1), (3, 3), (4, 2), (6, 2), (5, 1), (28, 1)];

fn shapes() -> Vec<Attention> {
    let mut shapes = Vec::new();
    for (i, head_dim) in [2, 10, 16, 24, 64, 80].into_iter().enumerate() {
        for (j, (heads, kv_heads)) in HEADS.into_iter().enumerate() {
            // Windows of one key, within a page, across pages and beyond the sequence take turns.
            let window = [None, Some(1), Some(3), Some(8), Some(40), Some(5000)][(i + j) % 6];
            shapes.push(Attention {
                heads,
                kv_heads,
                head_dim,
                window,
                scale: (head_dim as f32).powf(-0.5),
            });
        }
    }
    shapes
}

fn lens(shape: Attention) -> &'static [usize] {
    if shape.heads * shape.head_dim > 500 { &[1, 17, 7] } else { &[1, 5, 6, 7, 13, 16, 100, 33] }
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for shape in shapes() {
        let sequences = Sequences::new(device, shape, lens(shape), 1);
        for (qkv, got) in sequences.qkv.iter().zip(sequences.serve_whole(device)) {
            let want = reference::attention(shape, &wide(qkv));
            assert_close(
                &format!("{shape:?}, {} tokens", want.len()),
                &got,
                &want,
                tolerance.attention,
            );
        }
    }
}

fn backward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for shape in shapes() {
        let sequences = Sequences::new(device, shape, lens(shape), 1);
        let role = |len| Role::Activation(len, width(shape));
        let d_out: Vec<Vec<f32>> =
            (0..).zip(lens(shape)).map(|(i, &len)| device.noise(role(len), 50 + i)).collect();
        let gradients = sequences.backward(device, &d_out);
        for ((qkv, d_out), got) in sequences.qkv.iter().zip(&d_out).zip(gradients) {
            let want = reference::attention_backward(shape, &wide(qkv), &wide(d_out));
            let what = format!("{shape:?}, {} tokens", want.len() / shape.row());
            // Gradients of queries and keys are far smaller than gradients of values, so each part
            // is compared at its own scale.
            let queries = shape.heads * shape.head_dim;
            for (part, at) in [
                ("scores", 0..shape.row() - shape.kv_heads * shape.head_dim),
                ("values", queries..shape.row()),
            ] {
                let got: Vec<f32> =
                    got.chunks(shape.row()).flat_map(|r| r[at.clone()].iter().copied()).collect();
                let want: Vec<f64> =
                    want.chunks(shape.row()).flat_map(|r| r[at.clone()].iter().copied()).collect();
                if part == "values" || (shape.window != Some(1) && want.len() > at.len()) {
                    let tolerance = tolerance.attention_gradient
                        * ((shape.heads / shape.kv_heads) as f64).sqrt();
                    assert_close(&format!("{part} of {what}"), &got, &want, tolerance);
                } else {
                    // A single visible key has weight 1 whatever its score, so the score's gradient
                    // is rounding noise.
                    let error = got
                        .iter()
                        .zip(&want)
                        .map(|(&g, w)| (f64::from(g) - w).abs())
                        .fold(0.0, f64::max);
                    assert!(
                        error < tolerance.attention_gradient_noise,
                        "{part} of {what}: {error:.1e}"
                    );
                }
            }
        }
    }
}

/// The rows of a beginning that several sequences share get a gradient from all of them.
fn backward_of_a_shared_beginning(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for shape in shapes() {
        let (row, width) = (shape.row(), width(shape));
        let beginning = 19;
        let lens = [beginning, 24, 3, 40];
        let total: usize = lens.iter().sum();
        let (qkv_role, out_role) = (Role::Activation(total, row), Role::Activation(total, width));
        let (qkv, d_out) = (device.noise(qkv_role, 1), device.noise(out_role, 2));
        let mut runs = Vec::new();
        for (i, len) in lens.into_iter().enumerate() {
            let at = runs.last().map_or(0, |run: &Run| run.row + run.len);
            runs.push(Run {
                row: at,
                len,
                position: if i == 0 { 0 } else { beginning },
                pages: 0..0,
            });
        }
        let mut d_qkv = device.blank(qkv_role);
        let (device_qkv, device_d) =
            (device.upload(qkv_role, &qkv), device.upload(out_role, &d_out));
        device.attention_backward(
            shape,
            &device_qkv,
            &device.runs(total, &runs),
            &device_d,
            &mut d_qkv,
        );
        let got = device.download(qkv_role, &d_qkv);

        // The sum over whole sequences; gradients of the beginning by its own rows count once.
        let mut want = vec![0.0; total * row];
        for (i, run) in runs.iter().enumerate() {
            let whole = |x: &[f32], features: usize| {
                let own = &x[run.row * features..(run.row + run.len) * features];
                wide(&if i == 0 {
                    own.to_vec()
                } else {
                    [&x[..beginning * features], own].concat()
                })
            };
            let mut d_out = whole(&d_out, width);
            if i > 0 {
                d_out[..beginning * width].fill(0.0);
            }
            let part = reference::attention_backward(shape, &whole(&qkv, row), &d_out);
            let rows = (0..if i == 0 { 0 } else { beginning }).chain(run.row..run.row + run.len);
            for (r, part) in rows.zip(part.chunks(row)) {
                want[r * row..(r + 1) * row].iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
            }
        }
        let tolerance =
            2.0 * tolerance.attention_gradient * ((shape.heads / shape.kv_heads) as f64).sqrt();
        assert_close(&format!("{shape:?}"), &got, &want, tolerance);
    }
}

/// With scores in the hundreds, one key has all the weight, and the others underflow.
fn steep_scores(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 16, window: None, scale: 40.0 };
    let sequences = Sequences::new(device, shape, &[50, 3], 9);
    for (qkv, got) in sequences.qkv.iter().zip(sequences.serve_whole(device)) {
        let want = reference::attention(shape, &wide(qkv));
        assert_close("steep", &got, &want, tolerance.steep_attention);
    }
}
