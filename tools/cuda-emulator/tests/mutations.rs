//! Mistakes in the backend's own kernels are noticed: each of the changes in mutations.txt is made
//! in the source of a kernel, and what the emulated device then computes is held against the CPU,
//! or against chains of the tensor core, under several schedules.
//!
//! A change that no longer applies, because the kernel has changed, is a failure as well: it wants
//! a successor.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says how it went")]

#[path = "../../../crates/compute/cuda/tests/attention_reference.rs"]
mod attention_reference;
mod patches;

use attention_reference::Reference;
use isentrope_cuda::{Cuda, Dtype, HEADERS, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings, TensorCore};
use isentrope_kernels::{
    AdamW, Attention, Backend, Buffer, Cpu, DeviceBatch, Draw, Drawn, Grouped, HeadNorms,
    HeadScores, HostBatch, Isa, Kind, Linear, Role, Run, SamplingMasks, Turn, Updated,
};
use patches::Change;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Schedules without, and with, a look at every access.
const PLAIN: u64 = 6;
const LOOKED_AT: u64 = 2;

/// Results of operations, as bits, one after another.
type Results = Vec<u32>;

/// Operations, on the device and as they should be.
#[derive(Clone, Copy)]
struct Operations {
    dtype: Dtype,
    on_device: fn(&Cuda<Emulator>) -> Results,
    expected: fn() -> Results,
}

fn on_cpu(operations: impl Fn(&Cpu) -> Results) -> Results {
    operations(&Cpu::new(Isa::available()[0], 1).unwrap())
}

macro_rules! as_on_cpu {
    ($operations:ident) => {
        Operations {
            dtype: Dtype::F32,
            on_device: |cuda| $operations(cuda),
            expected: || on_cpu(|cpu| $operations(cpu)),
        }
    };
}

/// Numbers from -1.5 to 1.5 without a pattern, each of which bf16 holds.
fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        ((state >> 24) as f32 - 128.0) * (1.5 / 128.0)
    };
    (0..len).map(|_| next()).map(|x| f32::from_bits(x.to_bits() & 0xffff_0000)).collect()
}

fn bits(values: &[f32]) -> Results {
    values.iter().map(|x| x.to_bits()).collect()
}

fn rows(
    backend: &dyn Backend,
    role: fn(usize, usize) -> Role,
    seed: u32,
    rows: usize,
    features: usize,
) -> Buffer {
    let mut buffer = backend.buffer(role(rows, features));
    backend.write(&mut buffer, 0, &noise(seed, rows * features));
    buffer
}

fn read(backend: &dyn Backend, buffer: &Buffer, rows: usize, features: usize) -> Results {
    let mut values = vec![0.0; rows * features];
    backend.read(buffer, 0, &mut values);
    bits(&values)
}

fn parameter(backend: &dyn Backend, role: fn(Kind) -> Role, kind: Kind, seed: u32) -> Buffer {
    let mut buffer = backend.allocate(role(kind)).unwrap();
    let numbers = match kind {
        Kind::Vector(len) => len,
        Kind::Matrix(shape) => shape.inputs * shape.outputs,
    };
    backend.pack(kind, 0, &noise(seed, numbers), &mut buffer);
    buffer
}

fn numbers(backend: &dyn Backend, kind: Kind, buffer: &Buffer) -> Results {
    let mut values = vec![0.0; backend.numbers(kind)];
    backend.read_numbers(buffer, 0, &mut values);
    bits(&values)
}

/// Three directions of a linear layer whose last tiles are not full.
fn linear(backend: &dyn Backend) -> Results {
    let (shape, tokens) = (Linear { inputs: 70, outputs: 130 }, 20);
    let (matrix, vector) = (Kind::Matrix(shape), Kind::Vector(shape.outputs));
    let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
    let dy = rows(backend, Role::Activation, 2, tokens, shape.outputs);
    let weights = parameter(backend, Role::Weight, matrix, 3);
    let bias = parameter(backend, Role::Weight, vector, 4);
    let mut y = rows(backend, Role::Activation, 5, tokens, shape.outputs);
    backend.linear_add(shape, &x, &weights, Some(&bias), &mut y, tokens);
    let mut results = read(backend, &y, tokens, shape.outputs);
    let mut dx = rows(backend, Role::Activation, 6, tokens, shape.inputs);
    backend.linear_backward_input(shape, &dy, &weights, &mut dx, tokens);
    results.extend(read(backend, &dx, tokens, shape.inputs));
    let mut dw = parameter(backend, Role::Gradient, matrix, 7);
    let mut db = parameter(backend, Role::Gradient, vector, 8);
    backend.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
    backend.linear_backward_bias(shape, &dy, &mut db, tokens);
    results.extend(numbers(backend, matrix, &dw));
    results.extend(numbers(backend, vector, &db));
    results
}

/// Layers and tokens that no tile fits, with enough of both that tiles follow one another in each
/// place: the first in small tiles, whose gradient by weights has large ones, the second in narrow
/// ones.
const PRODUCTS_OF: [(Linear, usize); 2] =
    [(Linear { inputs: 133, outputs: 190 }, 83), (Linear { inputs: 587, outputs: 42 }, 18)];

/// Outputs with a bias.
fn outputs(backend: &Cuda<Emulator>, (shape, tokens): (Linear, usize)) -> Results {
    let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
    let weights = parameter(backend, Role::Weight, Kind::Matrix(shape), 3);
    let bias = parameter(backend, Role::Weight, Kind::Vector(shape.outputs), 4);
    let mut y = rows(backend, Role::Activation, 5, tokens, shape.outputs);
    backend.linear(shape, &x, &weights, Some(&bias), &mut y, tokens);
    read(backend, &y, tokens, shape.outputs)
}

fn products(backend: &Cuda<Emulator>) -> Results {
    let mut results: Results =
        PRODUCTS_OF.into_iter().flat_map(|of| outputs(backend, of)).collect();
    let (shape, tokens) = PRODUCTS_OF[0];
    let matrix = Kind::Matrix(shape);
    let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
    let dy = rows(backend, Role::Activation, 2, tokens, shape.outputs);
    let weights = parameter(backend, Role::Weight, matrix, 3);
    let mut dx = rows(backend, Role::Activation, 6, tokens, shape.inputs);
    backend.linear_backward_input(shape, &dy, &weights, &mut dx, tokens);
    results.extend(read(backend, &dx, tokens, shape.inputs));
    let mut dw = parameter(backend, Role::Gradient, matrix, 7);
    backend.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
    let mut values = vec![0.0; shape.inputs * shape.outputs];
    backend.unpack(matrix, 0, &dw, &mut values);
    results.extend(bits(&values));
    results
}

/// To bf16, to nearest even.
fn rounded(x: f32) -> f32 {
    let image = x.to_bits();
    f32::from_bits((image + 0x7fff + ((image >> 16) & 1)) & 0xffff_0000)
}

fn halves(x: &[f32]) -> Vec<u16> {
    x.iter().map(|x| (x.to_bits() >> 16) as u16).collect()
}

fn outputs_expected((shape, tokens): (Linear, usize)) -> Vec<f32> {
    let Linear { inputs, outputs } = shape;
    let (x, w) = (halves(&noise(1, tokens * inputs)), halves(&noise(3, inputs * outputs)));
    let bias = noise(4, outputs);
    let of_row = |x: &[u16]| {
        let sums = w.chunks(inputs).map(|w| TensorCore::Hopper.chain(0.0, x, w));
        sums.zip(&bias).map(|(sum, bias)| rounded(sum + bias)).collect::<Vec<_>>()
    };
    x.chunks(inputs).flat_map(of_row).collect()
}

fn products_expected() -> Results {
    let (Linear { inputs, outputs }, tokens) = PRODUCTS_OF[0];
    let [x, dy, w] = [(1, tokens * inputs), (2, tokens * outputs), (3, inputs * outputs)]
        .map(|(seed, len)| halves(&noise(seed, len)));
    let dw = noise(7, inputs * outputs);
    let column = |from: &[u16], width: usize, at: usize| {
        from.iter().skip(at).step_by(width).copied().collect::<Vec<u16>>()
    };
    let core = TensorCore::Hopper;
    let mut results: Vec<f32> = PRODUCTS_OF.into_iter().flat_map(outputs_expected).collect();
    for token in 0..tokens {
        let dy = &dy[token * outputs..][..outputs];
        results.extend((0..inputs).map(|i| rounded(core.chain(0.0, dy, &column(&w, inputs, i)))));
    }
    for output in 0..outputs {
        let dy = column(&dy, outputs, output);
        results.extend(
            (0..inputs).map(|i| core.chain(dw[output * inputs + i], &dy, &column(&x, inputs, i))),
        );
    }
    bits(&results)
}

/// A product of more rows of tiles than are computed together, and of two columns of them.
const MANY_BLOCKS: (Linear, usize) = (Linear { inputs: 3, outputs: 130 }, 2180);

fn many_blocks(backend: &Cuda<Emulator>) -> Results {
    outputs(backend, MANY_BLOCKS)
}

fn many_blocks_expected() -> Results {
    bits(&outputs_expected(MANY_BLOCKS))
}

/// The outputs of the products, gated.
fn gated(backend: &Cuda<Emulator>) -> Results {
    let of_product = |(shape, tokens): (Linear, usize)| {
        let features = shape.outputs / 2;
        let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
        let weights = parameter(backend, Role::Weight, Kind::Matrix(shape), 3);
        let bias = parameter(backend, Role::Weight, Kind::Vector(shape.outputs), 4);
        let mut kept = rows(backend, Role::Activation, 5, tokens, shape.outputs);
        let mut y = rows(backend, Role::Activation, 6, tokens, features);
        backend.linear_swiglu(shape, &x, &weights, Some(&bias), Some(&mut kept), &mut y, tokens);
        let mut results = read(backend, &kept, tokens, shape.outputs);
        results.extend(read(backend, &y, tokens, features));
        results
    };
    PRODUCTS_OF.into_iter().flat_map(of_product).collect()
}

fn gated_expected() -> Results {
    let of_product = |(shape, tokens): (Linear, usize)| {
        let (outputs, features) = (outputs_expected((shape, tokens)), shape.outputs / 2);
        let gated = on_cpu(|cpu| {
            let mut gate_up = cpu.buffer(Role::Activation(tokens, shape.outputs));
            cpu.write(&mut gate_up, 0, &outputs);
            let mut y = cpu.buffer(Role::Activation(tokens, features));
            cpu.swiglu(features, &gate_up, &mut y, tokens);
            read(cpu, &y, tokens, features)
        });
        assert_eq!(gated.len(), tokens * features);
        let gated = gated.into_iter().map(|y| rounded(f32::from_bits(y)).to_bits());
        bits(&outputs).into_iter().chain(gated).collect::<Results>()
    };
    PRODUCTS_OF.into_iter().flat_map(of_product).collect()
}

/// An odd number of groups, so that a half warp has none.
fn norms(backend: &dyn Backend) -> Results {
    let (features, tokens) = (50, 11);
    let layout = Grouped { stride: features, offset: 1, groups: 1, features: 48 };
    let weight = Kind::Vector(layout.features);
    let x = rows(backend, Role::Activation, 1, tokens, features);
    let weights = parameter(backend, Role::Weight, weight, 2);
    let mut y = rows(backend, Role::Activation, 3, tokens, features);
    backend.rms_norm(layout, 1e-5, &x, &weights, &mut y, tokens);
    let mut results = read(backend, &y, tokens, features);
    let d = rows(backend, Role::Activation, 4, tokens, features);
    let mut dx = rows(backend, Role::Activation, 5, tokens, features);
    let mut dw = parameter(backend, Role::Gradient, weight, 6);
    backend.rms_norm_backward(layout, 1e-5, &x, &weights, Some(&d), &mut dx, &mut dw, tokens);
    results.extend(read(backend, &dx, tokens, features));
    results.extend(numbers(backend, weight, &dw));
    results
}

/// Gradients that are chains of more steps than are brought at a time.
fn chains(backend: &dyn Backend) -> Results {
    let (features, tokens) = (40, 50);
    let layout = Grouped { stride: features, offset: 1, groups: 3, features: 13 };
    let (weight, bias) = (Kind::Vector(layout.features), Kind::Vector(features));
    let x = rows(backend, Role::Activation, 1, tokens, features);
    let weights = parameter(backend, Role::Weight, weight, 2);
    let d = rows(backend, Role::Activation, 3, tokens, features);
    let mut dx = rows(backend, Role::Activation, 4, tokens, features);
    let mut dw = parameter(backend, Role::Gradient, weight, 5);
    backend.rms_norm_backward(layout, 1e-5, &x, &weights, Some(&d), &mut dx, &mut dw, tokens);
    let mut results = numbers(backend, weight, &dw);
    let dy = rows(backend, Role::Activation, 6, 3 * tokens, features);
    let mut db = parameter(backend, Role::Gradient, bias, 7);
    let shape = Linear { inputs: 1, outputs: features };
    backend.linear_backward_bias(shape, &dy, &mut db, 3 * tokens);
    results.extend(numbers(backend, bias, &db));
    results
}

fn elementwise(backend: &dyn Backend) -> Results {
    let (features, tokens) = (52, 40);
    let mut x = rows(backend, Role::Activation, 1, tokens, features);
    let mut y = rows(backend, Role::Activation, 2, tokens, features / 2);
    backend.swiglu(features / 2, &x, &mut y, tokens);
    let mut results = read(backend, &y, tokens, features / 2);
    let mut dy = rows(backend, Role::Activation, 3, tokens, features / 2);
    backend.swiglu_backward(features / 2, &mut dy, &mut x, tokens);
    results.extend(read(backend, &x, tokens, features));
    results.extend(read(backend, &dy, tokens, features / 2));

    let layout = Grouped { stride: features, offset: 0, groups: 2, features: 26 };
    let (cos, sin) =
        (rows(backend, Role::Exact, 4, tokens, 13), rows(backend, Role::Exact, 5, tokens, 13));
    let run = |row| Run { row, len: 1, position: (row * 7) % tokens, pages: 0..0 };
    let host = HostBatch {
        tokens: vec![0; tokens],
        runs: (0..tokens).map(run).collect(),
        ..HostBatch::default()
    };
    let mut turned = rows(backend, Role::Activation, 6, tokens, features);
    backend.rope(layout, &mut turned, &cos, &sin, &backend.batch(&host), Turn::Forward);
    results.extend(read(backend, &turned, tokens, features));

    let index = |numbers: &[u32]| backend.index(numbers);
    let kept: Vec<u32> = (0..tokens as u32).filter(|row| row % 3 != 1).collect();
    let mut gathered = rows(backend, Role::Activation, 7, kept.len(), features);
    backend.gather_rows(&turned, &index(&kept), &mut gathered);
    results.extend(read(backend, &gathered, kept.len(), features));
    let to: Vec<u32> = kept.iter().map(|row| row / 2).collect();
    let mut scattered = rows(backend, Role::Activation, 8, tokens, features);
    backend.scatter_rows(&gathered, &index(&to), &mut scattered, tokens);
    results.extend(read(backend, &scattered, tokens, features));

    let shape = Linear { inputs: features, outputs: 70 };
    let packed = parameter(backend, Role::Weight, Kind::Matrix(shape), 9);
    let host = HostBatch {
        tokens: (0..tokens as u32).map(|i| i * 11 % 70).collect(),
        ..HostBatch::default()
    };
    let mut embedded = rows(backend, Role::Activation, 10, tokens, features);
    backend.embed(shape, &packed, &backend.batch(&host), &mut embedded);
    results.extend(read(backend, &embedded, tokens, features));
    results
}

/// Three tensors, of which the first has more than one block.
fn optimizer(backend: &dyn Backend) -> Results {
    let kinds =
        [Kind::Vector(5000), Kind::Vector(33), Kind::Matrix(Linear { inputs: 3, outputs: 20 })];
    let moment = |kind: Kind, seed: u32| {
        let count = backend.numbers(kind);
        let mut moment = backend.allocate(Role::Moment(count)).unwrap();
        let values: Vec<f32> = noise(seed, count).into_iter().map(f32::abs).collect();
        backend.write_numbers(&mut moment, 0, &values);
        moment
    };
    let mut weights: Vec<_> =
        kinds.iter().map(|&kind| parameter(backend, Role::Weight, kind, 1)).collect();
    let gradients: Vec<_> =
        kinds.iter().map(|&kind| parameter(backend, Role::Gradient, kind, 2)).collect();
    let mut first: Vec<_> = kinds.iter().map(|&kind| moment(kind, 3)).collect();
    let mut second: Vec<_> = kinds.iter().map(|&kind| moment(kind, 4)).collect();
    let parts: Vec<_> = gradients
        .iter()
        .zip(kinds)
        .map(|(gradient, kind)| (gradient, 0..backend.numbers(kind)))
        .collect();
    let mut results = bits(&backend.square_sums(&parts));
    let settings = AdamW {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        step: 3,
        gradient_scale: 0.5,
    };
    let mut updated: Vec<_> = weights
        .iter_mut()
        .zip(&gradients)
        .zip(first.iter_mut().zip(&mut second))
        .zip(kinds)
        .map(|(((weights, gradient), (first, second)), kind)| {
            let numbers = 0..backend.numbers(kind);
            Updated { weights, gradient, numbers, first, second }
        })
        .collect();
    backend.adamw(settings, &mut updated);
    for (weights, kind) in weights.iter().zip(kinds) {
        results.extend(numbers(backend, kind, weights));
    }
    results
}

/// Sequences whose keys do not fit one tile, with a window and without.
fn attention(backend: &dyn Backend) -> Results {
    let mut results = Vec::new();
    for (window, lens) in [(None, [37, 3, 48]), (Some(20), [50, 18, 5])] {
        let shape = Attention { heads: 4, kv_heads: 2, head_dim: 12, window, scale: 0.3 };
        let (row, width, total) = (shape.row(), shape.heads * shape.head_dim, lens.iter().sum());
        let qkv = rows(backend, Role::Activation, 1, total, row);
        let mut host = HostBatch { tokens: vec![0; total], ..HostBatch::default() };
        let (mut at, mut page) = (0, 0u32);
        for len in lens {
            let (pages, first) = (len.div_ceil(backend.page_positions()), host.pages.len());
            host.pages.extend((page..page + pages as u32).rev());
            host.runs.push(Run { row: at, len, position: 0, pages: first..first + pages });
            (at, page) = (at + len, page + pages as u32);
        }
        let mut cache =
            backend.allocate(Role::Cache { shape, layers: 1, pages: page as usize }).unwrap();
        let batch = backend.batch(&host);
        let mut out = rows(backend, Role::Activation, 2, total, width);
        backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
        backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
        results.extend(read(backend, &out, total, width));
        let d_out = rows(backend, Role::Activation, 3, total, width);
        let mut d_qkv = rows(backend, Role::Activation, 4, total, row);
        backend.attention_backward(shape, &qkv, &batch, &d_out, &mut d_qkv);
        results.extend(read(backend, &d_qkv, total, row));
    }
    results
}

/// Sequences of which the last row of each is decoded: tiles and rows are more than these, which
/// number is rounded up.
const DECODED: usize = 9;

fn decoded_len(sequence: usize) -> usize {
    3 + 2 * sequence
}

/// A sequence's rows among those of all.
fn decoded_rows(sequence: usize) -> std::ops::Range<usize> {
    let before = (0..sequence).map(decoded_len).sum();
    before..before + decoded_len(sequence)
}

/// A decoding step with a row that is in no run, and so in no page.
fn decoding(backend: &dyn Backend) -> Results {
    let shape = tiled(None);
    let (row, width, pages) = (shape.row(), shape.heads * shape.head_dim, 2 * DECODED);
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages }).unwrap();
    let total = decoded_rows(DECODED - 1).end;
    let (mut all, mut last) = (HostBatch::default(), HostBatch::default());
    let numbers = noise(1, total * row);
    let mut queries = Vec::new();
    for sequence in 0..DECODED {
        let pages: Vec<u32> = (2 * sequence as u32..2 * sequence as u32 + 2).rev().collect();
        let len = decoded_len(sequence);
        all.push(&vec![0; len - 1], 0, &pages);
        last.push(&[0], len - 1, &pages);
        // The last row of each gets into the cache as it is decoded.
        all.tokens.push(0);
        queries.extend_from_slice(&numbers[(decoded_rows(sequence).end - 1) * row..][..row]);
    }
    last.tokens.push(0);
    queries.extend(noise(2, row));
    let qkv = rows(backend, Role::Activation, 1, total, row);
    backend.store_kv(shape, &qkv, &backend.batch(&all), &mut cache, 0);
    let mut x = backend.buffer(Role::Activation(DECODED + 1, row));
    backend.write(&mut x, 0, &queries);
    let mut out = rows(backend, Role::Activation, 3, DECODED + 1, width);
    let batch = backend.batch(&last);
    backend.store_kv(shape, &x, &batch, &mut cache, 0);
    backend.attention(shape, &x, &batch, &cache, 0, &mut out);
    read(backend, &out, DECODED + 1, width)
}

fn decoding_expected() -> Results {
    let shape = tiled(None);
    let qkv = noise(1, decoded_rows(DECODED - 1).end * shape.row());
    let by_row: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
    let reference = Reference { shape, chain: &chain };
    let output = |sequence: usize| {
        let (rows, position) = (&by_row[decoded_rows(sequence)], decoded_len(sequence) - 1);
        (0..shape.heads)
            .flat_map(|head| reference.output(rows, position, head))
            .collect::<Vec<f32>>()
    };
    let mut outputs: Vec<f32> = (0..DECODED).flat_map(output).collect();
    let width = shape.heads * shape.head_dim;
    // Rows in no run are as they were.
    outputs.extend(&noise(3, (DECODED + 1) * width)[DECODED * width..]);
    bits(&outputs)
}

/// Rows of queries, keys and values with what they are made ready with, of runs in another order
/// than their rows, and of none.
struct Prepared {
    raw: Buffer,
    norms: [Buffer; 2],
    angles: [Buffer; 2],
    batch: DeviceBatch,
}

const PREPARED: usize = 12;
const EPS: f32 = 1e-5;

impl Prepared {
    fn new(backend: &dyn Backend) -> Self {
        let (shape, head) = (tiled(None), Kind::Vector(tiled(None).head_dim));
        let run = |row, len, position, pages| Run { row, len, position, pages };
        let host = HostBatch {
            tokens: vec![0; PREPARED],
            runs: vec![run(7, 5, 0, 0..1), run(0, 6, 0, 1..2)],
            pages: vec![2, 0],
            ..HostBatch::default()
        };
        Self {
            raw: rows(backend, Role::Activation, 1, PREPARED, shape.row()),
            norms: [2, 3].map(|seed| parameter(backend, Role::Weight, head, seed)),
            angles: [4, 5]
                .map(|seed| rows(backend, Role::Exact, seed, PREPARED, shape.head_dim / 2)),
            batch: backend.batch(&host),
        }
    }
}

fn prepare(backend: &dyn Backend, normed: bool, cache: &mut Buffer) -> (Buffer, DeviceBatch) {
    let Prepared { raw, norms: [queries, keys], angles: [cos, sin], batch } =
        Prepared::new(backend);
    let norms = HeadNorms { raw: &raw, rows: PREPARED, queries: &queries, keys: &keys, eps: EPS };
    let mut qkv =
        rows(backend, Role::Activation, if normed { 6 } else { 1 }, PREPARED, tiled(None).row());
    let norms = normed.then_some(norms);
    backend.prepare_qkv(tiled(None), norms, (&cos, &sin), &mut qkv, &batch, cache, 0);
    (qkv, batch)
}

/// Rows as attention sees them, without norms, then normed; and what it makes of them and of the
/// cache.
fn prepared(backend: &dyn Backend) -> Results {
    let shape = tiled(None);
    let width = shape.heads * shape.head_dim;
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages: 3 }).unwrap();
    let mut results = Vec::new();
    for normed in [false, true] {
        let (qkv, batch) = prepare(backend, normed, &mut cache);
        results.extend(read(backend, &qkv, PREPARED, shape.row()));
        let mut out = rows(backend, Role::Activation, 7, PREPARED, width);
        backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
        results.extend(read(backend, &out, PREPARED, width));
    }
    results
}

fn prepared_bf16(backend: &Cuda<Emulator>) -> Results {
    let shape = tiled(None);
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages: 3 }).unwrap();
    let mut prepare = |normed| prepare(backend, normed, &mut cache).0;
    [false, true]
        .into_iter()
        .flat_map(|normed| read(backend, &prepare(normed), PREPARED, shape.row()))
        .collect()
}

fn prepared_bf16_expected() -> Results {
    let round = |buffer: &mut Buffer, cpu: &Cpu| {
        let rows = read(cpu, buffer, PREPARED, tiled(None).row());
        let rounded: Vec<f32> = rows.into_iter().map(|x| rounded(f32::from_bits(x))).collect();
        cpu.write(buffer, 0, &rounded);
    };
    let cpu = Cpu::new(Isa::available()[0], 1).unwrap();
    let shape = tiled(None);
    let Prepared { raw, norms: [queries, keys], angles: [cos, sin], batch } = &Prepared::new(&cpu);
    let mut results = Vec::new();
    for normed in [false, true] {
        let mut qkv = rows(&cpu, Role::Activation, 1, PREPARED, shape.row());
        if normed {
            cpu.rms_norm(shape.query_heads(), EPS, raw, queries, &mut qkv, PREPARED);
            cpu.rms_norm(shape.key_heads(), EPS, raw, keys, &mut qkv, PREPARED);
            round(&mut qkv, &cpu);
        }
        cpu.rope(shape.turned_heads(), &mut qkv, cos, sin, batch, Turn::Forward);
        round(&mut qkv, &cpu);
        results.extend(read(&cpu, &qkv, PREPARED, shape.row()));
    }
    results
}

/// More tokens than a block of the sums has.
fn head(backend: &dyn Backend) -> Results {
    let (shape, tokens) = (Linear { inputs: 12, outputs: 1100 }, 5);
    let matrix = Kind::Matrix(shape);
    let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
    let weights = parameter(backend, Role::Weight, matrix, 2);
    let mut masks = SamplingMasks::default();
    (0..tokens).for_each(|_| masks.push(&[]));
    let targets = || backend.index(&[3, 1099, 512, 0, 77]);
    let mut results =
        bits(&backend.entropy_slopes(shape, &x, &weights, &targets(), &masks, 0.7).slopes);
    let mut statistics = backend.head(shape, &x, &weights, targets(), masks.into(), 0.7);
    let HeadScores { logprobs, entropies, .. } = backend.scores(&mut statistics);
    results.extend(bits(&logprobs));
    results.extend(bits(&entropies));
    let [a, b, c] = [3, 4, 5].map(|seed| noise(seed, tokens));
    let mut dx = rows(backend, Role::Activation, 6, tokens, shape.inputs);
    let mut dw = parameter(backend, Role::Gradient, matrix, 7);
    backend.head_backward(shape, &x, &weights, &statistics, &a, &b, &c, &mut dx, &mut dw);
    results.extend(read(backend, &dx, tokens, shape.inputs));
    results.extend(numbers(backend, matrix, &dw));
    results
}

/// Draws from rows of two parts, and the scores of what is drawn.
fn parts(backend: &dyn Backend) -> Results {
    let (shape, tokens) = (Linear { inputs: 3, outputs: 8000 }, 3);
    let x = rows(backend, Role::Activation, 1, tokens, shape.inputs);
    let weights = parameter(backend, Role::Weight, Kind::Matrix(shape), 2);
    let mut draws = Vec::new();
    for row in 0..tokens {
        draws.extend([0.1, 0.6, 0.99].map(|uniform| Draw::at_temperature(0.7, row, uniform)));
        draws.push(Draw::at_temperature(0.0, row, 0.5));
    }
    let drawn = backend.draw(shape, &x, &weights, &draws);
    let of_draw = |drawn: Option<Drawn>| {
        drawn.map_or([0.0; 3], |drawn| [drawn.token as f32, drawn.logprob, drawn.entropy])
    };
    bits(&drawn.into_iter().flat_map(of_draw).collect::<Vec<f32>>())
}

/// Heads in groups of two, and what they see: a window that ends within tiles, or everything.
fn tiled(window: Option<usize>) -> Attention {
    Attention { heads: 4, kv_heads: 2, head_dim: 24, window, scale: 0.3 }
}

/// A sequence of more keys than a split has, how many of its last rows attend, and heads of keys
/// and values: so many rows that warps of a block have each its own, or one, of which each split
/// has a block, or so many heads that a block has both splits.
const LONG: usize = 1100;
/// Tokens of a sequence that does not fill its page.
const SHORT: usize = 5;
const LAST: [(usize, usize); 3] = [(9, 2), (1, 2), (1, 8)];
/// Windows for these.
const WINDOWS: [Option<usize>; 2] = [None, Some(90)];

/// Attention by the tensor core, forward.
fn tiles(cuda: &Cuda<Emulator>) -> Results {
    let mut results = Vec::new();
    for (window, (last, kv_heads)) in
        WINDOWS.into_iter().flat_map(|window| LAST.map(|last| (window, last)))
    {
        let shape = Attention { heads: 2 * kv_heads, kv_heads, ..tiled(window) };
        let (row, width) = (shape.row(), shape.heads * shape.head_dim);
        let pages: Vec<u32> = (0..LONG.div_ceil(cuda.page_positions()) as u32).rev().collect();
        let described = |first: usize| {
            let mut host = HostBatch::default();
            host.push(&vec![0; LONG - first], first, &pages);
            cuda.batch(&host)
        };
        let mut cache =
            cuda.allocate(Role::Cache { shape, layers: 1, pages: pages.len() }).unwrap();
        cuda.store_kv(
            shape,
            &rows(cuda, Role::Activation, 1, LONG, row),
            &described(0),
            &mut cache,
            0,
        );
        let mut queries = cuda.buffer(Role::Activation(last, row));
        cuda.write(&mut queries, 0, &noise(1, LONG * row)[(LONG - last) * row..]);
        let mut out = rows(cuda, Role::Activation, 2, last, width);
        cuda.attention(shape, &queries, &described(LONG - last), &cache, 0, &mut out);
        results.extend(read(cuda, &out, last, width));
    }
    // A sequence that does not fill its page, behind which is what no number may be.
    let shape = tiled(None);
    let (row, width) = (shape.row(), shape.heads * shape.head_dim);
    let mut host = HostBatch::default();
    host.push(&[0; SHORT], 0, &[0]);
    let batch = cuda.batch(&host);
    let mut cache = cuda.allocate(Role::Cache { shape, layers: 1, pages: 1 }).unwrap();
    cuda.fill(&mut cache, f32::NAN);
    let qkv = rows(cuda, Role::Activation, 5, SHORT, row);
    cuda.store_kv(shape, &qkv, &batch, &mut cache, 0);
    let mut out = rows(cuda, Role::Activation, 2, SHORT, width);
    cuda.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    results.extend(read(cuda, &out, SHORT, width));
    results
}

/// A chain of Hopper's tensor core over numbers that are bf16.
fn chain(start: f32, a: &[f32], b: &[f32]) -> f32 {
    let halves = |x: &[f32]| x.iter().map(|x| (x.to_bits() >> 16) as u16).collect::<Vec<u16>>();
    TensorCore::Hopper.chain(start, &halves(a), &halves(b))
}

fn tiles_expected() -> Results {
    let mut results = Vec::new();
    for (window, (last, kv_heads)) in
        WINDOWS.into_iter().flat_map(|window| LAST.map(|last| (window, last)))
    {
        let shape = Attention { heads: 2 * kv_heads, kv_heads, ..tiled(window) };
        let qkv = noise(1, LONG * shape.row());
        let by_position: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
        let reference = Reference { shape, chain: &chain };
        let outputs = (LONG - last..LONG).flat_map(|position| {
            (0..shape.heads)
                .flat_map(|head| reference.output(&by_position, position, head))
                .collect::<Vec<f32>>()
        });
        results.extend(bits(&outputs.collect::<Vec<f32>>()));
    }
    let shape = tiled(None);
    let qkv = noise(5, SHORT * shape.row());
    let by_position: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
    let reference = Reference { shape, chain: &chain };
    let outputs = (0..SHORT).flat_map(|position| {
        (0..shape.heads)
            .flat_map(|head| reference.output(&by_position, position, head))
            .collect::<Vec<f32>>()
    });
    results.extend(bits(&outputs.collect::<Vec<f32>>()));
    results
}

/// A sequence of two tiles, a beginning that two runs share, and windows.
fn gradient_runs() -> (usize, Vec<Run>) {
    let parts = [(0, 70), (0, 19), (19, 24), (19, 3)];
    let starts = parts.iter().scan(0, |row, (_, len)| Some(std::mem::replace(row, *row + len)));
    let run = |(row, (position, len))| Run { row, len, position, pages: 0..0 };
    (116, starts.collect::<Vec<usize>>().into_iter().zip(parts).map(run).collect())
}

/// Its gradient.
fn tiles_gradient(cuda: &Cuda<Emulator>) -> Results {
    let (total, runs) = gradient_runs();
    let mut results = Vec::new();
    for window in [None, Some(20)] {
        let shape = tiled(window);
        let (row, width) = (shape.row(), shape.heads * shape.head_dim);
        let qkv = rows(cuda, Role::Activation, 1, total, row);
        let d_out = rows(cuda, Role::Activation, 3, total, width);
        let mut d_qkv = rows(cuda, Role::Activation, 4, total, row);
        let batch = cuda.batch(&HostBatch {
            tokens: vec![0; total],
            runs: runs.clone(),
            ..HostBatch::default()
        });
        cuda.attention_backward(shape, &qkv, &batch, &d_out, &mut d_qkv);
        results.extend(read(cuda, &d_qkv, total, row));
    }
    results
}

fn tiles_gradient_expected() -> Results {
    let (total, runs) = gradient_runs();
    let gradient = |window| {
        let shape = tiled(window);
        let (qkv, d_out) =
            (noise(1, total * shape.row()), noise(3, total * shape.heads * shape.head_dim));
        bits(&Reference { shape, chain: &chain }.gradient(&qkv, &d_out, &runs))
    };
    [None, Some(20)].into_iter().flat_map(gradient).collect()
}

const LINEAR: Operations = as_on_cpu!(linear);
const PRODUCTS: Operations =
    Operations { dtype: Dtype::Bf16, on_device: products, expected: products_expected };
const MANY_BLOCKS_OF_PRODUCTS: Operations =
    Operations { dtype: Dtype::Bf16, on_device: many_blocks, expected: many_blocks_expected };
const GATED: Operations =
    Operations { dtype: Dtype::Bf16, on_device: gated, expected: gated_expected };
const PREPARED_ROWS: Operations = as_on_cpu!(prepared);
const PREPARED_BF16: Operations =
    Operations { dtype: Dtype::Bf16, on_device: prepared_bf16, expected: prepared_bf16_expected };
const NORMS: Operations = as_on_cpu!(norms);
const ELEMENTWISE: Operations = as_on_cpu!(elementwise);
const OPTIMIZER: Operations = as_on_cpu!(optimizer);
const ATTENTION: Operations = as_on_cpu!(attention);
const DECODING: Operations = as_on_cpu!(decoding);
const DECODING_TILES: Operations = Operations {
    dtype: Dtype::Bf16,
    on_device: |cuda| decoding(cuda),
    expected: decoding_expected,
};
const TILES: Operations =
    Operations { dtype: Dtype::Bf16, on_device: tiles, expected: tiles_expected };
const TILES_GRADIENT: Operations =
    Operations { dtype: Dtype::Bf16, on_device: tiles_gradient, expected: tiles_gradient_expected };
const CHAINS: Operations = as_on_cpu!(chains);
const HEAD: Operations = as_on_cpu!(head);
const PARTS: Operations = as_on_cpu!(parts);

/// Operations that use a file, by their names in mutations.txt.
fn operations(name: &str) -> Operations {
    match name {
        "linear" => LINEAR,
        "products" => PRODUCTS,
        "many_blocks" => MANY_BLOCKS_OF_PRODUCTS,
        "gated" => GATED,
        "prepared" => PREPARED_ROWS,
        "prepared_bf16" => PREPARED_BF16,
        "norms" => NORMS,
        "chains" => CHAINS,
        "elementwise" => ELEMENTWISE,
        "optimizer" => OPTIMIZER,
        "attention" => ATTENTION,
        "decoding" => DECODING,
        "decoding_tiles" => DECODING_TILES,
        "tiles" => TILES,
        "tiles_gradient" => TILES_GRADIENT,
        "head" => HEAD,
        "parts" => PARTS,
        _ => panic!("there are no operations {name}"),
    }
}

fn text(file: &str) -> Option<&'static str> {
    SOURCES
        .iter()
        .copied()
        .chain(HEADERS)
        .find(|source| source.file == file)
        .map(|source| source.text)
}

fn run(
    operations: Operations,
    seed: u64,
    races: bool,
    replaced: Option<(&str, &str)>,
) -> Result<Results, String> {
    let device = Emulator::new(Settings { seed, races, ..Settings::default() });
    let device = match replaced {
        Some((file, text)) => device.with_replaced(file, text.to_owned()),
        None => device,
    };
    let backend = Cuda::new(Arc::new(device), operations.dtype);
    catch_unwind(AssertUnwindSafe(|| (operations.on_device)(&backend))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

#[test]
fn kernels_as_they_are_pass() {
    for operations in [
        LINEAR,
        PRODUCTS,
        MANY_BLOCKS_OF_PRODUCTS,
        GATED,
        PREPARED_ROWS,
        PREPARED_BF16,
        NORMS,
        CHAINS,
        ELEMENTWISE,
        OPTIMIZER,
        ATTENTION,
        DECODING,
        DECODING_TILES,
        TILES,
        TILES_GRADIENT,
        HEAD,
        PARTS,
    ] {
        let expected = (operations.expected)();
        let schedules =
            (0..PLAIN).map(|seed| (seed, false)).chain((0..LOOKED_AT).map(|seed| (seed, true)));
        for (seed, races) in schedules {
            let got =
                run(operations, seed, races, None).unwrap_or_else(|failure| panic!("{failure}"));
            let other = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            assert_eq!((other, got.len()), (None, expected.len()), "seed {seed}, races {races}");
        }
    }
}

/// How a mutation was noticed, if it was: by what is computed or by a failure, and whether accesses
/// had to be looked at.
fn noticed(change: &Change) -> Result<String, String> {
    let (file, name) = change.of.split_once(' ').unwrap();
    let operations = operations(name);
    let changed = change.applied(text(file).unwrap()).ok_or("it does not apply any more")?;
    let expected = (operations.expected)();
    let schedules =
        (0..PLAIN).map(|seed| (seed, false)).chain((0..LOOKED_AT).map(|seed| (seed, true)));
    for (seed, races) in schedules {
        let how = if races { "looking at accesses" } else { "by schedule" };
        match run(operations, seed, races, Some((file, &changed))) {
            Ok(got) if got == expected => {}
            Ok(_) => return Ok(format!("{how}, seed {seed}: other numbers")),
            // Only the emulator's failures count, not those of the compiler or of the test.
            Err(failure) if failure.starts_with("kernel ") => {
                return Ok(format!("{how}, seed {seed}: {failure}"));
            }
            Err(failure) => return Err(failure),
        }
    }
    Err("nobody has noticed".to_owned())
}

#[test]
#[ignore = "deep: compiles a kernel for each mutation"]
fn mutations_are_noticed() {
    let changes = Change::all(include_str!("mutations.txt"));
    let next = AtomicUsize::new(0);
    // Two at once: most of the time goes to the compiler.
    let work = || {
        let each = std::iter::from_fn(|| changes.get(next.fetch_add(1, Ordering::Relaxed)));
        each.map(|change| (change, noticed(change))).collect::<Vec<_>>()
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.len() >= 20, "{} mutations", results.len());
    let mut missed = Vec::new();
    for (Change { of, what, .. }, result) in results {
        match result {
            Ok(how) => println!("{of}: {what}: {how}"),
            Err(why) => missed.push(format!("{of}: {what}: {why}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
