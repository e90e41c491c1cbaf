//! Tests on a GPU instead of the emulator, where `ISENTROPE_TEST_DEVICE` is `gpu`; `bench/gpu.sh`
//! runs them so.

use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{Cuda, Dtype, SOURCES};
use std::sync::Arc;

/// Whether they are.
pub fn asked_for() -> bool {
    std::env::var_os("ISENTROPE_TEST_DEVICE").is_some_and(|device| device == "gpu")
}

/// The first GPU, once with the vendor's products where their bits are right, and once with our own
/// kernels alone. None if no GPU is asked for.
pub fn backends(dtype: Dtype) -> Option<Vec<(String, Arc<Cuda>)>> {
    if !asked_for() {
        return None;
    }
    let backend = |name: &str, prepared: fn(Gpu) -> Gpu| {
        let gpu = Gpu::open(0, &Surroundings::of_process(), SOURCES)
            .unwrap_or_else(|error| panic!("{error}"));
        (name.to_owned(), Arc::new(Cuda::new(Arc::new(prepared(gpu)), dtype)))
    };
    Some(vec![backend("GPU", |gpu| gpu), backend("GPU without cuBLASLt", Gpu::without_blas)])
}
