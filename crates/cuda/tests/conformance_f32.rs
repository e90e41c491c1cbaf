//! The backend keeps the contract with f32, on the emulated device or on a GPU, whatever the order in which threads run, and
//! computes in the CPU's chains of fused multiply-adds.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod emulated;
mod on_gpu;

use isentrope_conformance::{Subject, Tolerance, Variant, run};
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

/// One fused multiply-add after another, from `start`.
fn chain(start: f32, a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(start, |sum, (a, b)| a.mul_add(*b, sum))
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
        let y = chain(bias.unwrap_or(0.0), x, weights);
        residual.map_or(y, |residual| residual + y)
    }
    fn linear_backward_input(&self, dy: &[f32], weights: &[f32]) -> f32 {
        chain(0.0, dy, weights)
    }
    fn linear_backward_weight(&self, before: f32, dy: &[f32], x: &[f32]) -> f32 {
        chain(before, dy, x)
    }
    fn linear_backward_bias(&self, before: f32, dy: &[f32]) -> f32 {
        dy.iter().fold(before, |sum, dy| sum + dy)
    }
    fn cases(&self, all: u32) -> u32 {
        emulated::cases(all)
    }
    fn norm(&self, tensors: &[Vec<f32>]) -> f64 {
        emulated::norm(tensors)
    }

    /// The CPU's, since it computes the CPU's bits.
    fn tolerance(&self) -> Tolerance {
        Tolerance {
            linear: 3e-6,
            attention: 2e-6,
            // A score of 600 is rounded to within 6e-5, and its exponential by as much.
            steep_attention: 5e-4,
            attention_gradient: 5e-6,
            attention_gradient_noise: 1e-5,
            rms_norm: 5e-7,
            rms_norm_gradient: 3e-6,
            rms_norm_weight_gradient: 4e-6,
            rope: 3e-7,
            swiglu: 5e-7,
            swiglu_gradient: 1e-6,
            scores: 3e-6,
            // A thousand terms below the spacing of floats around their sum: each may lose half of it.
            extreme_scores: 5e-6,
            head_gradient: 5e-6,
            head_gradient_noise: 1e-6,
            adamw: 1e-6,
            weight_decay: 2e-7,
            norm: 1e-6,
            shared_prompt: 1e-5,
            derivatives: 0.01,
            derivative_noise: 0.0,
            derivative_step: 0.004,
            drawn: 1e-4,
        }
    }
}
