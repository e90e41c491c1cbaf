//! Operations of the backend at the sizes of a model of 7 billion weights, compared with the least
//! time of their reads, writes and arithmetic.

use crate::Scale;
use crate::probe::Random;
use crate::report::{Report, Work};
use isentrope_cuda::{Cuda, Device, Dtype};
use isentrope_kernels::{
    AdamW, Attention, Backend, Buffer, Draw, Gate, Grouped, HostBatch, Kind, Linear, RmsNorm, Role,
    SamplingMasks, Turn, UpdateSlice,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Seconds of one call: the mean of the calls that fill the window, after two calls to warm up.
pub fn seconds(window: Duration, device: &dyn Device, mut call: impl FnMut()) -> f64 {
    call();
    call();
    device.synchronize();
    let mut calls = 1;
    loop {
        let started = Instant::now();
        (0..calls).for_each(|_| call());
        device.synchronize();
        let elapsed = started.elapsed();
        if elapsed >= window || calls >= 1 << 14 {
            return elapsed.as_secs_f64() / f64::from(calls);
        }
        calls *= 2;
    }
}

/// Copies on the device, which are the bound of memory, and to and from the host.
pub fn copies(device: &dyn Device, scale: Scale, report: &mut Report) {
    let bytes = (2 << 30) / scale.divisor.pow(2);
    let (from, to) = (device.allocate(bytes).unwrap(), device.allocate(bytes).unwrap());
    // Memory that repeats one number is copied faster than a model's memory, so this memory gets
    // random numbers.
    let mut random = Random::new(5);
    let part: Vec<u8> =
        (0..(1 << 20).min(bytes) / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
    for memory in [&from, &to] {
        (0..bytes).step_by(part.len()).for_each(|at| device.upload(&part, memory, at));
    }
    let time = seconds(scale.window, device, || device.copy(&from, 0, &to, 0, from.bytes()));
    let work = Work { bytes: 2.0 * bytes as f64, flop: 0.0 };
    report.bandwidth = Some(work.bytes / time);
    report.time("memory", &format!("copy of {} MiB", bytes >> 20), time, work);
    let mut host = vec![0; (64 << 20).min(bytes)];
    let work = Work::default();
    for (name, bytes) in
        [("4 KiB".to_owned(), 4096), (format!("{} MiB", host.len() >> 20), host.len())]
    {
        let time = seconds(scale.window, device, || device.upload(&host[..bytes], &to, 0));
        report.time("memory", &format!("upload of {name}"), time, work);
        let time = seconds(scale.window, device, || device.download(&from, 0, &mut host[..bytes]));
        report.time("memory", &format!("download of {name}"), time, work);
    }
}

/// A backend with random buffers.
struct Bench<'a> {
    backend: &'a Cuda,
    scale: Scale,
    report: &'a mut Report,
}

impl Bench<'_> {
    fn activations(&self, rows: usize, features: usize) -> Buffer {
        self.filled(Role::Activation(rows, features), rows, features)
    }

    /// Rows of random numbers; a pattern of a few rows is repeated.
    fn filled(&self, role: Role, rows: usize, features: usize) -> Buffer {
        let mut random = Random::new(rows as u64 + features as u64);
        let mut buffer = self.backend.buffer(role);
        let some = rows.min(64);
        let numbers: Vec<f32> = (0..some * features).map(|_| random.number()).collect();
        for first in (0..rows).step_by(some) {
            let here = some.min(rows - first);
            self.backend.write(&mut buffer, first, &numbers[..here * features]);
        }
        buffer
    }

    fn parameter(&self, role: Role, kind: Kind, outputs: usize) -> Buffer {
        let mut random = Random::new(outputs as u64);
        let mut buffer = self.backend.allocate(role).unwrap();
        let some = outputs.min(256);
        let numbers: Vec<f32> = (0..some * kind.row()).map(|_| random.number() / 32.0).collect();
        for first in (0..outputs).step_by(some) {
            let here = some.min(outputs - first);
            self.backend.pack(kind, first, &numbers[..here * kind.row()], &mut buffer);
        }
        buffer
    }

    fn time(&mut self, what: &str, work: Work, call: impl FnMut()) {
        let seconds = seconds(self.scale.window, &**self.backend.device(), call);
        let part = match self.backend.dtype() {
            Dtype::F32 => "f32",
            Dtype::Bf16 => "bf16",
        };
        // The tensor core's speed does not bound a kernel that computes without it.
        let work =
            if self.backend.dtype() == Dtype::F32 { Work { flop: 0.0, ..work } } else { work };
        self.report.time(part, what, seconds, work);
    }
}

/// Every kernel at sizes of Qwen2.5-7B.
pub fn operations(backend: &Cuda, scale: Scale, report: &mut Report) {
    let size = if backend.dtype() == Dtype::Bf16 { 2.0 } else { 4.0 };
    let divided = |number: usize| (number / scale.divisor).max(16).next_multiple_of(16);
    // Chains without the tensor core are for tests and small models.
    let slower = if backend.dtype() == Dtype::Bf16 { 1 } else { 8 };
    let (tokens, hidden, wide) = (divided(8192 / slower), divided(3584), divided(18944));
    let vocabulary = divided(152_064);
    let mut bench = Bench { backend, scale, report };
    let moved = |numbers: usize| Work { bytes: size * numbers as f64, flop: 0.0 };

    let (x, mut y) = (bench.activations(tokens, hidden), bench.activations(tokens, hidden));
    let norm = Kind::Vector(hidden);
    let norm_weight = bench.parameter(Role::Weight(norm), norm, hidden);
    let mut norm_gradient = bench.parameter(Role::Gradient(norm), norm, hidden);
    let rows = Grouped::rows(hidden);
    bench.time("rms_norm", moved(2 * tokens * hidden), || {
        backend.rms_norm(rows, RmsNorm::plain(1e-6), &x, &norm_weight, &mut y, tokens);
    });
    let mut dx = bench.activations(tokens, hidden);
    bench.time("rms_norm backward", moved(4 * tokens * hidden), || {
        backend.rms_norm_backward(
            rows,
            RmsNorm::plain(1e-6),
            &x,
            &norm_weight,
            Some(&y),
            &mut dx,
            Some(&mut norm_gradient),
            tokens,
        );
    });

    let mut gate_up = bench.activations(tokens, 2 * wide);
    let mut gated = bench.activations(tokens, wide);
    bench.time("swiglu", moved(3 * tokens * wide), || {
        backend.glu(Gate::Silu, wide, &gate_up, &mut gated, tokens);
    });
    bench.time("swiglu backward", moved(6 * tokens * wide), || {
        backend.glu_backward(Gate::Silu, wide, &mut gated, &mut gate_up, tokens);
    });
    drop((gate_up, gated));

    linear(&mut bench, hidden, divided(37888), tokens, size);
    linear(&mut bench, hidden, divided(37888), 16, size);
    // The products that a decoding step adds to the residual, in Qwen2.5-0.5B and 7B: few outputs,
    // few rows.
    for (inputs, outputs) in [(896, 896), (4864, 896), (3584, 3584), (18944, 3584)] {
        for rows in [1, 64, 256] {
            residual(&mut bench, divided(inputs), divided(outputs), rows, size);
        }
    }

    let head = Kind::Matrix(Linear { inputs: hidden, outputs: vocabulary });
    let embedding = bench.parameter(Role::Weight(head), head, vocabulary);
    let shape = Linear { inputs: hidden, outputs: vocabulary };
    let mut random = Random::new(3);
    let mut token = || (random.bits() % vocabulary as u64) as u32;
    let chosen: Vec<u32> = (0..tokens).map(|_| token()).collect();
    let batch = backend.upload_batch(&HostBatch { tokens: chosen.clone(), ..HostBatch::default() });
    bench.time("embedding", moved(2 * tokens * hidden), || {
        backend.embed(shape, &embedding, &batch, &mut y);
    });
    let scored = tokens.min(divided(1024));
    let product = 2.0 * (scored * hidden * vocabulary) as f64;
    let work = Work { flop: product, ..moved(hidden * vocabulary) };
    bench.time(&format!("head, {scored} tokens"), work, || {
        let targets = backend.upload_index(&chosen[..scored]);
        let masks = Arc::new(SamplingMasks::default());
        let mut statistics = backend.head(shape, &x, &embedding, targets, masks, 1.0, None);
        backend.scores(&mut statistics);
    });
    let drawn = divided(256).min(tokens);
    let draw = |row| Draw::at_temperature(1.0, row, 0.5);
    let draws: Vec<Draw> = (0..drawn).map(draw).collect();
    let work =
        Work { flop: 2.0 * (drawn * hidden * vocabulary) as f64, ..moved(hidden * vocabulary) };
    bench.time(&format!("draw, {drawn} rows"), work, || {
        backend.draw(shape, &x, &embedding, &draws);
    });
    drop((embedding, x, y, dx));

    attention(&mut bench, tokens, size);

    let numbers = divided(64 << 20);
    let kind = Kind::Vector(numbers);
    let mut weights = bench.parameter(Role::Weight(kind), kind, numbers);
    let gradient = bench.parameter(Role::Gradient(kind), kind, numbers);
    let mut moments = [0; 2].map(|_| backend.allocate(Role::Moment(numbers)).unwrap());
    // Reads weight, remainder, gradient and moments; writes all but the gradient.
    let settings = AdamW {
        learning_rate: 1e-6,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 3,
        gradient_scale: 1.0,
    };
    let work = Work { bytes: 28.0 * numbers as f64, flop: 0.0 };
    bench.time(&format!("adamw, {} million numbers", numbers / 1_000_000), work, || {
        let [first, second] = &mut moments;
        let updated = UpdateSlice {
            weights: &mut weights,
            elements: 0..numbers,
            gradient: (&gradient, 0),
            first,
            second,
        };
        backend.adamw(settings, &mut [updated]);
    });
    bench.time("sums of squares", Work { bytes: 4.0 * numbers as f64, flop: 0.0 }, || {
        backend.square_sums(&[(&gradient, 0..numbers)]);
    });
}

/// A layer that adds its outputs to a residual.
fn residual(bench: &mut Bench<'_>, inputs: usize, outputs: usize, rows: usize, size: f64) {
    let (backend, shape) = (bench.backend, Linear { inputs, outputs });
    let kind = Kind::Matrix(shape);
    let (x, mut y) = (bench.activations(rows, inputs), bench.activations(rows, outputs));
    let weights = bench.parameter(Role::Weight(kind), kind, outputs);
    let numbers = outputs * inputs + rows * (inputs + 2 * outputs);
    let work = Work { bytes: size * numbers as f64, flop: 2.0 * (rows * inputs * outputs) as f64 };
    bench.time(&format!("linear, added, {rows} x {inputs} x {outputs}"), work, || {
        backend.linear_add(shape, &x, &weights, None, &mut y, rows);
    });
}

fn linear(bench: &mut Bench<'_>, inputs: usize, outputs: usize, tokens: usize, size: f64) {
    let backend = bench.backend;
    let shape = Linear { inputs, outputs };
    let kind = Kind::Matrix(shape);
    let weights = bench.parameter(Role::Weight(kind), kind, outputs);
    let mut gradient = backend.allocate(Role::Gradient(kind)).unwrap();
    let (mut x, mut y) = (bench.activations(tokens, inputs), bench.activations(tokens, outputs));
    let flop = 2.0 * (tokens * inputs * outputs) as f64;
    let activations = size * (tokens * (inputs + outputs)) as f64;
    let work = Work { bytes: activations + size * (inputs * outputs) as f64, flop };
    let named = |what: &str| format!("linear{what}, {tokens} x {inputs} x {outputs}");
    bench.time(&named(""), work, || backend.linear(shape, &x, &weights, None, &mut y, tokens));
    bench.time(&named(" backward, input"), work, || {
        backend.linear_backward_input(shape, &y, &weights, &mut x, tokens);
    });
    let work = Work { bytes: activations + 8.0 * (inputs * outputs) as f64, flop };
    bench.time(&named(" backward, weight"), work, || {
        backend.linear_backward_weight(shape, &y, &x, &mut gradient, tokens);
    });
}

/// Attention over whole sequences, and over one further token of many sequences.
fn attention(bench: &mut Bench<'_>, tokens: usize, size: f64) {
    let backend = bench.backend;
    let head_dim: usize = if bench.scale.divisor > 1 { 16 } else { 128 };
    let shape = Attention {
        heads: 28,
        kv_heads: 4,
        head_dim,
        window: None,
        scale: (head_dim as f32).powf(-0.5),
    };
    let page = backend.page_positions();
    let length = tokens / 4;
    let pages_each = length.div_ceil(page) + 1;
    let mut host = HostBatch::default();
    let pages: Vec<u32> = (0..4 * pages_each as u32).collect();
    for sequence in 0..4 {
        host.push(&vec![0; length], 0, &pages[sequence * pages_each..][..pages_each]);
    }
    let rows = host.rows();
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages: pages.len() }).unwrap();
    let mut qkv = bench.activations(rows, shape.row());
    let features = shape.heads * head_dim;
    let mut out = bench.activations(rows, features);
    let batch = backend.upload_batch(&host);

    let table = bench.filled(Role::Exact(length + 1, head_dim / 2), length + 1, head_dim / 2);
    let turned = Grouped {
        stride: shape.row(),
        offset: 0,
        groups: shape.heads + shape.kv_heads,
        features: head_dim,
    };
    let moved = |numbers: usize| Work { bytes: size * numbers as f64, flop: 0.0 };
    bench.time("rope", moved(2 * rows * turned.groups * head_dim), || {
        backend.rope(turned, &mut qkv, &table, &table, &batch, Turn::Forward);
    });
    bench.time("keys and values to the cache", moved(4 * rows * shape.kv_heads * head_dim), || {
        backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    });
    // Two products of half of length x length, for each head.
    let flop = 2.0 * (4 * length * length * features) as f64;
    let work = Work { flop, ..moved(rows * (shape.row() + features)) };
    bench.time(&format!("attention, 4 x {length} tokens"), work, || {
        backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    });
    let mut d_qkv = bench.activations(rows, shape.row());
    // The forward pass's two products become nine: scores and dp three times each, and the
    // gradients of queries, keys and values.
    let work = Work { flop: 4.5 * flop, ..moved(2 * rows * (shape.row() + features)) };
    bench.time(&format!("attention backward, 4 x {length} tokens"), work, || {
        backend.attention_backward(shape, &qkv, &batch, &out, &mut d_qkv);
    });
    let mut host = HostBatch::default();
    for sequence in 0..4 {
        host.push(&[0], length, &pages[sequence * pages_each..][..pages_each]);
    }
    let batch = backend.upload_batch(&host);
    backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    let work = moved(4 * 2 * length * shape.kv_heads * head_dim);
    bench.time(&format!("attention, 1 token of each of 4 x {length}"), work, || {
        backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    });
}
