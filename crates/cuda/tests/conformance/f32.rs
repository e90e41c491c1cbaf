//! The backend keeps the contract with f32, on the emulated device or on a GPU, whatever the order in which threads run, and
//! computes in the CPU's chains of fused multiply-adds.

use crate::{emulated, on_gpu};
use isentrope_conformance::{Subject, Tolerance, Variant, chains};
use isentrope_cuda::{AnyDevice, Cuda, CudaBuffer, Dtype};
use isentrope_kernels::Role;

/// One chain of fused multiply-adds after another.
pub struct Chains {
    variants: Vec<Variant<Cuda<AnyDevice>>>,
}

impl Chains {
    pub fn new() -> Self {
        Self { variants: on_gpu::variants(Dtype::F32).unwrap_or_else(|| emulated::variants(Dtype::F32)) }
    }
}

impl Subject for Chains {
    type Backend = Cuda<AnyDevice>;

    fn variants(&self) -> &[Variant<Cuda<AnyDevice>>] {
        &self.variants
    }
    fn in_small_blocks(&self) -> (Variant<Cuda<AnyDevice>>, usize) {
        emulated::in_small_blocks(&self.variants)
    }
    fn seen(&self, _: Role, x: f32) -> f32 {
        x
    }
    fn contents(&self, backend: &Cuda<AnyDevice>, buffer: &CudaBuffer<AnyDevice>) -> Vec<u32> {
        emulated::contents(backend, buffer)
    }

    fn linear(&self, x: &[f32], weights: &[f32], bias: Option<f32>, residual: Option<f32>) -> f32 {
        chains::linear(x, weights, bias, residual)
    }
    fn linear_backward_input(&self, dy: &[f32], weights: &[f32]) -> f32 {
        chains::linear_backward_input(dy, weights)
    }
    fn linear_backward_weight(&self, before: f32, dy: &[f32], x: &[f32]) -> f32 {
        chains::linear_backward_weight(before, dy, x)
    }
    fn linear_backward_bias(&self, before: f32, dy: &[f32]) -> f32 {
        chains::linear_backward_bias(before, dy)
    }
    fn norm(&self, tensors: &[Vec<f32>]) -> f64 {
        chains::norm(tensors)
    }
    fn tolerance(&self) -> Tolerance {
        chains::TOLERANCE
    }
    fn cases(&self, all: u32) -> u32 {
        emulated::cases(all)
    }
}
