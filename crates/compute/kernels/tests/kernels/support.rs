//! Backends, data and comparisons that the tests share.

use isentrope_kernels::{Backend, Buffer, Cpu, CpuBuffer, Isa, Kind, Linear, Role};
use std::sync::OnceLock;

/// The fastest instruction set, two threads.
pub fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(Isa::available()[0], 2).unwrap())
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

/// Activations of zeros.
pub fn zeros(rows: usize, features: usize) -> Buffer {
    cpu().allocate(Role::Activation(rows, features)).unwrap()
}

/// Weights of zeros.
pub fn no_weights(shape: Linear) -> Buffer {
    cpu().allocate(Role::Weight(Kind::Matrix(shape))).unwrap()
}

/// All that a buffer holds.
pub fn contents(buffer: &Buffer) -> &[f32] {
    buffer.of::<CpuBuffer>()
}

/// Equal bit for bit.
#[track_caller]
pub fn assert_bits(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    if let Some(i) = (0..got.len()).find(|&i| got[i].to_bits() != want[i].to_bits()) {
        panic!("{what}: {:?} instead of {:?} at {i} of {}", got[i], want[i], got.len());
    }
}
