//! Linear layers against the subject's own sums, and against the reference.

use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close_to, noise, wide};
use crate::device::{Device, Trial, gradient, vector, vector_gradient, weights};
use crate::properties;
use isentrope_kernels::{Buffer, Kind, Linear, Role};
use proptest::prelude::*;

properties!(
    layers_equal_their_scalar_sums,
    forward,
    backward,
    an_added_input_gradient_has_the_bits_of_both_operations,
    no_tokens_change_nothing,
    without_inputs_outputs_are_the_bias,
    packing_is_undone_by_unpacking
);

/// A linear layer's operands, and the values that its gradients are added to.
struct Layer<'a> {
    device: &'a Device<'a>,
    shape: Linear,
    tokens: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    b: Vec<f32>,
    dy: Vec<f32>,
    dw: Vec<f32>,
    db: Vec<f32>,
}

impl<'a> Layer<'a> {
    fn new(device: &'a Device<'a>, shape: Linear, tokens: usize) -> Self {
        let Linear { inputs, outputs } = shape;
        let [x, dy] = [(inputs, 1), (outputs, 4)]
            .map(|(features, seed)| device.noise(Role::Activation(tokens, features), seed));
        let (w, b) = (device.noise(weights(shape), 2), device.noise(vector(outputs), 3));
        let dw = device.noise(gradient(shape), 5);
        let db = device.noise(vector_gradient(outputs), 6);
        Self { device, shape, tokens, x, w, b, dy, dw, db }
    }

    fn x_role(&self) -> Role {
        Role::Activation(self.tokens, self.shape.inputs)
    }

    fn y_role(&self) -> Role {
        Role::Activation(self.tokens, self.shape.outputs)
    }

    fn weights(&self) -> Buffer {
        self.device.upload(weights(self.shape), &self.w)
    }

    /// The outputs, added to the residual if there is one.
    fn outputs(&self, has_bias: bool, residual: Option<&[f32]>) -> Vec<f32> {
        let (device, shape, tokens) = (self.device, self.shape, self.tokens);
        let (x, packed) = (device.upload(self.x_role(), &self.x), self.weights());
        let bias = has_bias.then(|| device.upload(vector(shape.outputs), &self.b));
        let y = match residual {
            None => {
                let mut y = device.blank(self.y_role());
                device.linear(shape, &x, &packed, bias.as_ref(), &mut y, tokens);
                y
            }
            Some(residual) => {
                let mut y = device.upload(self.y_role(), residual);
                device.linear_add(shape, &x, &packed, bias.as_ref(), &mut y, tokens);
                y
            }
        };
        device.download(self.y_role(), &y)
    }

    /// The gradients by inputs, weights and bias.
    fn gradients(&self) -> [Vec<f32>; 3] {
        let (device, shape, tokens) = (self.device, self.shape, self.tokens);
        let x = device.upload(self.x_role(), &self.x);
        let dy = device.upload(self.y_role(), &self.dy);
        let (of_w, of_b) = (gradient(shape), vector_gradient(shape.outputs));
        let mut dx = device.blank(self.x_role());
        let (mut dw, mut db) = (device.upload(of_w, &self.dw), device.upload(of_b, &self.db));
        device.linear_backward_input(shape, &dy, &self.weights(), &mut dx, tokens);
        device.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
        device.linear_backward_bias(shape, &dy, &mut db, tokens);
        [(self.x_role(), dx), (of_w, dw), (of_b, db)]
            .map(|(role, buffer)| device.download(role, &buffer))
    }
}

fn layers_equal_their_scalar_sums(trial: &Trial) {
    let (device, subject) = (&trial.device(), trial.subject());
    for (inputs, outputs, tokens) in [
        (1, 1, 1),
        (17, 61, 7),
        (600, 70, 13),
        (65, 700, 6),
        (9, 70, 300),
        (130, 65, 100),
        (130, 260, 130),
    ] {
        let layer = Layer::new(device, Linear { inputs, outputs }, tokens);
        let residual = device.noise(layer.y_role(), 7);
        let column = |x: &[f32], width: usize, i: usize| -> Vec<f32> {
            x.iter().skip(i).step_by(width).copied().collect()
        };
        let Layer { x, w, b, dy, dw, db, .. } = &layer;
        let mut want = [const { Vec::new() }; 5];
        for (t, (x, dy)) in x.chunks(inputs).zip(dy.chunks(outputs)).enumerate() {
            for (o, w) in w.chunks(inputs).enumerate() {
                want[0].push(subject.linear(x, w, Some(b[o]), None));
                want[1].push(subject.linear(x, w, Some(b[o]), Some(residual[t * outputs + o])));
            }
            for i in 0..inputs {
                want[2].push(subject.linear_backward_input(dy, &column(w, inputs, i)));
            }
        }
        let columns: Vec<Vec<f32>> = (0..inputs).map(|i| column(x, inputs, i)).collect();
        for o in 0..outputs {
            let dy = column(dy, outputs, o);
            for (i, x) in columns.iter().enumerate() {
                want[3].push(subject.linear_backward_weight(dw[o * inputs + i], &dy, x));
            }
            want[4].push(subject.linear_backward_bias(db[o], &dy));
        }
        let [dx, dw, db] = layer.gradients();
        let got = [layer.outputs(true, None), layer.outputs(true, Some(&residual)), dx, dw, db];
        let names = ["y", "residual and y", "dx", "dw", "db"];
        for (name, (got, want)) in names.iter().zip(got.iter().zip(&want)) {
            assert_bits(&format!("{name} of {:?}, {tokens} tokens", layer.shape), got, want);
        }
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

/// The typical size of a sum of `steps` products of noise.
fn walk(steps: usize) -> f64 {
    (steps as f64).sqrt()
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().linear);
    for (shape, tokens) in shapes_and_tokens() {
        let layer = Layer::new(device, shape, tokens);
        for has_bias in [true, false] {
            let b = if has_bias { wide(&layer.b) } else { vec![0.0; shape.outputs] };
            let want = reference::linear(&wide(&layer.x), &wide(&layer.w), &b, shape.inputs);
            let what = format!("{shape:?}, {tokens} tokens");
            let got = layer.outputs(has_bias, None);
            assert_close_to(&what, &got, &want, walk(shape.inputs), tolerance);
        }
    }
}

fn backward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().linear);
    for (shape, tokens) in shapes_and_tokens() {
        let layer = Layer::new(device, shape, tokens);
        let Layer { x, w, dy, dw, db, .. } = &layer;
        let (want_dx, mut want_dw, mut want_db) =
            reference::linear_backward(&wide(x), &wide(w), &wide(dy), shape.inputs);
        want_dw.iter_mut().zip(dw).for_each(|(d, &b)| *d += f64::from(b));
        want_db.iter_mut().zip(db).for_each(|(d, &b)| *d += f64::from(b));
        let [dx, dw, db] = layer.gradients();
        for (what, got, want, steps) in [
            ("dx", dx, want_dx, shape.outputs),
            ("dw", dw, want_dw, tokens),
            ("db", db, want_db, tokens),
        ] {
            let what = format!("{what} of {shape:?}, {tokens} tokens");
            assert_close_to(&what, &got, &want, walk(steps), tolerance);
        }
    }
}

fn an_added_input_gradient_has_the_bits_of_both_operations(trial: &Trial) {
    let device = &trial.device();
    for (shape, tokens) in shapes_and_tokens() {
        let layer = Layer::new(device, shape, tokens);
        let role = layer.x_role();
        let dy = device.upload(layer.y_role(), &layer.dy);
        let (weights, mut product) = (layer.weights(), device.blank(role));
        let [mut added, mut want] = [(); 2].map(|()| device.upload(role, &layer.x));
        device.linear_backward_input_add(shape, &dy, &weights, &mut added, tokens);
        device.linear_backward_input(shape, &dy, &weights, &mut product, tokens);
        device.add_rows(&product, &mut want, tokens);
        let [added, want] = [added, want].map(|buffer| device.download(role, &buffer));
        assert_bits(&format!("dx of {shape:?}, {tokens} tokens"), &added, &want);
    }
}

fn no_tokens_change_nothing(trial: &Trial) {
    let device = &trial.device();
    let layer = Layer::new(device, Linear { inputs: 9, outputs: 70 }, 0);
    layer.outputs(false, None);
    let [_, dw, db] = layer.gradients();
    assert_bits("dw", &dw, &layer.dw);
    assert_bits("db", &db, &layer.db);
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

/// Rows may be packed in any pieces, and unpacked one piece at a time. No row is written twice, and
/// padding stays zero.
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
        let got = device.norm_of(&[(Kind::Matrix(shape), &packed)]);
        prop_assert!((got - norm).abs() <= trial.tolerance().norm * norm);
    });
}
