//! Mistakes in the kernels are noticed. Each change in mutations.txt is made in a kernel's source,
//! and the emulated device's results are compared with the CPU's, or with chains of the tensor
//! core, under several schedules.
//!
//! A change that no longer applies, because the kernel has changed, is a failure too: replace it by
//! another.

use crate::attention_bits::{Case, Times, gradient, gradient_expected, output};
use crate::equal_to_cpu as on_f32;
use crate::patches::Change;
use crate::products::Able;
use crate::support::{Results, Trial, caught, cpu, difference, halves, rounded, short_noise};
use crate::watched::Watched;
use isentrope_cuda::{Cuda, Dtype, HEADERS, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings, TensorCore};
use isentrope_kernels::{
    Attention, Backend, Buffer, Cpu, DeltaRule, DeviceBatch, Gate, Grouped, HeadNorms, HostBatch,
    Kind, Linear, LowRank, RmsNorm, Role, Router, Run, Turn,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The tensor core of the emulated device.
const CORE: TensorCore = TensorCore::Hopper;

/// Operations that use a kernel, on the device and by definition.
#[derive(Clone, Copy)]
enum Operations {
    /// In f32, with the bits of the CPU.
    F32(fn(&mut Trial<'_>)),
    Bf16 {
        on_device: fn(&Cuda) -> Results,
        expected: fn() -> Results,
    },
}

/// Operations by their names in mutations.txt.
const OPERATIONS: [(&str, Operations); 21] = {
    use Operations::{Bf16, F32};
    [
        ("linear", F32(|t| on_f32::linear(t, Linear { inputs: 70, outputs: 130 }, 20))),
        ("norms", F32(|t| on_f32::norms(t, groups(50, 1, 48), 11))),
        ("chains", F32(chains)),
        ("elementwise", F32(elementwise)),
        ("optimizer", F32(|t| on_f32::optimizer(t, Linear { inputs: 3, outputs: 20 }))),
        ("experts", F32(experts)),
        ("delta_rule", F32(delta_rule)),
        ("attention", F32(attention)),
        ("decoding", F32(decoding)),
        ("prepared", F32(prepared)),
        // More tokens than a block of the sums has.
        ("head", F32(|t| on_f32::head(t, Linear { inputs: 12, outputs: 1100 }, 5))),
        // Rows of two parts.
        ("parts", F32(|t| on_f32::draws(t, Linear { inputs: 3, outputs: 8000 }, 5))),
        ("products", Bf16 { on_device: products, expected: products_expected }),
        ("many_blocks", Bf16 { on_device: many_blocks, expected: many_blocks_expected }),
        ("gated", Bf16 { on_device: gated, expected: gated_expected }),
        ("adapted", Bf16 { on_device: adapted, expected: adapted_expected }),
        ("normed", Bf16 { on_device: normed, expected: normed_expected }),
        ("prepared_bf16", Bf16 { on_device: prepared_bf16, expected: prepared_bf16_expected }),
        ("decoding_tiles", Bf16 { on_device: decoding_tiles, expected: decoding_expected }),
        ("tiles", Bf16 { on_device: tiles, expected: tiles_expected }),
        ("tiles_gradient", Bf16 { on_device: tiles_gradient, expected: tiles_gradient_expected }),
    ]
};

/// Groups of features, each row with one number before them.
const fn groups(stride: usize, groups: usize, features: usize) -> Grouped {
    Grouped { stride, offset: 1, groups, features }
}

/// Gradients that are chains of more steps than are loaded at a time.
fn chains(t: &mut Trial<'_>) {
    on_f32::norms(t, groups(40, 3, 13), 50);
    on_f32::bias_gradient(t, 40, 150);
}

fn elementwise(t: &mut Trial<'_>) {
    on_f32::glu(t, 26, 40);
    on_f32::rope(t, Grouped { stride: 52, offset: 0, groups: 2, features: 26 }, 40);
    on_f32::selection(t, Linear { inputs: 52, outputs: 70 }, 40);
    on_f32::output_gates(t, 52, 40);
}

/// A sequence of two segments, and a beginning shorter than the convolution that runs continue.
fn delta_rule(t: &mut Trial<'_>) {
    let shape =
        DeltaRule { key_heads: 1, value_heads: 2, key_dim: 32, value_dim: 48, taps: 4, eps: 1e-6 };
    on_f32::delta_rule(t, shape, &[(33, true), (1, true), (3, false), (1, false)]);
    on_f32::delta_steps(t, shape, &[&[2, 3], &[3, 1]]);
}

/// More experts than a warp has lanes, with and without normalised weights.
fn experts(t: &mut Trial<'_>) {
    for normalised in [false, true] {
        on_f32::experts(t, Router { experts: 61, chosen: 8, normalised }, 33, 40);
    }
}

/// Sequences whose keys do not fit one tile, with a window and without.
fn attention(t: &mut Trial<'_>) {
    let shape = Attention { heads: 4, kv_heads: 2, head_dim: 12, window: None, scale: 0.3 };
    on_f32::sequences(t, shape, &[37, 3, 48]);
    on_f32::sequences(t, Attention { window: Some(20), ..shape }, &[50, 18, 5]);
}

/// Layers and tokens that fill no tile, and enough of both for several tiles in each position. The
/// first layer has small tiles and, in its gradient by weights, large ones; the second has narrow
/// tiles.
const PRODUCTS_OF: [(Linear, usize); 2] =
    [(Linear { inputs: 133, outputs: 190 }, 83), (Linear { inputs: 587, outputs: 42 }, 18)];

/// Outputs with a bias.
fn outputs(t: &mut Trial<'_>, (shape, tokens): (Linear, usize)) {
    let x = t.rows(1, tokens, shape.inputs);
    let weights = t.parameter(Role::Weight, Kind::Matrix(shape), 3);
    let bias = t.parameter(Role::Weight, Kind::Vector(shape.outputs), 4);
    let mut y = t.rows(5, tokens, shape.outputs);
    t.backend.linear(shape, &x, &weights, Some(&bias), &mut y, tokens);
    t.push_rows("outputs", &y, tokens, shape.outputs);
}

fn products(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    PRODUCTS_OF.into_iter().for_each(|of| outputs(&mut t, of));
    let (shape, tokens) = PRODUCTS_OF[0];
    let matrix = Kind::Matrix(shape);
    let (x, dy) = (t.rows(1, tokens, shape.inputs), t.rows(2, tokens, shape.outputs));
    let weights = t.parameter(Role::Weight, matrix, 3);
    let mut dx = t.rows(6, tokens, shape.inputs);
    cuda.linear_backward_input(shape, &dy, &weights, &mut dx, tokens);
    t.push_rows("dx", &dx, tokens, shape.inputs);
    let mut dw = t.parameter(Role::Gradient, matrix, 7);
    cuda.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
    let mut values = vec![0.0; shape.inputs * shape.outputs];
    cuda.unpack(matrix, 0, &dw, &mut values);
    t.push("dw", &values);
    t.results
}

fn outputs_expected(of: (Linear, usize)) -> Vec<f32> {
    exact_outputs(of).into_iter().map(rounded).collect()
}

/// Outputs with a bias before they are rounded.
fn exact_outputs((shape, tokens): (Linear, usize)) -> Vec<f32> {
    let Linear { inputs, outputs } = shape;
    let [x, w] =
        [(1, tokens), (3, outputs)].map(|(seed, n)| halves(&short_noise(seed, n * inputs)));
    let bias = short_noise(4, outputs);
    let of_row = |x: &[u16]| {
        let sums = w.chunks(inputs).map(|w| CORE.chain(0.0, x, w));
        sums.zip(&bias).map(|(sum, bias)| sum + bias).collect::<Vec<_>>()
    };
    x.chunks(inputs).flat_map(of_row).collect()
}

fn products_expected() -> Results {
    let mut t = Trial::new(&*CPU);
    PRODUCTS_OF.into_iter().for_each(|of| t.push("outputs", &outputs_expected(of)));
    let (Linear { inputs, outputs }, tokens) = PRODUCTS_OF[0];
    let [x, dy, w] = [(1, tokens * inputs), (2, tokens * outputs), (3, inputs * outputs)]
        .map(|(seed, len)| halves(&short_noise(seed, len)));
    let before = short_noise(7, inputs * outputs);
    let column = |from: &[u16], width: usize, at: usize| {
        from.iter().skip(at).step_by(width).copied().collect::<Vec<u16>>()
    };
    let dx = dy.chunks(outputs).flat_map(|dy| {
        (0..inputs)
            .map(|i| rounded(CORE.chain(0.0, dy, &column(&w, inputs, i))))
            .collect::<Vec<_>>()
    });
    t.push("dx", &dx.collect::<Vec<f32>>());
    let dw = (0..outputs).flat_map(|o| {
        let dy = column(&dy, outputs, o);
        let sum = |i| CORE.chain(before[o * inputs + i], &dy, &column(&x, inputs, i));
        (0..inputs).map(sum).collect::<Vec<_>>()
    });
    t.push("dw", &dw.collect::<Vec<f32>>());
    t.results
}

/// A product with more rows of tiles than are computed together, and with two columns of them.
const MANY_BLOCKS: (Linear, usize) = (Linear { inputs: 3, outputs: 130 }, 2180);

fn many_blocks(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    outputs(&mut t, MANY_BLOCKS);
    t.results
}

fn many_blocks_expected() -> Results {
    let mut t = Trial::new(&*CPU);
    t.push("outputs", &outputs_expected(MANY_BLOCKS));
    t.results
}

const GELU: Gate = Gate::GeluTanh;

/// The outputs of the products, gated.
fn gated(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    for (shape, tokens) in PRODUCTS_OF {
        let features = shape.outputs / 2;
        let x = t.rows(1, tokens, shape.inputs);
        let weights = t.parameter(Role::Weight, Kind::Matrix(shape), 3);
        let bias = t.parameter(Role::Weight, Kind::Vector(shape.outputs), 4);
        let (mut kept, mut y) = (t.rows(5, tokens, shape.outputs), t.rows(6, tokens, features));
        cuda.linear_glu(shape, GELU, &x, &weights, Some(&bias), Some(&mut kept), &mut y, tokens);
        t.push_rows("kept", &kept, tokens, shape.outputs);
        t.push_rows("gated", &y, tokens, features);
    }
    t.results
}

fn gated_expected() -> Results {
    let mut t = Trial::new(&*CPU);
    for (shape, tokens) in PRODUCTS_OF {
        let (outputs, features) = (outputs_expected((shape, tokens)), shape.outputs / 2);
        let mut y = t.rows(6, tokens, features);
        CPU.glu(GELU, features, &t.rows_of(&outputs, shape.outputs), &mut y, tokens);
        let gated: Vec<f32> = t.read(&y, tokens * features).into_iter().map(rounded).collect();
        t.push("kept", &outputs);
        t.push("gated", &gated);
    }
    t.results
}

/// A layer that a library may compute, and its rows: more numbers than a block has threads.
const NORMED: (Linear, usize) = (Linear { inputs: 40, outputs: 1160 }, 3);

/// Outputs that are added to a residual from the library's unrounded sums, and normed.
fn normed(cuda: &Cuda) -> Results {
    let (mut t, (shape, tokens)) = (Trial::short(cuda), NORMED);
    let x = t.rows(1, tokens, shape.inputs);
    let weights = t.parameter(Role::Weight, Kind::Matrix(shape), 3);
    let [bias, norm] =
        [4, 8].map(|seed| t.parameter(Role::Weight, Kind::Vector(shape.outputs), seed));
    let [mut y, mut out] = [5, 6].map(|seed| t.rows(seed, tokens, shape.outputs));
    let bias = Some(&bias);
    cuda.linear_add_norm(shape, &x, &weights, bias, &mut y, NORM, &norm, &mut out, tokens);
    t.push_rows("added", &y, tokens, shape.outputs);
    t.push_rows("normed", &out, tokens, shape.outputs);
    t.results
}

fn normed_expected() -> Results {
    let (mut t, (shape, tokens)) = (Trial::short(&*CPU), NORMED);
    let (outputs, before) = (shape.outputs, short_noise(5, tokens * shape.outputs));
    let sums = exact_outputs(NORMED);
    let added: Vec<f32> = before.iter().zip(&sums).map(|(y, sum)| rounded(y + sum)).collect();
    let weight = t.parameter(Role::Weight, Kind::Vector(outputs), 8);
    let mut out = t.rows(6, tokens, outputs);
    let (layout, of_added) = (Grouped::rows(outputs), t.rows_of(&added, outputs));
    CPU.rms_norm(layout, NORM, &of_added, &weight, &mut out, tokens);
    t.push("added", &added);
    let normed: Vec<f32> = t.read(&out, tokens * outputs).into_iter().map(rounded).collect();
    t.push("normed", &normed);
    t.results
}

/// Ranks of the products' adapters: beside small tiles, and as many as fill narrow ones.
const RANKS: [usize; 2] = [19, 64];

/// The products with adapters: added to a residual, and gated.
fn adapted(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    for ((shape, tokens), ranks) in PRODUCTS_OF.into_iter().zip(RANKS) {
        let Linear { inputs, outputs } = shape;
        let (down, up) = (Linear { inputs, outputs: ranks }, Linear { inputs: ranks, outputs });
        let x = t.rows(1, tokens, inputs);
        let [w, a, b] = [(shape, 3), (down, 8), (up, 9)]
            .map(|(shape, seed)| t.parameter(Role::Weight, Kind::Matrix(shape), seed));
        let bias = t.parameter(Role::Weight, Kind::Vector(outputs), 4);
        let scales = t.exact(10, 1, ranks);
        let adapter = LowRank { down, a: &a, scales: &scales, up, b: &b };
        let mut sum = t.rows(5, tokens, outputs);
        cuda.linear_adapted(shape, &x, &w, Some(&bias), adapter, &mut sum, tokens, true);
        t.push_rows("added", &sum, tokens, outputs);
        let (mut kept, mut y) = (t.rows(5, tokens, outputs), t.rows(6, tokens, outputs / 2));
        let bias = Some(&bias);
        cuda.linear_adapted_glu(shape, GELU, &x, &w, bias, adapter, &mut kept, &mut y, tokens);
        t.push_rows("kept", &kept, tokens, outputs);
        t.push_rows("gated", &y, tokens, outputs / 2);
    }
    t.results
}

fn adapted_expected() -> Results {
    let mut t = Trial::short(&*CPU);
    for ((shape, tokens), ranks) in PRODUCTS_OF.into_iter().zip(RANKS) {
        let Linear { inputs, outputs } = shape;
        let [x, a, b] = [(1, tokens * inputs), (8, ranks * inputs), (9, outputs * ranks)]
            .map(|(seed, len)| halves(&short_noise(seed, len)));
        let scales = t.read(&t.exact(10, 1, ranks), ranks);
        let of_row = |x: &[u16]| {
            let products = a.chunks(inputs).map(|a| rounded(CORE.chain(0.0, x, a)));
            let reduced = products.zip(&scales).map(|(product, scale)| rounded(product * scale));
            let reduced = halves(&reduced.collect::<Vec<_>>());
            b.chunks(ranks).map(|b| CORE.chain(0.0, &reduced, b)).collect::<Vec<_>>()
        };
        let branch: Vec<f32> = x.chunks(inputs).flat_map(of_row).collect();
        let with_branch = |y: Vec<f32>| -> Vec<f32> {
            y.iter().zip(&branch).map(|(y, more)| rounded(y + more)).collect()
        };
        let before = short_noise(5, tokens * outputs);
        let sums = exact_outputs((shape, tokens));
        let added = before.iter().zip(&sums).map(|(y, sum)| rounded(y + sum)).collect();
        t.push("added", &with_branch(added));
        let kept = with_branch(outputs_expected((shape, tokens)));
        let (features, mut y) = (outputs / 2, t.rows(6, tokens, outputs / 2));
        CPU.glu(GELU, features, &t.rows_of(&kept, outputs), &mut y, tokens);
        let gated: Vec<f32> = t.read(&y, tokens * features).into_iter().map(rounded).collect();
        t.push("kept", &kept);
        t.push("gated", &gated);
    }
    t.results
}

/// The number of sequences whose last row is decoded. It is rounded up, so there are more tiles and
/// rows than sequences.
const DECODED: usize = 9;

fn decoded_len(sequence: usize) -> usize {
    3 + 2 * sequence
}

/// A sequence's rows in the batch of all sequences.
fn decoded_rows(sequence: usize) -> std::ops::Range<usize> {
    let before = (0..sequence).map(decoded_len).sum();
    before..before + decoded_len(sequence)
}

/// A decoding step with one row in no run, which has no page.
fn decoding(t: &mut Trial<'_>) {
    let (backend, shape) = (t.backend, tiled(None));
    let (row, width, pages) = (shape.row(), shape.heads * shape.head_dim, 2 * DECODED);
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages }).unwrap();
    let total = decoded_rows(DECODED - 1).end;
    let (mut all, mut last) = (HostBatch::default(), HostBatch::default());
    let (numbers, mut queries) = (short_noise(1, total * row), Vec::new());
    for sequence in 0..DECODED {
        let pages: Vec<u32> = (2 * sequence as u32..2 * sequence as u32 + 2).rev().collect();
        let len = decoded_len(sequence);
        all.push(&vec![0; len - 1], 0, &pages);
        last.push(&[0], len - 1, &pages);
        // The last row of each sequence is stored when it is decoded.
        all.tokens.push(0);
        queries.extend_from_slice(&numbers[(decoded_rows(sequence).end - 1) * row..][..row]);
    }
    last.tokens.push(0);
    queries.extend(short_noise(2, row));
    backend.store_kv(shape, &t.rows_of(&numbers, row), &backend.upload_batch(&all), &mut cache, 0);
    let x = t.rows_of(&queries, row);
    let mut out = t.rows_of(&short_noise(3, (DECODED + 1) * width), width);
    let batch = backend.upload_batch(&last);
    backend.store_kv(shape, &x, &batch, &mut cache, 0);
    backend.attention(shape, &x, &batch, &cache, 0, &mut out);
    t.push_rows("decoded rows", &out, DECODED + 1, width);
}

fn decoding_tiles(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    decoding(&mut t);
    t.results
}

fn decoding_expected() -> Results {
    let shape = tiled(None);
    let qkv = short_noise(1, decoded_rows(DECODED - 1).end * shape.row());
    let by_row: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
    let mut outputs: Vec<f32> = (0..DECODED)
        .flat_map(|of| output(CORE, shape, &by_row[decoded_rows(of)], decoded_len(of) - 1))
        .collect();
    let width = shape.heads * shape.head_dim;
    // Rows in no run keep their content.
    outputs.extend(&short_noise(3, (DECODED + 1) * width)[DECODED * width..]);
    let mut t = Trial::new(&*CPU);
    t.push("decoded rows", &outputs);
    t.results
}

/// Rows of queries, keys and values, and the norms and angles to prepare them with. The runs have
/// another order than their rows, and some rows are in no run.
struct Prepared {
    raw: Buffer,
    norms: [Buffer; 2],
    angles: [Buffer; 2],
    batch: DeviceBatch,
}

const PREPARED: usize = 12;
/// With weights that are shifted.
const NORM: RmsNorm = RmsNorm { eps: 1e-5, shift: 1.0 };

impl Prepared {
    fn new(t: &Trial<'_>) -> Self {
        let (shape, head) = (tiled(None), Kind::Vector(tiled(None).head_dim));
        let run = |row, len, pages| Run { row, len, position: 0, pages };
        let host = HostBatch {
            tokens: vec![0; PREPARED],
            runs: vec![run(7, 5, 0..1), run(0, 6, 1..2)],
            pages: vec![2, 0],
            ..HostBatch::default()
        };
        Self {
            raw: t.rows(1, PREPARED, shape.row()),
            norms: [2, 3].map(|seed| t.parameter(Role::Weight, head, seed)),
            angles: [4, 5].map(|seed| t.exact(seed, PREPARED, shape.head_dim / 2)),
            batch: t.backend.upload_batch(&host),
        }
    }
}

/// Rows as attention sees them, first without norms, then with them; and attention's outputs from
/// these rows and the cache.
fn prepared(t: &mut Trial<'_>) {
    let (backend, shape) = (t.backend, tiled(None));
    let width = shape.heads * shape.head_dim;
    let mut cache = backend.allocate(Role::Cache { shape, layers: 1, pages: 3 }).unwrap();
    let Prepared { raw, norms: [queries, keys], angles: [cos, sin], batch } = &Prepared::new(t);
    for normed in [false, true] {
        let norms = HeadNorms { raw, rows: PREPARED, queries, keys, norm: NORM };
        let mut qkv = t.rows(if normed { 6 } else { 1 }, PREPARED, shape.row());
        let norms = normed.then_some(norms);
        backend.prepare_qkv(shape, norms, (cos, sin), &mut qkv, batch, &mut cache, 0);
        t.push_rows("prepared", &qkv, PREPARED, shape.row());
        let mut out = t.rows(7, PREPARED, width);
        backend.attention(shape, &qkv, batch, &cache, 0, &mut out);
        t.push_rows("attention", &out, PREPARED, width);
    }
}

fn prepared_bf16(cuda: &Cuda) -> Results {
    let mut t = Trial::short(cuda);
    prepared(&mut t);
    t.results.retain(|(name, _)| name == "prepared");
    t.results
}

fn prepared_bf16_expected() -> Results {
    let (mut t, shape, cpu) = (Trial::short(&*CPU), tiled(None), &*CPU);
    let round = |buffer: &mut Buffer| {
        let mut rows = vec![0.0; PREPARED * shape.row()];
        cpu.read(buffer, 0, &mut rows);
        rows.iter_mut().for_each(|x| *x = rounded(*x));
        cpu.write(buffer, 0, &rows);
    };
    let Prepared { raw, norms: [queries, keys], angles: [cos, sin], batch } = &Prepared::new(&t);
    for normed in [false, true] {
        let mut qkv = t.rows(1, PREPARED, shape.row());
        if normed {
            cpu.rms_norm(shape.query_heads(), NORM, raw, queries, &mut qkv, PREPARED);
            cpu.rms_norm(shape.key_heads(), NORM, raw, keys, &mut qkv, PREPARED);
            round(&mut qkv);
        }
        cpu.rope(shape.turned_heads(), &mut qkv, cos, sin, batch, Turn::Forward);
        round(&mut qkv);
        t.push_rows("prepared", &qkv, PREPARED, shape.row());
    }
    t.results
}

/// Heads in groups of two, with a window that ends within tiles, or without.
fn tiled(window: Option<usize>) -> Attention {
    Attention { heads: 4, kv_heads: 2, head_dim: 24, window, scale: 0.3 }
}

/// A sequence of more keys than a split has. Its last rows attend such that each warp of a block
/// has rows of its own, or that each split of one row has a block, or, with more heads, that a
/// block has both splits. Then a sequence that does not fill its page.
fn tiled_cases() -> impl Iterator<Item = Case> {
    let times = Times::One;
    let long = [None, Some(90)].into_iter().flat_map(move |window| {
        [(9, 2), (1, 2), (1, 8)].map(|(rows, kv_heads)| {
            let shape = Attention { heads: 2 * kv_heads, kv_heads, ..tiled(window) };
            Case { shape, len: 1100, rows, times }
        })
    });
    long.chain([Case { shape: tiled(None), len: 5, rows: 5, times }])
}

fn tiles(cuda: &Cuda) -> Results {
    tiled_cases().flat_map(|case| case.outputs(cuda)).collect()
}

fn tiles_expected() -> Results {
    tiled_cases().flat_map(|case| case.expected(CORE)).collect()
}

/// A sequence of two tiles, and a beginning that two runs share.
const GRADIENT_RUNS: [(usize, usize); 4] = [(0, 70), (0, 19), (19, 24), (19, 3)];

fn tiles_gradient(cuda: &Cuda) -> Results {
    let windows = [None, Some(20)].into_iter();
    windows.flat_map(|window| gradient(cuda, tiled(window), &GRADIENT_RUNS)).collect()
}

fn tiles_gradient_expected() -> Results {
    let windows = [None, Some(20)].into_iter();
    windows.flat_map(|window| gradient_expected(CORE, tiled(window), &GRADIENT_RUNS)).collect()
}

/// Schedules: seeds, and whether the emulator examines every access.
fn schedules() -> impl Iterator<Item = (u64, bool)> {
    (0..6).map(|seed| (seed, false)).chain((0..2).map(|seed| (seed, true)))
}

static CPU: std::sync::LazyLock<Cpu> = std::sync::LazyLock::new(cpu);

impl Operations {
    fn expected(self) -> Results {
        match self {
            Self::F32(operations) => {
                let mut t = Trial::new(&*CPU);
                operations(&mut t);
                t.results
            }
            Self::Bf16 { expected, .. } => expected(),
        }
    }

    /// Runs the operations on the device; the error is the text of its panic.
    fn on_device(
        self,
        (seed, races): (u64, bool),
        replaced: Option<(&str, &str)>,
    ) -> Result<Results, String> {
        let mut device = Emulator::new(Settings { seed, races, ..Settings::default() });
        if let Some((file, text)) = replaced {
            device = device.with_replaced(file, text.to_owned());
        }
        // The library of products takes none whose sizes are no multiples of 8, and computes none.
        let device = Arc::new(Watched { emulator: device, watch: Able::default() });
        caught(|| match self {
            Self::F32(operations) => {
                let cuda = Cuda::new(device, Dtype::F32);
                let mut t = Trial::new(&cuda);
                operations(&mut t);
                t.results
            }
            Self::Bf16 { on_device, .. } => on_device(&Cuda::new(device, Dtype::Bf16)),
        })
    }
}

/// Operations by their name, and their results by definition, which are computed once.
fn known(name: &str) -> (Operations, &'static Results) {
    static EXPECTED: [OnceLock<Results>; OPERATIONS.len()] =
        [const { OnceLock::new() }; OPERATIONS.len()];
    let place = OPERATIONS.iter().position(|(known, _)| *known == name).unwrap();
    let (_, operations) = OPERATIONS[place];
    (operations, EXPECTED[place].get_or_init(|| operations.expected()))
}

#[test]
#[ignore = "deep: many schedules on the emulator"]
fn kernels_as_they_are_pass() {
    for (name, _) in OPERATIONS {
        let (operations, expected) = known(name);
        for schedule in schedules() {
            let got =
                operations.on_device(schedule, None).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(difference(&got, expected), None, "{name}, {schedule:?}");
        }
    }
}

/// How a mutation was noticed: by other results or by a failure, and whether accesses had to be
/// checked. An error if it was not noticed.
fn noticed(change: &Change) -> Result<String, String> {
    let (file, name) = change.of.split_once(' ').unwrap();
    let text = SOURCES.iter().copied().chain(HEADERS).find(|source| source.file == file).unwrap();
    let changed = change.applied(text.text).ok_or("it does not apply any more")?;
    let (operations, expected) = known(name);
    for (seed, races) in schedules() {
        let how = if races { "looking at accesses" } else { "by schedule" };
        match operations.on_device((seed, races), Some((file, &changed))) {
            Ok(got) if got == *expected => {}
            Ok(_) => return Ok(format!("{how}, seed {seed}: other numbers")),
            // Only the emulator's failures count. The compiler's and the test's do not.
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
    // Two threads: most of the time goes to the compiler.
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
