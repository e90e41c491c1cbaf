//! A mixture of experts in the place of a block's MLP, forward and backward.
//!
//! A router chooses some experts for each token. The output is the sum of their outputs, each times
//! its weight, in the order of their numbers. Only the block's input is kept for the way back: the
//! router and the experts compute again what they computed before, to the last bit.

use crate::gradient::Gradient;
use crate::layout::{Expert, ExpertsLayout, Id};
use crate::model::Model;
use isentrope_kernels::{Backend, Buffer, ExpertOperations, ExpertRows, Linear, Routes};

/// The decision of a router.
struct Routing {
    routes: Routes,
    /// The tokens of each expert.
    by_expert: Vec<ExpertRows>,
    /// The probability of each expert, `[tokens, experts]`.
    probabilities: Buffer,
}

impl Model {
    fn expert_operations(&self) -> &dyn ExpertOperations {
        self.backend.experts().expect("a model with experts is loaded to a device that runs them")
    }

    fn route(&self, of: &ExpertsLayout, x: &Buffer, tokens: usize) -> Routing {
        let mut probabilities = self.activations(tokens, of.router.experts);
        let weights = &self.weights[of.gate];
        self.backend.linear(of.gate_shape, x, weights, None, &mut probabilities, tokens);
        let routes = self.expert_operations().route(of.router, &mut probabilities, tokens);
        let by_expert = routes.by_expert(of.router);
        Routing { routes, by_expert, probabilities }
    }

    /// The sum over each token's experts, `[tokens, hidden]`. `x: [tokens, hidden]`.
    pub(crate) fn experts_forward(&self, of: &ExpertsLayout, x: &Buffer, tokens: usize) -> Buffer {
        let (b, s, w) = (&*self.backend, &self.layout.shapes, &self.weights);
        let mut sum = self.activations(tokens, s.hidden);
        b.fill(&mut sum, 0.0);
        let Routing { by_expert, .. } = self.route(of, x, tokens);
        // All tokens may go to one expert. One size for all keeps few buffers waiting.
        let mut own = self.activations(tokens, s.hidden);
        let mut activated = self.activations(tokens, s.intermediate);
        for (expert, ExpertRows { rows, weights, .. }) in in_use(of, by_expert) {
            let count = rows.len();
            b.copy_rows(x, &b.upload_index(&rows), &mut own);
            let (gate_up, gate) = (&w[expert.gate_up], self.config.gate);
            b.linear_glu(s.gate_up, gate, &own, gate_up, None, None, &mut activated, count);
            b.linear(s.down, &activated, &w[expert.down], None, &mut own, count);
            self.expert_operations().add_weighted_rows(&own, &rows, &weights, &mut sum);
        }
        sum
    }

    /// The gradient of the input `x` from that of the sum, `d`; adds to the gradients of the
    /// router's and the experts' weights if they are trained.
    pub(crate) fn experts_backward(
        &self,
        of: &ExpertsLayout,
        x: &Buffer,
        d: &Buffer,
        gradient: &mut Gradient,
        tokens: usize,
    ) -> Buffer {
        let (b, s, w) = (&*self.backend, &self.layout.shapes, &self.weights);
        let (operations, gate) = (self.expert_operations(), self.config.gate);
        let mut dx = self.activations(tokens, s.hidden);
        b.fill(&mut dx, 0.0);
        let Routing { routes, by_expert, probabilities: mut d_logits } = self.route(of, x, tokens);
        let mut d_weights = vec![0.0; routes.weights.len()];
        let [mut own, mut d_own] = [s.hidden; 2].map(|features| self.activations(tokens, features));
        let mut gate_up = self.activations(tokens, s.gate_up.outputs);
        let [mut activated, mut d_activated] =
            [s.intermediate; 2].map(|features| self.activations(tokens, features));
        for (expert, ExpertRows { rows, weights, places }) in in_use(of, by_expert) {
            let count = rows.len();
            let index = b.upload_index(&rows);
            b.copy_rows(x, &index, &mut own);
            b.copy_rows(d, &index, &mut d_own);
            b.linear(s.gate_up, &own, &w[expert.gate_up], None, &mut gate_up, count);
            b.glu(gate, s.intermediate, &gate_up, &mut activated, count);
            b.linear_backward_input(s.down, &d_own, &w[expert.down], &mut d_activated, count);
            // The output's gradient times the output, without computing the output again.
            let products = operations.row_products(&d_activated, &activated, count);
            for (place, product) in places.into_iter().zip(products) {
                d_weights[place] = product;
            }
            operations.weigh_rows(&weights, &mut d_activated);
            operations.weigh_rows(&weights, &mut d_own);
            add_weight_gradient(b, s.down, &d_own, &activated, expert.down, gradient, count);
            b.glu_backward(gate, s.intermediate, &mut d_activated, &mut gate_up, count);
            add_weight_gradient(b, s.gate_up, &gate_up, &own, expert.gate_up, gradient, count);
            b.linear_backward_input(s.gate_up, &gate_up, &w[expert.gate_up], &mut d_own, count);
            operations.add_weighted_rows(&d_own, &rows, &vec![1.0; count], &mut dx);
        }
        operations.route_backward(of.router, &routes, &d_weights, &mut d_logits);
        add_weight_gradient(b, of.gate_shape, &d_logits, x, of.gate, gradient, tokens);
        let mut by_router = self.activations(tokens, s.hidden);
        b.linear_backward_input(of.gate_shape, &d_logits, &w[of.gate], &mut by_router, tokens);
        b.add_rows(&by_router, &mut dx, tokens);
        dx
    }
}

/// The experts that have tokens, in the order of their numbers.
fn in_use(
    of: &ExpertsLayout,
    by_expert: Vec<ExpertRows>,
) -> impl Iterator<Item = (&Expert, ExpertRows)> {
    of.experts.iter().zip(by_expert).filter(|(_, of_expert)| !of_expert.rows.is_empty())
}

/// Adds to the gradient of a matrix if it is trained.
fn add_weight_gradient(
    backend: &dyn Backend,
    shape: Linear,
    dy: &Buffer,
    x: &Buffer,
    weight: Id,
    gradient: &mut Gradient,
    tokens: usize,
) {
    if let Some(dw) = gradient.of_model(weight) {
        backend.linear_backward_weight(shape, dy, x, dw, tokens);
    }
}
