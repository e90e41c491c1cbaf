//! What a GPU must get right before anything is computed on it: some operations of small, odd shapes.
//!
//! Kernels are compiled on the machine by whichever compiler and driver it has. A run would not notice that one of them is wrong.

use crate::cuda::Cuda;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::failure::Failure;
use crate::gpu::chain::chain;
use half::bf16;
use isentrope_kernels::{
    AdamW, Attention, Backend, Cpu, Draw, Grouped, HostBatch, Isa, Kind, Linear, Role, SamplingMasks, Updated,
};
use std::sync::Arc;

/// Not a multiple of any tile, and more than one in both directions of a small one.
const SHAPE: Linear = Linear { inputs: 35, outputs: 71 };
/// Rows of most operations.
const ROWS: usize = 5;
/// Query heads share a head of keys, of more features than a warp has lanes.
const HEADS: Attention = Attention { heads: 2, kv_heads: 1, head_dim: 34, window: None, scale: 0.17 };
/// A head of 64 features goes through the tensor core; weights are 0 or 1 with scores so far apart.
const SELECTING: Attention = Attention { heads: 1, kv_heads: 1, head_dim: 64, window: None, scale: 1.0 };
/// Positions of the sequences that attention is computed over: more than a page, and less.
const LENS: [usize; 2] = [19, 4];

/// Computes some operations on the device, and compares every number. In f32 they must have the CPU's bits. In bf16, a
/// product must
/// have the bits of the tensor core's arithmetic as it is known, and attention must find the values that its queries ask for.
///
/// # Errors
/// A sentence that names the operation and the first numbers that differ.
///
/// # Panics
/// As operations do, when the device fails.
pub fn self_test<D: Device>(backend: &Cuda<D>) -> Result<(), String> {
    match backend.dtype() {
        Dtype::F32 => {
            let cpu = Cpu::new(Isa::available()[0], 1)?;
            let (got, want) = (results(backend), results(&cpu));
            got.iter().zip(&want).try_for_each(|((name, got), (_, want))| compare(name, got, want))
        }
        Dtype::Bf16 => {
            product(backend)?;
            selection(backend)
        }
    }
}

/// # Errors
/// As [`self_test`], when two numbers are not the same bits.
fn compare(operation: &str, got: &[f32], want: &[f32]) -> Result<(), String> {
    assert_eq!(got.len(), want.len(), "one operation has results of one shape");
    let differs = |&i: &usize| got[i].to_bits() != want[i].to_bits();
    match (0..got.len()).find(differs) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{operation} computes {:?} ({:#010x}) where it must be {:?} ({:#010x}), number {i} of {}",
            got[i],
            got[i].to_bits(),
            want[i],
            want[i].to_bits(),
            got.len()
        )),
    }
}

/// Numbers from -1 to 1 without a pattern, the same on every machine.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn rows<B: Backend>(backend: &B, numbers: &[f32], features: usize) -> B::Buffer {
    let mut buffer = backend.buffer(Role::Activation(numbers.len() / features, features));
    backend.write(&mut buffer, 0, numbers);
    buffer
}

/// A weight or a gradient.
///
/// # Panics
/// When there is no memory even for this.
fn parameter<B: Backend>(backend: &B, role: Role, kind: Kind, numbers: &[f32]) -> B::Buffer {
    let mut buffer = backend.allocate(role).unwrap_or_else(|refused| Failure::from(refused).end());
    backend.pack(kind, 0, numbers, &mut buffer);
    buffer
}

fn read<B: Backend>(backend: &B, buffer: &B::Buffer, numbers: usize) -> Vec<f32> {
    let mut read = vec![0.0; numbers];
    backend.read(buffer, 0, &mut read);
    read
}

/// A weight, a gradient or a moment, in the order in which the backend keeps it.
fn kept<B: Backend>(backend: &B, buffer: &B::Buffer, numbers: usize) -> Vec<f32> {
    let mut read = vec![0.0; numbers];
    backend.read_numbers(buffer, 0, &mut read);
    read
}

/// What operations come to, by their names.
fn results<B: Backend>(backend: &B) -> Vec<(&'static str, Vec<f32>)> {
    let mut results = on_rows(backend);
    results.extend(on_sequences(backend));
    results
}

fn on_rows<B: Backend>(b: &B) -> Vec<(&'static str, Vec<f32>)> {
    let Linear { inputs, outputs } = SHAPE;
    let kind = Kind::Matrix(SHAPE);
    let numbers = b.numbers(kind);
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
    results.push(("the gradient of a linear layer's weights", kept(b, &dw, numbers)));

    let vector = Kind::Vector(inputs);
    let scale = parameter(b, Role::Weight(vector), vector, &noise(7, inputs));
    let mut normed = rows(b, &noise(8, ROWS * inputs), inputs);
    b.rms_norm(Grouped::rows(inputs), 1e-5, &x, &scale, &mut normed, ROWS);
    results.push(("a norm", read(b, &normed, ROWS * inputs)));

    let targets: Vec<u32> = (0..ROWS as u32).map(|row| row * 13 % outputs as u32).collect();
    let mut masks = SamplingMasks::default();
    for &target in &targets {
        masks.push(
            &(0..outputs as u32).filter(|&token| token == target || token % 3 == 0).collect::<Vec<_>>(),
        );
    }
    let mut statistics = b.head(SHAPE, &normed, &weights, b.index(&targets), Arc::new(masks), 0.9);
    let scores = b.scores(&mut statistics);
    results.push(("the head's log-probs", scores.logprobs));
    results.push(("the head's entropies", scores.entropies));
    results.push(("the head's log-masses", scores.log_masses));
    let draws: Vec<Draw> =
        (0..ROWS).map(|row| Draw::at_temperature(0.8, row, (row as f64 + 0.5) / ROWS as f64)).collect();
    let drawn = b.draw(SHAPE, &normed, &weights, &draws);
    // None, for logits that are not finite, is no token.
    let tokens = drawn.iter().map(|drawn| drawn.as_ref().map_or(-1.0, |drawn| drawn.token as f32));
    results.push(("a draw", tokens.collect()));
    let logprobs = drawn.iter().map(|drawn| drawn.as_ref().map_or(f32::NAN, |drawn| drawn.logprob));
    results.push(("a draw's log-prob", logprobs.collect()));
    let entropies = drawn.iter().map(|drawn| drawn.as_ref().map_or(f32::NAN, |drawn| drawn.entropy));
    results.push(("a draw's entropy", entropies.collect()));

    let mut moments = [9, 10].map(|seed| {
        let mut moment =
            b.allocate(Role::Moment(numbers)).unwrap_or_else(|refused| Failure::from(refused).end());
        let positive: Vec<f32> = noise(seed, numbers).into_iter().map(f32::abs).collect();
        b.write_numbers(&mut moment, 0, &positive);
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
    let updated = Updated { weights: &mut weights, gradient: &dw, numbers: 0..numbers, first, second };
    b.adamw(settings, &mut [updated]);
    results.push(("AdamW", kept(b, &weights, numbers)));
    results.push(("AdamW's first moment", kept(b, &moments[0], numbers)));
    results.push(("AdamW's second moment", kept(b, &moments[1], numbers)));
    results
}

/// Sequences in a cache whose pages are out of order, and how many pages there are.
fn sequences<B: Backend>() -> (HostBatch, usize) {
    let mut batch = HostBatch::default();
    let mut pages = 0;
    for len in LENS {
        let own = len.div_ceil(B::PAGE) as u32;
        batch.push(&vec![0; len], 0, &(pages..pages + own).rev().collect::<Vec<_>>());
        pages += own;
    }
    (batch, pages as usize)
}

/// Attention over a cache that has just been filled with the same keys and values, `[positions, heads * head_dim]`.
fn attention<B: Backend>(backend: &B, shape: Attention, qkv: &[f32]) -> Vec<f32> {
    let (host, pages) = sequences::<B>();
    let (total, width) = (host.rows(), shape.heads * shape.head_dim);
    let role = Role::Cache { shape, layers: 1, pages };
    let mut cache = backend.allocate(role).unwrap_or_else(|refused| Failure::from(refused).end());
    let qkv = rows(backend, qkv, shape.row());
    let mut out = rows(backend, &noise(11, total * width), width);
    let batch = backend.batch(&host);
    backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    read(backend, &out, total * width)
}

fn on_sequences<B: Backend>(b: &B) -> Vec<(&'static str, Vec<f32>)> {
    let total: usize = LENS.iter().sum();
    let (row, width) = (HEADS.row(), HEADS.heads * HEADS.head_dim);
    let numbers = noise(12, total * row);
    let qkv = rows(b, &numbers, row);
    let d_out = rows(b, &noise(13, total * width), width);
    let mut d_qkv = rows(b, &noise(14, total * row), row);
    b.attention_backward(HEADS, &qkv, &b.batch(&sequences::<B>().0), &d_out, &mut d_qkv);
    vec![
        ("attention", attention(b, HEADS, &numbers)),
        ("the gradient of attention", read(b, &d_qkv, total * row)),
    ]
}

/// A product of bf16. Tensor cores whose arithmetic is not known here (compute capability below 9) get small whole numbers,
/// whose sums
/// are exact in any arithmetic.
///
/// # Errors
/// As [`self_test`].
fn product<D: Device>(backend: &Cuda<D>) -> Result<(), String> {
    let Linear { inputs, outputs } = SHAPE;
    let is_known = backend.device().limits().capability.0 >= 9;
    let numbers = |seed, len| -> Vec<f32> {
        let number = |x: f32| if is_known { bf16::from_f32(x).to_f32() } else { (x * 8.0).round() };
        noise(seed, len).into_iter().map(number).collect()
    };
    let (x, weights) = (numbers(1, ROWS * inputs), numbers(3, inputs * outputs));
    let kind = Kind::Matrix(SHAPE);
    let packed = parameter(backend, Role::Weight(kind), kind, &weights);
    let mut y = rows(backend, &noise(5, ROWS * outputs), outputs);
    backend.linear(SHAPE, &rows(backend, &x, inputs), &packed, None, &mut y, ROWS);
    let bits = |numbers: &[f32]| -> Vec<u16> {
        numbers.iter().map(|&number| bf16::from_f32(number).to_bits()).collect()
    };
    let (x, weights) = (bits(&x), bits(&weights));
    let pairs = x.chunks(inputs).flat_map(|x| weights.chunks(inputs).map(move |w| (x, w)));
    let want: Vec<f32> = pairs.map(|(x, w)| bf16::from_f32(chain(0.0, x, w)).to_f32()).collect();
    compare("a linear layer in bf16", &read(backend, &y, ROWS * outputs), &want)
}

/// Attention in bf16. Keys are unit vectors, and each query asks for one of them so strongly that all others weigh nothing:
/// the result
/// is that position's value, whatever the arithmetic.
///
/// # Errors
/// As [`self_test`].
fn selection<D: Device>(backend: &Cuda<D>) -> Result<(), String> {
    /// The square of it is beyond what an exponential in f32 can tell from 0.
    const STRENGTH: f32 = 16.0;
    let dim = SELECTING.head_dim;
    let (mut qkv, mut want) = (Vec::new(), Vec::new());
    for (sequence, len) in LENS.into_iter().enumerate() {
        let values: Vec<f32> = noise(15 + sequence as u64, len * dim)
            .into_iter()
            .map(|value| bf16::from_f32(value).to_f32())
            .collect();
        for position in 0..len {
            let wanted = (position * 7 + 3) % (position + 1); // itself or an earlier one
            let unit = |at: usize| (0..dim).map(move |i| if i == at { STRENGTH } else { 0.0 });
            let value = |at: usize| &values[at * dim..][..dim];
            qkv.extend(unit(wanted).chain(unit(position)));
            qkv.extend(value(position));
            want.extend(value(wanted));
        }
    }
    compare("attention in bf16", &attention(backend, SELECTING, &qkv), &want)
}
