//! Linear layers against the subject's own sums, and against the reference.

use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close_to, noise, wide};
use crate::device::{Trial, gradient, vector, vector_gradient, weights};
use crate::properties;
use isentrope_kernels::{Kind, Linear, Role};
use proptest::prelude::*;

properties!(
    layers_equal_their_scalar_sums,
    forward,
    backward,
    no_tokens_change_nothing,
    without_inputs_outputs_are_the_bias,
    packing_is_undone_by_unpacking
);

fn layers_equal_their_scalar_sums(trial: &Trial) {
    let (device, subject) = (trial.device(), trial.subject());
    for (inputs, outputs, tokens) in [
        (1, 1, 1),
        (17, 61, 7),
        (600, 70, 13),
        (65, 700, 6),
        (9, 70, 300),
        (130, 65, 100),
        (130, 260, 130),
    ] {
        let shape = Linear { inputs, outputs };
        let (x_role, y_role) =
            (Role::Activation(tokens, inputs), Role::Activation(tokens, outputs));
        let (x, w, b) = (
            device.noise(x_role, 1),
            device.noise(weights(shape), 2),
            device.noise(vector(outputs), 3),
        );
        let (dy, dw, db) = (
            device.noise(y_role, 4),
            device.noise(gradient(shape), 5),
            device.noise(vector_gradient(outputs), 6),
        );
        let residual = device.noise(y_role, 7);
        let column = |x: &[f32], width: usize, i: usize| -> Vec<f32> {
            x.iter().skip(i).step_by(width).copied().collect()
        };
        let row = |x: &[f32], width: usize, i: usize| x[i * width..(i + 1) * width].to_vec();
        let mut want = [const { Vec::new() }; 5];
        for t in 0..tokens {
            for o in 0..outputs {
                let (x, w) = (row(&x, inputs, t), row(&w, inputs, o));
                let residual = residual[t * outputs + o];
                want[0].push(subject.linear(&x, &w, Some(b[o]), None));
                want[1].push(subject.linear(&x, &w, Some(b[o]), Some(residual)));
            }
            for i in 0..inputs {
                want[2].push(
                    subject.linear_backward_input(&row(&dy, outputs, t), &column(&w, inputs, i)),
                );
            }
        }
        let columns: Vec<Vec<f32>> = (0..inputs).map(|i| column(&x, inputs, i)).collect();
        for o in 0..outputs {
            let dy = column(&dy, outputs, o);
            for (i, x) in columns.iter().enumerate() {
                want[3].push(subject.linear_backward_weight(dw[o * inputs + i], &dy, x));
            }
            want[4].push(subject.linear_backward_bias(db[o], &dy));
        }

        let (x, dy, packed) = (
            device.upload(x_role, &x),
            device.upload(y_role, &dy),
            device.upload(weights(shape), &w),
        );
        let (mut y, mut dx) = (device.blank(y_role), device.blank(x_role));
        let mut added = device.upload(y_role, &residual);
        let bias = device.upload(vector(outputs), &b);
        let (mut dw, mut db) =
            (device.upload(gradient(shape), &dw), device.upload(vector_gradient(outputs), &db));
        device.linear(shape, &x, &packed, Some(&bias), &mut y, tokens);
        device.linear_add(shape, &x, &packed, Some(&bias), &mut added, tokens);
        device.linear_backward_input(shape, &dy, &packed, &mut dx, tokens);
        device.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
        device.linear_backward_bias(shape, &dy, &mut db, tokens);
        let what = format!("{shape:?}, {tokens} tokens");
        assert_bits(&format!("y of {what}"), &device.download(y_role, &y), &want[0]);
        assert_bits(
            &format!("residual and y of {what}"),
            &device.download(y_role, &added),
            &want[1],
        );
        assert_bits(&format!("dx of {what}"), &device.download(x_role, &dx), &want[2]);
        assert_bits(&format!("dw of {what}"), &device.download(gradient(shape), &dw), &want[3]);
        assert_bits(
            &format!("db of {what}"),
            &device.download(vector_gradient(outputs), &db),
            &want[4],
        );
    }
}

/// Below, at and above the width of a vector, a panel and a block of the reduction.
const SHAPES: [(usize, usize); 10] = [
    (1, 1),
    (7, 17),
    (17, 61),
    (16, 64),
    (64, 16),
    (65, 130),
    (130, 65),
    (61, 7),
    (1030, 70),
    (70, 1100),
];

fn shapes_and_tokens() -> impl Iterator<Item = (Linear, usize)> {
    let tokens = [1, 5, 6, 7, 13, 100, 1000];
    let all = SHAPES
        .into_iter()
        .flat_map(move |(inputs, outputs)| tokens.map(|t| (Linear { inputs, outputs }, t)));
    all.filter(|(shape, tokens)| shape.inputs * shape.outputs * tokens < 10_000_000)
}

/// How large a sum of so many products of noise gets.
fn walk(steps: usize) -> f64 {
    (steps as f64).sqrt()
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (trial.device(), trial.tolerance().linear);
    for (shape, tokens) in shapes_and_tokens() {
        let Linear { inputs, outputs } = shape;
        let (x_role, y_role) =
            (Role::Activation(tokens, inputs), Role::Activation(tokens, outputs));
        let (x, w, b) = (
            device.noise(x_role, 1),
            device.noise(weights(shape), 2),
            device.noise(vector(outputs), 3),
        );
        for bias in [true, false] {
            let mut y = device.blank(y_role);
            let device_bias = device.upload(vector(outputs), &b);
            let b = if bias { b.clone() } else { vec![0.0; outputs] };
            let (device_x, packed) = (device.upload(x_role, &x), device.upload(weights(shape), &w));
            device.linear(shape, &device_x, &packed, bias.then_some(&device_bias), &mut y, tokens);
            let y = device.download(y_role, &y);
            let want = reference::linear(&wide(&x), &wide(&w), &wide(&b), inputs);
            assert_close_to(
                &format!("{shape:?}, {tokens} tokens"),
                &y,
                &want,
                walk(inputs),
                tolerance,
            );
        }
    }
}

fn backward(trial: &Trial) {
    let (device, tolerance) = (trial.device(), trial.tolerance().linear);
    for (shape, tokens) in shapes_and_tokens() {
        let Linear { inputs, outputs } = shape;
        let (x_role, y_role) =
            (Role::Activation(tokens, inputs), Role::Activation(tokens, outputs));
        let (x, w, dy) =
            (device.noise(x_role, 1), device.noise(weights(shape), 2), device.noise(y_role, 3));
        let (dw_before, db_before) =
            (device.noise(gradient(shape), 4), device.noise(vector_gradient(outputs), 5));
        let (device_x, device_dy) = (device.upload(x_role, &x), device.upload(y_role, &dy));
        let mut dx = device.blank(x_role);
        let packed = device.upload(weights(shape), &w);
        device.linear_backward_input(shape, &device_dy, &packed, &mut dx, tokens);
        let mut dw = device.upload(gradient(shape), &dw_before);
        device.linear_backward_weight(shape, &device_dy, &device_x, &mut dw, tokens);
        let mut db = device.upload(vector_gradient(outputs), &db_before);
        device.linear_backward_bias(shape, &device_dy, &mut db, tokens);

        let (want_dx, mut want_dw, mut want_db) =
            reference::linear_backward(&wide(&x), &wide(&w), &wide(&dy), inputs);
        want_dw.iter_mut().zip(&dw_before).for_each(|(d, &b)| *d += f64::from(b));
        want_db.iter_mut().zip(&db_before).for_each(|(d, &b)| *d += f64::from(b));
        for (what, got, want, steps) in [
            ("dx", device.download(x_role, &dx), want_dx, outputs),
            ("dw", device.download(gradient(shape), &dw), want_dw, tokens),
            ("db", device.download(vector_gradient(outputs), &db), want_db, tokens),
        ] {
            let what = format!("{what} of {shape:?}, {tokens} tokens");
            assert_close_to(&what, &got, &want, walk(steps), tolerance);
        }
    }
}

fn no_tokens_change_nothing(trial: &Trial) {
    let device = trial.device();
    let shape = Linear { inputs: 9, outputs: 70 };
    let (x_role, y_role) = (Role::Activation(0, 9), Role::Activation(0, 70));
    let (w, b) = (device.noise(gradient(shape), 1), device.noise(vector_gradient(70), 2));
    let packed = device.upload(weights(shape), &w);
    let (x, dy) = (device.blank(x_role), device.blank(y_role));
    let (mut y, mut dx) = (device.blank(y_role), device.blank(x_role));
    let (mut dw, mut db) =
        (device.upload(gradient(shape), &w), device.upload(vector_gradient(70), &b));
    device.linear(shape, &x, &packed, None, &mut y, 0);
    device.linear_backward_input(shape, &dy, &packed, &mut dx, 0);
    device.linear_backward_weight(shape, &dy, &x, &mut dw, 0);
    device.linear_backward_bias(shape, &dy, &mut db, 0);
    device.download(y_role, &y);
    device.download(x_role, &dx);
    assert_bits("dw", &device.download(gradient(shape), &dw), &w);
    assert_bits("db", &device.download(vector_gradient(70), &db), &b);
}

fn without_inputs_outputs_are_the_bias(trial: &Trial) {
    let device = trial.device();
    let shape = Linear { inputs: 0, outputs: 21 };
    let b = device.noise(vector(21), 1);
    let (x, bias) = (device.blank(Role::Activation(3, 0)), device.upload(vector(21), &b));
    let mut y = device.blank(Role::Activation(3, 21));
    device.linear(shape, &x, &device.zeros(weights(shape)), Some(&bias), &mut y, 3);
    let want = device.seen(Role::Activation(3, 21), b.repeat(3));
    assert_bits("y", &device.download(Role::Activation(3, 21), &y), &want);
}

/// Rows may come in any pieces, and a piece comes back alone; nothing is written twice, and what
/// pads stays zero.
fn packing_is_undone_by_unpacking(trial: &Trial) {
    let device = trial.device();
    let sizes = (1usize..40, 1usize..200, 0usize..200);
    proptest!(trial.cases(60), |((inputs, outputs, cut) in sizes, seed in any::<u64>())| {
        let (shape, cut) = (Linear { inputs, outputs }, cut.min(outputs));
        let rows = noise(seed, inputs * outputs);
        let (head, tail) = rows.split_at(cut * inputs);
        let mut packed = device.zeros(gradient(shape));
        device.pack(Kind::Matrix(shape), cut, tail, &mut packed);
        device.pack(Kind::Matrix(shape), 0, head, &mut packed);
        assert_bits("whole", &device.download(gradient(shape), &packed), &rows);
        let mut piece = vec![f32::NAN; tail.len()];
        device.unpack(Kind::Matrix(shape), cut, &packed, &mut piece);
        assert_bits("piece", &piece, tail);
        let norm = rows.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        prop_assert!((device.norm_of(&[(Kind::Matrix(shape), &packed)]) - norm).abs() <= trial.tolerance().norm * norm);
    });
}
