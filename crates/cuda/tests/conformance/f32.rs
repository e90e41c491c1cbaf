//! The backend keeps the contract with f32, on the emulated device or on a GPU, whatever the order in which threads run, and
//! computes in the CPU's chains of fused multiply-adds.

use crate::device;
use isentrope_conformance::{Subject, Variant};
use isentrope_cuda::{AnyDevice, Cuda, CudaBuffer, Dtype};

/// One chain of fused multiply-adds after another.
pub struct Chains {
    variants: Vec<Variant<Cuda<AnyDevice>>>,
}

impl Chains {
    pub fn new() -> Self {
        Self { variants: device::variants(Dtype::F32) }
    }
}

impl Subject for Chains {
    type Backend = Cuda<AnyDevice>;

    fn variants(&self) -> &[Variant<Cuda<AnyDevice>>] {
        &self.variants
    }
    fn in_small_blocks(&self) -> (Variant<Cuda<AnyDevice>>, usize) {
        device::in_small_blocks(&self.variants)
    }
    fn contents(&self, backend: &Cuda<AnyDevice>, buffer: &CudaBuffer<AnyDevice>) -> Vec<u32> {
        device::contents(backend, buffer)
    }
    fn cases(&self, all: u32) -> u32 {
        device::cases(all)
    }
}
