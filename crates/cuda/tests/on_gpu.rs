//! Tests on a GPU instead of the emulator, where `ISENTROPE_TEST_DEVICE` is `gpu`; `bench/gpu.sh` runs them so.

use isentrope_conformance::Variant;
use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{AnyDevice, Cuda, Dtype, SOURCES};
use std::sync::Arc;

/// Whether they are.
pub fn asked_for() -> bool {
    std::env::var_os("ISENTROPE_TEST_DEVICE").is_some_and(|device| device == "gpu")
}

/// The first GPU, with the vendor's products where they have the right bits, and with those of our own kernels alone; none where
/// a GPU is not asked for.
pub fn variants(dtype: Dtype) -> Option<Vec<Variant<Cuda<AnyDevice>>>> {
    if !asked_for() {
        return None;
    }
    let variant = |name: &str, prepared: fn(Gpu) -> Gpu| {
        let gpu =
            Gpu::open(0, &Surroundings::of_process(), SOURCES).unwrap_or_else(|error| panic!("{error}"));
        let backend = Arc::new(Cuda::new(Arc::new(AnyDevice::new(prepared(gpu))), dtype));
        Variant { name: name.to_owned(), fast: true, backend }
    };
    Some(vec![variant("GPU", |gpu| gpu), variant("GPU without cuBLASLt", Gpu::without_blas)])
}
