//! Attention by the tensor core equals its definition in scalar code, bit for bit: forward and backward, heads of all sizes,
//! windows, shared beginnings, and sequences of several splits, whether one block has these or each has its own.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod attention_reference;
mod t16;

use attention_reference::Reference;
use half::bf16;
use isentrope_cuda::{Cuda, CudaBuffer, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{Attention, Backend, HostBatch, Role, Run};
use std::sync::Arc;
use t16::Step;

type Emulated = Cuda<Emulator>;

/// A backend with bf16, whose threads run in an order that the seed decides.
fn emulated(seed: u64, capability: (u32, u32)) -> Emulated {
    let device = Emulator::new(Settings { seed, workers: 2, capability, ..Settings::default() });
    Cuda::new(Arc::new(device), Dtype::Bf16)
}

/// Numbers of about 1 without a pattern, each of which bf16 holds.
fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bf16::from_f32((state >> 8) as f32 / 8e6 - 1.0).to_f32()
    };
    (0..len).map(|_| next()).collect()
}

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Attention {
    Attention { heads, kv_heads, head_dim, window, scale: 1.7 * (head_dim as f32).powf(-0.5) }
}

#[track_caller]
fn assert_bits(what: &str, got: &[f32], want: &[f32]) {
    let other = got.iter().zip(want).position(|(got, want)| got.to_bits() != want.to_bits());
    let different = got.iter().zip(want).filter(|(got, want)| got.to_bits() != want.to_bits()).count();
    assert_eq!(got.len(), want.len(), "{what}");
    if let Some(i) = other {
        panic!("{what}: {} instead of {} at {i} of {}, {different} in all", got[i], want[i], got.len());
    }
}

fn upload(cuda: &Emulated, rows: usize, numbers: &[f32]) -> CudaBuffer<Emulator> {
    let mut buffer = cuda.buffer(Role::Activation(rows, numbers.len() / rows));
    cuda.write(&mut buffer, 0, numbers);
    buffer
}

/// Runs one behind the other, of these positions and lengths, without pages.
fn runs(parts: &[(usize, usize)]) -> Vec<Run> {
    let mut row = 0;
    let run = |&(position, len): &(usize, usize)| {
        row += len;
        Run { row: row - len, len, position, pages: 0..0 }
    };
    parts.iter().map(run).collect()
}

#[test]
fn gradients_are_as_defined() {
    let shapes = [
        (shape(2, 1, 10, None), vec![(0, 70), (0, 3)]),
        (shape(3, 3, 16, Some(9)), vec![(0, 37)]),
        (shape(4, 2, 24, None), vec![(0, 19), (19, 24), (19, 3), (0, 1)]),
        (shape(2, 1, 64, None), vec![(0, 20), (20, 30)]),
        (shape(1, 1, 80, Some(20)), vec![(0, 40)]),
    ];
    let core = |capability| move |start: f32, a: &[f32], b: &[f32]| Step::of(capability).chain(start, a, b);
    for (i, (shape, parts)) in shapes.into_iter().enumerate() {
        // Hopper's steps, and once Ampere's.
        let capability = if i == 1 { (8, 0) } else { (9, 0) };
        let cuda = emulated(i as u64, capability);
        let runs = runs(&parts);
        let rows = runs.iter().map(|run| run.len).sum();
        let (qkv, d_out) = (noise(1, rows * shape.row()), noise(2, rows * shape.heads * shape.head_dim));
        let batch =
            cuda.batch(&HostBatch { tokens: vec![0; rows], runs: runs.clone(), ..HostBatch::default() });
        let mut d_qkv = cuda.buffer(Role::Activation(rows, shape.row()));
        let (on_device, d_on_device) = (upload(&cuda, rows, &qkv), upload(&cuda, rows, &d_out));
        cuda.attention_backward(shape, &on_device, &batch, &d_on_device, &mut d_qkv);
        let mut got = vec![0.0; qkv.len()];
        cuda.read(&d_qkv, 0, &mut got);
        let want = Reference { shape, chain: &core(capability) }.gradient(&qkv, &d_out, &runs);
        assert_bits(&format!("{shape:?}"), &got, &want);
    }
}

/// The last rows of a sequence attend to all of it, in a batch of so many sequences, all alike.
fn outputs_are_as_defined(shape: Attention, len: usize, rows: usize, times: usize, seed: u64) {
    let cuda = emulated(seed, (9, 0));
    let qkv = noise(3, len * shape.row());
    let pages_each = len.div_ceil(Emulated::PAGE);
    let capacity = pages_each * times;
    let mut cache = cuda.allocate(Role::Cache { shape, layers: 1, pages: capacity }).unwrap();
    let width = shape.heads * shape.head_dim;
    // Pages in no order.
    let pages: Vec<u32> = (0..capacity as u32).map(|page| (page * 7 + 3) % capacity as u32).collect();
    let described = |first: usize| {
        let mut host = HostBatch::default();
        (0..times)
            .for_each(|i| host.push(&vec![0; len - first], first, &pages[i * pages_each..][..pages_each]));
        host
    };
    let all: Vec<f32> = (0..times).flat_map(|_| qkv.iter().copied()).collect();
    cuda.store_kv(shape, &upload(&cuda, len * times, &all), &cuda.batch(&described(0)), &mut cache, 0);
    let some: Vec<f32> = (0..times).flat_map(|_| qkv[(len - rows) * shape.row()..].iter().copied()).collect();
    let (queries, batch) = (upload(&cuda, rows * times, &some), cuda.batch(&described(len - rows)));
    let mut out = cuda.buffer(Role::Activation(rows * times, width));
    cuda.attention(shape, &queries, &batch, &cache, 0, &mut out);
    let mut got = vec![0.0; rows * times * width];
    cuda.read(&out, 0, &mut got);
    let by_position: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
    let chain = |start: f32, a: &[f32], b: &[f32]| Step::of((9, 0)).chain(start, a, b);
    let reference = Reference { shape, chain: &chain };
    let want: Vec<f32> = (len - rows..len)
        .flat_map(|position| (0..shape.heads).map(move |head| (position, head)))
        .flat_map(|(position, head)| reference.output(&by_position, position, head))
        .collect();
    for got in got.chunks(want.len()) {
        assert_bits(&format!("{shape:?}, {rows} of {len}, {times} times"), got, &want);
    }
}

#[test]
fn outputs_of_heads_of_all_sizes_are_as_defined() {
    for (i, (shape, len)) in [
        (shape(3, 1, 10, None), 70),
        (shape(2, 2, 16, Some(7)), 90),
        (shape(7, 1, 24, None), 33),
        (shape(2, 1, 64, Some(70)), 150),
        (shape(1, 1, 80, None), 40),
        (shape(2, 1, 128, None), 66),
    ]
    .into_iter()
    .enumerate()
    {
        outputs_are_as_defined(shape, len, len.min(40), 1, i as u64);
    }
}

/// Alone, each split is a block of its own; among many, a block has them all.
#[test]
fn splits_are_as_defined() {
    for (shape, len) in [(shape(2, 1, 6, None), 2100), (shape(1, 1, 16, Some(1500)), 2080)] {
        outputs_are_as_defined(shape, len, 2, 1, 1);
        outputs_are_as_defined(shape, len, 2, 9, 2);
    }
    // More heads than a warp has rows.
    outputs_are_as_defined(shape(20, 1, 2, None), 1030, 1, 1, 3);
}
