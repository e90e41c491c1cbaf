//! The backend keeps the contract with bf16, on the emulated device or on a GPU, whatever the order
//! in which threads run, and multiplies by the chains of the device's tensor cores.

use crate::device::{self, Backends};
use half::bf16;
use isentrope_conformance::{OracleTolerance, Subject, Tolerance, Variant};
use isentrope_cuda::Dtype;
use isentrope_cuda_emulator::TensorCore;
use isentrope_kernels::Role;

/// Chains over blocks of products. A block has as many products as the device's tensor cores add at
/// once.
pub struct Blocks {
    backends: Backends,
    core: TensorCore,
}

impl Blocks {
    pub fn new() -> Self {
        let backends = Backends::new(Dtype::Bf16);
        let core = TensorCore::of(backends.first.device().limits().capability);
        Self { backends, core }
    }

    /// A chain over numbers that bf16 holds.
    fn chain(&self, start: f32, a: &[f32], b: &[f32]) -> f32 {
        let halves =
            |x: &[f32]| x.iter().map(|&x| bf16::from_f32(x).to_bits()).collect::<Vec<u16>>();
        self.core.chain(start, &halves(a), &halves(b))
    }
}

/// Rounds to the nearest bf16, ties to even, as activations are rounded.
fn rounded(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// The upper half of a weight: to nearest, ties away from zero.
fn upper_half(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    f32::from_bits(x.to_bits().wrapping_add(0x8000) & 0xffff_0000)
}

impl Subject for Blocks {
    fn variants(&self) -> &[Variant] {
        &self.backends.variants
    }
    fn in_small_blocks(&self) -> (Variant, usize) {
        self.backends.in_small_blocks()
    }
    fn seen(&self, role: Role, x: f32) -> f32 {
        match role {
            Role::Activation(..) | Role::OffloadedActivation(..) | Role::Cache { .. } => rounded(x),
            Role::Weight(_) | Role::Frozen(_) => upper_half(x),
            Role::Exact(..) | Role::Gradient(_) | Role::Moment(_) | Role::OffloadedMoment(_) => x,
        }
    }

    fn linear(&self, x: &[f32], weights: &[f32], bias: Option<f32>, residual: Option<f32>) -> f32 {
        let y = self.chain(0.0, x, weights);
        let y = bias.map_or(y, |bias| y + bias);
        rounded(residual.map_or(y, |residual| residual + y))
    }
    fn linear_backward_input(&self, dy: &[f32], weights: &[f32]) -> f32 {
        rounded(self.chain(0.0, dy, weights))
    }
    fn linear_backward_weight(&self, before: f32, dy: &[f32], x: &[f32]) -> f32 {
        self.chain(before, dy, x)
    }
    fn cases(&self, all: u32) -> u32 {
        device::cases(all)
    }

    /// A number kept as bf16 is off by up to `u = 2^-8` of itself, half a unit in its last place;
    /// the inner arithmetic is far closer. So outputs that are rounded once get `1.02 u`.
    fn tolerance(&self) -> Tolerance {
        const ONCE: f64 = 1.02 / 256.0;
        Tolerance {
            linear: ONCE,
            // Each weight is rounded by up to u, for the product and for the sum: an output moves
            // by up to u times the mean distance of the values from it, which is up to three times
            // what outputs typically are. Then it is rounded.
            attention: 4.0 * ONCE,
            // A score of 600 is rounded to within 6e-5, and its exponential has the same relative
            // error, which is nothing beside u.
            steep_attention: ONCE,
            // The gradient of each score is rounded, by up to u / 2 on average. With few visible
            // keys, terms of a sum reach ten times the typical size of a gradient, and cancel; then
            // the sum is rounded.
            attention_gradient: 6.0 * ONCE,
            attention_gradient_noise: 1e-5,
            rms_norm: ONCE,
            rms_norm_gradient: ONCE,
            // In f32 throughout.
            rms_norm_weight_gradient: 4e-6,
            rope: ONCE,
            glu: ONCE,
            glu_gradient: ONCE,
            // Logits stay f32. Each of up to nine blocks of a logit of up to 8 cuts 17 terms at
            // 2^-25 of the largest, and the sum at 2^-23. Sixteen such errors of one sign are
            // likely to add up to a quarter of the worst case.
            scores: 2e-5,
            extreme_scores: 5e-6,
            // The gradient of each logit is rounded, by up to u and evenly, so that a sum of them
            // is off by 0.6 u of its typical size, and one in a million by five times as much; dx
            // is rounded again.
            head_gradient: 4.0 * ONCE,
            head_gradient_noise: 1e-6,
            // Weights are exact f32, in two parts; moments are f32.
            adamw: 1e-6,
            weight_decay: 2e-7,
            norm: 1e-6,
            // The gradients of a shared prompt's rows are rounded once for all responses instead of
            // once for each, in every layer.
            shared_prompt: 16.0 * ONCE,
            // A loss of a hundred scores, each with some tens of roundings by u, is off by 0.3 at
            // most. For large gradients that is little beside two steps along the slope, and they
            // agree to a twentieth.
            derivatives: 0.25,
            derivative_noise: 0.3,
            derivative_step: 0.03,
            // Log-probs of a model of two layers: some tens of roundings of logits of about 2.
            drawn: 0.05,
            // Rounding moves a number by up to u over its mantissa, which is between 1 and 2: as a
            // root mean square by u sqrt(3 / (8 ln 2)) / sqrt(3), like evenly distributed numbers
            // of up to 0.74 u. A product of x and W is moved by W's rounding, and as much again by
            // x's, by its own and by the residual's: four times the variance of W alone. The way
            // back adds the gradients' rounding: seven times. Another factor of two, since both
            // sides are one or a few draws of such noise.
            oracles: OracleTolerance::Rounding { unit: 0.74 / 256.0, scores: 4.0, gradients: 5.3 },
        }
    }
}
