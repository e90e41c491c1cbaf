//! What the conformance tests of both types share: the emulated device, under several schedules.

use isentrope_conformance::Variant;
use isentrope_cuda::{Cuda, CudaBuffer, Device, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::Backend;
use std::sync::Arc;

/// The backend on trial.
pub type Emulated = Cuda<Emulator>;

/// A backend whose threads run in an order that the seed decides, on so many workers.
pub fn backend(dtype: Dtype, seed: u64, workers: usize) -> Arc<Emulated> {
    let device = Emulator::new(Settings { seed, workers, ..Settings::default() });
    Arc::new(Cuda::new(Arc::new(device), dtype))
}

/// Several schedules. None of the others is asked for large work.
pub fn variants(dtype: Dtype) -> Vec<Variant<Emulated>> {
    let variant = |(i, (seed, workers)): (usize, (u64, usize))| Variant {
        name: format!("seed {seed}, {workers} workers"),
        fast: i == 0,
        backend: backend(dtype, seed, workers),
    };
    [(1, 2), (2, 1), (3, 3)].into_iter().enumerate().map(variant).collect()
}

/// How many of so many random cases there is time for: on the emulator a twelfth.
pub fn cases(all: u32) -> u32 {
    let on_gpu = std::env::var_os("ISENTROPE_TEST_DEVICE").is_some_and(|device| device == "gpu");
    if on_gpu { all } else { all.div_ceil(12) }
}

/// All that a buffer holds, as bits.
pub fn contents<D: Device>(backend: &Cuda<D>, buffer: &CudaBuffer<D>) -> Vec<u32> {
    let mut numbers = vec![0.0; buffer.numbers()];
    backend.read_numbers(buffer, 0, &mut numbers);
    numbers.into_iter().map(f32::to_bits).collect()
}
