//! Data, backends and comparisons that the tests share.

use isentrope_kernels::{Backend, Cpu, CpuBatch, CpuBuffer, HostBatch, Isa, Kind, Linear, Role, Run};
use std::sync::OnceLock;

/// Marks memory that an operation has no business with: any arithmetic on it shows, and so does overwriting it.
pub const POISON: f32 = f32::from_bits(0x7fc0_beef);

/// Poisoned numbers behind every buffer, at least.
const TAIL: usize = 37;

/// The fastest instruction set, two threads.
pub fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(Isa::available()[0], 2).unwrap())
}

/// Every instruction set of this processor, each with 1, 2, 3 and 5 threads; scalar code on one thread first.
pub fn every_cpu() -> &'static [Cpu] {
    static ALL: OnceLock<Vec<Cpu>> = OnceLock::new();
    ALL.get_or_init(|| {
        let isas = Isa::available().into_iter().rev();
        isas.flat_map(|isa| [1, 2, 3, 5].map(|threads| Cpu::new(isa, threads).unwrap())).collect()
    })
}

/// Evenly distributed numbers in [-1.5, 1.5), the same for the same seed (SplitMix64).
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..len).map(|_| ((next() >> 40) as f32 / (1 << 24) as f32 - 0.5) * 3.0).collect()
}

/// Whole numbers below `bound`.
pub fn indices(seed: u64, len: usize, bound: usize) -> Vec<u32> {
    noise(seed, len).into_iter().map(|x| ((x / 3.0 + 0.5) * bound as f32) as u32 % bound as u32).collect()
}

pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Rows of `features`, and poison behind them.
pub fn upload(cpu: &Cpu, features: usize, data: &[f32]) -> CpuBuffer {
    assert!(data.len().is_multiple_of(features));
    let mut buffer = blank(cpu, data.len() / features, features);
    cpu.write(&mut buffer, 0, data);
    buffer
}

/// Rows of poison, and more of them than asked for.
pub fn blank(cpu: &Cpu, rows: usize, features: usize) -> CpuBuffer {
    let mut buffer = cpu.buffer(Role::Activation(rows + TAIL.div_ceil(features.max(1)), features));
    cpu.fill(&mut buffer, POISON);
    buffer
}

/// A vector of weights, and poison behind it.
pub fn vector(cpu: &Cpu, data: &[f32]) -> CpuBuffer {
    let mut buffer = cpu.buffer(Role::Weight(Kind::Vector(data.len() + TAIL)));
    cpu.fill(&mut buffer, POISON);
    cpu.pack(Kind::Vector(data.len()), 0, data, &mut buffer);
    buffer
}

/// Zeros, and nothing behind them.
pub fn zeros(cpu: &Cpu, rows: usize, features: usize) -> CpuBuffer {
    cpu.allocate(Role::Activation(rows, features)).unwrap()
}

/// The first `len` floats; what is behind them must still be poison.
pub fn download(buffer: &CpuBuffer, len: usize) -> Vec<f32> {
    assert!(
        buffer.len() > len && buffer[len..].iter().all(|x| x.to_bits() == POISON.to_bits()),
        "wrote beyond the end"
    );
    buffer[..len].to_vec()
}

/// Rows of these tokens, of no sequence.
pub fn tokens(cpu: &Cpu, tokens: &[u32]) -> CpuBatch {
    cpu.batch(&HostBatch { tokens: tokens.to_vec(), ..HostBatch::default() })
}

/// Rows at these positions, each of a sequence of its own.
pub fn positions(cpu: &Cpu, positions: &[u32]) -> CpuBatch {
    let run = |(row, &position): (usize, &u32)| Run { row, len: 1, position: position as usize, pages: 0..0 };
    let runs = positions.iter().enumerate().map(run).collect();
    cpu.batch(&HostBatch { tokens: vec![0; positions.len()], runs, ..HostBatch::default() })
}

/// Packed weights whose padding is poison.
pub fn pack(cpu: &Cpu, shape: Linear, rows: &[f32]) -> CpuBuffer {
    let mut packed = cpu.buffer(Role::Weight(Kind::Matrix(shape)));
    cpu.fill(&mut packed, POISON);
    cpu.pack(Kind::Matrix(shape), 0, rows, &mut packed);
    packed
}

/// A packed gradient that holds `rows`, its padding zero.
pub fn pack_gradient(cpu: &Cpu, shape: Linear, rows: &[f32]) -> CpuBuffer {
    let mut packed = cpu.allocate(Role::Gradient(Kind::Matrix(shape))).unwrap();
    cpu.pack(Kind::Matrix(shape), 0, rows, &mut packed);
    packed
}

/// A packed gradient of zeros.
pub fn no_gradient(cpu: &Cpu, shape: Linear) -> CpuBuffer {
    cpu.allocate(Role::Gradient(Kind::Matrix(shape))).unwrap()
}

pub fn unpack(cpu: &Cpu, shape: Linear, packed: &CpuBuffer) -> Vec<f32> {
    let mut rows = vec![POISON; shape.inputs * shape.outputs];
    cpu.unpack(Kind::Matrix(shape), 0, packed, &mut rows);
    rows
}

/// The rows of a packed gradient, whose padding must have stayed zero.
pub fn unpack_gradient(cpu: &Cpu, shape: Linear, packed: &CpuBuffer) -> Vec<f32> {
    let rows = unpack(cpu, shape, packed);
    let again = pack_gradient(cpu, shape, &rows);
    assert_bits("the padding of a gradient", packed, &again);
    rows
}

/// Equal bit for bit.
#[track_caller]
pub fn assert_bits(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    if let Some(i) = (0..got.len()).find(|&i| got[i].to_bits() != want[i].to_bits()) {
        panic!("{what}: {:?} instead of {:?} at {i} of {}", got[i], want[i], got.len());
    }
}

/// Within `tolerance` of the larger of the value itself and the root mean square of all values: what rounding a
/// sum of terms as large as the other values can explain.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let rms = (want.iter().map(|x| x * x).sum::<f64>() / want.len().max(1) as f64).sqrt();
    assert_close_to(what, got, want, rms, tolerance);
}

/// Within `tolerance` of the larger of the value itself and `size`.
#[track_caller]
pub fn assert_close_to(what: &str, got: &[f32], want: &[f64], size: f64, tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(g) - w).abs() / w.abs().max(size).max(f64::from(f32::MIN_POSITIVE));
        assert!(error <= tolerance, "{what}: {g} instead of {w} at {i} of {} (error {error:.1e})", got.len());
    }
}

/// Ranges that end at `cuts` (in any order, repeats allowed) and at `len`, and cover `0..len`.
pub fn pieces(len: usize, cuts: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut ends: Vec<usize> = cuts.iter().map(|&c| c.min(len)).chain([len]).collect();
    ends.sort_unstable();
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(ends.clone()).map(|(start, end)| start..end).collect()
}
