//! A pass over packed sequences: forward to log-probs and entropies, and back from two coefficients per target.

use crate::block::Internals;
use crate::gradient::Gradient;
use crate::layout::Id;
use crate::model::Model;
use crate::packed::Packed;
use crate::recording::Recording;
use isentrope_kernels::{Backend, Distribution, Grouped, HeadGradient};
use std::ops::Range;

/// What a forward pass keeps for the backward pass. The gradient's bits are the same either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All that is needed: fastest.
    Activations,
    /// Each block's input; the block is computed again on the way back. A fraction of the memory for a third more
    /// arithmetic.
    BlockInputs,
}

/// Results of a forward pass, one per target.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Log-probability of each target, in nats.
    pub logprobs: Vec<f32>,
    /// Exact entropy of the distribution each target was drawn from, in nats.
    pub entropies: Vec<f32>,
}

impl Scores {
    /// Appends those of the targets that follow.
    pub fn extend(&mut self, more: Self) {
        self.logprobs.extend(more.logprobs);
        self.entropies.extend(more.entropies);
    }

    /// Those of some of the targets.
    #[must_use]
    pub fn part(&self, targets: Range<usize>) -> Self {
        Self {
            logprobs: self.logprobs[targets.clone()].to_vec(),
            entropies: self.entropies[targets].to_vec(),
        }
    }

    /// Whether both are the same numbers to the last bit.
    pub fn same_bits(&self, other: &Self) -> bool {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        bits(&self.logprobs) == bits(&other.logprobs) && bits(&self.entropies) == bits(&other.entropies)
    }
}

/// What [`Model::backward`] needs of the forward pass.
pub struct Tape<'r, B: Backend> {
    packed: Packed,
    temperature: f32,
    blocks: Blocks<'r, B>,
    /// Rows of the last block's output that predict a target, `[targets, hidden]`.
    last: B::Buffer,
    distributions: Vec<Distribution>,
}

/// What the backward passes of the blocks need.
enum Blocks<'r, B: Backend> {
    /// What a forward pass has kept, one per block.
    Kept(Vec<Kept<B>>),
    /// What a recording has of the rows in `slots`.
    Recorded { recording: &'r Recording<B>, slots: Vec<u32> },
}

struct Kept<B: Backend> {
    /// The block's input, `[tokens, hidden]`.
    input: B::Buffer,
    internals: Option<Internals<B>>,
}

impl<'r, B: Backend> Blocks<'r, B> {
    /// From the last block to the first, each fetched when its turn comes.
    fn backwards(self, model: &'r Model<B>) -> Box<dyn Iterator<Item = Kept<B>> + 'r> {
        match self {
            Self::Kept(kept) => Box::new(kept.into_iter().rev()),
            Self::Recorded { recording, slots } => {
                Box::new((0..model.layout.blocks.len()).rev().map(move |block| {
                    let (input, internals) = recording.block(model, block, &slots);
                    Kept { input, internals: Some(internals) }
                }))
            }
        }
    }
}

impl<B: Backend> Model<B> {
    /// Log-probs and entropies at a temperature (above 0), without a way back.
    ///
    /// # Panics
    /// When a token is outside the vocabulary; see [`check_tokens`](Self::check_tokens).
    pub fn score(&self, packed: &Packed, temperature: f32) -> Scores {
        self.run(packed, temperature, None).0
    }

    /// Log-probs and entropies at a temperature (above 0), and the tape for [`backward`](Self::backward).
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn forward(&self, packed: Packed, temperature: f32, keep: Keep) -> (Scores, Tape<'static, B>) {
        let (scores, kept, last, distributions) = self.run(&packed, temperature, Some(keep));
        (scores, Tape { packed, temperature, blocks: Blocks::Kept(kept), last, distributions })
    }

    /// What [`forward`](Self::forward) returns, from what was recorded when these weights sampled: `slots` are those of each
    /// packed sequence's inputs, all its tokens but the last.
    ///
    /// # Panics
    /// When a sequence has fewer slots than inputs, or the recording has no such slots.
    pub fn recall<'r>(
        &self,
        packed: Packed,
        temperature: f32,
        recording: &'r Recording<B>,
        slots: &[&[u32]],
    ) -> (Scores, Tape<'r, B>) {
        let slots = packed.rows_of(slots);
        let of_targets: Vec<u32> = packed.rows.iter().map(|&row| slots[row as usize]).collect();
        let last = recording.last(self, &of_targets);
        let (scores, distributions) = self.head(&last, &packed.targets, temperature);
        let blocks = Blocks::Recorded { recording, slots };
        (scores, Tape { packed, temperature, blocks, last, distributions })
    }

    fn run(
        &self,
        packed: &Packed,
        temperature: f32,
        keep: Option<Keep>,
    ) -> (Scores, Vec<Kept<B>>, B::Buffer, Vec<Distribution>) {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let tokens = packed.token_count();
        let rope = self.rope.up_to(b, self.positions(packed));
        let rows = packed.rows_with(&rope);
        let mut cache = b.buffer(self.layer_cache_len(packed.pages));
        let mut x = b.buffer(tokens * s.hidden);
        b.embed(s.table, &self.weights[self.layout.embedding], &packed.tokens, &mut x);
        let mut kept = Vec::new();
        for block in &self.layout.blocks {
            let input = keep.map(|_| {
                let mut input = b.buffer(tokens * s.hidden);
                b.copy(&x, 0, &mut input, 0, tokens * s.hidden);
                input
            });
            let internals =
                self.block_forward(block, &mut x, &rows, &mut cache, keep == Some(Keep::Activations));
            kept.extend(input.map(|input| Kept { input, internals }));
        }
        let mut last = b.buffer(packed.target_count() * s.hidden);
        b.gather_rows(s.hidden, &x, &packed.rows, &mut last);
        let (scores, distributions) = self.head(&last, &packed.targets, temperature);
        (scores, kept, last, distributions)
    }

    /// The final norm and the head, on the rows of the last block's output that predict `targets`.
    fn head(&self, last: &B::Buffer, targets: &[u32], temperature: f32) -> (Scores, Vec<Distribution>) {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let mut normed = b.buffer(targets.len() * s.hidden);
        self.norm(last, self.layout.norm, &mut normed, targets.len());
        let head = &self.weights[self.layout.head];
        let (logprobs, distributions) = b.head(s.table, &normed, head, targets, temperature);
        let entropies = distributions.iter().map(|d| d.entropy).collect();
        (Scores { logprobs, entropies }, distributions)
    }

    /// Adds to `gradient` that of a loss whose derivatives by each target's log-prob and entropy are given. Micro-batches
    /// passed in order give the same bits as one batch.
    ///
    /// # Panics
    /// When the coefficients are not one per target.
    pub fn backward(
        &self,
        tape: Tape<'_, B>,
        d_logprobs: &[f32],
        d_entropies: &[f32],
        gradient: &mut Gradient<B>,
    ) {
        let targets = tape.packed.target_count();
        assert!(d_logprobs.len() == targets && d_entropies.len() == targets);
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let Tape { packed, temperature, blocks, last, distributions } = tape;
        let tokens = packed.token_count();
        let rope = self.rope.up_to(b, self.positions(&packed));
        let rows = packed.rows_with(&rope);
        let head_gradient = HeadGradient {
            targets: &packed.targets,
            distributions: &distributions,
            logprob: d_logprobs,
            entropy: d_entropies,
            temperature,
        };
        let d_last = self.head_backward(last, head_gradient, gradient);
        let mut dx = b.buffer(tokens * s.hidden);
        b.scatter_rows(s.hidden, &d_last, &packed.rows, &mut dx, tokens);
        drop(d_last);

        let mut cache = None;
        for (block, Kept { input, internals }) in self.layout.blocks.iter().rev().zip(blocks.backwards(self))
        {
            let internals = internals.unwrap_or_else(|| {
                let cache = cache.get_or_insert_with(|| b.buffer(self.layer_cache_len(packed.pages)));
                self.block_internals(block, &input, &rows, cache)
            });
            self.block_backward(block, &input, internals, &rows, &mut dx, gradient);
        }
        gradient.add_embedded(b, s.table, &packed.tokens, &dx);
    }

    /// The gradient of `last: [targets, hidden]` through the final norm and the head; adds to theirs.
    fn head_backward(
        &self,
        last: B::Buffer,
        head_gradient: HeadGradient<'_>,
        gradient: &mut Gradient<B>,
    ) -> B::Buffer {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let targets = head_gradient.targets.len();
        let mut normed = b.buffer(targets * s.hidden);
        self.norm(&last, self.layout.norm, &mut normed, targets);
        let mut d_normed = b.buffer(targets * s.hidden);
        let (head, d_head) = (&self.weights[self.layout.head], &mut gradient.parameters[self.layout.head]);
        b.head_backward(s.table, &normed, head, head_gradient, &mut d_normed, d_head);
        let mut d_last = normed;
        b.fill(&mut d_last, 0.0);
        self.norm_backward(&last, self.layout.norm, &d_normed, &mut d_last, gradient, targets);
        d_last
    }

    fn positions(&self, packed: &Packed) -> usize {
        packed.runs.iter().map(|r| r.position + r.len).max().unwrap_or(0)
    }

    /// Floats of one layer's keys and values in `pages` pages.
    pub(crate) fn layer_cache_len(&self, pages: usize) -> usize {
        self.layout.blocks.first().map_or(0, |block| pages * block.attention.page_len())
    }

    pub(crate) fn norm(&self, x: &B::Buffer, weight: Id, y: &mut B::Buffer, rows: usize) {
        let layout = Grouped::rows(self.layout.shapes.hidden);
        self.backend.rms_norm(layout, self.config.rms_norm_eps, x, &self.weights[weight], y, rows);
    }

    /// `dx += d norm(x)/dx dy`, and the weight's gradient.
    pub(crate) fn norm_backward(
        &self,
        x: &B::Buffer,
        weight: Id,
        dy: &B::Buffer,
        dx: &mut B::Buffer,
        gradient: &mut Gradient<B>,
        rows: usize,
    ) {
        let layout = Grouped::rows(self.layout.shapes.hidden);
        let (w, dw) = (&self.weights[weight], &mut gradient.parameters[weight]);
        self.backend.rms_norm_backward(layout, self.config.rms_norm_eps, x, w, Some(dy), dx, dw, rows);
    }
}
