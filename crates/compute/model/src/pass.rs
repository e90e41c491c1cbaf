//! A pass over packed sequences, forward to log-probs and entropies, and to log-masses if sampling
//! was truncated. `backward.rs` goes back from a loss's derivatives by these.

use crate::activation_cache::ActivationCache;
use crate::block::{CacheLayer, Rows, Stream};
use crate::internals::Internals;
use crate::layout::{Id, Mlp};
use crate::model::Model;
use crate::packed::Packed;
use crate::router_balance::RouterBalance;
use isentrope_kernels::{
    Adjustments, Buffer, DeviceIndex, Draw, Drawn, EntropySlopes, Grouped, HeadScores,
    HeadStatistics, Role, Routes, Routing, SamplingMasks, TeacherRows,
};
use isentrope_trace::operation;
use std::ops::Range;
use std::sync::Arc;

/// Activations that a forward pass keeps for the backward pass. The gradient's bits are the same
/// either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeKind {
    /// All that is needed: fastest.
    Activations,
    /// Each block's input, and all that this many last blocks need; the others are computed again.
    LastBlocks(usize),
    /// Each block's input; the block is computed again on the way back. A fraction of the memory
    /// for a third more arithmetic.
    BlockInputs,
    /// As [`BlockInputs`](Self::BlockInputs), in the host's memory if the device has its own. An
    /// input comes back when its block is computed again.
    OffloadedBlockInputs,
}

impl TapeKind {
    /// Whether the internals of block `block` of `blocks` are kept.
    pub(crate) fn is_whole(self, block: usize, blocks: usize) -> bool {
        match self {
            Self::Activations => true,
            Self::LastBlocks(last) => blocks - block <= last,
            Self::BlockInputs | Self::OffloadedBlockInputs => false,
        }
    }

    /// The role of the blocks' inputs, `[tokens, hidden]`.
    pub(crate) fn input_role(self, tokens: usize, hidden: usize) -> Role {
        match self {
            Self::OffloadedBlockInputs => Role::OffloadedActivation(tokens, hidden),
            _ => Role::Activation(tokens, hidden),
        }
    }
}

/// Results of a forward pass, one per target.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Log-probability of each target, in nats.
    pub logprobs: Vec<f32>,
    /// Exact entropy of the distribution each target was drawn from, in nats.
    pub entropies: Vec<f32>,
    /// Logarithm of the probability, in nats, of all tokens that the target's mask keeps; 0 if it
    /// has no mask.
    pub log_masses: Vec<f32>,
}

/// A teacher in the places of a pass's targets.
#[derive(Clone, Copy)]
pub struct Taught<'a> {
    /// The teacher; none if it is the model of the pass itself, whose head's weights are then those
    /// of the pass.
    pub teacher: Option<&'a Model>,
    /// The teacher's final hidden states that predict each target, by
    /// [`end_hidden`](Model::end_hidden).
    pub hidden: &'a Buffer,
}

/// Derivatives of a loss, one per target.
#[derive(Clone, Copy, Default)]
pub struct Derivatives<'a> {
    /// By log-prob.
    pub logprobs: &'a [f32],
    /// By entropy.
    pub entropies: &'a [f32],
    /// Derivatives by log-mass, `[targets]`; empty if all are 0.
    pub log_masses: &'a [f32],
    /// Derivatives by the probability of each expert in every block of a mixture, the same at each
    /// target, `[experts]`; empty if all are 0.
    pub experts: &'a [f32],
    /// Derivatives by the reverse KL to a teacher, `[targets]`; empty if all are 0.
    pub divergences: &'a [f32],
    /// The teacher, which is the one of the tape.
    pub taught: Option<Taught<'a>>,
}

impl<'a> Derivatives<'a> {
    /// Derivatives of targets without masks.
    pub fn of(logprobs: &'a [f32], entropies: &'a [f32]) -> Self {
        Self { logprobs, entropies, ..Self::default() }
    }

    /// The derivatives by the scores of one target.
    pub(crate) fn at(&self, target: usize) -> Self {
        let at = |values: &'a [f32]| values.get(target..=target).unwrap_or_default();
        Self {
            logprobs: at(self.logprobs),
            entropies: at(self.entropies),
            log_masses: at(self.log_masses),
            divergences: at(self.divergences),
            ..Self::default()
        }
    }

    /// Whether all of them are 0.
    pub fn are_zero(&self) -> bool {
        [self.logprobs, self.entropies, self.log_masses, self.experts, self.divergences]
            .into_iter()
            .flatten()
            .all(|&derivative| derivative == 0.0)
    }
}

impl Scores {
    fn of_head(HeadScores { logprobs, entropies, mut log_masses }: HeadScores) -> Self {
        log_masses.resize(logprobs.len(), 0.0);
        Self { logprobs, entropies, log_masses }
    }

    /// Appends the scores of the targets that follow.
    pub fn extend(&mut self, more: Self) {
        self.logprobs.extend(more.logprobs);
        self.entropies.extend(more.entropies);
        self.log_masses.extend(more.log_masses);
    }

    /// The scores of some of the targets.
    #[must_use]
    pub fn part(&self, targets: Range<usize>) -> Self {
        Self {
            logprobs: self.logprobs[targets.clone()].to_vec(),
            entropies: self.entropies[targets.clone()].to_vec(),
            log_masses: self.log_masses[targets].to_vec(),
        }
    }

    /// Whether both scores are equal to the last bit.
    pub fn same_bits(&self, other: &Self) -> bool {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        bits(&self.logprobs) == bits(&other.logprobs)
            && bits(&self.entropies) == bits(&other.entropies)
            && bits(&self.log_masses) == bits(&other.log_masses)
    }
}

/// Scores that the device may still be computing: reading them waits for it.
pub struct QueuedScores(HeadStatistics);

impl QueuedScores {
    /// Waits for the scores.
    pub fn read(mut self, model: &Model) -> Scores {
        model.read_scores(&mut self.0)
    }
}

impl Tape<'_> {
    /// Waits for the scores of the forward pass. Call it once.
    pub fn read_scores(&mut self, model: &Model) -> Scores {
        model.read_scores(&mut self.statistics)
    }

    /// Waits for the reverse KL to the teacher at each target, in nats; nothing without one.
    pub fn read_divergences(&self, model: &Model) -> Vec<f32> {
        model.backend.divergences(&self.statistics)
    }
}

/// The forward pass's state that [`Model::backward`] needs.
pub struct Tape<'r> {
    pub(crate) packed: Packed,
    pub(crate) uploaded: DeviceRows,
    pub(crate) blocks: BlockSource<'r>,
    /// Rows of the last block's output that predict a target, `[targets, hidden]`.
    pub(crate) last: Buffer,
    pub(crate) statistics: HeadStatistics,
}

/// A pass on its way forward, between two blocks.
pub struct ForwardPass {
    uploaded: DeviceRows,
    stream: Stream,
    /// The tape to be kept, if there is one.
    keep: Option<TapeKind>,
    kept: Vec<BlockRecord>,
    /// The number of blocks that it has left.
    left: usize,
}

/// Packed sequences on the device.
pub(crate) struct DeviceRows {
    pub rows: Rows,
    /// The rows that predict a target.
    pub predicting: DeviceIndex,
    /// Pages of a cache that holds these rows alone.
    pub pages: usize,
}

/// Inputs of the blocks' backward passes.
pub(crate) enum BlockSource<'r> {
    /// Kept by a forward pass, one per block.
    Records(Vec<BlockRecord>),
    /// Inputs alone, kept in the host's memory by a forward pass, one per block.
    Offloaded(Vec<Buffer>),
    /// Activations of the rows in `slots` of an activation cache.
    Cache { activation_cache: &'r ActivationCache, slots: DeviceIndex, rows: usize },
}

/// The part of a tape that belongs to one block.
pub(crate) struct BlockRecord {
    /// The block's input, `[tokens, hidden]`.
    pub input: Buffer,
    pub internals: Option<Internals<Buffer>>,
}

impl ForwardPass {
    /// Whether there is to be a tape.
    pub fn keeps_tape(&self) -> bool {
        self.keep.is_some()
    }
}

impl Model {
    /// Log-probs and entropies at a temperature (above 0), without a way back.
    ///
    /// # Panics
    /// When a token is outside the vocabulary; see [`check_tokens`](Self::check_tokens).
    pub fn score(&self, packed: &Packed, temperature: f32) -> Scores {
        self.begin_score(packed, temperature).read(self)
    }

    /// As [`score`](Self::score), without waiting for the device.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn begin_score(&self, packed: &Packed, temperature: f32) -> QueuedScores {
        self.end_score(self.through_blocks(packed, None), packed, temperature)
    }

    /// Scores at the end of a pass.
    pub fn end_score(&self, pass: ForwardPass, packed: &Packed, temperature: f32) -> QueuedScores {
        let (.., last) = self.last_rows(pass, packed);
        QueuedScores(self.head(&last, packed, temperature, None))
    }

    /// The final hidden states that predict each target, at the end of a pass: what the head reads.
    pub fn end_hidden(&self, pass: ForwardPass, packed: &Packed) -> Buffer {
        let (.., last) = self.last_rows(pass, packed);
        self.normed(&last, packed.target_count())
    }

    /// The scores of [`score`](Self::score), and the slope of each target's entropy along the
    /// gradient of the target's log-prob, both by the logits over the temperature
    /// ([`EntropySlopes`]). If the target's mask leaves tokens out, the log-prob is that among the
    /// kept ones.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn entropy_slopes(&self, packed: &Packed, temperature: f32) -> (Scores, Vec<f32>) {
        self.end_slopes(self.through_blocks(packed, None), packed, temperature)
    }

    /// As [`entropy_slopes`](Self::entropy_slopes), at the end of a pass.
    pub fn end_slopes(
        &self,
        pass: ForwardPass,
        packed: &Packed,
        temperature: f32,
    ) -> (Scores, Vec<f32>) {
        let (.., last) = self.last_rows(pass, packed);
        let (b, normed) = (&*self.backend, self.normed(&last, packed.target_count()));
        let (head, targets) = (&self.weights[self.layout.head], b.upload_index(&packed.targets));
        let shape = self.layout.shapes.vocabulary;
        let EntropySlopes { scores, slopes } =
            b.entropy_slopes(shape, &normed, head, targets, packed.masks.clone(), temperature);
        (Scores::of_head(scores), slopes)
    }

    /// The experts that each row goes to, in each block that has experts, from the first to the
    /// last.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn routes(&self, packed: &Packed) -> Vec<Routes> {
        let mut routes = Vec::new();
        self.each_routing(packed, |routing| routes.push(routing.routes));
        routes
    }

    /// The choices and probabilities of each expert at the targets, a target of several sequences
    /// once for each.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn router_balance(&self, packed: &Packed) -> RouterBalance {
        let mut balance = RouterBalance::default();
        self.each_routing(packed, |routing| {
            let probabilities = self.router_probabilities(&routing);
            balance.count(&routing, &probabilities, &packed.rows);
        });
        balance
    }

    /// Goes forward, and calls `act` with the choice of each block that has experts.
    fn each_routing(&self, packed: &Packed, mut act: impl FnMut(Routing)) {
        let DeviceRows { rows, pages, .. } = self.upload_packed(packed);
        let mut cache = self.backend.buffer(self.layout.cache(1, pages));
        let mut stream = self.embedded(&rows);
        for (number, block) in self.layout.blocks.iter().enumerate() {
            let layer = CacheLayer { cache: &mut cache, layer: 0, states: None };
            let internals = self.block_forward(number, &mut stream, &rows, layer, true);
            if let (Mlp::Experts(of), Some(Internals { middle, .. })) = (&block.mlp, internals) {
                let normed = self.normed_rows(block.mlp_norms.input, &middle, rows.count);
                let read = normed.as_ref().unwrap_or(&middle);
                act(self.route(&of.routed, read, rows.count));
            }
        }
    }

    /// Log-probs and entropies at a temperature (above 0), and the tape for
    /// [`backward`](Self::backward).
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn forward(
        &self,
        packed: Packed,
        temperature: f32,
        keep: TapeKind,
    ) -> (Scores, Tape<'static>) {
        let mut tape = self.begin_forward(packed, temperature, keep);
        (tape.read_scores(self), tape)
    }

    /// As [`forward`](Self::forward), without waiting for the device.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn begin_forward(&self, packed: Packed, temperature: f32, keep: TapeKind) -> Tape<'static> {
        self.end_forward(self.through_blocks(&packed, Some(keep)), packed, temperature, None)
    }

    /// The tape of [`begin_forward`](Self::begin_forward), at the end of a pass that keeps one.
    /// With a teacher, the tape has the reverse KL to it.
    ///
    /// # Panics
    /// When the pass keeps nothing; when the teacher has fewer tokens than the model.
    pub fn end_forward(
        &self,
        pass: ForwardPass,
        packed: Packed,
        temperature: f32,
        taught: Option<Taught<'_>>,
    ) -> Tape<'static> {
        let keep = pass.keep.expect("a pass that keeps a tape");
        let (uploaded, kept, last) = self.last_rows(pass, &packed);
        let statistics = self.head(&last, &packed, temperature, taught);
        let blocks = match keep {
            TapeKind::OffloadedBlockInputs => {
                BlockSource::Offloaded(kept.into_iter().map(|record| record.input).collect())
            }
            _ => BlockSource::Records(kept),
        };
        Tape { packed, uploaded, blocks, last, statistics }
    }

    /// The tape of [`begin_forward`](Self::begin_forward), from activations cached when these
    /// weights sampled. `slots` has, for each packed sequence, the slots of its inputs: all its
    /// tokens but the last. `taught`: as in [`end_forward`](Self::end_forward).
    ///
    /// # Panics
    /// When a sequence has fewer slots than inputs, or the activation cache has no such slots.
    pub fn tape_from_cache<'r>(
        &self,
        packed: Packed,
        temperature: f32,
        activation_cache: &'r ActivationCache,
        slots: &[&[u32]],
        taught: Option<Taught<'_>>,
    ) -> Tape<'r> {
        let slots = packed.rows_of(slots);
        let of_targets: Vec<u32> = packed.rows.iter().map(|&row| slots[row as usize]).collect();
        let last = activation_cache.last(self, &of_targets);
        let statistics = self.head(&last, &packed, temperature, taught);
        let (slots, rows) = (self.backend.upload_index(&slots), slots.len());
        let blocks = BlockSource::Cache { activation_cache, slots, rows };
        Tape { uploaded: self.upload_packed(&packed), packed, blocks, last, statistics }
    }

    /// Log-prob of a token after each row of final hidden states, `[tokens, hidden]`, and the row's
    /// entropy: what drawing that token would report.
    pub fn score_next(&self, hidden: &Buffer, tokens: &[u32], temperature: f32) -> Scores {
        self.read_scores(&mut self.predict(hidden, tokens, Arc::default(), temperature, None))
    }

    /// The most likely token after each of the first rows of final hidden states: the greedy draw
    /// there, whose log-prob is at temperature 1. No draw if logits are not finite.
    pub fn likeliest_next(&self, hidden: &Buffer, rows: usize) -> Vec<Option<Drawn>> {
        let greedy = |row| Draw {
            row,
            adjustments: Adjustments::temperature(0.0),
            penalised: Vec::new(),
            records_kept: false,
            uniform: 0.0,
        };
        self.draw(hidden, &(0..rows).map(greedy).collect::<Vec<Draw>>())
    }

    fn upload_packed(&self, packed: &Packed) -> DeviceRows {
        let (host, pages) = packed.on_pages(self.backend.page_positions());
        DeviceRows {
            rows: self.upload_rows(&host),
            predicting: self.backend.upload_index(&packed.rows),
            pages,
        }
    }

    /// Takes a pass through the embedding and all blocks. One of [`end_score`](Self::end_score),
    /// [`end_slopes`](Self::end_slopes), [`end_hidden`](Self::end_hidden) and
    /// [`end_forward`](Self::end_forward) follows. `keep`: as
    /// in [`forward`](Self::forward), if there is to be a tape.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn through_blocks(&self, packed: &Packed, keep: Option<TapeKind>) -> ForwardPass {
        let mut pass = self.embed_pass(packed, keep);
        let mut cache = self.backend.buffer(self.layout.cache(1, pass.uploaded.pages));
        for _ in 0..self.layout.blocks.len() {
            self.next_block(&mut pass, &mut cache);
        }
        pass
    }

    /// The first stage of [`through_blocks`](Self::through_blocks), the embedding, for passes that
    /// take each stage together: [`forward_block`](Self::forward_block) follows for each block, and
    /// reads no weights but the block's. The bits are the same.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    pub fn enter(&self, packed: &Packed, keep: Option<TapeKind>) -> ForwardPass {
        let pass = self.embed_pass(packed, keep);
        ForwardPass { stream: pass.stream.by_layer(), ..pass }
    }

    /// Goes forward through the next block.
    ///
    /// # Panics
    /// When the pass has left the last block.
    pub fn forward_block(&self, pass: &mut ForwardPass) {
        let mut cache = self.backend.buffer(self.layout.cache(1, pass.uploaded.pages));
        self.next_block(pass, &mut cache);
    }

    fn embed_pass(&self, packed: &Packed, keep: Option<TapeKind>) -> ForwardPass {
        let uploaded = self.upload_packed(packed);
        let stream = self.embedded(&uploaded.rows);
        ForwardPass { uploaded, stream, keep, kept: Vec::new(), left: 0 }
    }

    /// Goes forward through the next block. The cache holds one layer's keys and values; the next
    /// block's replace them.
    fn next_block(&self, pass: &mut ForwardPass, cache: &mut Buffer) {
        let (b, s, blocks) = (&*self.backend, &self.layout.shapes, self.layout.blocks.len());
        let ForwardPass { uploaded: DeviceRows { rows, .. }, stream, keep, kept, left } = pass;
        let input = keep.map(|keep| {
            let mut input = b.buffer(keep.input_role(rows.count, s.hidden));
            b.copy_first_rows(&stream.x, &mut input, rows.count);
            input
        });
        let layer = CacheLayer { cache, layer: 0, states: None };
        let is_whole = keep.is_some_and(|keep| keep.is_whole(*left, blocks));
        let internals = self.block_forward(*left, stream, rows, layer, is_whole);
        kept.extend(input.map(|input| BlockRecord { input, internals }));
        *left += 1;
    }

    /// The rows of the last block's output that predict a target, behind the pass's batch and what
    /// it has kept.
    fn last_rows(
        &self,
        pass: ForwardPass,
        packed: &Packed,
    ) -> (DeviceRows, Vec<BlockRecord>, Buffer) {
        let ForwardPass { uploaded, stream, kept, left, .. } = pass;
        assert_eq!(left, self.layout.blocks.len(), "the pass has left the last block");
        let mut last = self.activations(packed.target_count(), self.layout.shapes.hidden);
        self.backend.copy_rows(&stream.x, &uploaded.predicting, &mut last);
        (uploaded, kept, last)
    }

    /// The final norm and the head, on the rows of the last block's output that predict the
    /// targets.
    fn head(
        &self,
        last: &Buffer,
        packed: &Packed,
        temperature: f32,
        taught: Option<Taught<'_>>,
    ) -> HeadStatistics {
        let Packed { targets, masks, .. } = packed;
        let normed = self.normed(last, targets.len());
        self.predict(&normed, targets, Arc::clone(masks), temperature, taught)
    }

    /// A teacher's rows and its head.
    pub(crate) fn teacher_rows<'a>(&'a self, taught: Taught<'a>) -> TeacherRows<'a> {
        let Taught { teacher, hidden } = taught;
        let Model { layout, weights, .. } = teacher.unwrap_or(self);
        TeacherRows { hidden, weights: &weights[layout.head], shape: layout.shapes.vocabulary }
    }

    /// The final norm of rows of the last block's output, with their factor if they have one.
    pub(crate) fn normed(&self, last: &Buffer, rows: usize) -> Buffer {
        let mut normed = self.activations(rows, self.layout.shapes.hidden);
        self.norm(last, self.layout.norm, &mut normed, rows);
        self.scale(self.scales.hidden.as_ref(), &mut normed, rows);
        normed
    }

    /// The head, on rows of final hidden states.
    fn predict(
        &self,
        hidden: &Buffer,
        targets: &[u32],
        masks: Arc<SamplingMasks>,
        temperature: f32,
        taught: Option<Taught<'_>>,
    ) -> HeadStatistics {
        let _span = operation("head");
        let (b, head) = (&*self.backend, &self.weights[self.layout.head]);
        let (shape, targets) = (self.layout.shapes.vocabulary, b.upload_index(targets));
        let teacher = taught.map(|taught| self.teacher_rows(taught));
        b.head(shape, hidden, head, targets, masks, temperature, teacher)
    }

    fn read_scores(&self, statistics: &mut HeadStatistics) -> Scores {
        let _span = operation("scores");
        Scores::of_head(self.backend.scores(statistics))
    }

    pub(crate) fn norm(&self, x: &Buffer, weight: Id, y: &mut Buffer, rows: usize) {
        let layout = Grouped::rows(self.layout.shapes.hidden);
        self.backend.rms_norm(layout, self.config.rms_norm(), x, &self.weights[weight], y, rows);
    }
}
