//! The backend keeps the contract with f32 on a GPU, and computes in the CPU's chains of fused
//! multiply-adds. The emulated device runs the oracles alone.

use crate::device::{self, Backends};
use isentrope_conformance::{Subject, Variant};
use isentrope_cuda::Dtype;

/// Every sum is one chain of fused multiply-adds.
pub struct Chains {
    backends: Backends,
}

impl Chains {
    pub fn new() -> Self {
        Self { backends: Backends::new(Dtype::F32) }
    }
}

impl Subject for Chains {
    fn variants(&self) -> &[Variant] {
        &self.backends.variants
    }
    fn in_small_blocks(&self) -> (Variant, usize) {
        self.backends.in_small_blocks()
    }
    fn cases(&self, all: u32) -> u32 {
        device::cases(all)
    }
}
