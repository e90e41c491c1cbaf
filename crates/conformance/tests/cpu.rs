//! The CPU keeps the contract, on every instruction set of this processor and any number of threads, and computes in
//! chains of fused multiply-adds.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_conformance::{Subject, Tolerance, Variant, run};
use isentrope_kernels::{Cpu, CpuBuffer, Isa, Role};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // The fastest instruction set on two threads first.
    let machines = Isa::available().into_iter().flat_map(|isa| [2, 1, 3, 5].map(|threads| (isa, threads)));
    let variant = |(isa, threads)| Variant {
        name: format!("{isa}, {threads} threads"),
        fast: isa == Isa::available()[0],
        backend: Arc::new(Cpu::new(isa, threads).unwrap()),
    };
    run(Chains { variants: machines.map(variant).collect() })
}

/// The arithmetic of the CPU: one chain of fused multiply-adds after another.
struct Chains {
    variants: Vec<Variant<Cpu>>,
}

/// One fused multiply-add after another, from `start`.
fn chain(start: f32, a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(start, |sum, (a, b)| a.mul_add(*b, sum))
}

impl Subject for Chains {
    type Backend = Cpu;

    fn variants(&self) -> &[Variant<Cpu>] {
        &self.variants
    }
    fn seen(&self, _: Role, x: f32) -> f32 {
        x
    }
    fn contents(&self, _: &Cpu, buffer: &CpuBuffer) -> Vec<u32> {
        buffer.iter().map(|x| x.to_bits()).collect()
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
    /// Chains in lanes, blocks of a tensor in f64, then the tensors.
    fn norm(&self, tensors: &[Vec<f32>]) -> f64 {
        let block = |x: &[f32]| {
            let mut lanes = [0.0f32; 16];
            x.iter().enumerate().for_each(|(i, &v)| lanes[i % 16] = v.mul_add(v, lanes[i % 16]));
            f64::from(tree(&lanes))
        };
        tensors.iter().map(|x| x.chunks(4096).map(block).sum::<f64>()).sum::<f64>().sqrt()
    }

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

/// The sum of sixteen partial sums, halves added to halves.
fn tree(lanes: &[f32]) -> f32 {
    if let [sum] = lanes {
        return *sum;
    }
    let (low, high) = lanes.split_at(lanes.len() / 2);
    tree(&low.iter().zip(high).map(|(a, b)| a + b).collect::<Vec<f32>>())
}
