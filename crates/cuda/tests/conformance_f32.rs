//! The backend keeps the contract with f32, on the emulated device or on a GPU, whatever the order in which threads run, and
//! computes in the CPU's chains of fused multiply-adds.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod emulated;
mod on_gpu;

use isentrope_conformance::{Subject, Tolerance, Variant, chains, run};
use isentrope_cuda::{Cuda, CudaBuffer, Device, Dtype};
use isentrope_kernels::Role;
use std::process::ExitCode;

fn main() -> ExitCode {
    match on_gpu::variants(Dtype::F32) {
        Some(variants) => run(Chains { variants }),
        None => run(Chains { variants: emulated::variants(Dtype::F32) }),
    }
}

/// One chain of fused multiply-adds after another.
struct Chains<D: Device> {
    variants: Vec<Variant<Cuda<D>>>,
}

impl<D: Device> Subject for Chains<D> {
    type Backend = Cuda<D>;

    fn variants(&self) -> &[Variant<Cuda<D>>] {
        &self.variants
    }
    fn seen(&self, _: Role, x: f32) -> f32 {
        x
    }
    fn contents(&self, backend: &Cuda<D>, buffer: &CudaBuffer<D>) -> Vec<u32> {
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
