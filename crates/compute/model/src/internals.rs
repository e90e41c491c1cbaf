//! Internals of a block's forward pass that its backward pass needs.

use crate::layout::{BlockLayout, Layout, Mixer, Mlp, Norms, Shapes};
use std::convert::Infallible;

/// Internals of a block, besides its input. Each is a buffer, `[tokens, features]`, or its number
/// of features.
pub(crate) struct Internals<T> {
    pub attention: AttentionInternals<T>,
    /// The residual stream between attention and MLP.
    pub middle: T,
    /// Outputs of the MLP's first product. Experts compute theirs again.
    pub gate_up: Option<T>,
    /// Output of the MLP before its own norm, if there is one.
    pub branch: Option<T>,
}

/// Internals of the attention half of the block.
pub(crate) struct AttentionInternals<T> {
    /// Queries, keys and values before their own norm, if there is one.
    pub raw_qkv: Option<T>,
    /// Queries, keys and values as attention sees them, or the first product of a delta rule.
    pub qkv: T,
    /// Gates of attention's output, if it has them.
    pub gate: Option<T>,
    /// Output of attention, before gates, or of a delta rule. Only gates and a trained product
    /// behind it need it.
    pub attended: Option<T>,
    /// Output of the branch before its own norm, if there is one.
    pub branch: Option<T>,
}

impl Internals<usize> {
    /// Features in a row of each that the layout's backward pass needs.
    pub fn kept(block: &BlockLayout, layout: &Layout) -> Self {
        let mut features = Self::features(block, &layout.shapes);
        let attended = &mut features.attention.attended;
        *attended = attended.filter(|_| layout.reads_attended(block));
        features
    }

    /// Features in a row of each.
    pub fn features(block: &BlockLayout, s: &Shapes) -> Self {
        let attended = block.output.shape.inputs;
        let (raw_qkv, qkv, gate) = match &block.mixer {
            Mixer::Attention(of) => {
                let row = of.shape.row();
                (of.qk_norm.map(|_| row), row, of.is_gated.then_some(attended))
            }
            Mixer::Delta(of) => (None, of.rule.row(), None),
        };
        let branch = |norms: Norms| norms.output.map(|_| s.hidden);
        let attention = AttentionInternals {
            raw_qkv,
            qkv,
            gate,
            attended: Some(attended),
            branch: branch(block.attention_norms),
        };
        let branch = branch(block.mlp_norms);
        let gate_up = matches!(block.mlp, Mlp::Dense { .. }).then_some(s.gate_up.outputs);
        Self { attention, middle: s.hidden, gate_up, branch }
    }
}

impl<T> Internals<T> {
    /// Applies `f` to each internal, and stops at the first error.
    pub fn try_map<U, E>(self, f: impl Fn(T) -> Result<U, E>) -> Result<Internals<U>, E> {
        let AttentionInternals { raw_qkv, qkv, gate, attended, branch } = self.attention;
        let maybe = |t: Option<T>| t.map(&f).transpose();
        let attention = AttentionInternals {
            raw_qkv: maybe(raw_qkv)?,
            qkv: f(qkv)?,
            gate: maybe(gate)?,
            attended: maybe(attended)?,
            branch: maybe(branch)?,
        };
        let (middle, gate_up) = (f(self.middle)?, maybe(self.gate_up)?);
        Ok(Internals { attention, middle, gate_up, branch: maybe(self.branch)? })
    }

    /// Applies `f` to each.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Internals<U> {
        let Ok(mapped) = self.try_map(|t| Ok::<U, Infallible>(f(t)));
        mapped
    }

    /// Pairs each internal with its counterpart in `other`.
    pub fn beside<'a>(&'a self, other: &'a mut Self) -> impl Iterator<Item = (&'a T, &'a mut T)> {
        let (own, others) = (&self.attention, &mut other.attention);
        let optional = [
            own.raw_qkv.as_ref().zip(others.raw_qkv.as_mut()),
            own.gate.as_ref().zip(others.gate.as_mut()),
            own.attended.as_ref().zip(others.attended.as_mut()),
            own.branch.as_ref().zip(others.branch.as_mut()),
            self.branch.as_ref().zip(other.branch.as_mut()),
            self.gate_up.as_ref().zip(other.gate_up.as_mut()),
        ];
        optional
            .into_iter()
            .flatten()
            .chain([(&own.qkv, &mut others.qkv), (&self.middle, &mut other.middle)])
    }

    /// All of them.
    pub fn each(self) -> impl Iterator<Item = T> {
        let AttentionInternals { raw_qkv, qkv, gate, attended, branch } = self.attention;
        let optional = [raw_qkv, gate, attended, branch, self.branch, self.gate_up];
        optional.into_iter().flatten().chain([qkv, self.middle])
    }
}
