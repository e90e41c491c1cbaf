//! Attention by the tensor core equals its definition in scalar code, bit for bit: forward and
//! backward, heads of all sizes, windows, shared beginnings, and sequences of several splits,
//! whether one block has these or each has its own. On the emulated device, or on a GPU where
//! `ISENTROPE_TEST_DEVICE` is `gpu`.

use crate::attention_reference::Reference;
use crate::on_gpu;
use crate::t16::Step;
use half::bf16;
use isentrope_cuda::{AnyDevice, Cuda, Device, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{Attention, Backend, Buffer, Cpu, HostBatch, Isa, Role, Run};
use std::sync::{Arc, LazyLock};

/// The GPU, opened once, where one is asked for.
static GPU: LazyLock<Option<Arc<Cuda<AnyDevice>>>> =
    LazyLock::new(|| on_gpu::backends(Dtype::Bf16).map(|backends| backends[0].1.clone()));

/// A backend with bf16, whose threads run in an order that the seed decides.
fn emulated(seed: u64, capability: (u32, u32)) -> Cuda<Emulator> {
    let device = Emulator::new(Settings { seed, workers: 2, capability, ..Settings::default() });
    Cuda::new(Arc::new(device), Dtype::Bf16)
}

/// The steps of the device's tensor core.
fn step<D: Device>(cuda: &Cuda<D>) -> Step {
    Step::of(cuda.device().limits().capability)
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
    let different =
        got.iter().zip(want).filter(|(got, want)| got.to_bits() != want.to_bits()).count();
    assert_eq!(got.len(), want.len(), "{what}");
    if let Some(i) = other {
        panic!(
            "{what}: {} instead of {} at {i} of {}, {different} in all",
            got[i],
            want[i],
            got.len()
        );
    }
}

fn upload<D: Device>(cuda: &Cuda<D>, rows: usize, numbers: &[f32]) -> Buffer {
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

/// Gradients of such runs, one behind the other.
fn gradient_is_as_defined<D: Device>(cuda: &Cuda<D>, shape: Attention, parts: &[(usize, usize)]) {
    let runs = runs(parts);
    let rows = runs.iter().map(|run| run.len).sum();
    let (qkv, d_out) =
        (noise(1, rows * shape.row()), noise(2, rows * shape.heads * shape.head_dim));
    let batch = cuda.batch(&HostBatch {
        tokens: vec![0; rows],
        runs: runs.clone(),
        ..HostBatch::default()
    });
    let mut d_qkv = cuda.buffer(Role::Activation(rows, shape.row()));
    let (on_device, d_on_device) = (upload(cuda, rows, &qkv), upload(cuda, rows, &d_out));
    cuda.attention_backward(shape, &on_device, &batch, &d_on_device, &mut d_qkv);
    let mut got = vec![0.0; qkv.len()];
    cuda.read(&d_qkv, 0, &mut got);
    let step = step(cuda);
    let chain = |start: f32, a: &[f32], b: &[f32]| step.chain(start, a, b);
    let want = Reference { shape, chain: &chain }.gradient(&qkv, &d_out, &runs);
    assert_bits(&format!("{shape:?}"), &got, &want);
}

#[test]
fn gradients_are_as_defined() {
    let shapes = [
        (shape(2, 1, 10, None), vec![(0, 70), (0, 3)]),
        (shape(3, 3, 16, Some(9)), vec![(0, 37)]),
        (shape(4, 2, 24, None), vec![(0, 19), (19, 24), (19, 3), (0, 1)]),
        (shape(2, 1, 64, None), vec![(0, 20), (20, 30)]),
        (shape(1, 1, 80, Some(20)), vec![(0, 40)]),
        // The window leaves out whole tiles, of keys and of queries.
        (shape(2, 1, 4, Some(100)), vec![(0, 300)]),
    ];
    for (i, (shape, parts)) in shapes.into_iter().enumerate() {
        // Hopper's steps, and once Ampere's.
        let capability = if i == 1 { (8, 0) } else { (9, 0) };
        match &*GPU {
            Some(gpu) => gradient_is_as_defined(gpu, shape, &parts),
            None => gradient_is_as_defined(&emulated(i as u64, capability), shape, &parts),
        }
    }
}

/// How many sequences a batch has, all alike.
#[derive(Clone, Copy, Debug)]
enum Times {
    One,
    /// So many that blocks of theirs alone keep the device busy.
    Many,
}

/// The last rows of a sequence attend to all of it.
#[derive(Clone, Copy)]
struct Case {
    shape: Attention,
    len: usize,
    rows: usize,
    times: Times,
}

impl Case {
    /// On a GPU where one is asked for, else on the emulated device.
    fn check(self, seed: u64, capability: (u32, u32)) {
        match &*GPU {
            Some(gpu) => self.check_on(gpu),
            None => self.check_on(&emulated(seed, capability)),
        }
    }

    fn check_on<D: Device>(self, cuda: &Cuda<D>) {
        let Self { shape, len, rows, times } = self;
        let times = match times {
            Times::One => 1,
            Times::Many => 2 * cuda.device().limits().processors + 1,
        };
        let qkv = noise(3, len * shape.row());
        let pages_each = len.div_ceil(cuda.page_positions());
        let capacity = pages_each * times;
        let mut cache = cuda.allocate(Role::Cache { shape, layers: 1, pages: capacity }).unwrap();
        let width = shape.heads * shape.head_dim;
        // Pages in no order: backwards.
        let pages: Vec<u32> = (0..capacity as u32).rev().collect();
        let described = |first: usize| {
            let mut host = HostBatch::default();
            (0..times).for_each(|i| {
                host.push(&vec![0; len - first], first, &pages[i * pages_each..][..pages_each]);
            });
            host
        };
        let all: Vec<f32> = (0..times).flat_map(|_| qkv.iter().copied()).collect();
        cuda.store_kv(
            shape,
            &upload(cuda, len * times, &all),
            &cuda.batch(&described(0)),
            &mut cache,
            0,
        );
        let last = &qkv[(len - rows) * shape.row()..];
        let some: Vec<f32> = (0..times).flat_map(|_| last.iter().copied()).collect();
        let (queries, batch) =
            (upload(cuda, rows * times, &some), cuda.batch(&described(len - rows)));
        let mut out = cuda.buffer(Role::Activation(rows * times, width));
        cuda.attention(shape, &queries, &batch, &cache, 0, &mut out);
        let mut got = vec![0.0; rows * times * width];
        cuda.read(&out, 0, &mut got);
        let by_position: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
        let step = step(cuda);
        let chain = |start: f32, a: &[f32], b: &[f32]| step.chain(start, a, b);
        let reference = Reference { shape, chain: &chain };
        let want: Vec<f32> = (len - rows..len)
            .flat_map(|position| (0..shape.heads).map(move |head| (position, head)))
            .flat_map(|(position, head)| reference.output(&by_position, position, head))
            .collect();
        for got in got.chunks(want.len()) {
            assert_bits(&format!("{shape:?}, {rows} of {len}, {times} times"), got, &want);
        }
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
        // Hopper's steps, and once Ampere's.
        let capability = if i == 2 { (8, 0) } else { (9, 0) };
        Case { shape, len, rows: len.min(40), times: Times::One }.check(i as u64, capability);
    }
}

/// At most 16 rows, which are the work of all warps of a block: tiles and blocks of 16 keys that a
/// window leaves out, and more tiles than there are stages.
#[test]
fn outputs_of_few_rows_are_as_defined() {
    for (i, (shape, len, rows)) in [
        (shape(3, 1, 10, None), 333, 1),
        (shape(2, 2, 16, Some(7)), 90, 3),
        (shape(7, 1, 24, None), 33, 2),
        (shape(16, 1, 32, Some(50)), 400, 1),
        (shape(2, 1, 64, Some(290)), 450, 8),
        (shape(1, 1, 80, None), 290, 16),
        (shape(14, 2, 128, Some(200)), 291, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let capability = if i == 4 { (8, 0) } else { (9, 0) };
        Case { shape, len, rows, times: Times::One }.check(i as u64, capability);
    }
    // A block of all splits.
    Case { shape: shape(2, 1, 128, None), len: 1100, rows: 1, times: Times::Many }.check(1, (8, 6));
}

/// Alone, each split is a block of its own; among many, a block has them all.
#[test]
fn splits_are_as_defined() {
    let hopper = (9, 0);
    for (shape, len) in [(shape(2, 1, 6, None), 2100), (shape(1, 1, 16, Some(1500)), 2080)] {
        Case { shape, len, rows: 2, times: Times::One }.check(1, hopper);
        Case { shape, len, rows: 2, times: Times::Many }.check(2, hopper);
    }
    // More heads than a warp has rows.
    Case { shape: shape(20, 1, 2, None), len: 1030, rows: 1, times: Times::One }.check(3, hopper);
    // Ampere's steps, put together by a kernel of its own.
    Case { shape: shape(2, 1, 6, None), len: 1030, rows: 2, times: Times::One }.check(4, (8, 0));
    // The end of a prompt: blocks of four warps, each with all splits.
    Case { shape: shape(2, 1, 6, None), len: 1100, rows: 40, times: Times::One }.check(5, hopper);
}

/// Heads of more than 128 features keep the CPU's chains: its outputs and gradients, rounded once.
#[test]
fn large_heads_keep_the_chains_of_the_cpu() {
    for (seed, shape) in [(1, shape(2, 1, 136, None)), (2, shape(2, 1, 256, Some(20)))] {
        match &*GPU {
            Some(gpu) => equals_cpu_rounded(gpu, shape),
            None => equals_cpu_rounded(&emulated(seed, (9, 0)), shape),
        }
    }
}

/// Two sequences, forward and backward.
fn equals_cpu_rounded<D: Device>(cuda: &Cuda<D>, shape: Attention) {
    const LENGTHS: [usize; 2] = [37, 3];
    let cpu = Cpu::new(Isa::available()[0], 1).unwrap();
    let rows: usize = LENGTHS.iter().sum();
    let (qkv, d_out) =
        (noise(1, rows * shape.row()), noise(2, rows * shape.heads * shape.head_dim));
    let (out, d_qkv) = outputs_and_gradients(cuda, shape, &LENGTHS, &qkv, &d_out);
    let (want_out, want_d_qkv) = outputs_and_gradients(&cpu, shape, &LENGTHS, &qkv, &d_out);
    let rounded =
        |numbers: &[f32]| numbers.iter().map(|&x| bf16::from_f32(x).to_f32()).collect::<Vec<_>>();
    assert_bits(&format!("outputs of {shape:?}"), &out, &rounded(&want_out));
    assert_bits(&format!("gradients of {shape:?}"), &d_qkv, &rounded(&want_d_qkv));
}

/// Outputs and gradients of sequences one behind the other.
fn outputs_and_gradients(
    backend: &dyn Backend,
    shape: Attention,
    lengths: &[usize],
    qkv: &[f32],
    d_out: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let (rows, width) = (qkv.len() / shape.row(), shape.heads * shape.head_dim);
    let (mut host, mut pages) = (HostBatch::default(), 0..);
    for &len in lengths {
        let own: Vec<u32> = pages.by_ref().take(len.div_ceil(backend.page_positions())).collect();
        host.push(&vec![0; len], 0, &own);
    }
    let batch = backend.batch(&host);
    let mut cache =
        backend.allocate(Role::Cache { shape, layers: 1, pages: host.pages.len() }).unwrap();
    let written = |features: usize, numbers: &[f32]| {
        let mut buffer = backend.buffer(Role::Activation(rows, features));
        backend.write(&mut buffer, 0, numbers);
        buffer
    };
    let (qkv, d_out) = (written(shape.row(), qkv), written(width, d_out));
    backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    let mut out = backend.buffer(Role::Activation(rows, width));
    backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    let mut d_qkv = backend.buffer(Role::Activation(rows, shape.row()));
    backend.attention_backward(shape, &qkv, &batch, &d_out, &mut d_qkv);
    let read = |buffer: &Buffer, features: usize| {
        let mut numbers = vec![0.0; rows * features];
        backend.read(buffer, 0, &mut numbers);
        numbers
    };
    (read(&out, width), read(&d_qkv, shape.row()))
}
