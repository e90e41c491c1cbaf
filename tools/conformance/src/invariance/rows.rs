//! Every operation that works row by row: rows alone, together and in micro-batches.

use crate::data::{assert_bits, indices, masks, noise, pieces};
use crate::device::{Device, Trial, assert_variants_agree, gradient, vector_gradient};
use crate::properties;
use isentrope_kernels::{
    Adjustments, Buffer, Draw, Gate, Grouped, HeadScores, Kind, Linear, RmsNorm, Role, TeacherRows,
    Turn,
};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

properties!(
    variants,
    a_row_alone_and_in_a_batch,
    micro_batches,
    frozen_weights_give_the_bits_of_trained_ones
);

/// The sizes of one call of everything but attention.
const SHAPE: Linear = Linear { inputs: 70, outputs: 205 };
const NORM: Grouped = Grouped { stride: 70, offset: 2, groups: 2, features: 33 };
const ROTATED: Grouped = Grouped { stride: 70, offset: 4, groups: 3, features: 22 };

/// Results of the rows `range` of a batch. Outputs have a row per row of the batch. Sums were added
/// to noise, or to the sums of the rows before. They have not been read: a backend may hold back
/// the last rows of a gradient until it is read.
struct Results {
    outputs: Vec<(&'static str, usize, Vec<f32>)>,
    sums: Vec<(&'static str, Role, Buffer)>,
}

impl Results {
    fn sums(&self, device: &Device<'_>) -> Vec<(&'static str, Vec<f32>)> {
        self.sums.iter().map(|(name, role, sum)| (*name, device.download(*role, sum))).collect()
    }
}

const RMS: RmsNorm = RmsNorm { eps: 1e-6, shift: 1.0 };

/// Every operation that works row by row, on the rows `range` of a batch of `rows`. Sums continue
/// from `before`.
fn operate(
    device: &Device<'_>,
    rows: usize,
    range: Range<usize>,
    before: Option<Results>,
) -> Results {
    operate_with(Role::Weight, device, rows, range, before)
}

/// As [`operate`], with weights of this role.
fn operate_with(
    weights: fn(Kind) -> Role,
    device: &Device<'_>,
    rows: usize,
    range: Range<usize>,
    before: Option<Results>,
) -> Results {
    let shape = SHAPE;
    let Linear { inputs, outputs } = shape;
    let n = range.len();
    let some = |width| Role::Activation(n, width);
    let part = |seed: u64, width: usize| {
        let whole = device.noise(Role::Activation(rows, width), seed);
        device.upload(some(width), &whole[range.start * width..range.end * width])
    };
    let host = |seed: u64| noise(seed, rows)[range.clone()].to_vec();
    let mut before = before.map(|before| before.sums.into_iter());
    let mut sum = |i: u64, role| match before.as_mut().and_then(Iterator::next) {
        Some((_, _, before)) => before,
        None => device.upload_noise(role, 100 + i),
    };
    let (x, dy) = (part(1, inputs), part(2, outputs));
    let packed = device.upload_noise(weights(Kind::Matrix(shape)), 3);

    let (mut y, mut dx) = (device.blank(some(outputs)), device.blank(some(inputs)));
    let bias = device.upload_noise(weights(Kind::Vector(outputs)), 4);
    device.linear(shape, &x, &packed, Some(&bias), &mut y, n);
    device.linear_backward_input(shape, &dy, &packed, &mut dx, n);
    let mut dx_added = part(21, inputs);
    device.linear_backward_input_add(shape, &dy, &packed, &mut dx_added, n);
    let (dw_role, db_role) = (gradient(shape), vector_gradient(outputs));
    let mut dw = sum(0, dw_role);
    device.linear_backward_weight(shape, &dy, &x, &mut dw, n);
    let mut db = sum(1, db_role);
    device.linear_backward_bias(shape, &dy, &mut db, n);

    let norm_weight = device.upload_noise(weights(Kind::Vector(NORM.features)), 5);
    let (mut normed, mut d_norm, d_normed) = (part(6, inputs), part(7, inputs), part(8, inputs));
    device.rms_norm(NORM, RMS, &x, &norm_weight, &mut normed, n);
    let d_weight_role = vector_gradient(NORM.features);
    let mut d_weight = sum(2, d_weight_role);
    let (dy_norm, d_weight_of) = (Some(&d_normed), Some(&mut d_weight));
    device.rms_norm_backward(NORM, RMS, &x, &norm_weight, dy_norm, &mut d_norm, d_weight_of, n);

    let at = device.positions(&indices(9, rows, 50)[range.clone()]);
    let angles = |seed| device.upload_noise(Role::Exact(50, ROTATED.features / 2), seed);
    let mut turned = part(10, inputs);
    device.rope(ROTATED, &mut turned, &angles(11), &angles(12), &at, Turn::Forward);

    let mut gated = device.blank(some(inputs / 2));
    device.glu(Gate::GeluTanh, inputs / 2, &x, &mut gated, n);
    let (mut d_gated, mut gate_up) = (part(13, inputs / 2), part(1, inputs));
    device.glu_backward(Gate::GeluTanh, inputs / 2, &mut d_gated, &mut gate_up, n);

    let (mut scaled, mut added) = (part(1, inputs), part(19, inputs));
    device.scale_rows(&device.upload_noise(Role::Exact(1, inputs), 20), &mut scaled, n);
    device.add_rows(&x, &mut added, n);

    let words = &indices(14, rows, outputs)[range.clone()];
    let mut embedded = device.blank(some(inputs));
    device.embed(shape, &packed, &device.tokens(words), &mut embedded);
    let embedding_role = Role::Exact(outputs, inputs);
    let mut embedding_rows = sum(3, embedding_role);
    device.embed_backward(&device.upload_index(words), &x, &mut embedding_rows);

    let (index, masks) = (|| device.upload_index(words), Arc::new(masks(words, outputs)));
    let slopes = device.entropy_slopes(shape, &x, &packed, index(), masks.clone(), 0.7).slopes;
    let mut statistics = device.head(shape, &x, &packed, index(), masks.clone(), 0.7, None);
    let HeadScores { logprobs, entropies, mut log_masses } = device.scores(&mut statistics);
    log_masses.resize(n, 0.0); // none where no row of these has a mask
    let mut d_hidden = device.blank(some(inputs));
    let mut d_head = sum(4, dw_role);
    let (a, b, c) = (&host(15), &host(16), &host(18));
    let d_head_of = Some(&mut d_head);
    device.head_backward(shape, &x, &packed, &statistics, a, b, c, None, &mut d_hidden, d_head_of);
    // The weights' gradient changes nothing about that of hidden states.
    let d_hidden = device.download(some(inputs), &d_hidden);
    let mut alone = device.blank(some(inputs));
    device.head_backward(shape, &x, &packed, &statistics, a, b, c, None, &mut alone, None);
    assert_bits("head_backward without dw", &device.download(some(inputs), &alone), &d_hidden);
    let its_head = device.upload_noise(weights(Kind::Matrix(shape)), 22);
    let hidden = part(21, inputs);
    let teacher = TeacherRows { hidden: &hidden, weights: &its_head, shape };
    let statistics = device.head(shape, &x, &packed, index(), masks, 0.7, Some(teacher));
    let divergences = device.divergences(&statistics);
    let (mut d_taught, taught) = (device.blank(some(inputs)), Some((teacher, &host(23)[..])));
    device.head_backward(shape, &x, &packed, &statistics, a, b, c, taught, &mut d_taught, None);
    let uniforms = host(17);
    let draw = |row: usize| Draw {
        row,
        adjustments: Adjustments { top_p: 0.9, ..Adjustments::temperature(0.7) },
        penalised: Vec::new(),
        records_kept: true,
        uniform: f64::from(uniforms[row] / 3.0 + 0.5),
    };
    let drawn = device.draw(shape, &x, &packed, &(0..n).map(draw).collect::<Vec<_>>());
    let drawn = drawn.into_iter().map(Option::unwrap);
    let drawn = drawn.flat_map(|d| {
        let log_mass = d.mask.map_or(0.0, |kept| kept.log_mass);
        [d.token as f32, d.logprob, d.sampling_logprob.unwrap(), d.entropy, log_mass]
    });

    let get = |buffer, width: usize| device.download(some(width), buffer);
    Results {
        outputs: vec![
            ("linear", outputs, get(&y, outputs)),
            ("linear_backward_input", inputs, get(&dx, inputs)),
            ("linear_backward_input_add", inputs, get(&dx_added, inputs)),
            ("rms_norm", inputs, get(&normed, inputs)),
            ("rms_norm_backward", inputs, get(&d_norm, inputs)),
            ("rope", inputs, get(&turned, inputs)),
            ("glu", inputs / 2, get(&gated, inputs / 2)),
            ("glu_backward", inputs, get(&gate_up, inputs)),
            ("glu_backward's y", inputs / 2, get(&d_gated, inputs / 2)),
            ("divergences", 1, divergences),
            ("head_backward with a teacher", inputs, get(&d_taught, inputs)),
            ("scale_rows", inputs, get(&scaled, inputs)),
            ("add_rows", inputs, get(&added, inputs)),
            ("embed", inputs, get(&embedded, inputs)),
            ("log-prob", 1, logprobs),
            ("entropy", 1, entropies),
            ("log-mass", 1, log_masses),
            ("entropy's slope", 1, slopes),
            ("draw", 5, drawn.collect()),
            ("head_backward", inputs, d_hidden),
        ],
        sums: vec![
            ("linear_backward_weight", dw_role, dw),
            ("linear_backward_bias", db_role, db),
            ("rms_norm_backward's dw", d_weight_role, d_weight),
            ("embed_backward", embedding_role, embedding_rows),
            ("head_backward's dw", dw_role, d_head),
        ],
    }
}

/// Checks that `part`, computed from the rows `range` only, has the bits of those rows of `whole`.
fn assert_rows(whole: &Results, part: &Results, range: Range<usize>) {
    for ((name, width, want), (_, _, got)) in whole.outputs.iter().zip(&part.outputs) {
        assert_bits(
            &format!("{name}, rows {range:?}"),
            got,
            &want[range.start * width..range.end * width],
        );
    }
}

fn variants(trial: &Trial) {
    // Enough rows for every operation to be cut into several tasks.
    let rows = 900;
    assert_variants_agree(trial, |device| {
        let results = operate(device, rows, 0..rows, None);
        let sums = results.sums(device);
        results.outputs.into_iter().map(|(name, _, values)| (name, values)).chain(sums).collect()
    });
}

fn a_row_alone_and_in_a_batch(trial: &Trial) {
    let (device, rows) = (&trial.device(), 100);
    let whole = operate(device, rows, 0..rows, None);
    for row in (0..rows).step_by(3).chain([rows - 1]) {
        assert_rows(&whole, &operate(device, rows, row..row + 1, None), row..row + 1);
    }
}

fn frozen_weights_give_the_bits_of_trained_ones(trial: &Trial) {
    for device in trial.devices() {
        for rows in [1, 70] {
            let of = |role| operate_with(role, &device, rows, 0..rows, None);
            let (trained, frozen) = (of(Role::Weight), of(Role::Frozen));
            assert_rows(&trained, &frozen, 0..rows);
            for ((name, want), (_, got)) in trained.sums(&device).iter().zip(frozen.sums(&device)) {
                assert_bits(&format!("{name}, on {}", device.name()), &got, want);
            }
        }
    }
}

/// Cutting a batch into micro-batches changes neither outputs nor sums.
fn micro_batches(trial: &Trial) {
    let device = &trial.device();
    assert_pieces(device, 1, &[]);
    let cuts = prop::collection::vec(0usize..300, 0..7);
    proptest!(trial.cases(25), |(cuts in cuts, rows in 1usize..300)| {
        assert_pieces(device, rows, &cuts);
    });
}

fn assert_pieces(device: &Device<'_>, rows: usize, cuts: &[usize]) {
    let whole = operate(device, rows, 0..rows, None);
    let mut sums: Option<Results> = None;
    for range in pieces(rows, cuts) {
        let part = operate(device, rows, range.clone(), sums);
        assert_rows(&whole, &part, range);
        sums = Some(part);
    }
    for ((name, want), (_, got)) in whole.sums(device).iter().zip(sums.unwrap().sums(device)) {
        assert_bits(&format!("{name}, in micro-batches"), &got, want);
    }
}
