//! The CPU as a [`Backend`].

use crate::adamw::{self, AdamW, Updated};
use crate::attention::{self, Attention};
use crate::backend::Backend;
use crate::batch::{CpuBatch, HostBatch, PAGE};
use crate::buffer::{CpuBuffer, Recycler, Reserved};
use crate::draw::{self, Draw, Drawn};
use crate::embedding;
use crate::head::{self, CpuStatistics, EntropySlopes, HeadGradient, HeadScores};
use crate::linear::{self, Destination, Linear};
use crate::norm::{self, Grouped};
use crate::role::{Kind, OutOfMemory, Role, Work};
use crate::rope::{self, Turn};
use crate::rows;
use crate::sampling_masks::SamplingMasks;
use crate::simd::Isa;
use crate::swiglu;
use crate::threads::{Threads, Workers};
use std::ops::Range;
use std::sync::Arc;

/// The processor this program runs on.
pub struct Cpu {
    workers: Workers,
    recycler: Arc<Recycler>,
    /// The head's logits. Of all buffers of a pass they may be by far the largest: recycled, they would be taken for
    /// activations that are kept, and allocated anew in every pass.
    logits: Reserved,
}

impl Cpu {
    /// A backend on the given instruction set and number of threads.
    ///
    /// # Errors
    /// A sentence for the user when the processor lacks the instruction set or threads cannot be started.
    pub fn new(isa: Isa, threads: usize) -> Result<Self, String> {
        if !Isa::available().contains(&isa) {
            return Err(format!("this processor does not have {isa}"));
        }
        let workers = Workers { isa, threads: Threads::new(threads)? };
        Ok(Self { workers, recycler: Arc::default(), logits: Reserved::default() })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.workers.isa
    }

    /// Threads in the pool.
    pub fn threads(&self) -> usize {
        self.workers.threads.count()
    }
}

/// Rows and floats in each, of a buffer for this role.
fn extent(role: Role) -> (usize, usize) {
    match role {
        Role::Activation(rows, features) | Role::Exact(rows, features) => (rows, features),
        Role::Weight(kind) | Role::Gradient(kind) => match kind {
            Kind::Vector(len) => (1, len),
            Kind::Matrix(shape) => shape.packed_extent(),
        },
        Role::Moment(numbers) | Role::OffloadedMoment(numbers) => (1, numbers),
        // A row is a layer.
        Role::Cache { shape, layers, pages } => (layers, pages.saturating_mul(shape.page_len())),
    }
}

fn bytes_of(floats: usize) -> usize {
    floats.saturating_mul(size_of::<f32>())
}

impl Backend for Cpu {
    type Buffer = CpuBuffer;
    type Batch = CpuBatch;
    type Index = Vec<u32>;
    type Statistics = CpuStatistics;
    /// The CPU draws at once.
    type Drawing = Vec<Option<Drawn>>;
    type Tokens = Vec<u32>;

    const PAGE: usize = PAGE;

    fn bytes(&self, role: Role) -> usize {
        let (rows, features) = extent(role);
        bytes_of(rows.saturating_mul(features))
    }
    fn workspace(&self, work: Work) -> usize {
        match work {
            Work::Head(shape, rows) => bytes_of(head::workspace(shape, rows)),
            Work::Statistics(rows) => CpuStatistics::bytes(rows),
            Work::AttentionGradient(shape, positions) => {
                bytes_of(shape.gradient_workspace().saturating_mul(positions))
            }
            Work::Draw(shape, rows) => bytes_of(draw::most_workspace(shape, rows)),
            Work::Attention(..) | Work::Steps(_) | Work::LinearSums(_) | Work::OffloadedMoments(_) => 0,
        }
    }
    fn allocate(&self, role: Role) -> Result<CpuBuffer, OutOfMemory> {
        let (rows, features) = extent(role);
        match role {
            // Every rollout has a cache of its own, and page faults would cost more than its memory is worth elsewhere: it
            // waits for the next one, however large, until memory is trimmed.
            Role::Cache { .. } => self.recycler.cache(rows, features),
            _ => self.recycler.zeros(rows, features),
        }
    }
    fn buffer(&self, role: Role) -> CpuBuffer {
        let (rows, features) = extent(role);
        self.recycler.buffer(rows, features).unwrap_or_else(|refused| panic!("{refused}"))
    }
    fn trim(&self) {
        self.recycler.clear();
        self.logits.clear();
    }

    fn batch_of_drawn(&self, host: &HostBatch, drawn: Option<&Vec<u32>>) -> CpuBatch {
        CpuBatch::new(host, drawn.map_or(&[], |drawn| drawn))
    }
    fn index(&self, numbers: &[u32]) -> Vec<u32> {
        numbers.to_vec()
    }

    fn fill(&self, buffer: &mut CpuBuffer, value: f32) {
        buffer.fill(value);
    }
    fn write(&self, buffer: &mut CpuBuffer, first: usize, rows: &[f32]) {
        let features = buffer.features();
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        buffer[first * features..][..rows.len()].copy_from_slice(rows);
    }
    fn read(&self, buffer: &CpuBuffer, first: usize, rows: &mut [f32]) {
        let features = buffer.features();
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        rows.copy_from_slice(&buffer[first * features..][..rows.len()]);
    }
    fn copy(&self, from: &CpuBuffer, to: &mut CpuBuffer, rows: usize) {
        let features = from.features();
        rows::copy(&self.workers, from.rows(rows, features), to.rows_mut(rows, features));
    }
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut CpuBuffer) {
        match kind {
            Kind::Vector(_) => packed[first..first + rows.len()].copy_from_slice(rows),
            Kind::Matrix(shape) => shape.pack(first, rows, packed),
        }
    }
    fn unpack(&self, kind: Kind, first: usize, packed: &CpuBuffer, rows: &mut [f32]) {
        match kind {
            Kind::Vector(_) => rows.copy_from_slice(&packed[first..first + rows.len()]),
            Kind::Matrix(shape) => shape.unpack(first, packed, rows),
        }
    }

    fn linear(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        bias: Option<&CpuBuffer>,
        y: &mut CpuBuffer,
        tokens: usize,
    ) {
        let (x, y) = (x.rows(tokens, shape.inputs), y.rows_mut(tokens, shape.outputs));
        let bias = bias.map(|b| &**b);
        linear::forward(&self.workers, shape, x, weights, bias, y, Destination::Replace, tokens);
    }
    fn linear_add(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        bias: Option<&CpuBuffer>,
        y: &mut CpuBuffer,
        tokens: usize,
    ) {
        let (x, y) = (x.rows(tokens, shape.inputs), y.rows_mut(tokens, shape.outputs));
        let bias = bias.map(|b| &**b);
        linear::forward(&self.workers, shape, x, weights, bias, y, Destination::Add, tokens);
    }
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &CpuBuffer,
        weights: &CpuBuffer,
        dx: &mut CpuBuffer,
        tokens: usize,
    ) {
        let (dy, dx) = (dy.rows(tokens, shape.outputs), dx.rows_mut(tokens, shape.inputs));
        linear::backward_input(&self.workers, shape, dy, weights, dx, tokens);
    }
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &CpuBuffer,
        x: &CpuBuffer,
        dw: &mut CpuBuffer,
        tokens: usize,
    ) {
        let (dy, x) = (dy.rows(tokens, shape.outputs), x.rows(tokens, shape.inputs));
        linear::backward_weight(&self.workers, shape, dy, x, dw, tokens);
    }
    fn linear_backward_bias(&self, shape: Linear, dy: &CpuBuffer, db: &mut CpuBuffer, tokens: usize) {
        linear::backward_bias(&self.workers, shape.outputs, dy.rows(tokens, shape.outputs), db, tokens);
    }

    fn embed(&self, vocabulary: Linear, packed: &CpuBuffer, batch: &CpuBatch, y: &mut CpuBuffer) {
        let y = y.rows_mut(batch.tokens().len(), vocabulary.inputs);
        embedding::forward(&self.workers, vocabulary, packed, batch.tokens(), y);
    }
    fn embed_backward(&self, slots: &Vec<u32>, dy: &CpuBuffer, rows: &mut CpuBuffer) {
        let hidden = rows.features();
        embedding::backward(&self.workers, hidden, slots, dy.rows(slots.len(), hidden), rows);
    }
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &CpuBuffer,
        tokens: &Vec<u32>,
        packed: &mut CpuBuffer,
    ) {
        embedding::add_rows(vocabulary, rows.rows(tokens.len(), vocabulary.inputs), tokens, packed);
    }

    fn rms_norm(
        &self,
        layout: Grouped,
        eps: f32,
        x: &CpuBuffer,
        weight: &CpuBuffer,
        y: &mut CpuBuffer,
        rows: usize,
    ) {
        let (x, y) = (x.rows(rows, layout.stride), y.rows_mut(rows, layout.stride));
        norm::forward(&self.workers, layout, eps, x, weight, y, rows);
    }
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        eps: f32,
        x: &CpuBuffer,
        weight: &CpuBuffer,
        dy: Option<&CpuBuffer>,
        dx: &mut CpuBuffer,
        dw: &mut CpuBuffer,
        rows: usize,
    ) {
        let (x, dy) = (x.rows(rows, layout.stride), dy.map(|dy| dy.rows(rows, layout.stride)));
        let dx = dx.rows_mut(rows, layout.stride);
        norm::backward(&self.workers, layout, eps, x, weight, dy, dx, dw, rows);
    }

    fn rope(
        &self,
        layout: Grouped,
        x: &mut CpuBuffer,
        cos: &CpuBuffer,
        sin: &CpuBuffer,
        batch: &CpuBatch,
        turn: Turn,
    ) {
        let x = x.rows_mut(batch.positions().len(), layout.stride);
        rope::rotate(&self.workers, layout, x, cos, sin, batch.positions(), turn);
    }

    fn store_kv(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        batch: &CpuBatch,
        cache: &mut CpuBuffer,
        layer: usize,
    ) {
        let qkv = qkv.rows(batch.tokens().len(), shape.row());
        let len = cache.features();
        attention::store(&self.workers, shape, qkv, batch, &mut cache[layer * len..][..len]);
    }
    fn copy_pages(&self, shape: Attention, cache: &mut CpuBuffer, pages: &[(u32, u32)]) {
        let len = cache.features();
        for layer in cache.chunks_exact_mut(len.max(1)) {
            attention::copy_pages(shape, layer, pages);
        }
    }
    fn attention(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        batch: &CpuBatch,
        cache: &CpuBuffer,
        layer: usize,
        out: &mut CpuBuffer,
    ) {
        let rows = batch.tokens().len();
        let (qkv, out) = (qkv.rows(rows, shape.row()), out.rows_mut(rows, shape.heads * shape.head_dim));
        let len = cache.features();
        attention::forward(&self.workers, shape, qkv, batch, &cache[layer * len..][..len], out);
    }
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        batch: &CpuBatch,
        d_out: &CpuBuffer,
        d_qkv: &mut CpuBuffer,
    ) {
        let rows = batch.tokens().len();
        let (qkv, d_qkv) = (qkv.rows(rows, shape.row()), d_qkv.rows_mut(rows, shape.row()));
        let d_out = d_out.rows(rows, shape.heads * shape.head_dim);
        attention::backward(&self.workers, shape, qkv, batch, d_out, d_qkv);
    }

    fn swiglu(&self, features: usize, gate_up: &CpuBuffer, y: &mut CpuBuffer, tokens: usize) {
        let (gate_up, y) = (gate_up.rows(tokens, 2 * features), y.rows_mut(tokens, features));
        swiglu::forward(&self.workers, features, gate_up, y, tokens);
    }
    fn swiglu_backward(&self, features: usize, dy: &mut CpuBuffer, gate_up: &mut CpuBuffer, tokens: usize) {
        let (dy, gate_up) = (dy.rows_mut(tokens, features), gate_up.rows_mut(tokens, 2 * features));
        swiglu::backward(&self.workers, features, dy, gate_up, tokens);
    }

    fn gather_rows(&self, from: &CpuBuffer, rows: &Vec<u32>, to: &mut CpuBuffer) {
        let features = from.features();
        rows::gather(&self.workers, features, from, rows, to.rows_mut(rows.len(), features));
    }
    fn store_rows(&self, from: &CpuBuffer, rows: &Vec<u32>, to: &mut CpuBuffer, slots: &Vec<u32>) {
        assert_eq!(from.features(), to.features());
        rows::store(&self.workers, from.features(), from, rows, to, slots);
    }
    fn scatter_rows(&self, from: &CpuBuffer, rows: &Vec<u32>, to: &mut CpuBuffer, total: usize) {
        let features = from.features();
        rows::scatter(features, from.rows(rows.len(), features), rows, to.rows_mut(total, features));
    }

    fn head(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        targets: Vec<u32>,
        masks: Arc<SamplingMasks>,
        temperature: f32,
    ) -> CpuStatistics {
        let x = x.rows(targets.len(), shape.inputs);
        self.logits.with(head::forward_workspace(shape, targets.len()), |logits| {
            head::forward(&self.workers, shape, x, weights, targets, masks, temperature, logits)
        })
    }
    fn scores(&self, statistics: &mut CpuStatistics) -> HeadScores {
        statistics.read()
    }
    fn head_backward(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        statistics: &CpuStatistics,
        d_logprobs: &[f32],
        d_entropies: &[f32],
        d_log_masses: &[f32],
        dx: &mut CpuBuffer,
        dw: &mut CpuBuffer,
    ) {
        let rows = d_logprobs.len();
        let (x, dx) = (x.rows(rows, shape.inputs), dx.rows_mut(rows, shape.inputs));
        let gradient = HeadGradient { statistics, d_logprobs, d_entropies, d_log_masses };
        self.logits.with(head::backward_workspace(shape, rows), |logits| {
            head::backward(&self.workers, shape, x, weights, gradient, dx, dw, logits);
        });
    }
    fn entropy_slopes(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        targets: &Vec<u32>,
        masks: &SamplingMasks,
        temperature: f32,
    ) -> EntropySlopes {
        let x = x.rows(targets.len(), shape.inputs);
        self.logits.with(head::forward_workspace(shape, targets.len()), |logits| {
            head::entropy_slopes(&self.workers, shape, x, weights, targets, masks, temperature, logits)
        })
    }
    fn draw(
        &self,
        shape: Linear,
        hidden: &CpuBuffer,
        weights: &CpuBuffer,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        let rows = draw::rows(draws);
        let mut logits = self.buffer(Role::Activation(1, draw::workspace(shape, rows)));
        draw::draw(&self.workers, shape, hidden.rows(rows, shape.inputs), weights, draws, &mut logits)
    }
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &CpuBuffer,
        weights: &CpuBuffer,
        draws: &[Draw],
    ) -> (Vec<u32>, Vec<Option<Drawn>>) {
        assert!(!draws.iter().any(|draw| draw.adjustments.departs()), "such a draw may be the host's");
        let drawn = self.draw(shape, hidden, weights, draws);
        (drawn.iter().map(|drawn| drawn.as_ref().map_or(0, |drawn| drawn.token)).collect(), drawn)
    }
    fn drawn(&self, drawing: Vec<Option<Drawn>>) -> Vec<Option<Drawn>> {
        drawing
    }

    fn numbers(&self, kind: Kind) -> usize {
        let (rows, floats) = extent(Role::Gradient(kind));
        rows.saturating_mul(floats)
    }
    fn read_numbers(&self, from: &CpuBuffer, first: usize, numbers: &mut [f32]) {
        numbers.copy_from_slice(&from[first..][..numbers.len()]);
    }
    fn write_numbers(&self, to: &mut CpuBuffer, first: usize, numbers: &[f32]) {
        to[first..][..numbers.len()].copy_from_slice(numbers);
    }
    fn add(&self, from: &CpuBuffer, to: &mut CpuBuffer) {
        rows::add(&self.workers, from, to);
    }
    fn square_sums(&self, parts: &[(&CpuBuffer, Range<usize>)]) -> Vec<f32> {
        let parts: Vec<&[f32]> = parts.iter().map(|(tensor, numbers)| &tensor[numbers.clone()]).collect();
        adamw::square_sums(&self.workers, &parts)
    }
    fn adamw(&self, settings: AdamW, parameters: &mut [Updated<'_, CpuBuffer>]) {
        for Updated { weights, gradient, numbers, first, second } in parameters {
            let (weights, gradient) = (&mut weights[numbers.clone()], &gradient[numbers.clone()]);
            let (first, second) = (&mut first[..numbers.len()], &mut second[..numbers.len()]);
            adamw::step(&self.workers, settings, weights, gradient, first, second);
        }
    }
}
