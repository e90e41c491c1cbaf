//! A mixture of experts in the place of a block's MLP, forward and backward.
//!
//! A router chooses some experts for each token. The output is the sum of their outputs, each times
//! its weight, in the order of their numbers, and that of a shared expert at last. Only the block's
//! input is kept for the way back: the router and the experts compute again what they computed
//! before, to the last bit.

use crate::backward::RouterPass;
use crate::gradient::Gradient;
use crate::layout::{Expert, ExpertsLayout, Mixture};
use crate::model::Model;
use crate::router_balance::logit_gradient;
use isentrope_kernels::{Buffer, Role, Routes, Routing};

impl Model {
    /// The choice of experts for the rows of `x: [tokens, hidden]`.
    pub(crate) fn route(&self, of: &ExpertsLayout, x: &Buffer, tokens: usize) -> Routing {
        self.backend.experts().route(of.router, x, &self.weights[of.gate], tokens)
    }

    /// The probabilities of a choice, `[tokens, experts]`, on the host.
    pub(crate) fn router_probabilities(&self, routing: &Routing) -> Vec<f32> {
        let router = routing.routes.router;
        let tokens = routing.routes.experts.len() / router.chosen;
        let mut probabilities = vec![0.0; tokens * router.experts];
        self.backend.read(&routing.probabilities, 0, &mut probabilities);
        probabilities
    }

    /// The sum over each token's experts, `[tokens, hidden]`. `x: [tokens, hidden]`.
    pub(crate) fn experts_forward(&self, mixture: &Mixture, x: &Buffer, tokens: usize) -> Buffer {
        let (b, hidden) = (&*self.backend, self.layout.shapes.hidden);
        let operations = b.experts();
        let mut sum = b.buffer(Role::Exact(tokens, hidden));
        b.fill(&mut sum, 0.0);
        for of in mixture.each() {
            let routing = self.route(of, x, tokens);
            // All tokens may go to one expert. One size for all keeps few buffers waiting.
            let mut own = self.activations(tokens, hidden);
            let mut activated = self.activations(tokens, of.expert().down.shape.inputs);
            for (number, expert, count) in in_use(of, &routing.routes) {
                operations.copy_expert_rows(&routing, number, x, &mut own);
                self.project_glu(&expert.gate_up, &own, None, &mut activated, count);
                self.project(&expert.down, &activated, &mut own, count);
                operations.add_expert_rows(&routing, number, true, &own, &mut sum);
            }
        }
        operations.round_sums(sum, tokens)
    }

    /// The gradient of the input `x` from that of the sum, `d`; adds to the gradients of the
    /// router's and the experts' weights if they are trained.
    pub(crate) fn experts_backward(
        &self,
        mixture: &Mixture,
        x: &Buffer,
        d: &Buffer,
        RouterPass { counted, targets, slopes }: &RouterPass,
        gradient: &mut Gradient,
        tokens: usize,
    ) -> Buffer {
        let b = &*self.backend;
        let mut dx = b.buffer(Role::Exact(tokens, self.layout.shapes.hidden));
        b.fill(&mut dx, 0.0);
        let routing = self.route(&mixture.routed, x, tokens);
        gradient.count_routes(mixture.block, &routing, counted);
        let by_balance = (!slopes.is_empty()).then(|| {
            let probabilities = self.router_probabilities(&routing);
            let by_logits = logit_gradient(slopes, &probabilities, targets);
            let mut by_balance = self.activations(tokens, mixture.routed.router.experts);
            b.write(&mut by_balance, 0, &by_logits);
            by_balance
        });
        self.add_experts_gradient(&mixture.routed, routing, x, d, by_balance, gradient, &mut dx);
        if let Some(shared) = &mixture.shared {
            let routing = self.route(shared, x, tokens);
            self.add_experts_gradient(shared, routing, x, d, None, gradient, &mut dx);
        }
        b.experts().round_sums(dx, tokens)
    }

    /// Adds to `dx` the gradient of the input `x` through these experts and their router.
    /// `by_balance` is another gradient of the router's logits.
    #[expect(clippy::too_many_arguments, reason = "each is an operand")]
    fn add_experts_gradient(
        &self,
        of: &ExpertsLayout,
        routing: Routing,
        x: &Buffer,
        d: &Buffer,
        by_balance: Option<Buffer>,
        gradient: &mut Gradient,
        dx: &mut Buffer,
    ) {
        let (b, w, hidden) = (&*self.backend, &self.weights, self.layout.shapes.hidden);
        let (operations, gate, size) =
            (b.experts(), self.config.gate, of.expert().down.shape.inputs);
        let tokens = routing.routes.experts.len() / of.router.chosen;
        // An expert without parameters leaves a derivative of 0.
        let mut d_weights = b.buffer(Role::Exact(tokens, of.router.chosen));
        b.fill(&mut d_weights, 0.0);
        let [mut own, mut d_own] = [hidden; 2].map(|features| self.activations(tokens, features));
        let mut gate_up = self.activations(tokens, 2 * size);
        let [mut activated, mut d_activated] =
            [size; 2].map(|features| self.activations(tokens, features));
        for (number, &Expert { gate_up: first, down }, count) in in_use(of, &routing.routes) {
            operations.copy_expert_rows(&routing, number, x, &mut own);
            operations.copy_expert_rows(&routing, number, d, &mut d_own);
            self.project(&first, &own, &mut gate_up, count);
            b.glu(gate, size, &gate_up, &mut activated, count);
            let mut reduced = self.reduced_gradient(&down, &d_own, count);
            let by_rank = reduced.as_ref();
            self.project_backward_input(&down, &d_own, by_rank, &mut d_activated, count);
            // The output's gradient times the output, without computing the output again.
            let products = &mut d_weights;
            operations.expert_row_products(&routing, number, &d_activated, &activated, products);
            operations.weigh_expert_rows(&routing, number, &mut d_activated);
            operations.weigh_expert_rows(&routing, number, &mut d_own);
            if let Some(reduced) = &mut reduced {
                operations.weigh_expert_rows(&routing, number, reduced);
            }
            let by_rank = reduced.as_ref();
            self.project_backward_weight(&down, &activated, &d_own, by_rank, gradient, count);
            b.glu_backward(gate, size, &mut d_activated, &mut gate_up, count);
            let reduced = self.reduced_gradient(&first, &gate_up, count);
            let by_rank = reduced.as_ref();
            self.project_backward_weight(&first, &own, &gate_up, by_rank, gradient, count);
            self.project_backward_input(&first, &gate_up, by_rank, &mut d_own, count);
            operations.add_expert_rows(&routing, number, false, &d_own, dx);
        }
        drop((own, d_own, gate_up, activated, d_activated));
        let mut d_logits = self.activations(tokens, of.router.experts);
        operations.route_backward(&routing, &d_weights, &mut d_logits);
        if let Some(by_balance) = by_balance {
            b.add_rows(&by_balance, &mut d_logits, tokens);
        }
        if let Some(d_gate) = gradient.of_model(of.gate) {
            b.linear_backward_weight(of.gate_shape, &d_logits, x, d_gate, tokens);
        }
        let mut by_router = self.activations(tokens, hidden);
        b.linear_backward_input(of.gate_shape, &d_logits, &w[of.gate], &mut by_router, tokens);
        operations.add_to_sums(&by_router, dx, tokens);
    }
}

/// The experts that have tokens, in the order of their numbers, with the number of these.
fn in_use<'a>(
    of: &'a ExpertsLayout,
    routes: &'a Routes,
) -> impl Iterator<Item = (usize, &'a Expert, usize)> {
    let counted = |(number, expert)| (number, expert, routes.of_expert(number).len());
    of.experts.iter().enumerate().map(counted).filter(|&(_, _, count)| count > 0)
}
