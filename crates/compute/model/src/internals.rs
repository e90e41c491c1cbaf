//! Internals of a block's forward pass that its backward pass needs.

use crate::layout::{BlockLayout, Shapes};
use std::convert::Infallible;

/// Internals of a block, besides its input. Each is a buffer, `[tokens, features]`, or its number
/// of features.
pub(crate) struct Internals<T> {
    pub attention: AttentionInternals<T>,
    /// The residual stream between attention and MLP.
    pub middle: T,
    pub gate_up: T,
}

/// Internals of the attention half of the block.
pub(crate) struct AttentionInternals<T> {
    /// Queries, keys and values before their own norm, if there is one.
    pub raw_qkv: Option<T>,
    /// Queries, keys and values as attention sees them.
    pub qkv: T,
    /// Output of attention.
    pub attended: T,
}

impl Internals<usize> {
    /// Features in a row of each.
    pub fn features(block: &BlockLayout, s: &Shapes) -> Self {
        let raw_qkv = block.qk_norm.map(|_| s.qkv.outputs);
        let attention =
            AttentionInternals { raw_qkv, qkv: s.qkv.outputs, attended: s.output.inputs };
        Self { attention, middle: s.hidden, gate_up: s.gate_up.outputs }
    }
}

impl<T> Internals<T> {
    /// Applies `f` to each internal, and stops at the first error.
    pub fn try_map<U, E>(self, f: impl Fn(T) -> Result<U, E>) -> Result<Internals<U>, E> {
        let AttentionInternals { raw_qkv, qkv, attended } = self.attention;
        let raw_qkv = raw_qkv.map(&f).transpose()?;
        let attention = AttentionInternals { raw_qkv, qkv: f(qkv)?, attended: f(attended)? };
        Ok(Internals { attention, middle: f(self.middle)?, gate_up: f(self.gate_up)? })
    }

    /// Applies `f` to each.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Internals<U> {
        let Ok(mapped) = self.try_map(|t| Ok::<U, Infallible>(f(t)));
        mapped
    }

    /// Pairs each internal with its counterpart in `other`.
    pub fn beside<'a>(&'a self, other: &'a mut Self) -> impl Iterator<Item = (&'a T, &'a mut T)> {
        let (own, others) = (&self.attention, &mut other.attention);
        let raw_qkv = own.raw_qkv.as_ref().zip(others.raw_qkv.as_mut());
        raw_qkv.into_iter().chain([
            (&own.qkv, &mut others.qkv),
            (&own.attended, &mut others.attended),
            (&self.middle, &mut other.middle),
            (&self.gate_up, &mut other.gate_up),
        ])
    }

    /// All of them.
    pub fn each(self) -> impl Iterator<Item = T> {
        let AttentionInternals { raw_qkv, qkv, attended } = self.attention;
        raw_qkv.into_iter().chain([qkv, attended, self.middle, self.gate_up])
    }
}
