//! Attention by the tensor core equals its definition in scalar code, bit for bit: forward and
//! backward, heads of all sizes, windows, shared beginnings, and sequences of several splits,
//! whether one block has these or each has its own. On the emulated device, or on a GPU where
//! `ISENTROPE_TEST_DEVICE` is `gpu`.

use crate::attention_reference::Reference;
use crate::on_gpu;
use crate::support::{
    Results, Trial, assert_equal, bits, cpu, emulated, halves, rounded, short_noise,
};
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Settings, TensorCore};
use isentrope_kernels::{Attention, Backend, HostBatch, Role, Run};
use std::sync::{Arc, LazyLock};

/// The GPU, opened once, if the environment asks for one.
static GPU: LazyLock<Option<Arc<Cuda>>> =
    LazyLock::new(|| on_gpu::backends(Dtype::Bf16).map(|backends| backends[0].1.clone()));

/// Runs a check on the GPU; or on an emulated device with this tensor core, whose seed decides the
/// order of threads.
fn on_device(seed: u64, capability: (u32, u32), check: impl FnOnce(&Cuda, TensorCore)) {
    let settings = Settings { seed, workers: 2, capability, ..Settings::default() };
    let emulator = GPU.is_none().then(|| emulated(Dtype::Bf16, settings));
    let cuda = emulator.as_ref().or(GPU.as_deref()).unwrap();
    check(cuda, TensorCore::of(cuda.device().limits().capability));
}

/// A chain of a tensor core over numbers that bf16 holds.
fn chain(core: TensorCore) -> impl Fn(f32, &[f32], &[f32]) -> f32 {
    move |start, a, b| core.chain(start, &halves(a), &halves(b))
}

/// The output of a query at a position for every head. Rows of `[q, k, v]` by position.
pub fn output(core: TensorCore, shape: Attention, rows: &[&[f32]], position: usize) -> Vec<f32> {
    let reference = Reference { shape, chain: &chain(core) };
    (0..shape.heads).flat_map(|head| reference.output(rows, position, head)).collect()
}

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Attention {
    Attention { heads, kv_heads, head_dim, window, scale: 1.7 * (head_dim as f32).powf(-0.5) }
}

/// Consecutive runs of these positions and lengths, without pages.
fn runs(parts: &[(usize, usize)]) -> Vec<Run> {
    let mut row = 0;
    let run = |&(position, len): &(usize, usize)| {
        row += len;
        Run { row: row - len, len, position, pages: 0..0 }
    };
    parts.iter().map(run).collect()
}

fn one(name: &str, numbers: &[f32]) -> Results {
    vec![(name.to_owned(), bits(numbers))]
}

/// Gradients of consecutive runs.
pub fn gradient(cuda: &Cuda, shape: Attention, parts: &[(usize, usize)]) -> Results {
    let (mut t, runs) = (Trial::short(cuda), runs(parts));
    let rows = runs.iter().map(|run| run.len).sum();
    let qkv = t.rows(1, rows, shape.row());
    let d_out = t.rows(2, rows, shape.heads * shape.head_dim);
    let batch =
        cuda.upload_batch(&HostBatch { tokens: vec![0; rows], runs, ..HostBatch::default() });
    let mut d_qkv = t.rows(4, rows, shape.row());
    cuda.attention_backward(shape, &qkv, &batch, &d_out, &mut d_qkv);
    t.push_rows("the gradient", &d_qkv, rows, shape.row());
    t.results
}

pub fn gradient_expected(core: TensorCore, shape: Attention, parts: &[(usize, usize)]) -> Results {
    let runs = runs(parts);
    let rows: usize = runs.iter().map(|run| run.len).sum();
    let qkv = short_noise(1, rows * shape.row());
    let d_out = short_noise(2, rows * shape.heads * shape.head_dim);
    let reference = Reference { shape, chain: &chain(core) };
    one("the gradient", &reference.gradient(&qkv, &d_out, &runs))
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
        on_device(i as u64, if i == 1 { (8, 0) } else { (9, 0) }, |cuda, core| {
            let want = gradient_expected(core, shape, &parts);
            assert_equal(&format!("{shape:?}"), &gradient(cuda, shape, &parts), &want);
        });
    }
}

/// How many equal sequences a batch has.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    One,
    /// Many sequences: blocks that each have all splits keep the device busy.
    Many,
}

/// The last rows of a sequence attend to all of it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub shape: Attention,
    pub len: usize,
    pub rows: usize,
    pub times: Times,
}

impl Case {
    fn check(self, seed: u64, capability: (u32, u32)) {
        on_device(seed, capability, |cuda, core| {
            let want = self.expected(core);
            for got in self.outputs(cuda) {
                assert_equal(&format!("{self:?}"), &vec![got], &want);
            }
        });
    }

    /// The outputs of each sequence, with NaN in the memory beside them.
    pub fn outputs(self, cuda: &Cuda) -> Results {
        let Self { shape, len, rows, times } = self;
        let times = match times {
            Times::One => 1,
            Times::Many => 2 * cuda.device().limits().processors + 1,
        };
        let t = Trial::short(cuda);
        let qkv = short_noise(3, len * shape.row());
        let pages_each = len.div_ceil(cuda.page_positions());
        let capacity = pages_each * times;
        let mut cache = cuda.allocate(Role::Cache { shape, layers: 1, pages: capacity }).unwrap();
        cuda.fill(&mut cache, f32::NAN);
        let width = shape.heads * shape.head_dim;
        // Pages in no order: backwards.
        let pages: Vec<u32> = (0..capacity as u32).rev().collect();
        let described = |first: usize| {
            let mut host = HostBatch::default();
            (0..times).for_each(|i| {
                host.push(&vec![0; len - first], first, &pages[i * pages_each..][..pages_each]);
            });
            cuda.upload_batch(&host)
        };
        let all = t.rows_of(&qkv.repeat(times), shape.row());
        cuda.store_kv(shape, &all, &described(0), &mut cache, 0);
        let last = qkv[(len - rows) * shape.row()..].repeat(times);
        let queries = t.rows_of(&last, shape.row());
        let mut out = t.rows(2, rows * times, width);
        cuda.attention(shape, &queries, &described(len - rows), &cache, 0, &mut out);
        let numbers = t.read(&out, rows * times * width);
        numbers.chunks(rows * width).flat_map(|numbers| one("outputs", numbers)).collect()
    }

    /// The outputs of one sequence.
    pub fn expected(self, core: TensorCore) -> Results {
        let Self { shape, len, rows, .. } = self;
        let qkv = short_noise(3, len * shape.row());
        let by_position: Vec<&[f32]> = qkv.chunks(shape.row()).collect();
        let outputs =
            (len - rows..len).flat_map(|position| output(core, shape, &by_position, position));
        one("outputs", &outputs.collect::<Vec<f32>>())
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

/// With one sequence, each split is a block of its own; with many, a block has all splits of a row.
#[test]
fn splits_are_as_defined() {
    let hopper = (9, 0);
    for (shape, len) in [(shape(2, 1, 6, None), 2100), (shape(1, 1, 16, Some(1500)), 2080)] {
        Case { shape, len, rows: 2, times: Times::One }.check(1, hopper);
        Case { shape, len, rows: 2, times: Times::Many }.check(2, hopper);
    }
    // More heads than a warp has rows.
    Case { shape: shape(20, 1, 2, None), len: 1030, rows: 1, times: Times::One }.check(3, hopper);
    // Ampere's steps, merged by another kernel.
    Case { shape: shape(2, 1, 6, None), len: 1030, rows: 2, times: Times::One }.check(4, (8, 0));
    // The end of a prompt: blocks of four warps, each with all splits.
    Case { shape: shape(2, 1, 6, None), len: 1100, rows: 40, times: Times::One }.check(5, hopper);
}

/// Heads of more than 128 features keep the CPU's chains: its outputs and gradients, rounded once.
#[test]
fn large_heads_keep_the_chains_of_the_cpu() {
    for (seed, shape) in [(1, shape(2, 1, 136, None)), (2, shape(2, 1, 256, Some(20)))] {
        let mut want = outputs_and_gradients(&cpu(), shape);
        for number in want.iter_mut().flat_map(|(_, numbers)| numbers) {
            *number = rounded(f32::from_bits(*number)).to_bits();
        }
        on_device(seed, (9, 0), |cuda, _| {
            assert_equal(&format!("{shape:?}"), &outputs_and_gradients(cuda, shape), &want);
        });
    }
}

/// Outputs and gradients of two consecutive sequences.
fn outputs_and_gradients(backend: &dyn Backend, shape: Attention) -> Results {
    let (mut t, mut host, mut pages) = (Trial::short(backend), HostBatch::default(), 0..);
    for len in [37_usize, 3] {
        let own: Vec<u32> = pages.by_ref().take(len.div_ceil(backend.page_positions())).collect();
        host.push(&vec![0; len], 0, &own);
    }
    let (rows, width, batch) =
        (host.rows(), shape.heads * shape.head_dim, backend.upload_batch(&host));
    let role = Role::Cache { shape, layers: 1, pages: host.pages.len() };
    let mut cache = backend.allocate(role).unwrap();
    let (qkv, d_out) = (t.rows(1, rows, shape.row()), t.rows(2, rows, width));
    backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    let (mut out, mut d_qkv) = (t.rows(3, rows, width), t.rows(4, rows, shape.row()));
    backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    t.push_rows("outputs", &out, rows, width);
    backend.attention_backward(shape, &qkv, &batch, &d_out, &mut d_qkv);
    t.push_rows("gradients", &d_qkv, rows, shape.row());
    t.results
}
