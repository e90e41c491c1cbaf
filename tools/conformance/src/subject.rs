//! A backend's description of itself before it is put to the test.

use crate::chains;
use isentrope_kernels::{Backend, Role};
use std::sync::Arc;

/// A backend on trial.
pub trait Subject: Send + Sync + 'static {
    /// The backend in every variant that must give the same bits: on the CPU, instruction sets and
    /// threads. Most properties are tested on the first.
    fn variants(&self) -> &[Variant];

    /// A variant that holds few of the head's logits at a time, so that little work makes several
    /// blocks of them, and how many it holds on the way forward; back it holds no more.
    fn in_small_blocks(&self) -> (Variant, usize);

    /// How many cases of a property to try, random ones or ones that are alike. A fast backend
    /// tries `all` of them.
    fn cases(&self, all: u32) -> u32 {
        all
    }

    // The backend's arithmetic in scalar code, which its operations must equal to the last bit. By
    // default, the CPU's.

    /// How far its results may be from mathematics in f64.
    fn tolerance(&self) -> Tolerance {
        chains::TOLERANCE
    }

    /// The number that operations see after it is written to a buffer for this role: rounded, if
    /// fewer digits are kept.
    fn seen(&self, _role: Role, x: f32) -> f32 {
        x
    }

    /// An output of a linear layer, whose inputs and weights are these, with a bias, onto a
    /// residual.
    fn linear(&self, x: &[f32], weights: &[f32], bias: Option<f32>, residual: Option<f32>) -> f32 {
        chains::linear(x, weights, bias, residual)
    }
    /// The gradient by an input: the gradients by the outputs, and its weights to them.
    fn linear_backward_input(&self, dy: &[f32], weights: &[f32]) -> f32 {
        chains::linear_backward_input(dy, weights)
    }
    /// The gradient by a weight, going on from `before`: over tokens, the gradients by its output,
    /// and its inputs.
    fn linear_backward_weight(&self, before: f32, dy: &[f32], x: &[f32]) -> f32 {
        chains::linear_backward_weight(before, dy, x)
    }
    /// The gradient by a bias, going on from `before`: over tokens, the gradients by its output.
    fn linear_backward_bias(&self, before: f32, dy: &[f32]) -> f32 {
        chains::linear_backward_bias(before, dy)
    }
    /// The norm of gradients of these vectors together.
    fn norm(&self, tensors: &[Vec<f32>]) -> f64 {
        chains::norm(tensors)
    }
}

/// One of the variants of a backend.
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Whether it is quick enough for large work; other variants get little work.
    pub fast: bool,
    /// It.
    pub backend: Arc<dyn Backend>,
}

/// Largest errors against mathematics in f64. If nothing else is said, they are relative to the
/// value, or to the typical size of such values if that is larger.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Linear layers and their gradients.
    pub linear: f64,
    /// Attention outputs.
    pub attention: f64,
    /// Attention outputs where scores are in the hundreds.
    pub steep_attention: f64,
    /// Attention gradients, times the square root of the query heads per key head; twice that where
    /// sequences share a beginning.
    pub attention_gradient: f64,
    /// Attention gradients by scores that only one key has a part in, absolute: rounding noise.
    pub attention_gradient_noise: f64,
    /// RMSNorm.
    pub rms_norm: f64,
    /// Its gradient by inputs.
    pub rms_norm_gradient: f64,
    /// Its gradient by weights.
    pub rms_norm_weight_gradient: f64,
    /// Rotary embedding.
    pub rope: f64,
    /// Gated linear units.
    pub glu: f64,
    /// Its gradient.
    pub glu_gradient: f64,
    /// Log-probs and entropies of the head, in nats.
    pub scores: f64,
    /// Error of scores with extreme logits; relative to log-probs beyond 1.
    pub extreme_scores: f64,
    /// The head's gradients; of extreme logits, absolute and per unit of a coefficient.
    pub head_gradient: f64,
    /// The head's gradients by the hidden state of a certain token, absolute: rounding noise.
    pub head_gradient_noise: f64,
    /// Weights and moments after AdamW's update.
    pub adamw: f64,
    /// Weights that only decay.
    pub weight_decay: f64,
    /// The norm of a gradient.
    pub norm: f64,
    /// A gradient over responses that share their prompt against one where each has its own, of a
    /// tensor's largest value.
    pub shared_prompt: f64,
    /// Slopes of a model's loss along random directions, of the size that they typically have.
    pub derivatives: f64,
    /// Rounding's share, absolute, of the difference of two losses of a hundred scores each. With
    /// few digits, it hides slopes that are smaller than it is over the step.
    pub derivative_noise: f64,
    /// Length of a step along such a direction, relative to a tensor's own norm. Truncation (of the
    /// order of its fourth power) and the rounding of scores should both stay well below the
    /// tolerance. A step of logits is five times as long.
    pub derivative_step: f64,
    /// Log-probs and entropies of drawn tokens against another implementation, absolute.
    pub drawn: f64,
    /// The tiny checkpoints against transformers.
    pub oracles: OracleTolerance,
}

/// Largest differences of the tiny checkpoints' scores and gradients from transformers' float32
/// results.
#[derive(Clone, Copy, Debug)]
pub enum OracleTolerance {
    /// Log-probs and entropies within this, in nats; the norm of a gradient's difference within as
    /// much of the gradient's own; greedy continuations identical.
    Within(f64),
    /// If every number is rounded to few digits, the error depends on the model, above all on the
    /// size of its attention scores. So it is compared with the effect of moving the same model's
    /// weights on the CPU.
    Rounding {
        /// Weights are moved by evenly distributed random numbers of up to this, relative.
        unit: f32,
        /// Root mean squares of differences of log-probs and entropies: at most this many times the
        /// differences that moved weights cause.
        scores: f64,
        /// The bound of a gradient difference's norm, as a factor of the norm of the difference
        /// that moved weights cause.
        gradients: f64,
    },
}
