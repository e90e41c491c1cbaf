//! Tests run on a GPU instead of the emulator if `ISENTROPE_TEST_DEVICE` is `gpu`, as in
//! `bench/gpu.sh`.

use isentrope_cuda::gpu::{Gpu, Surroundings};
use isentrope_cuda::{Cuda, Dtype, SOURCES};
use std::sync::Arc;

/// Whether the environment asks for a GPU.
pub fn asked_for() -> bool {
    std::env::var_os("ISENTROPE_TEST_DEVICE").is_some_and(|device| device == "gpu")
}

/// The first GPU twice: with the vendor's products if their bits are right, and with our own
/// kernels only. None if the environment asks for no GPU.
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
