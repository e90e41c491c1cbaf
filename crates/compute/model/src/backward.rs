//! The way back of a pass: from a loss's derivatives through the head, each block from the last to
//! the first, and the embedding.
//!
//! [`Model::backward`] goes all the way. Several passes may also take each stage together, pass
//! after pass: every gradient is then the same chain of sums, and that of a block is complete
//! before any pass enters the block below it.

use crate::block::{CacheLayer, Rows};
use crate::gradient::Gradient;
use crate::layout::Id;
use crate::model::Model;
use crate::pass::{BlockRecord, BlockSource, Derivatives, DeviceRows, Tape};
use isentrope_kernels::{Buffer, Grouped, HeadStatistics};
use isentrope_trace::operation;

/// A pass on its way back, between two blocks.
pub struct BackwardPass<'r> {
    blocks: BlockSource<'r>,
    /// The number of blocks that are still to come: the next is the last of them.
    pub(crate) blocks_to_come: usize,
    /// The inputs, `[tokens]`.
    tokens: Vec<u32>,
    pub(crate) rows: Rows,
    /// Pages of a cache that holds these rows alone.
    pages: usize,
    /// The gradient of the output of the next block, `[tokens, hidden]`.
    pub(crate) dx: Buffer,
    pub(crate) routers: RouterPass,
}

/// A pass, as the backward pass of a mixture's routers sees it.
pub(crate) struct RouterPass {
    /// The rows whose routes are counted.
    pub counted: Vec<u32>,
    /// The rows of all targets.
    pub targets: Vec<u32>,
    /// The loss's derivatives by the probability of each expert at each target, `[experts]`; empty
    /// if all are 0.
    pub slopes: Vec<f32>,
}

impl Model {
    /// Adds the gradient of a loss with these derivatives to `gradient`. Micro-batches passed in
    /// order give the same bits as one batch.
    ///
    /// # Panics
    /// When the derivatives are not one per target.
    pub fn backward(&self, tape: Tape<'_>, derivatives: Derivatives<'_>, gradient: &mut Gradient) {
        let mut pass = self.begin_backward(tape, derivatives, gradient);
        for _ in 0..self.layout.blocks.len() {
            self.backward_block(&mut pass, gradient);
        }
        self.end_backward(pass, gradient);
    }

    /// Goes back through the head and the final norm, and adds to their gradients.
    /// [`backward_block`](Self::backward_block) follows for each block, then
    /// [`end_backward`](Self::end_backward).
    ///
    /// # Panics
    /// When the derivatives are not one per target, or have divergences without a teacher.
    pub fn begin_backward<'r>(
        &self,
        tape: Tape<'r>,
        derivatives: Derivatives<'_>,
        gradient: &mut Gradient,
    ) -> BackwardPass<'r> {
        let Tape { packed, uploaded, blocks, last, statistics } = tape;
        let DeviceRows { rows, predicting, pages } = uploaded;
        let targets = packed.target_count();
        assert!(derivatives.logprobs.len() == targets && derivatives.entropies.len() == targets);
        let divergences = derivatives.divergences;
        assert!(divergences.is_empty() || divergences.len() == targets);
        assert!(divergences.is_empty() || derivatives.taught.is_some(), "a teacher's rows");
        let d_last = self.head_backward(last, &statistics, derivatives, gradient);
        let mut dx = self.activations(rows.count, self.layout.shapes.hidden);
        self.backend.scatter_rows(&d_last, &predicting, &mut dx, rows.count);
        let with_gradient = |&(target, _): &(usize, &u32)| !derivatives.at(target).are_zero();
        let counted = packed.rows.iter().enumerate().filter(with_gradient);
        let routers = RouterPass {
            counted: counted.map(|(_, &row)| row).collect(),
            targets: packed.rows.clone(),
            slopes: derivatives.experts.to_vec(),
        };
        let blocks_to_come = self.layout.blocks.len();
        BackwardPass { blocks, blocks_to_come, tokens: packed.tokens, rows, pages, dx, routers }
    }

    /// Goes back through the next block, and adds to its gradients.
    ///
    /// # Panics
    /// When the pass has left the first block.
    pub fn backward_block(&self, pass: &mut BackwardPass<'_>, gradient: &mut Gradient) {
        pass.blocks_to_come = pass.blocks_to_come.checked_sub(1).expect("a block is to come");
        let number = pass.blocks_to_come;
        let block = &self.layout.blocks[number];
        let BlockRecord { input, internals } = match &mut pass.blocks {
            BlockSource::Records(records) => records.pop().expect("a record for each block"),
            BlockSource::Offloaded(inputs) => {
                let offloaded = inputs.pop().expect("an input for each block");
                let mut input = self.activations(pass.rows.count, self.layout.shapes.hidden);
                self.backend.copy_first_rows(&offloaded, &mut input, pass.rows.count);
                BlockRecord { input, internals: None }
            }
            BlockSource::Cache { activation_cache, slots, rows } => {
                let (input, internals) = activation_cache.block(self, number, slots, *rows);
                BlockRecord { input, internals: Some(internals) }
            }
        };
        let internals = internals.unwrap_or_else(|| {
            let mut cache = self.backend.buffer(self.layout.cache(1, pass.pages));
            let layer = CacheLayer { cache: &mut cache, layer: 0, states: None };
            self.block_internals(block, &input, &pass.rows, layer)
        });
        self.block_backward(block, &input, internals, pass, gradient);
    }

    /// Goes back through the embedding behind the first block, and adds to its gradient.
    ///
    /// # Panics
    /// When blocks are still to come.
    pub fn end_backward(&self, pass: BackwardPass<'_>, gradient: &mut Gradient) {
        let BackwardPass { blocks_to_come, tokens, rows, mut dx, .. } = pass;
        assert_eq!(blocks_to_come, 0, "the pass has left the first block");
        self.scale(self.scales.embeddings.as_ref(), &mut dx, rows.count);
        gradient.add_embedded(&*self.backend, self.layout.shapes.vocabulary, &tokens, &dx);
    }

    /// Computes the gradient of `last: [targets, hidden]` through the final norm and the head, and
    /// adds to the gradients of both if they are trained.
    fn head_backward(
        &self,
        last: Buffer,
        statistics: &HeadStatistics,
        derivatives: Derivatives<'_>,
        gradient: &mut Gradient,
    ) -> Buffer {
        let _span = operation("head backward");
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let Derivatives { logprobs, entropies, log_masses, divergences, taught, .. } = derivatives;
        let taught = taught.filter(|_| !divergences.is_empty());
        let taught = taught.map(|taught| (self.teacher_rows(taught), divergences));
        let targets = logprobs.len();
        let normed = self.normed(&last, targets);
        let mut d_normed = self.activations(targets, s.hidden);
        let (w, dw) = (&self.weights[self.layout.head], gradient.of_model(self.layout.head));
        b.head_backward(
            s.vocabulary,
            &normed,
            w,
            statistics,
            logprobs,
            entropies,
            log_masses,
            taught,
            &mut d_normed,
            dw,
        );
        self.scale(self.scales.hidden.as_ref(), &mut d_normed, targets);
        let mut d_last = normed;
        b.fill(&mut d_last, 0.0);
        self.norm_backward(
            &last,
            self.layout.norm,
            Some(&d_normed),
            &mut d_last,
            gradient,
            targets,
        );
        d_last
    }

    /// `dx += d norm(x)/dx dy`, and the weight's gradient if it is trained. Without `dy`, `dx`
    /// holds it on entry and is replaced.
    pub(crate) fn norm_backward(
        &self,
        x: &Buffer,
        weight: Id,
        dy: Option<&Buffer>,
        dx: &mut Buffer,
        gradient: &mut Gradient,
        rows: usize,
    ) {
        let layout = Grouped::rows(self.layout.shapes.hidden);
        let (w, dw) = (&self.weights[weight], gradient.of_model(weight));
        let norm = self.config.rms_norm();
        self.backend.rms_norm_backward(layout, norm, x, w, dy, dx, dw, rows);
    }
}
