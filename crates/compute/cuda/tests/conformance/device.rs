//! The device for the conformance tests of both types: a GPU, or the emulated one under several
//! schedules.

use crate::on_gpu;
use isentrope_conformance::Variant;
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use std::sync::Arc;

/// The backend under several schedules of the emulator, or on a GPU if the environment asks for
/// one.
pub struct Backends {
    /// Every one of them.
    pub variants: Vec<Variant>,
    /// The first.
    pub first: Arc<Cuda>,
}

impl Backends {
    pub fn new(dtype: Dtype) -> Self {
        let gpu = on_gpu::backends(dtype);
        let is_gpu = gpu.is_some();
        let all = gpu.unwrap_or_else(|| emulated(dtype));
        let first = all[0].1.clone();
        // Only some variants get large work: it takes the emulator long.
        let variant = |(i, (name, backend)): (usize, (String, Arc<Cuda>))| Variant {
            name,
            fast: is_gpu || i == 0,
            backend,
        };
        Self { variants: all.into_iter().enumerate().map(variant).collect(), first }
    }

    /// A backend on the first variant's device that holds few logits at a time, and their number.
    pub fn in_small_blocks(&self) -> (Variant, usize) {
        const LOGITS: usize = 100_000;
        let backend = Cuda::new(self.first.device().clone(), self.first.dtype());
        let backend = Arc::new(backend.with_logits_in_blocks_of(LOGITS));
        (Variant { name: "in small blocks".to_owned(), fast: true, backend }, LOGITS)
    }
}

/// Backends with several seeds, which decide the order of threads, and several numbers of workers.
fn emulated(dtype: Dtype) -> Vec<(String, Arc<Cuda>)> {
    let backend = |(seed, workers)| {
        let device = Emulator::new(Settings { seed, workers, ..Settings::default() });
        let backend = Cuda::new(Arc::new(device), dtype);
        (format!("seed {seed}, {workers} workers"), Arc::new(backend))
    };
    [(1, 1), (2, 2), (3, 3)].map(backend).into()
}

/// The number of cases to try out of `all` similar ones: on the emulator, one in thirty-two.
pub fn cases(all: u32) -> u32 {
    if on_gpu::asked_for() { all } else { all.div_ceil(32) }
}
