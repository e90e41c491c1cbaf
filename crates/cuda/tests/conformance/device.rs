//! What the conformance tests of both types share: the device, a GPU or the emulated one under several schedules.

use crate::on_gpu;
use isentrope_conformance::Variant;
use isentrope_cuda::{AnyDevice, Cuda, CudaBuffer, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::Backend;
use std::sync::Arc;

/// A GPU's, where one is asked for.
pub fn variants(dtype: Dtype) -> Vec<Variant<Cuda<AnyDevice>>> {
    on_gpu::variants(dtype).unwrap_or_else(|| emulated(dtype))
}

/// A backend on the emulator, whose threads run in an order that the seed decides, on so many workers.
fn emulator(dtype: Dtype, seed: u64, workers: usize) -> Arc<Cuda<AnyDevice>> {
    let device = Emulator::new(Settings { seed, workers, ..Settings::default() });
    Arc::new(Cuda::new(Arc::new(AnyDevice::new(device)), dtype))
}

/// Several schedules. None of the others is asked for large work.
fn emulated(dtype: Dtype) -> Vec<Variant<Cuda<AnyDevice>>> {
    let variant = |(i, (seed, workers)): (usize, (u64, usize))| Variant {
        name: format!("seed {seed}, {workers} workers"),
        fast: i == 0,
        backend: emulator(dtype, seed, workers),
    };
    [(1, 2), (2, 1), (3, 3)].into_iter().enumerate().map(variant).collect()
}

/// A backend on the device of the first variant, with few logits at a time, and how many.
pub fn in_small_blocks(variants: &[Variant<Cuda<AnyDevice>>]) -> (Variant<Cuda<AnyDevice>>, usize) {
    const LOGITS: usize = 100_000;
    let first = &variants[0].backend;
    let backend = Cuda::new(first.device().clone(), first.dtype()).with_logits_in_blocks_of(LOGITS);
    (Variant { name: "in small blocks".to_owned(), fast: true, backend: Arc::new(backend) }, LOGITS)
}

/// How many there is time for of so many cases, random ones or ones that are alike: on the emulator one of thirty-two.
pub fn cases(all: u32) -> u32 {
    if on_gpu::asked_for() { all } else { all.div_ceil(32) }
}

/// All that a buffer holds, as bits.
pub fn contents(backend: &Cuda<AnyDevice>, buffer: &CudaBuffer<AnyDevice>) -> Vec<u32> {
    let mut numbers = vec![0.0; buffer.numbers()];
    backend.read_numbers(buffer, 0, &mut numbers);
    numbers.into_iter().map(f32::to_bits).collect()
}
