//! A block's linear layers, with their adapters: forward and backward.

use crate::gradient::Gradient;
use crate::layout::{Id, Projection};
use crate::model::Model;
use isentrope_kernels::Buffer;

impl Model {
    /// `y = W x + b`, and the layer's adapter. `x: [tokens, inputs]`, `y: [tokens, outputs]`.
    pub(crate) fn project(&self, of: &Projection, x: &Buffer, y: &mut Buffer, tokens: usize) {
        self.project_into(of, x, y, tokens, false);
    }

    /// `y += W x + b`, and the layer's adapter: the residual connection.
    pub(crate) fn project_add(&self, of: &Projection, x: &Buffer, y: &mut Buffer, tokens: usize) {
        self.project_into(of, x, y, tokens, true);
    }

    fn project_into(&self, of: &Projection, x: &Buffer, y: &mut Buffer, tokens: usize, adds: bool) {
        let (b, shape, (weight, bias)) = (&*self.backend, of.shape, self.weight_and_bias(of));
        match self.low_rank(of) {
            Some(adapter) => {
                b.linear_adapted(shape, x, weight, bias, adapter, y, tokens, adds);
            }
            None if adds => b.linear_add(shape, x, weight, bias, y, tokens),
            None => b.linear(shape, x, weight, bias, y, tokens),
        }
    }

    /// [`project_add`](Self::project_add), and then the norm of the rows of `y`, which is returned.
    pub(crate) fn project_add_norm(
        &self,
        of: &Projection,
        x: &Buffer,
        y: &mut Buffer,
        norm: Id,
        tokens: usize,
    ) -> Buffer {
        let mut normed = self.activations(tokens, of.shape.outputs);
        if self.low_rank(of).is_some() {
            self.project_add(of, x, y, tokens);
            self.norm(y, norm, &mut normed, tokens);
            return normed;
        }
        let (b, shape, (weight, bias)) = (&*self.backend, of.shape, self.weight_and_bias(of));
        let (rms, w) = (self.config.rms_norm(), &self.weights[norm]);
        b.linear_add_norm(shape, x, weight, bias, y, rms, w, &mut normed, tokens);
        normed
    }

    /// `y = f(gate) * up` of the layer's outputs, which are kept in `gate_up` if it is given.
    pub(crate) fn project_glu(
        &self,
        of: &Projection,
        x: &Buffer,
        gate_up: Option<&mut Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        let (b, shape, by) = (&*self.backend, of.shape, self.config.gate);
        let (weight, bias) = self.weight_and_bias(of);
        let Some(adapter) = self.low_rank(of) else {
            return b.linear_glu(shape, by, x, weight, bias, gate_up, y, tokens);
        };
        let mut for_a_moment = None;
        let gate_up =
            gate_up.unwrap_or_else(|| for_a_moment.insert(self.activations(tokens, shape.outputs)));
        b.linear_adapted_glu(shape, by, x, weight, bias, adapter, gate_up, y, tokens);
    }

    /// Adds to the gradients of the layer's trained weights. `dy` is the gradient of its output,
    /// and `reduced` its [`reduced_gradient`](Self::reduced_gradient).
    pub(crate) fn project_backward_weight(
        &self,
        of: &Projection,
        x: &Buffer,
        dy: &Buffer,
        reduced: Option<&Buffer>,
        gradient: &mut Gradient,
        tokens: usize,
    ) {
        let b = &*self.backend;
        if let Some(dw) = gradient.of_model(of.weight) {
            b.linear_backward_weight(of.shape, dy, x, dw, tokens);
        }
        if let Some(db) = of.bias.and_then(|id| gradient.of_model(id)) {
            b.linear_backward_bias(of.shape, dy, db, tokens);
        }
        if let Some(reduced) = reduced {
            self.adapter_backward_weight(of, x, dy, reduced, gradient.parameters_mut(), tokens);
        }
    }

    /// Replaces `dx` by the gradient of the layer's input.
    pub(crate) fn project_backward_input(
        &self,
        of: &Projection,
        dy: &Buffer,
        reduced: Option<&Buffer>,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        self.backend.linear_backward_input(of.shape, dy, &self.weights[of.weight], dx, tokens);
        if let Some(reduced) = reduced {
            self.adapter_backward_input(of, reduced, dx, tokens);
        }
    }

    fn weight_and_bias(&self, of: &Projection) -> (&Buffer, Option<&Buffer>) {
        (&self.weights[of.weight], of.bias.map(|id| &self.weights[id]))
    }
}
