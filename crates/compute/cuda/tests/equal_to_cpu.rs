//! With f32 the backend computes the CPU's bits, in the CPU's order: every operation, and whole
//! models forward and backward.

use crate::support::{ADAMW, Results, Trial, assert_equal, bits, cpu, load, noise, seeded};
use isentrope_conformance::adapted;
use isentrope_cuda::Dtype;
use isentrope_kernels::{
    Adjustments, Attention, Backend, Buffer, DeltaRule, DeltaWeights, Draw, Gate, Grouped,
    HeadNorms, HeadScores, HostBatch, Kind, Linear, RmsNorm, Role, Router, Run, SamplingMasks,
    TeacherRows, Turn, UpdateSlice,
};
use isentrope_model::{Derivatives, Gradient, Model, Packed, Sequence, TapeKind};
use std::sync::Arc;

fn indices(seed: u64, len: usize, bound: usize) -> Vec<u32> {
    noise(seed, len)
        .iter()
        .map(|x| ((x + 1.5) / 3.0 * bound as f32) as u32 % bound as u32)
        .collect()
}

/// A linear layer in its directions.
pub fn linear(t: &mut Trial<'_>, shape: Linear, rows: usize) {
    let (backend, Linear { inputs, outputs }) = (t.backend, shape);
    let (matrix, vector) = (Kind::Matrix(shape), Kind::Vector(outputs));
    let (x, dy) = (t.rows(1, rows, inputs), t.rows(2, rows, outputs));
    let weights = t.parameter(Role::Weight, matrix, 3);
    let bias = t.parameter(Role::Weight, vector, 4);
    t.push_numbers("weights", matrix, &weights);
    for bias in [None, Some(&bias)] {
        let (mut y, mut sum) = (t.rows(5, rows, outputs), t.rows(5, rows, outputs));
        backend.linear(shape, &x, &weights, bias, &mut y, rows);
        backend.linear_add(shape, &x, &weights, bias, &mut sum, rows);
        t.push_rows("linear", &y, rows, outputs);
        t.push_rows("linear_add", &sum, rows, outputs);
    }
    if outputs % 2 == 0 {
        for by in [Gate::Silu, Gate::GeluTanh] {
            let (mut gate_up, mut y) = (t.rows(5, rows, outputs), t.rows(6, rows, outputs / 2));
            let kept = Some(&mut gate_up);
            backend.linear_glu(shape, by, &x, &weights, Some(&bias), kept, &mut y, rows);
            t.push_rows("linear_glu", &y, rows, outputs / 2);
            t.push_rows("linear_glu's halves", &gate_up, rows, outputs);
            backend.linear_glu(shape, by, &x, &weights, None, None, &mut y, rows);
            t.push_rows("linear_glu, nothing kept", &y, rows, outputs / 2);
        }
    }
    let mut dx = t.rows(6, rows, inputs);
    backend.linear_backward_input(shape, &dy, &weights, &mut dx, rows);
    t.push_rows("linear_backward_input", &dx, rows, inputs);
    let mut dw = t.parameter(Role::Gradient, matrix, 7);
    backend.linear_backward_weight(shape, &dy, &x, &mut dw, rows);
    t.push_numbers("linear_backward_weight", matrix, &dw);
    bias_gradient(t, outputs, rows);
}

/// The gradient of a bias.
pub fn bias_gradient(t: &mut Trial<'_>, outputs: usize, rows: usize) {
    let (dy, vector) = (t.rows(2, rows, outputs), Kind::Vector(outputs));
    let mut db = t.parameter(Role::Gradient, vector, 8);
    t.backend.linear_backward_bias(Linear { inputs: 1, outputs }, &dy, &mut db, rows);
    t.push_numbers("linear_backward_bias", vector, &db);
}

/// Embeddings, and copies and sums of rows.
pub fn selection(t: &mut Trial<'_>, shape: Linear, rows: usize) {
    let (backend, Linear { inputs, outputs }) = (t.backend, shape);
    let matrix = Kind::Matrix(shape);
    let (x, weights) = (t.rows(1, rows, inputs), t.parameter(Role::Weight, matrix, 3));
    let tokens = indices(9, rows, outputs);
    let mut y = t.rows(10, rows, inputs);
    let batch = backend.upload_batch(&HostBatch { tokens: tokens.clone(), ..HostBatch::default() });
    backend.embed(shape, &weights, &batch, &mut y);
    t.push_rows("embed", &y, rows, inputs);
    let mut sums = t.exact(11, outputs, inputs);
    backend.embed_backward(&backend.upload_index(&tokens), &x, &mut sums);
    t.push_rows("embed_backward", &sums, outputs, inputs);
    let all: Vec<u32> = (0..outputs as u32).rev().collect();
    let mut dw = t.parameter(Role::Gradient, matrix, 7);
    backend.add_embedding_rows(shape, &sums, &backend.upload_index(&all), &mut dw);
    t.push_numbers("add_embedding_rows", matrix, &dw);

    let kept: Vec<u32> = (0..rows as u32).filter(|row| row % 3 != 1).collect();
    let index = backend.upload_index(&kept);
    let mut copied = t.rows(12, kept.len(), inputs);
    backend.copy_rows(&x, &index, &mut copied);
    t.push_rows("copy_rows", &copied, kept.len(), inputs);
    let to: Vec<u32> = kept.iter().map(|row| row / 2).collect();
    let mut scattered = t.rows(13, rows, inputs);
    backend.scatter_rows(&copied, &backend.upload_index(&to), &mut scattered, rows);
    t.push_rows("scatter_rows", &scattered, rows, inputs);
    backend.store_rows(&x, &index, &mut scattered, &backend.upload_index(&to));
    t.push_rows("store_rows", &scattered, rows, inputs);
    backend.add(&x, &mut scattered);
    t.push_rows("add", &scattered, rows, inputs);
    backend.add_rows(&x, &mut scattered, rows / 2);
    t.push_rows("add_rows", &scattered, rows, inputs);
    backend.scale_rows(&t.exact(32, 1, inputs), &mut scattered, rows);
    t.push_rows("scale_rows", &scattered, rows, inputs);
    backend.multiply(&t.parameter(Role::Gradient, matrix, 33), &mut dw);
    t.push_numbers("multiply", matrix, &dw);
    let mut copy = t.rows(14, rows, inputs);
    backend.copy_first_rows(&x, &mut copy, rows / 2);
    t.push_rows("copy", &copy, rows, inputs);
}

/// RMSNorm of groups with other numbers around them, and its gradients.
pub fn norms(t: &mut Trial<'_>, layout: Grouped, rows: usize) {
    let (backend, width) = (t.backend, layout.stride);
    let of_group = Kind::Vector(layout.features);
    let (x, weight) = (t.rows(1, rows, width), t.parameter(Role::Weight, of_group, 15));
    for norm in [RmsNorm::plain(1e-5), RmsNorm { eps: 1e-5, shift: 1.0 }] {
        let mut normed = t.rows(16, rows, width);
        backend.rms_norm(layout, norm, &x, &weight, &mut normed, rows);
        t.push_rows("rms_norm", &normed, rows, width);
    }
    for (adds, shift) in [(false, 0.0), (true, 1.0)] {
        let norm = RmsNorm { eps: 1e-5, shift };
        let (d, mut dx) = (t.rows(17, rows, width), t.rows(18, rows, width));
        let mut dw = t.parameter(Role::Gradient, of_group, 19);
        let d = adds.then_some(&d);
        backend.rms_norm_backward(layout, norm, &x, &weight, d, &mut dx, Some(&mut dw), rows);
        t.push_rows("rms_norm_backward", &dx, rows, width);
        t.push_numbers("rms_norm_backward's dw", of_group, &dw);
        let mut dx = t.rows(18, rows, width);
        backend.rms_norm_backward(layout, norm, &x, &weight, d, &mut dx, None, rows);
        t.push_rows("rms_norm_backward without dw", &dx, rows, width);
    }
}

/// Rotary embedding at positions without order.
pub fn rope(t: &mut Trial<'_>, layout: Grouped, rows: usize) {
    let half = layout.features / 2;
    let (cos, sin) = (t.exact(20, 50, half), t.exact(21, 50, half));
    let run = |(row, position): (usize, u32)| {
        let position = position as usize;
        Run { row, len: 1, position, pages: 0..0 }
    };
    let runs = indices(22, rows, 50).into_iter().enumerate().map(run).collect();
    let host = HostBatch { tokens: vec![0; rows], runs, ..HostBatch::default() };
    let (batch, mut x) = (t.backend.upload_batch(&host), t.rows(16, rows, layout.stride));
    for turn in [Turn::Forward, Turn::Backward] {
        t.backend.rope(layout, &mut x, &cos, &sin, &batch, turn);
        t.push_rows("rope", &x, rows, layout.stride);
    }
}

pub fn glu(t: &mut Trial<'_>, features: usize, rows: usize) {
    for by in [Gate::Silu, Gate::GeluTanh] {
        let (mut y, mut d) = (t.rows(23, rows, features), t.rows(24, rows, features));
        let mut gate_up = t.rows(1, rows, 2 * features);
        t.backend.glu(by, features, &gate_up, &mut y, rows);
        t.push_rows("glu", &y, rows, features);
        t.backend.glu_backward(by, features, &mut d, &mut gate_up, rows);
        t.push_rows("glu_backward's y", &d, rows, features);
        t.push_rows("glu_backward", &gate_up, rows, 2 * features);
    }
}

/// Scores, slopes of entropies and gradients, with masks.
pub fn head(t: &mut Trial<'_>, shape: Linear, rows: usize) {
    let (backend, Linear { inputs, outputs }) = (t.backend, shape);
    let matrix = Kind::Matrix(shape);
    let (x, weights) = (t.rows(1, rows, inputs), t.parameter(Role::Weight, matrix, 3));
    let tokens = indices(9, rows, outputs);
    let mut masks = SamplingMasks::default();
    for (row, &token) in tokens.iter().enumerate() {
        let kept = |&other: &u32| {
            row % 3 != 0 && (other == token || (other * 7 + row as u32).is_multiple_of(5))
        };
        masks.push(&(0..outputs as u32).filter(kept).collect::<Vec<_>>());
    }
    let targets = || backend.upload_index(&tokens);
    let masks = Arc::new(masks);
    let slopes = backend.entropy_slopes(shape, &x, &weights, targets(), masks.clone(), 0.7).slopes;
    t.push("entropy_slopes", &slopes);
    let mut statistics = backend.head(shape, &x, &weights, targets(), masks.clone(), 0.7, None);
    let HeadScores { logprobs, entropies, log_masses } = backend.scores(&mut statistics);
    t.push("log-probs", &logprobs);
    t.push("entropies", &entropies);
    t.push("log-masses", &log_masses);
    let [a, b, c] = [25, 26, 27].map(|seed| noise(seed, rows));
    let mut d_hidden = t.rows(28, rows, inputs);
    let mut dw = t.parameter(Role::Gradient, matrix, 7);
    let (hidden, d_weights) = (&mut d_hidden, Some(&mut dw));
    backend.head_backward(shape, &x, &weights, &statistics, &a, &b, &c, None, hidden, d_weights);
    t.push_rows("head_backward", &d_hidden, rows, inputs);
    t.push_numbers("head_backward's dw", matrix, &dw);
    let mut alone = t.rows(28, rows, inputs);
    backend.head_backward(shape, &x, &weights, &statistics, &a, &b, &c, None, &mut alone, None);
    t.push_rows("head_backward without dw", &alone, rows, inputs);
    // A teacher of another width, with more tokens.
    let its = Linear { inputs: inputs + 3, outputs: outputs + 5 };
    let hidden = t.rows(29, rows, its.inputs);
    let its_head = t.parameter(Role::Weight, Kind::Matrix(its), 30);
    let teacher = TeacherRows { hidden: &hidden, weights: &its_head, shape: its };
    let statistics = backend.head(shape, &x, &weights, targets(), masks, 0.7, Some(teacher));
    t.push("divergences", &backend.divergences(&statistics));
    let (e, mut d_taught) = (noise(31, rows), t.rows(28, rows, inputs));
    let mut dw = t.parameter(Role::Gradient, matrix, 7);
    let (taught, d_weights) = (Some((teacher, &e[..])), Some(&mut dw));
    let d_hidden = &mut d_taught;
    backend.head_backward(
        shape,
        &x,
        &weights,
        &statistics,
        &a,
        &b,
        &c,
        taught,
        d_hidden,
        d_weights,
    );
    t.push_rows("head_backward with a teacher", &d_taught, rows, inputs);
    t.push_numbers("head_backward's dw with a teacher", matrix, &dw);
}

/// Draws of every kind.
pub fn draws(t: &mut Trial<'_>, shape: Linear, rows: usize) {
    let x = t.rows(1, rows, shape.inputs);
    let weights = t.parameter(Role::Weight, Kind::Matrix(shape), 3);
    let kinds = [
        Adjustments::temperature(1.0),
        Adjustments::temperature(0.7),
        Adjustments::temperature(0.0),
        Adjustments { top_p: 0.8, ..Adjustments::temperature(1.0) },
        Adjustments { top_k: 3, ..Adjustments::temperature(1.3) },
        Adjustments { repetition_penalty: 1.3, ..Adjustments::temperature(1.0) },
        Adjustments { repetition_penalty: 1.3, ..Adjustments::temperature(0.0) },
    ];
    let draw = |(i, x): (usize, f32)| Draw {
        row: i * 5 % rows,
        adjustments: kinds[i % kinds.len()],
        penalised: vec![0, shape.outputs as u32 - 1],
        records_kept: true,
        uniform: f64::from(x) / 3.0 + 0.5,
    };
    let all: Vec<Draw> = noise(29, rows * kinds.len()).into_iter().enumerate().map(draw).collect();
    for drawn in t.backend.draw(shape, &x, &weights, &all) {
        // None, for logits that are not finite, is written as no token.
        let values = drawn.map_or([-1.0; 5], |drawn| {
            let log_mass = drawn.mask.map_or(0.0, |mask| mask.log_mass);
            let sampling = drawn.sampling_logprob.unwrap_or(0.0);
            [drawn.token as f32, drawn.logprob, sampling, drawn.entropy, log_mass]
        });
        t.push("draw", &values);
    }
}

/// Sums of squares, and one update of several tensors: some of several blocks, one of a part of a
/// block, one a matrix.
pub fn optimizer(t: &mut Trial<'_>, shape: Linear) {
    let backend = t.backend;
    let kinds = [Kind::Vector(5000), Kind::Vector(33), Kind::Matrix(shape)];
    let moment = |kind: Kind, seed: u64| {
        let elements = backend.element_count(kind);
        let mut moment = backend.allocate(Role::Moment(elements)).unwrap();
        let values: Vec<f32> = noise(seed, elements).into_iter().map(f32::abs).collect();
        backend.write_elements(&mut moment, 0, &values);
        moment
    };
    let mut tensors = kinds.map(|kind| {
        let weights = t.parameter(Role::Weight, kind, 3);
        (weights, t.parameter(Role::Gradient, kind, 7), moment(kind, 30), moment(kind, 31))
    });
    let all = |kind| 0..backend.element_count(kind);
    let parts: Vec<_> =
        tensors.iter().zip(kinds).map(|((_, gradient, ..), kind)| (gradient, all(kind))).collect();
    let sums = backend.square_sums(&parts);
    t.push("square_sums", &sums);
    let mut updated: Vec<_> = tensors
        .iter_mut()
        .zip(kinds)
        .map(|((weights, gradient, first, second), kind)| UpdateSlice {
            weights,
            elements: all(kind),
            gradient: (gradient, 0),
            first,
            second,
        })
        .collect();
    backend.adamw(ADAMW, &mut updated);
    for ((weights, _, first, second), kind) in tensors.iter().zip(kinds) {
        t.push_numbers("adamw", kind, weights);
        t.push_numbers("first moment", kind, first);
        t.push_numbers("second moment", kind, second);
    }
    let mut copy = moment(kinds[0], 32);
    backend.copy_elements(&tensors[0].1, 7..4000, &mut copy, 1000);
    t.push_numbers("copied elements", kinds[0], &copy);
}

/// Every operation on rows but attention.
fn on_rows(backend: &dyn Backend, shape: Linear, rows: usize) -> Results {
    let mut t = Trial::new(backend);
    let stride = shape.inputs;
    linear(&mut t, shape, rows);
    selection(&mut t, shape, rows);
    if stride >= 8 {
        let features = (stride - 2) / 4 * 2;
        let layout = Grouped { stride, offset: 1, groups: 2, features };
        norms(&mut t, layout, rows);
        rope(&mut t, layout, rows);
    }
    if stride.is_multiple_of(2) {
        glu(&mut t, stride / 2, rows);
    }
    head(&mut t, shape, rows);
    draws(&mut t, shape, rows);
    optimizer(&mut t, shape);
    t.results
}

#[test]
fn operations_on_rows() {
    let (cpu, cuda) = (cpu(), seeded(Dtype::F32, 1));
    for (inputs, outputs, rows) in [
        (1, 1, 1),
        (2, 17, 5),
        (17, 61, 7),
        (70, 205, 40),
        (520, 130, 3),
        (64, 64, 97),
        (12, 1100, 9),
    ] {
        let shape = Linear { inputs, outputs };
        let what = format!("{shape:?}, {rows} rows");
        assert_equal(&what, &on_rows(&cuda, shape, rows), &on_rows(&cpu, shape, rows));
    }
}

/// Blocks of rows on the way forward, and of the vocabulary on the way back.
#[test]
fn heads_in_blocks() {
    let shape = Linear { inputs: 12, outputs: 1100 };
    // Two rows at a time; of nine rows two panels.
    let (cpu, cuda) = (cpu(), seeded(Dtype::F32, 1).with_logits_in_blocks_of(2 * shape.outputs));
    let on = |backend| {
        let mut t = Trial::new(backend);
        head(&mut t, shape, 9);
        draws(&mut t, shape, 9);
        t.results
    };
    assert_equal("blocks of logits", &on(&cuda), &on(&cpu));
}

/// Sequences in the cache and their gradients; some sequences share a beginning.
pub fn sequences(t: &mut Trial<'_>, shape: Attention, lens: &[usize]) {
    let backend = t.backend;
    let (row, width) = (shape.row(), shape.heads * shape.head_dim);
    let total: usize = lens.iter().sum();
    let mut qkv = t.rows(1, total, row);
    let mut batch = HostBatch { tokens: vec![0; total], ..HostBatch::default() };
    let (mut at, mut page) = (0, 1);
    for &len in lens {
        let pages = len.div_ceil(backend.page_positions());
        let first = batch.pages.len();
        batch.pages.extend((page..page + pages as u32).rev());
        batch.runs.push(Run { row: at, len, position: 0, pages: first..first + pages });
        (at, page) = (at + len, page + pages as u32);
    }
    let pages = page as usize;
    let mut cache = backend.allocate(Role::Cache { shape, layers: 2, pages: 2 * pages }).unwrap();
    let uploaded = backend.upload_batch(&batch);
    let mut out = t.rows(2, total, width);
    backend.store_kv(shape, &qkv, &uploaded, &mut cache, 1);
    backend.attention(shape, &qkv, &uploaded, &cache, 1, &mut out);
    t.push_rows("attention", &out, total, width);
    let copies: Vec<(u32, u32)> = (0..page).map(|from| (from, from + page)).collect();
    backend.copy_pages(shape, &mut cache, &copies);
    batch.pages.iter_mut().for_each(|of| *of += page);
    backend.attention(shape, &qkv, &backend.upload_batch(&batch), &cache, 1, &mut out);
    t.push_rows("attention over copies", &out, total, width);

    if shape.head_dim.is_multiple_of(2) {
        let (cos, sin) = (t.exact(5, 200, shape.head_dim / 2), t.exact(6, 200, shape.head_dim / 2));
        let (of_head, raw) = (Kind::Vector(shape.head_dim), qkv);
        let (queries, keys) =
            (t.parameter(Role::Weight, of_head, 7), t.parameter(Role::Weight, of_head, 8));
        let norm = RmsNorm { eps: 1e-5, shift: 1.0 };
        let norms = HeadNorms { raw: &raw, rows: total, queries: &queries, keys: &keys, norm };
        qkv = t.rows(9, total, row);
        backend.prepare_qkv(shape, Some(norms), (&cos, &sin), &mut qkv, &uploaded, &mut cache, 1);
        t.push_rows("queries, keys and values, normed", &qkv, total, row);
        backend.prepare_qkv(shape, None, (&cos, &sin), &mut qkv, &uploaded, &mut cache, 1);
        t.push_rows("queries, keys and values", &qkv, total, row);
        backend.attention(shape, &qkv, &uploaded, &cache, 1, &mut out);
        t.push_rows("attention over those", &out, total, width);
    }

    let d_out = t.rows(3, total, width);
    for shared in [false, true] {
        // All other runs continue the first.
        for run in &mut batch.runs[1..] {
            run.position = if shared { lens[0] } else { 0 };
        }
        let mut d_qkv = t.rows(4, total, row);
        backend.attention_backward(shape, &qkv, &backend.upload_batch(&batch), &d_out, &mut d_qkv);
        t.push_rows("attention_backward", &d_qkv, total, row);
    }
}

#[test]
fn attention() {
    let (cpu, cuda) = (cpu(), seeded(Dtype::F32, 2));
    for (heads, kv_heads, head_dim, window, lens) in [
        (1, 1, 2, None, &[1, 17][..]),
        (4, 2, 10, None, &[33, 5, 70]),
        (6, 2, 16, Some(8), &[19, 40, 3]),
        (7, 1, 80, Some(1), &[20, 9]),
        (3, 3, 64, Some(20), &[47, 50]),
        (2, 1, 256, None, &[18, 2]),
    ] {
        let scale = (head_dim as f32).powf(-0.5);
        let shape = Attention { heads, kv_heads, head_dim, window, scale };
        let on = |backend| {
            let mut t = Trial::new(backend);
            sequences(&mut t, shape, lens);
            t.results
        };
        assert_equal(&format!("{shape:?}"), &on(&cuda), &on(&cpu));
    }
}

/// The choice of experts, its gradient, and rows of tokens by their experts.
pub fn experts(t: &mut Trial<'_>, router: Router, hidden: usize, tokens: usize) {
    let (backend, Router { experts, chosen, .. }) = (t.backend, router);
    let operations = backend.experts();
    let matrix = Kind::Matrix(Linear { inputs: hidden, outputs: experts });
    let mut weights = noise(3, experts * hidden);
    // The last expert is as likely as the first.
    let (first, last) = weights.split_at_mut((experts - 1) * hidden);
    last.copy_from_slice(&first[..hidden]);
    let weights = t.parameter_of(Role::Weight, matrix, &weights);
    let x = t.rows(1, tokens, hidden);
    let routing = operations.route(router, &x, &weights, tokens);
    let as_numbers = |numbers: &[u32]| numbers.iter().map(|&n| n as f32).collect::<Vec<_>>();
    t.push("experts", &as_numbers(&routing.routes.experts));
    t.push("weights", &routing.routes.weights);
    t.push("entropies", &routing.entropies);
    t.push_rows("probabilities", &routing.probabilities, tokens, experts);
    let mut products = t.exact(2, tokens, chosen);
    let (mut sums, mut unweighed) = (t.exact(4, tokens, hidden), t.exact(5, tokens, hidden));
    for expert in 0..experts {
        let count = routing.routes.of_expert(expert).len();
        let (mut own, other) = (t.rows(6, tokens, hidden), t.rows(7, tokens, hidden));
        operations.copy_expert_rows(&routing, expert, &x, &mut own);
        t.push_rows("copy_expert_rows", &own, tokens, hidden);
        operations.expert_row_products(&routing, expert, &own, &other, &mut products);
        operations.add_expert_rows(&routing, expert, true, &own, &mut sums);
        operations.add_expert_rows(&routing, expert, false, &other, &mut unweighed);
        operations.weigh_expert_rows(&routing, expert, &mut own);
        t.push_rows("weigh_expert_rows", &own, count, hidden);
    }
    t.push_rows("expert_row_products", &products, tokens, chosen);
    t.push_rows("add_expert_rows", &sums, tokens, hidden);
    operations.add_to_sums(&x, &mut unweighed, tokens);
    t.push_rows("sums", &unweighed, tokens, hidden);
    let rounded = operations.round_sums(unweighed, tokens);
    t.push_rows("round_sums", &rounded, tokens, hidden);
    let mut d_logits = t.rows(8, tokens, experts);
    operations.route_backward(&routing, &products, &mut d_logits);
    t.push_rows("route_backward", &d_logits, tokens, experts);
}

#[test]
fn mixtures_of_experts() {
    let (cpu, cuda) = (cpu(), seeded(Dtype::F32, 4));
    for (experts, chosen, hidden, tokens) in
        [(2, 1, 1, 1), (3, 3, 5, 7), (8, 2, 16, 40), (61, 8, 33, 9), (128, 8, 40, 70)]
    {
        for normalised in [false, true] {
            let router = Router { experts, chosen, normalised };
            let on = |backend| {
                let mut t = Trial::new(backend);
                self::experts(&mut t, router, hidden, tokens);
                t.results
            };
            assert_equal(&format!("{router:?}"), &on(&cuda), &on(&cpu));
        }
    }
}

/// Runs of these lengths: those that begin sequences, and others that continue the last of them.
fn delta_runs(lens: &[(usize, bool)]) -> HostBatch {
    let mut batch = HostBatch::default();
    let mut prompt = 0;
    for &(len, begins) in lens {
        let row = batch.rows();
        batch.tokens.extend(vec![0; len]);
        let position = if begins { 0 } else { prompt };
        batch.runs.push(Run { row, len, position, pages: 0..0 });
        prompt = if begins { len } else { prompt };
    }
    batch
}

/// The gated delta rule over whole sequences, and its gradients.
pub fn delta_rule(t: &mut Trial<'_>, shape: DeltaRule, lens: &[(usize, bool)]) {
    let hybrid = t.backend.hybrid();
    let host = delta_runs(lens);
    let (rows, batch) = (host.rows(), t.backend.upload_batch(&host));
    let (row, width) = (shape.row(), shape.value_features());
    let kinds = delta_kinds(shape);
    let weights = delta_weights(t, shape);
    let of = DeltaWeights { conv: 0, a_log: 1, dt_bias: 2, norm: 3 };
    let (mixed, d_out) = (t.rows(1, rows, row), t.rows(2, rows, width));
    let mut out = t.rows(3, rows, width);
    hybrid.delta_rule(shape, of.map(|i| &weights[i]), &mixed, &batch, None, &mut out);
    t.push_rows("delta_rule", &out, rows, width);
    let mut sums: Vec<Buffer> = kinds
        .iter()
        .zip(7..)
        .map(|(&kind, seed)| t.parameter(Role::Gradient, kind, seed))
        .collect();
    for adds in [true, false] {
        let mut d_mixed = t.rows(4, rows, row);
        let [conv, a_log, dt_bias, norm] = &mut sums[..] else { unreachable!() };
        let d_weights = adds.then_some(DeltaWeights { conv, a_log, dt_bias, norm });
        let weights = of.map(|i| &weights[i]);
        hybrid.delta_rule_backward(shape, weights, &mixed, &batch, &d_out, &mut d_mixed, d_weights);
        t.push_rows("delta_rule_backward", &d_mixed, rows, row);
    }
    for (name, (kind, sum)) in
        ["conv", "a_log", "dt_bias", "norm"].iter().zip(kinds.iter().zip(&sums))
    {
        t.push_numbers(name, *kind, sum);
    }
}

pub fn delta_kinds(shape: DeltaRule) -> [Kind; 4] {
    let of_heads = Kind::Vector(shape.value_heads);
    [Kind::Matrix(shape.convolution()), of_heads, of_heads, Kind::Vector(shape.value_dim)]
}

fn delta_weights(t: &Trial<'_>, shape: DeltaRule) -> Vec<Buffer> {
    let all = delta_kinds(shape).into_iter().zip(11..);
    all.map(|(kind, seed)| t.parameter(Role::Weight, kind, seed)).collect()
}

/// Steps of sequences from their states: chunks that begin them, then one or more tokens of each.
/// Copies of states go on, too.
pub fn delta_steps(t: &mut Trial<'_>, shape: DeltaRule, chunks: &[&[usize]]) {
    let (hybrid, sequences) = (t.backend.hybrid(), chunks[0].len());
    let weights = delta_weights(t, shape);
    let (row, width) = (shape.row(), shape.value_features());
    let slots = 2 * sequences;
    let mut states = t.exact(5, slots, shape.state());
    let mut done = vec![0; sequences];
    for (lens, seed) in chunks.iter().zip(20..) {
        let mut host = HostBatch::default();
        for (number, &len) in lens.iter().enumerate() {
            let run = Run { row: host.rows(), len, position: done[number], pages: 0..0 };
            host.runs.push(run);
            host.tokens.extend(vec![0; len]);
            host.states.push((slots - 1 - number) as u32);
            done[number] += len;
        }
        host.tokens.extend([0; 2]); // rows in no run
        let (rows, batch) = (host.rows(), t.backend.upload_batch(&host));
        let (mixed, mut out) = (t.rows(seed, rows, row), t.rows(3, rows, width));
        let of = DeltaWeights { conv: 0, a_log: 1, dt_bias: 2, norm: 3 };
        let weights = of.map(|i| &weights[i]);
        hybrid.delta_rule(shape, weights, &mixed, &batch, Some(&mut states), &mut out);
        t.push_rows("steps", &out, rows, width);
        t.push_rows("states", &states, slots, shape.state());
        // The second copies what the first has written, the third writes where it was read.
        let last = slots as u32 - 1;
        hybrid.copy_states(&mut states, &[(last, 0), (0, 1), (last - 1, 0), (last - 1, last)]);
        t.push_rows("copied states", &states, slots, shape.state());
    }
}

/// Gates behind attention, and the columns of a product.
pub fn output_gates(t: &mut Trial<'_>, features: usize, rows: usize) {
    let hybrid = t.backend.hybrid();
    let x = t.rows(1, rows, features);
    let (mut gate, mut y, mut dy) =
        (t.rows(2, rows, features), t.rows(3, rows, features), t.rows(4, rows, features));
    hybrid.gate_output(&x, &gate, &mut y, rows);
    t.push_rows("gate_output", &y, rows, features);
    hybrid.gate_output_backward(&x, &mut gate, &mut dy, rows);
    t.push_rows("gate_output_backward", &gate, rows, features);
    t.push_rows("gate_output_backward's dx", &dy, rows, features);
    let (wide, mut narrow) = (t.rows(5, rows, features + 7), t.rows(6, rows, features));
    for first in [(0, 0), (features, 0), (3, 2)] {
        hybrid.copy_columns(&wide, &mut narrow, first, rows);
        t.push_rows("copy_columns", &narrow, rows, features);
    }
    let mut wide = wide;
    hybrid.copy_columns(&narrow, &mut wide, (0, 5), rows);
    t.push_rows("copy_columns", &wide, rows, features + 7);
}

#[test]
fn hybrids() {
    let (cpu, cuda) = (cpu(), seeded(Dtype::F32, 5));
    let shape =
        DeltaRule { key_heads: 1, value_heads: 1, key_dim: 16, value_dim: 16, taps: 2, eps: 1e-6 };
    let families = [(37, true), (3, false), (33, false), (2, true), (1, true), (4, false)];
    for (shape, lens, chunks) in [
        (shape, &[(1, true)][..], &[&[1][..], &[1]][..]),
        (
            DeltaRule {
                key_heads: 2,
                value_heads: 4,
                key_dim: 48,
                value_dim: 80,
                taps: 4,
                ..shape
            },
            &families,
            &[&[5, 1, 9], &[1, 1, 1], &[2, 6, 1]],
        ),
        // More heads than are computed at a time in more than one sequence.
        (
            DeltaRule { key_heads: 22, value_heads: 66, taps: 3, ..shape },
            &[(2, true), (2, false), (1, false), (1, true)],
            &[&[1, 2]],
        ),
        (
            DeltaRule { key_heads: 1, value_heads: 2, key_dim: 128, value_dim: 128, ..shape },
            &[(3, true), (2, false)],
            &[&[3], &[1]],
        ),
    ] {
        let on = |backend| {
            let mut t = Trial::new(backend);
            delta_rule(&mut t, shape, lens);
            delta_steps(&mut t, shape, chunks);
            output_gates(&mut t, shape.value_dim + 1, lens.len());
            t.results
        };
        assert_equal(&format!("{shape:?}"), &on(&cuda), &on(&cpu));
    }
}

/// Scores of some texts, and every tensor of a gradient by them.
fn on_model(model: &Model) -> Results {
    let prompt = indices(1, 9, 61);
    let texts: Vec<Vec<u32>> = [12, 1, 25]
        .into_iter()
        .zip(2..)
        .map(|(len, seed)| [&prompt[..], &indices(seed, len, 61)].concat())
        .collect();
    let sequences: Vec<Sequence<'_>> =
        texts.iter().map(|tokens| Sequence { tokens, score_from: prompt.len() }).collect();
    let mut gradient = Gradient::zeros(model).unwrap();
    let mut results: Results = Vec::new();
    for (number, sequences) in [&sequences[..2], &sequences[2..]].into_iter().enumerate() {
        let packed = Packed::new(sequences);
        let targets = packed.target_count();
        let (scores, tape) = model.forward(packed, 0.7, TapeKind::Activations);
        results.push(("log-probs".into(), bits(&scores.logprobs)));
        results.push(("entropies".into(), bits(&scores.entropies)));
        let [a, b] = [number as u64, 7].map(|seed| noise(seed + 20, targets));
        model.backward(tape, Derivatives::of(&a, &b), &mut gradient);
    }
    let sum = gradient.finish(model);
    for (id, p, t) in model.layout.trained().tensors() {
        results.push((t.name.clone(), bits(&sum.tensor(&*model.backend, id, p, t))));
    }
    results
}

#[test]
fn models_forward_and_backward() {
    for family in [
        "llama-biases",
        "llama-mqa",
        "mistral-sliding",
        "gemma3",
        "olmo3",
        "olmoe",
        "qwen2-tied",
        "qwen3-moe",
        "qwen3-untied",
        "qwen3.5",
        "qwen3.5-moe",
        "smollm3",
    ] {
        let on_both =
            [load(Arc::new(seeded(Dtype::F32, 3)), family), load(Arc::new(cpu()), family)];
        let [on_cuda, on_cpu] = on_both.each_ref().map(on_model);
        assert_equal(family, &on_cuda, &on_cpu);
        let [on_cuda, on_cpu] = on_both.map(adapted).each_ref().map(on_model);
        assert_equal(&format!("{family} with an adapter"), &on_cuda, &on_cpu);
    }
}
