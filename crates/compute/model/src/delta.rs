//! Blocks of hybrid models: the gated delta rule in the place of attention, and the gates of
//! attention's output.

use crate::block::Rows;
use crate::gradient::Gradient;
use crate::layout::DeltaLayout;
use crate::model::Model;
use isentrope_kernels::{Attention, Buffer, HybridOperations};

impl Model {
    /// The operations of hybrid models.
    pub(crate) fn hybrid(&self) -> &dyn HybridOperations {
        self.backend.hybrid()
    }

    /// `mixed: [tokens, row]`, `out: [tokens, value features]`.
    pub(crate) fn delta_forward(
        &self,
        of: &DeltaLayout,
        mixed: &Buffer,
        rows: &Rows,
        states: Option<&mut Buffer>,
        out: &mut Buffer,
    ) {
        let weights = of.weights.map(|id| &self.weights[id]);
        self.hybrid().delta_rule(of.rule, weights, mixed, &rows.batch, states, out);
    }

    /// The gradient of `mixed` from that of the output; adds to the gradients of the weights if
    /// they are trained.
    pub(crate) fn delta_backward(
        &self,
        of: &DeltaLayout,
        mixed: &Buffer,
        rows: &Rows,
        d_out: &Buffer,
        gradient: &mut Gradient,
    ) -> Buffer {
        let weights = of.weights.map(|id| &self.weights[id]);
        let mut d_mixed = self.activations(rows.count, of.rule.row());
        let d_weights = gradient.of_delta_rule(of.weights);
        let (rule, batch) = (of.rule, &rows.batch);
        let hybrid = self.hybrid();
        hybrid.delta_rule_backward(rule, weights, mixed, batch, d_out, &mut d_mixed, d_weights);
        d_mixed
    }

    /// Leaves queries, keys and values in `product`, and returns the gates behind them.
    pub(crate) fn split_gates(
        &self,
        shape: Attention,
        product: &mut Buffer,
        tokens: usize,
    ) -> Buffer {
        let (row, hybrid) = (shape.row(), self.hybrid());
        let mut qkv = self.activations(tokens, row);
        let mut gate = self.activations(tokens, gates(shape));
        hybrid.copy_columns(product, &mut qkv, (0, 0), tokens);
        hybrid.copy_columns(product, &mut gate, (row, 0), tokens);
        *product = qkv;
        gate
    }

    /// The gradient of the product that [`split_gates`](Self::split_gates) split.
    pub(crate) fn join_gates(
        &self,
        shape: Attention,
        d_qkv: &Buffer,
        d_gate: &Buffer,
        tokens: usize,
    ) -> Buffer {
        let (row, hybrid) = (shape.row(), self.hybrid());
        let mut d_product = self.activations(tokens, row + gates(shape));
        hybrid.copy_columns(d_qkv, &mut d_product, (0, 0), tokens);
        hybrid.copy_columns(d_gate, &mut d_product, (0, row), tokens);
        d_product
    }

    /// `attended * sigmoid(gate)`.
    pub(crate) fn gated(&self, attended: &Buffer, gate: &Buffer, tokens: usize) -> Buffer {
        let mut gated = self.activations(tokens, gates(self.layout.attention()));
        self.hybrid().gate_output(attended, gate, &mut gated, tokens);
        gated
    }
}

/// Gates behind an attention: one for each feature of its output.
fn gates(shape: Attention) -> usize {
    shape.heads * shape.head_dim
}
