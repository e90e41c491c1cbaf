//! The operations that a GPU must get right before it is used.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod watched;

use isentrope_cuda::{Cuda, Dtype, self_test};
use isentrope_cuda_emulator::{Emulator, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use watched::{Watch, Watched};

/// One of a device's downloads, counted from 0, has a wrong bit: with f32 in its last number, with bf16 near its beginning, since
/// rows of bf16 end with what pads them.
struct Wrong {
    dtype: Dtype,
    which: usize,
    downloads: AtomicUsize,
}

impl Watch for Wrong {
    fn downloaded(&self, bytes: &mut [u8]) {
        if self.downloads.fetch_add(1, Ordering::Relaxed) == self.which {
            let at = if self.dtype == Dtype::F32 { bytes.len() - 2 } else { 2 };
            bytes[at] ^= 1;
        }
    }
}

/// What is said of a device whose download `which` is wrong, and how many downloads there were.
fn tested(dtype: Dtype, capability: (u32, u32), which: usize) -> (Result<(), String>, usize) {
    let emulator = Emulator::new(Settings { capability, ..Settings::default() });
    let watch = Wrong { dtype, which, downloads: AtomicUsize::new(0) };
    let backend = Cuda::new(Arc::new(Watched { emulator, watch }), dtype);
    (self_test(&backend), backend.device().watch.downloads.load(Ordering::Relaxed))
}

#[test]
fn a_sound_device_passes_and_a_single_wrong_bit_is_told() {
    let cases = [(Dtype::F32, (9, 0)), (Dtype::Bf16, (9, 0)), (Dtype::Bf16, (8, 0))];
    for (dtype, capability) in cases {
        let (said, downloads) = tested(dtype, capability, usize::MAX);
        said.unwrap();
        for which in 0..downloads {
            let (said, _) = tested(dtype, capability, which);
            let Err(said) = said else { panic!("download {which} of {dtype:?} may be wrong") };
            assert!(said.contains(" where it must be "), "download {which} of {dtype:?}: {said}");
        }
    }
}
