//! With f32 the backend computes the CPU's bits, in the CPU's order: every operation, and whole
//! models forward and backward.

use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{
    AdamW, Adjustments, Attention, Backend, Buffer, Cpu, Draw, Grouped, HeadNorms, HeadScores,
    HostBatch, Isa, Kind, Linear, Role, Run, SamplingMasks, Turn, Updated,
};
use isentrope_model::{Derivatives, Gradient, Keep, Model, Packed, Sequence};
use std::path::Path;
use std::sync::Arc;

fn cpu() -> Cpu {
    Cpu::new(Isa::available()[0], 2).unwrap()
}

fn cuda(seed: u64) -> Cuda<Emulator> {
    let settings = Settings { seed, workers: 2, ..Settings::default() };
    Cuda::new(Arc::new(Emulator::new(settings)), Dtype::F32)
}

/// Numbers from -1.5 to 1.5 without a pattern.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 * 3.0 - 1.5
    };
    (0..len).map(|_| next()).collect()
}

fn indices(seed: u64, len: usize, bound: usize) -> Vec<u32> {
    noise(seed, len)
        .iter()
        .map(|x| ((x + 1.5) / 3.0 * bound as f32) as u32 % bound as u32)
        .collect()
}

/// Results by their names, as bits.
type Results = Vec<(String, Vec<u32>)>;

/// A backend with shorthands, and what it has computed so far.
struct Trial<'a> {
    backend: &'a dyn Backend,
    results: Results,
}

impl Trial<'_> {
    fn rows(&self, seed: u64, rows: usize, features: usize) -> Buffer {
        let mut buffer = self.backend.buffer(Role::Activation(rows, features));
        self.backend.write(&mut buffer, 0, &noise(seed, rows * features));
        buffer
    }
    fn exact(&self, seed: u64, rows: usize, features: usize) -> Buffer {
        let mut buffer = self.backend.buffer(Role::Exact(rows, features));
        self.backend.write(&mut buffer, 0, &noise(seed, rows * features));
        buffer
    }
    fn parameter(&self, role: fn(Kind) -> Role, kind: Kind, seed: u64) -> Buffer {
        let mut buffer = self.backend.allocate(role(kind)).unwrap();
        let numbers = match kind {
            Kind::Vector(len) => len,
            Kind::Matrix(shape) => shape.inputs * shape.outputs,
        };
        self.backend.pack(kind, 0, &noise(seed, numbers), &mut buffer);
        buffer
    }
    fn push(&mut self, name: &str, values: &[f32]) {
        self.results.push((name.to_owned(), values.iter().map(|x| x.to_bits()).collect()));
    }
    fn push_rows(&mut self, name: &str, buffer: &Buffer, rows: usize, features: usize) {
        let mut values = vec![0.0; rows * features];
        self.backend.read(buffer, 0, &mut values);
        self.push(name, &values);
    }
    /// In the order in which the backend keeps them, with what pads them.
    fn push_numbers(&mut self, name: &str, kind: Kind, buffer: &Buffer) {
        let mut values = vec![0.0; self.backend.numbers(kind)];
        self.backend.read_numbers(buffer, 0, &mut values);
        self.push(name, &values);
    }
}

/// Panics where results differ.
fn assert_equal(what: &str, got: &Results, want: &Results) {
    assert_eq!(got.len(), want.len());
    for ((name, got), (_, want)) in got.iter().zip(want) {
        assert_eq!(got.len(), want.len(), "{name} of {what}");
        if let Some(i) = (0..got.len()).find(|&i| got[i] != want[i]) {
            let [got, want] = [got[i], want[i]].map(f32::from_bits);
            panic!("{name} of {what}: {got:?} instead of {want:?} at {i}");
        }
    }
}

/// Every operation on rows but attention.
fn on_rows(backend: &dyn Backend, shape: Linear, rows: usize) -> Results {
    let mut t = Trial { backend, results: Vec::new() };
    let Linear { inputs, outputs } = shape;
    let (matrix, vector) = (Kind::Matrix(shape), Kind::Vector(outputs));
    let (x, dy) = (t.rows(1, rows, inputs), t.rows(2, rows, outputs));
    let weights = t.parameter(Role::Weight, matrix, 3);
    let bias = t.parameter(Role::Weight, vector, 4);
    t.push_numbers("weights", matrix, &weights);
    for with_bias in [false, true] {
        let bias = with_bias.then_some(&bias);
        let (mut y, mut sum) = (t.rows(5, rows, outputs), t.rows(5, rows, outputs));
        backend.linear(shape, &x, &weights, bias, &mut y, rows);
        backend.linear_add(shape, &x, &weights, bias, &mut sum, rows);
        t.push_rows("linear", &y, rows, outputs);
        t.push_rows("linear_add", &sum, rows, outputs);
    }
    if outputs % 2 == 0 {
        let (mut gate_up, mut y) = (t.rows(5, rows, outputs), t.rows(6, rows, outputs / 2));
        backend.linear_swiglu(shape, &x, &weights, Some(&bias), Some(&mut gate_up), &mut y, rows);
        t.push_rows("linear_swiglu", &y, rows, outputs / 2);
        t.push_rows("linear_swiglu's halves", &gate_up, rows, outputs);
        backend.linear_swiglu(shape, &x, &weights, None, None, &mut y, rows);
        t.push_rows("linear_swiglu, nothing kept", &y, rows, outputs / 2);
    }
    let mut dx = t.rows(6, rows, inputs);
    backend.linear_backward_input(shape, &dy, &weights, &mut dx, rows);
    t.push_rows("linear_backward_input", &dx, rows, inputs);
    let (mut dw, mut db) =
        (t.parameter(Role::Gradient, matrix, 7), t.parameter(Role::Gradient, vector, 8));
    backend.linear_backward_weight(shape, &dy, &x, &mut dw, rows);
    backend.linear_backward_bias(shape, &dy, &mut db, rows);
    t.push_numbers("linear_backward_weight", matrix, &dw);
    t.push_numbers("linear_backward_bias", vector, &db);

    let tokens = indices(9, rows, outputs);
    let mut y = t.rows(10, rows, inputs);
    let batch = backend.batch(&HostBatch { tokens: tokens.clone(), ..HostBatch::default() });
    backend.embed(shape, &weights, &batch, &mut y);
    t.push_rows("embed", &y, rows, inputs);
    let mut sums = t.exact(11, outputs, inputs);
    backend.embed_backward(&backend.index(&tokens), &x, &mut sums);
    t.push_rows("embed_backward", &sums, outputs, inputs);
    let all: Vec<u32> = (0..outputs as u32).rev().collect();
    backend.add_embedding_rows(shape, &sums, &backend.index(&all), &mut dw);
    t.push_numbers("add_embedding_rows", matrix, &dw);

    let kept: Vec<u32> = (0..rows as u32).filter(|row| row % 3 != 1).collect();
    let index = backend.index(&kept);
    let mut gathered = t.rows(12, kept.len(), inputs);
    backend.gather_rows(&x, &index, &mut gathered);
    t.push_rows("gather_rows", &gathered, kept.len(), inputs);
    let to: Vec<u32> = kept.iter().map(|row| row / 2).collect();
    let mut scattered = t.rows(13, rows, inputs);
    backend.scatter_rows(&gathered, &backend.index(&to), &mut scattered, rows);
    t.push_rows("scatter_rows", &scattered, rows, inputs);
    backend.store_rows(&x, &index, &mut scattered, &backend.index(&to));
    t.push_rows("store_rows", &scattered, rows, inputs);
    backend.add(&x, &mut scattered);
    t.push_rows("add", &scattered, rows, inputs);
    let mut copy = t.rows(14, rows, inputs);
    backend.copy(&x, &mut copy, rows / 2);
    t.push_rows("copy", &copy, rows, inputs);

    if inputs >= 8 {
        let layout =
            Grouped { stride: inputs, offset: 1, groups: 2, features: (inputs - 2) / 4 * 2 };
        let of_group = Kind::Vector(layout.features);
        let weight = t.parameter(Role::Weight, of_group, 15);
        let mut normed = t.rows(16, rows, inputs);
        backend.rms_norm(layout, 1e-5, &x, &weight, &mut normed, rows);
        t.push_rows("rms_norm", &normed, rows, inputs);
        for adds in [false, true] {
            let (d, mut dx) = (t.rows(17, rows, inputs), t.rows(18, rows, inputs));
            let mut dw = t.parameter(Role::Gradient, of_group, 19);
            backend.rms_norm_backward(
                layout,
                1e-5,
                &x,
                &weight,
                adds.then_some(&d),
                &mut dx,
                &mut dw,
                rows,
            );
            t.push_rows("rms_norm_backward", &dx, rows, inputs);
            t.push_numbers("rms_norm_backward's dw", of_group, &dw);
        }
        let half = layout.features / 2;
        let (cos, sin) = (t.exact(20, 50, half), t.exact(21, 50, half));
        let positions = indices(22, rows, 50);
        let run = |(row, &position): (usize, &u32)| Run {
            row,
            len: 1,
            position: position as usize,
            pages: 0..0,
        };
        let runs = positions.iter().enumerate().map(run).collect();
        let batch =
            backend.batch(&HostBatch { tokens: vec![0; rows], runs, ..HostBatch::default() });
        for turn in [Turn::Forward, Turn::Backward] {
            backend.rope(layout, &mut normed, &cos, &sin, &batch, turn);
            t.push_rows("rope", &normed, rows, inputs);
        }
    }
    if inputs % 2 == 0 {
        let features = inputs / 2;
        let (mut y, mut d, mut gate_up) =
            (t.rows(23, rows, features), t.rows(24, rows, features), t.rows(1, rows, inputs));
        backend.swiglu(features, &gate_up, &mut y, rows);
        t.push_rows("swiglu", &y, rows, features);
        backend.swiglu_backward(features, &mut d, &mut gate_up, rows);
        t.push_rows("swiglu_backward's y", &d, rows, features);
        t.push_rows("swiglu_backward", &gate_up, rows, inputs);
    }

    let mut masks = SamplingMasks::default();
    for (row, &token) in tokens.iter().enumerate() {
        let kept = |&other: &u32| other == token || (other * 7 + row as u32).is_multiple_of(5);
        masks.push(&if row % 3 == 0 {
            Vec::new()
        } else {
            (0..outputs as u32).filter(kept).collect::<Vec<_>>()
        });
    }
    let targets = || backend.index(&tokens);
    let slopes = backend.entropy_slopes(shape, &x, &weights, &targets(), &masks, 0.7).slopes;
    t.push("entropy_slopes", &slopes);
    let mut statistics = backend.head(shape, &x, &weights, targets(), masks.into(), 0.7);
    let HeadScores { logprobs, entropies, log_masses } = backend.scores(&mut statistics);
    t.push("log-probs", &logprobs);
    t.push("entropies", &entropies);
    t.push("log-masses", &log_masses);
    let [a, b, c] = [25, 26, 27].map(|seed| noise(seed, rows));
    let mut d_hidden = t.rows(28, rows, inputs);
    backend.head_backward(shape, &x, &weights, &statistics, &a, &b, &c, &mut d_hidden, &mut dw);
    t.push_rows("head_backward", &d_hidden, rows, inputs);
    t.push_numbers("head_backward's dw", matrix, &dw);

    let kinds = [
        Adjustments::temperature(1.0),
        Adjustments::temperature(0.7),
        Adjustments::temperature(0.0),
        Adjustments { top_p: 0.8, ..Adjustments::temperature(1.0) },
        Adjustments { top_k: 3, ..Adjustments::temperature(1.3) },
        Adjustments { repetition_penalty: 1.3, ..Adjustments::temperature(1.0) },
        Adjustments { repetition_penalty: 1.3, ..Adjustments::temperature(0.0) },
    ];
    let draws: Vec<Draw> = noise(29, rows * kinds.len())
        .iter()
        .enumerate()
        .map(|(i, &x)| Draw {
            row: i * 5 % rows,
            adjustments: kinds[i % kinds.len()],
            penalised: vec![0, outputs as u32 - 1],
            records_kept: true,
            uniform: f64::from(x) / 3.0 + 0.5,
        })
        .collect();
    for drawn in backend.draw(shape, &x, &weights, &draws) {
        let drawn = drawn.unwrap();
        let log_mass = drawn.kept.map_or(0.0, |kept| kept.log_mass);
        let sampling = drawn.sampling_logprob.unwrap_or(0.0);
        t.push("draw", &[drawn.token as f32, drawn.logprob, sampling, drawn.entropy, log_mass]);
    }

    let numbers = backend.numbers(matrix);
    let mut weights = weights;
    let moments = [30, 31].map(|seed| {
        let mut moment = backend.allocate(Role::Moment(numbers)).unwrap();
        let values: Vec<f32> = noise(seed, numbers).into_iter().map(f32::abs).collect();
        backend.write_numbers(&mut moment, 0, &values);
        moment
    });
    let [mut first, mut second] = moments;
    let sums = backend.square_sums(&[(&dw, 0..numbers), (&db, 0..backend.numbers(vector))]);
    t.push("square_sums", &sums);
    let settings = AdamW {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        step: 3,
        gradient_scale: 0.5,
    };
    let updated = Updated {
        weights: &mut weights,
        gradient: &dw,
        numbers: 0..numbers,
        first: &mut first,
        second: &mut second,
    };
    backend.adamw(settings, &mut [updated]);
    t.push_numbers("adamw", matrix, &weights);
    t.push_numbers("first moment", matrix, &first);
    t.push_numbers("second moment", matrix, &second);
    t.results
}

#[test]
fn operations_on_rows() {
    let (cpu, cuda) = (cpu(), cuda(1));
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

/// Sequences in the cache and their gradients, some of which share a beginning.
fn on_sequences(backend: &dyn Backend, shape: Attention, lens: &[usize]) -> Results {
    let mut t = Trial { backend, results: Vec::new() };
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
    let uploaded = backend.batch(&batch);
    let mut out = t.rows(2, total, width);
    backend.store_kv(shape, &qkv, &uploaded, &mut cache, 1);
    backend.attention(shape, &qkv, &uploaded, &cache, 1, &mut out);
    t.push_rows("attention", &out, total, width);
    let copies: Vec<(u32, u32)> = (0..page).map(|from| (from, from + page)).collect();
    backend.copy_pages(shape, &mut cache, &copies);
    batch.pages.iter_mut().for_each(|of| *of += page);
    backend.attention(shape, &qkv, &backend.batch(&batch), &cache, 1, &mut out);
    t.push_rows("attention over copies", &out, total, width);

    if shape.head_dim.is_multiple_of(2) {
        let (cos, sin) = (t.exact(5, 200, shape.head_dim / 2), t.exact(6, 200, shape.head_dim / 2));
        let (of_head, raw) = (Kind::Vector(shape.head_dim), qkv);
        let (queries, keys) =
            (t.parameter(Role::Weight, of_head, 7), t.parameter(Role::Weight, of_head, 8));
        let norms = HeadNorms { raw: &raw, rows: total, queries: &queries, keys: &keys, eps: 1e-5 };
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
        // All but the first continue it.
        for run in &mut batch.runs[1..] {
            run.position = if shared { lens[0] } else { 0 };
        }
        let mut d_qkv = t.rows(4, total, row);
        backend.attention_backward(shape, &qkv, &backend.batch(&batch), &d_out, &mut d_qkv);
        t.push_rows("attention_backward", &d_qkv, total, row);
    }
    t.results
}

#[test]
fn attention() {
    let (cpu, cuda) = (cpu(), cuda(2));
    for (heads, kv_heads, head_dim, window, lens) in [
        (1, 1, 2, None, &[1, 17][..]),
        (4, 2, 10, None, &[33, 5, 70]),
        (6, 2, 16, Some(8), &[19, 40, 3]),
        (7, 1, 80, Some(1), &[20, 9]),
        (3, 3, 64, Some(20), &[47, 50]),
        (2, 1, 256, None, &[18, 2]),
    ] {
        let shape =
            Attention { heads, kv_heads, head_dim, window, scale: (head_dim as f32).powf(-0.5) };
        assert_equal(
            &format!("{shape:?}"),
            &on_sequences(&cuda, shape, lens),
            &on_sequences(&cpu, shape, lens),
        );
    }
}

/// Scores of some texts, and every tensor of a gradient by them.
fn on_model(backend: impl Backend, family: &str) -> Results {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../compute/model/tests/fixtures/models")
        .join(family);
    let model = Model::load(&dir, Arc::new(backend)).unwrap();
    let prompt = indices(1, 9, 61);
    let texts: Vec<Vec<u32>> = [12, 1, 25]
        .into_iter()
        .zip(2..)
        .map(|(len, seed)| [&prompt[..], &indices(seed, len, 61)].concat())
        .collect();
    let sequences: Vec<Sequence<'_>> =
        texts.iter().map(|tokens| Sequence { tokens, score_from: prompt.len() }).collect();
    let mut gradient = Gradient::zeros(&model).unwrap();
    let mut results: Results = Vec::new();
    for (number, sequences) in [&sequences[..2], &sequences[2..]].into_iter().enumerate() {
        let packed = Packed::new(sequences);
        let targets = packed.target_count();
        let (scores, tape) = model.forward(packed, 0.7, Keep::Activations);
        results.push(("log-probs".into(), scores.logprobs.iter().map(|x| x.to_bits()).collect()));
        results.push(("entropies".into(), scores.entropies.iter().map(|x| x.to_bits()).collect()));
        let [a, b] = [number as u64, 7].map(|seed| noise(seed + 20, targets));
        model.backward(tape, Derivatives::of(&a, &b), &mut gradient);
    }
    let sum = gradient.finish(&model);
    for (id, p, t) in model.layout.tensors() {
        let values = sum.tensor(&*model.backend, id, p, t);
        results.push((t.name.clone(), values.iter().map(|x| x.to_bits()).collect()));
    }
    results
}

#[test]
fn models_forward_and_backward() {
    for family in ["llama-biases", "llama-mqa", "mistral-sliding", "qwen2-tied", "qwen3-untied"] {
        assert_equal(family, &on_model(cuda(3), family), &on_model(cpu(), family));
    }
}
