//! Mixtures of experts.
//!
//! The device chooses, and one copy for each layer brings the choice to the host, because a launch
//! names the sizes of an expert's products. An expert multiplies as a linear layer does, by our
//! kernels or by the library, to the same bits. A decoding step of such a model is no graph.

use crate::buffer::CudaBuffer;
use crate::catalog::{
    ADD_WEIGHTED_ROWS, COPY_ROWS, ROUND_ROWS, ROUTE_BACKWARD, ROUTE_EXPERTS, ROW_PRODUCTS,
    WEIGH_ROWS,
};
use crate::cuda::{Cuda, lines};
use crate::dtype::Dtype;
use crate::kernels::{Grid, Pointer};
use crate::pool::Block;
use crate::rows::dtype_of;
use crate::uploaded::Uploaded;
use isentrope_kernels::{
    Backend, Buffer, DeviceRoutes, ExpertOperations, Linear, Role, Router, Routes, Routing,
};

/// Threads of a block of one warp.
const WARP: u32 = 32;
/// Rows of a block that has a half warp for each.
const ROWS: usize = 8;

/// A choice of experts on the device.
struct CudaRoutes {
    /// Experts and weights, `[tokens, chosen]` each, and entropies, `[tokens]`.
    chosen: Block,
    /// Rows, weights and places, expert after expert.
    by_expert: Uploaded,
    /// The number of choices.
    count: usize,
}

/// The choices of one expert.
struct OfExpert {
    rows: Pointer,
    weights: Pointer,
    places: Pointer,
    count: usize,
}

impl CudaRoutes {
    fn of_expert(&self, routes: &Routes, expert: usize) -> OfExpert {
        let range = routes.of_expert(expert);
        let [rows, weights, places] =
            [0, 1, 2].map(|part| self.by_expert.at(4 * (part * self.count + range.start)));
        OfExpert { rows, weights, places, count: range.len() }
    }
}

/// The choices of one expert.
fn of_expert(routing: &Routing, expert: usize) -> OfExpert {
    routing.on_device.of::<CudaRoutes>().of_expert(&routing.routes, expert)
}

/// The number of tokens of a choice.
fn tokens_of(routing: &Routing) -> usize {
    routing.routes.experts.len() / routing.routes.router.chosen
}

impl Cuda {
    /// `sums[rows[i]] += weights[i] from[i]`; without rows, `i` itself takes their place, and
    /// without weights 1.
    fn add_rows_to_sums(
        &self,
        from: &CudaBuffer,
        [rows, weights]: [Pointer; 2],
        count: usize,
        sums: &CudaBuffer,
    ) {
        let features = from.layout.features;
        assert_eq!(dtype_of(sums), Dtype::F32, "sums are exact");
        assert_eq!(sums.layout.features, features, "rows of another kind");
        ADD_WEIGHTED_ROWS.of(dtype_of(from)).launch(
            &*self.device,
            lines(count * features),
            (
                from.rows(count, features),
                rows,
                weights,
                sums.start(),
                count,
                features,
                from.layout.stride,
                sums.layout.stride,
            ),
        );
    }
}

impl ExpertOperations for Cuda {
    fn route(&self, router: Router, x: &Buffer, weights: &Buffer, tokens: usize) -> Routing {
        let Router { experts, chosen, normalised } = router;
        let (x, count): (&CudaBuffer, _) = (x.of(), tokens * chosen);
        let shape = Linear { inputs: x.layout.features, outputs: experts };
        let probabilities = self.buffer(Role::Exact(tokens, experts));
        let logits = probabilities.of::<CudaBuffer>().rows(tokens, experts);
        let rows = Self::matrix_of(x, tokens, shape.inputs);
        self.logits(shape, 0..experts, rows, weights.of(), logits, tokens);
        let (ranked, block) = (self.scratch(4 * count), self.scratch(8 * count + 4 * tokens));
        ROUTE_EXPERTS.launch(
            &*self.device,
            Grid::line(tokens, WARP),
            (
                logits,
                ranked.at(0),
                block.at(0),
                block.at(4 * count),
                block.at(8 * count),
                experts,
                chosen,
                normalised,
            ),
        );
        let mut words: Vec<u32> = self.downloaded(&block, 2 * count + tokens);
        let floats = |words: Vec<u32>| words.into_iter().map(f32::from_bits).collect();
        let entropies = floats(words.split_off(2 * count));
        let weights = floats(words.split_off(count));
        let routes = Routes::new(router, words, weights);
        let of = &routes.by_expert;
        let weights = of.weights.iter().map(|weight| weight.to_bits());
        let all = of.rows.iter().copied().chain(weights).chain(of.places.iter().copied());
        let by_expert = self.uploaded(&all.collect::<Vec<u32>>());
        let on_device = DeviceRoutes::new(CudaRoutes { chosen: block, by_expert, count });
        Routing { routes, probabilities, entropies, on_device }
    }
    fn route_backward(&self, routing: &Routing, d_weights: &Buffer, d_logits: &mut Buffer) {
        let Router { experts, chosen, normalised } = routing.routes.router;
        let (tokens, routes) = (tokens_of(routing), routing.on_device.of::<CudaRoutes>());
        let (probabilities, d_weights): (&CudaBuffer, &CudaBuffer) =
            (routing.probabilities.of(), d_weights.of());
        let d_logits: &CudaBuffer = d_logits.of();
        ROUTE_BACKWARD.of(dtype_of(d_logits)).launch(
            &*self.device,
            Grid::line(tokens, WARP),
            (
                probabilities.rows(tokens, experts),
                routes.chosen.at(0),
                routes.chosen.at(4 * routes.count),
                d_weights.rows(tokens, chosen),
                d_logits.rows(tokens, experts),
                experts,
                chosen,
                d_logits.layout.stride,
                normalised,
            ),
        );
    }
    fn copy_expert_rows(&self, routing: &Routing, expert: usize, from: &Buffer, to: &mut Buffer) {
        let OfExpert { rows, count, .. } = of_expert(routing, expert);
        let (from, to): (&CudaBuffer, &CudaBuffer) = (from.of(), to.of());
        let features = from.layout.features;
        assert_eq!(from.layout.element, to.layout.element, "rows of another kind");
        COPY_ROWS.of(dtype_of(from)).launch(
            &*self.device,
            lines(count * features),
            (
                from.rows(tokens_of(routing), features),
                rows,
                to.rows(count, features),
                Pointer::NULL,
                count,
                features,
                from.layout.stride,
                to.layout.stride,
            ),
        );
    }
    fn add_expert_rows(
        &self,
        routing: &Routing,
        expert: usize,
        weighed: bool,
        from: &Buffer,
        sums: &mut Buffer,
    ) {
        let OfExpert { rows, weights, count, .. } = of_expert(routing, expert);
        let (weights, sums) =
            (if weighed { weights } else { Pointer::NULL }, sums.of::<CudaBuffer>());
        sums.rows(tokens_of(routing), sums.layout.features);
        self.add_rows_to_sums(from.of(), [rows, weights], count, sums);
    }
    fn weigh_expert_rows(&self, routing: &Routing, expert: usize, x: &mut Buffer) {
        let OfExpert { weights, count, .. } = of_expert(routing, expert);
        let x: &CudaBuffer = x.of();
        let features = x.layout.features;
        WEIGH_ROWS.of(dtype_of(x)).launch(
            &*self.device,
            lines(count * features),
            (weights, x.rows(count, features), count, features, x.layout.stride),
        );
    }
    fn expert_row_products(
        &self,
        routing: &Routing,
        expert: usize,
        a: &Buffer,
        b: &Buffer,
        products: &mut Buffer,
    ) {
        let OfExpert { places, count, .. } = of_expert(routing, expert);
        let (a, b): (&CudaBuffer, &CudaBuffer) = (a.of(), b.of());
        let (features, products) = (a.layout.features, products.of::<CudaBuffer>());
        assert_eq!(a.layout.element, b.layout.element, "rows of another kind");
        ROW_PRODUCTS.of(dtype_of(a)).launch(
            &*self.device,
            Grid::line(count.div_ceil(ROWS), 128),
            (
                a.rows(count, features),
                b.rows(count, features),
                places,
                products.rows(tokens_of(routing), routing.routes.router.chosen),
                count,
                features,
                a.layout.stride,
                b.layout.stride,
            ),
        );
    }
    fn add_to_sums(&self, from: &Buffer, sums: &mut Buffer, rows: usize) {
        let sums: &CudaBuffer = sums.of();
        sums.rows(rows, sums.layout.features);
        self.add_rows_to_sums(from.of(), [Pointer::NULL; 2], rows, sums);
    }
    fn round_sums(&self, sums: Buffer, rows: usize) -> Buffer {
        let exact: &CudaBuffer = sums.of();
        if self.dtype == Dtype::F32 {
            return sums;
        }
        let features = exact.layout.features;
        let rounded = self.buffer(Role::Activation(rows, features));
        let to: &CudaBuffer = rounded.of();
        ROUND_ROWS.launch(
            &*self.device,
            lines(rows * features),
            (
                exact.rows(rows, features),
                to.rows(rows, features),
                rows,
                features,
                exact.layout.stride,
                to.layout.stride,
            ),
        );
        rounded
    }
}
