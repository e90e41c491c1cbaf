//! The CPU as a [`Backend`].

use crate::adamw::{self, AdamW, UpdateSlice};
use crate::attention::{self, Attention};
use crate::backend::{Backend, ExpertOperations, HybridOperations};
use crate::batch::{CheckedBatch, HostBatch, PAGE};
use crate::buffer::{CpuBuffer, Recycler, Reserved};
use crate::delta_rule::{self, DeltaRule, DeltaWeights};
use crate::draw::{self, Draw, Drawn};
use crate::embedding;
use crate::erased::{
    Buffer, DeviceBatch, DeviceIndex, DeviceRoutes, DrawnTokens, HeadStatistics, QueuedDraws,
};
use crate::experts::{self, Router, Routing};
use crate::glu::{self, Gate};
use crate::head::{
    self, CpuStatistics, EntropySlopes, HeadGradient, HeadScores, Teacher, TeacherRows,
};
use crate::linear::{self, Destination, Linear};
use crate::norm::{self, Grouped, RmsNorm};
use crate::output_gate;
use crate::role::{Kind, OutOfMemory, Role, Work};
use crate::rope::{self, Turn};
use crate::rows;
use crate::sampling_masks::SamplingMasks;
use crate::simd::Isa;
use crate::threads::{Threads, Workers};
use std::ops::Range;
use std::sync::Arc;

/// A teacher's rows in this processor's memory.
fn teacher_of(teacher: TeacherRows<'_>, rows: usize) -> Teacher<'_> {
    let TeacherRows { hidden, weights, shape } = teacher;
    Teacher { shape, x: hidden.cpu().rows(rows, shape.inputs), weights: weights.cpu() }
}

/// The processor this program runs on.
pub struct Cpu {
    workers: Workers,
    recycler: Arc<Recycler>,
    /// The head's logits. They may be by far the largest buffer of a pass: recycled, their memory
    /// would be taken for kept activations, and every pass would allocate anew.
    logits: Reserved,
}

impl Cpu {
    /// A backend on the given instruction set and number of threads.
    ///
    /// # Errors
    /// A sentence for the user when the processor lacks the instruction set or threads cannot be
    /// started.
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

    /// `dy W`, which replaces `dx` or is added to it.
    fn backward_input(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        to: Destination,
        tokens: usize,
    ) {
        let (dy, dx) =
            (dy.cpu().rows(tokens, shape.outputs), dx.cpu_mut().rows_mut(tokens, shape.inputs));
        let (panels, weights) = (0..shape.panels(), weights.cpu());
        linear::backward_input(&self.workers, shape, panels, dy, weights, dx, to, tokens, false);
    }
}

/// Rows and floats in each, of a buffer for this role.
fn extent(role: Role) -> (usize, usize) {
    match role {
        Role::Activation(rows, features)
        | Role::OffloadedActivation(rows, features)
        | Role::Exact(rows, features) => (rows, features),
        Role::Weight(kind) | Role::Frozen(kind) | Role::Gradient(kind) => match kind {
            Kind::Vector(len) => (1, len),
            Kind::Matrix(shape) => shape.packed_extent(),
        },
        Role::Moment(elements) | Role::OffloadedMoment(elements) => (1, elements),
        // A row is a layer.
        Role::Cache { shape, layers, pages } => (layers, pages.saturating_mul(shape.page_len())),
    }
}

impl Buffer {
    fn cpu(&self) -> &CpuBuffer {
        self.of()
    }
    fn cpu_mut(&mut self) -> &mut CpuBuffer {
        self.of_mut()
    }
}

impl DeviceBatch {
    fn cpu(&self) -> &CheckedBatch {
        self.of()
    }
}

impl DeviceIndex {
    fn cpu(&self) -> &Vec<u32> {
        self.of()
    }
}

fn bytes_of(floats: usize) -> usize {
    floats.saturating_mul(size_of::<f32>())
}

impl Backend for Cpu {
    fn page_positions(&self) -> usize {
        PAGE
    }

    fn bytes(&self, role: Role) -> usize {
        let (rows, features) = extent(role);
        bytes_of(rows.saturating_mul(features))
    }
    fn workspace(&self, work: Work) -> usize {
        match work {
            Work::Head(shape, rows) => bytes_of(head::workspace(shape, rows)),
            Work::Scores(shape, rows) => bytes_of(head::forward_workspace(shape, rows)),
            Work::TaughtHead(shape, rows) => bytes_of(head::taught_workspace(shape, rows)),
            Work::Statistics(rows) => CpuStatistics::bytes(rows),
            Work::TeacherStatistics(rows) => CpuStatistics::teacher_bytes(rows),
            Work::AttentionGradient(shape, positions) => {
                bytes_of(shape.gradient_workspace().saturating_mul(positions))
            }
            Work::DeltaGradient(shape, positions) => {
                let (of_row, once) = shape.gradient_workspace(self.threads());
                bytes_of(of_row.saturating_mul(positions).saturating_add(once))
            }
            Work::Draw(shape, rows) => bytes_of(draw::most_workspace(shape, rows)),
            Work::Attention(..)
            | Work::Steps(..)
            | Work::LinearSums(_)
            | Work::AddedInputGradient(..)
            | Work::OffloadedMoments(_)
            | Work::LinkedSums(_) => 0,
        }
    }
    fn allocate(&self, role: Role) -> Result<Buffer, OutOfMemory> {
        let (rows, features) = extent(role);
        let buffer = match role {
            // Every rollout has a cache of its own, whose page faults cost time. Its memory waits
            // for the next rollout, however large it is, until memory is trimmed.
            Role::Cache { .. } => self.recycler.cache(rows, features),
            _ => self.recycler.zeros(rows, features),
        };
        buffer.map(Buffer::new)
    }
    fn buffer(&self, role: Role) -> Buffer {
        let (rows, features) = extent(role);
        let buffer = self.recycler.buffer(rows, features);
        Buffer::new(buffer.unwrap_or_else(|refused| panic!("{refused}")))
    }
    fn trim(&self) {
        self.recycler.clear();
        self.logits.clear();
    }

    fn upload_drawn_batch(&self, host: &HostBatch, drawn: Option<&DrawnTokens>) -> DeviceBatch {
        let drawn: &[u32] = drawn.map_or(&[], |drawn| drawn.of::<Vec<u32>>());
        DeviceBatch::new(CheckedBatch::new(host, drawn, PAGE))
    }
    fn upload_index(&self, numbers: &[u32]) -> DeviceIndex {
        DeviceIndex::new(numbers.to_vec())
    }

    fn fill(&self, buffer: &mut Buffer, value: f32) {
        buffer.cpu_mut().fill(value);
    }
    fn write(&self, buffer: &mut Buffer, first: usize, rows: &[f32]) {
        let buffer = buffer.cpu_mut();
        let features = buffer.features();
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        buffer[first * features..][..rows.len()].copy_from_slice(rows);
    }
    fn read(&self, buffer: &Buffer, first: usize, rows: &mut [f32]) {
        let buffer = buffer.cpu();
        let features = buffer.features();
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        rows.copy_from_slice(&buffer[first * features..][..rows.len()]);
    }
    fn copy_first_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize) {
        let from = from.cpu();
        let features = from.features();
        rows::copy(&self.workers, from.rows(rows, features), to.cpu_mut().rows_mut(rows, features));
    }
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut Buffer) {
        let packed = packed.cpu_mut();
        match kind {
            Kind::Vector(_) => packed[first..first + rows.len()].copy_from_slice(rows),
            Kind::Matrix(shape) => shape.pack(first, rows, packed),
        }
    }
    fn unpack(&self, kind: Kind, first: usize, packed: &Buffer, rows: &mut [f32]) {
        let packed = packed.cpu();
        match kind {
            Kind::Vector(_) => rows.copy_from_slice(&packed[first..first + rows.len()]),
            Kind::Matrix(shape) => shape.unpack(first, packed, rows),
        }
    }

    fn linear(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        let (x, y) =
            (x.cpu().rows(tokens, shape.inputs), y.cpu_mut().rows_mut(tokens, shape.outputs));
        let bias = bias.map(|bias| &**bias.cpu());
        linear::forward(
            &self.workers,
            shape,
            x,
            weights.cpu(),
            bias,
            y,
            Destination::Replace,
            tokens,
        );
    }
    fn linear_add(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        let (x, y) =
            (x.cpu().rows(tokens, shape.inputs), y.cpu_mut().rows_mut(tokens, shape.outputs));
        let bias = bias.map(|bias| &**bias.cpu());
        linear::forward(&self.workers, shape, x, weights.cpu(), bias, y, Destination::Add, tokens);
    }
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        self.backward_input(shape, dy, weights, dx, Destination::Replace, tokens);
    }
    fn linear_backward_input_add(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        self.backward_input(shape, dy, weights, dx, Destination::Add, tokens);
    }
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &Buffer,
        x: &Buffer,
        dw: &mut Buffer,
        tokens: usize,
    ) {
        let (dy, x) = (dy.cpu().rows(tokens, shape.outputs), x.cpu().rows(tokens, shape.inputs));
        let (panels, dw) = (0..shape.panels(), dw.cpu_mut());
        linear::backward_weight(&self.workers, shape, panels, dy, x, dw, tokens);
    }
    fn linear_backward_bias(&self, shape: Linear, dy: &Buffer, db: &mut Buffer, tokens: usize) {
        let dy = dy.cpu().rows(tokens, shape.outputs);
        linear::backward_bias(&self.workers, shape.outputs, dy, db.cpu_mut(), tokens);
    }

    fn embed(&self, vocabulary: Linear, packed: &Buffer, batch: &DeviceBatch, y: &mut Buffer) {
        let tokens = &batch.cpu().host().tokens;
        let y = y.cpu_mut().rows_mut(tokens.len(), vocabulary.inputs);
        embedding::forward(&self.workers, vocabulary, packed.cpu(), tokens, y);
    }
    fn embed_backward(&self, slots: &DeviceIndex, dy: &Buffer, rows: &mut Buffer) {
        let (slots, rows) = (slots.cpu(), rows.cpu_mut());
        let hidden = rows.features();
        embedding::backward(&self.workers, hidden, slots, dy.cpu().rows(slots.len(), hidden), rows);
    }
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &Buffer,
        tokens: &DeviceIndex,
        packed: &mut Buffer,
    ) {
        let tokens = tokens.cpu();
        let rows = rows.cpu().rows(tokens.len(), vocabulary.inputs);
        embedding::add_rows(vocabulary, rows, tokens, packed.cpu_mut());
    }

    fn rms_norm(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &Buffer,
        weight: &Buffer,
        y: &mut Buffer,
        rows: usize,
    ) {
        let (x, y) = (x.cpu().rows(rows, layout.stride), y.cpu_mut().rows_mut(rows, layout.stride));
        norm::forward(&self.workers, layout, norm, x, weight.cpu(), y, rows);
    }
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &Buffer,
        weight: &Buffer,
        dy: Option<&Buffer>,
        dx: &mut Buffer,
        dw: Option<&mut Buffer>,
        rows: usize,
    ) {
        let (x, dy) =
            (x.cpu().rows(rows, layout.stride), dy.map(|dy| dy.cpu().rows(rows, layout.stride)));
        let dx = dx.cpu_mut().rows_mut(rows, layout.stride);
        let dw = dw.map(|dw| &mut **dw.cpu_mut());
        norm::backward(&self.workers, layout, norm, x, weight.cpu(), dy, dx, dw, rows);
    }

    fn rope(
        &self,
        layout: Grouped,
        x: &mut Buffer,
        cos: &Buffer,
        sin: &Buffer,
        batch: &DeviceBatch,
        turn: Turn,
    ) {
        let positions = batch.cpu().positions();
        let x = x.cpu_mut().rows_mut(positions.len(), layout.stride);
        rope::rotate(&self.workers, layout, x, cos.cpu(), sin.cpu(), positions, turn);
    }

    fn store_kv(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &mut Buffer,
        layer: usize,
    ) {
        let (batch, cache) = (batch.cpu(), cache.cpu_mut());
        let qkv = qkv.cpu().rows(batch.host().rows(), shape.row());
        let len = cache.features();
        attention::store(&self.workers, shape, qkv, batch, &mut cache[layer * len..][..len]);
    }
    fn copy_pages(&self, shape: Attention, cache: &mut Buffer, pages: &[(u32, u32)]) {
        let cache = cache.cpu_mut();
        let len = cache.features();
        for layer in cache.chunks_exact_mut(len.max(1)) {
            attention::copy_pages(shape, layer, pages);
        }
    }
    fn attention(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &Buffer,
        layer: usize,
        out: &mut Buffer,
    ) {
        let (batch, cache) = (batch.cpu(), cache.cpu());
        let rows = batch.host().rows();
        let (qkv, out) = (
            qkv.cpu().rows(rows, shape.row()),
            out.cpu_mut().rows_mut(rows, shape.heads * shape.head_dim),
        );
        let len = cache.features();
        attention::forward(&self.workers, shape, qkv, batch, &cache[layer * len..][..len], out);
    }
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_qkv: &mut Buffer,
    ) {
        let batch = batch.cpu();
        let rows = batch.host().rows();
        let (qkv, d_qkv) =
            (qkv.cpu().rows(rows, shape.row()), d_qkv.cpu_mut().rows_mut(rows, shape.row()));
        let d_out = d_out.cpu().rows(rows, shape.heads * shape.head_dim);
        attention::backward(&self.workers, shape, qkv, batch, d_out, d_qkv);
    }

    fn glu(&self, by: Gate, features: usize, gate_up: &Buffer, y: &mut Buffer, tokens: usize) {
        let (gate_up, y) =
            (gate_up.cpu().rows(tokens, 2 * features), y.cpu_mut().rows_mut(tokens, features));
        glu::forward(&self.workers, by, features, gate_up, y, tokens);
    }
    fn glu_backward(
        &self,
        by: Gate,
        features: usize,
        dy: &mut Buffer,
        gate_up: &mut Buffer,
        tokens: usize,
    ) {
        let (dy, gate_up) = (
            dy.cpu_mut().rows_mut(tokens, features),
            gate_up.cpu_mut().rows_mut(tokens, 2 * features),
        );
        glu::backward(&self.workers, by, features, dy, gate_up, tokens);
    }

    fn scale_rows(&self, factors: &Buffer, x: &mut Buffer, rows: usize) {
        let (factors, x) = (factors.cpu(), x.cpu_mut());
        let features = factors.features();
        rows::scale(&self.workers, factors.rows(1, features), x.rows_mut(rows, features));
    }
    fn add_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize) {
        let from = from.cpu();
        let features = from.features();
        rows::add(&self.workers, from.rows(rows, features), to.cpu_mut().rows_mut(rows, features));
    }

    fn copy_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer) {
        let (from, rows) = (from.cpu(), rows.cpu());
        let features = from.features();
        rows::copy_rows(
            &self.workers,
            features,
            from,
            rows,
            to.cpu_mut().rows_mut(rows.len(), features),
        );
    }
    fn store_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, slots: &DeviceIndex) {
        let (from, to) = (from.cpu(), to.cpu_mut());
        assert_eq!(from.features(), to.features());
        rows::store(&self.workers, from.features(), from, rows.cpu(), to, slots.cpu());
    }
    fn scatter_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, total: usize) {
        let (from, rows) = (from.cpu(), rows.cpu());
        let features = from.features();
        rows::scatter(
            features,
            from.rows(rows.len(), features),
            rows,
            to.cpu_mut().rows_mut(total, features),
        );
    }

    fn head(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: DeviceIndex,
        masks: Arc<SamplingMasks>,
        temperature: f32,
        teacher: Option<TeacherRows<'_>>,
    ) -> HeadStatistics {
        let targets: Vec<u32> = targets.into_own();
        let (workers, rows) = (&self.workers, targets.len());
        let (x, weights) = (x.cpu().rows(rows, shape.inputs), weights.cpu());
        let teacher = teacher.map(|teacher| teacher_of(teacher, rows));
        let beside = teacher.map_or(0, |_| head::teacher_forward_workspace(shape, rows));
        let floats = head::forward_workspace(shape, rows) + beside;
        let forward = |logits: &mut [f32]| {
            head::forward(workers, shape, x, weights, targets, masks, temperature, teacher, logits)
        };
        HeadStatistics::new(self.logits.with(floats, forward))
    }
    fn scores(&self, statistics: &mut HeadStatistics) -> HeadScores {
        statistics.of_mut::<CpuStatistics>().read()
    }
    fn divergences(&self, statistics: &HeadStatistics) -> Vec<f32> {
        statistics.of::<CpuStatistics>().divergences()
    }
    fn head_backward(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        statistics: &HeadStatistics,
        d_logprobs: &[f32],
        d_entropies: &[f32],
        d_log_masses: &[f32],
        taught: Option<(TeacherRows<'_>, &[f32])>,
        dx: &mut Buffer,
        dw: Option<&mut Buffer>,
    ) {
        let rows = d_logprobs.len();
        let (x, dx) = (x.cpu().rows(rows, shape.inputs), dx.cpu_mut().rows_mut(rows, shape.inputs));
        let (weights, statistics) = (weights.cpu(), statistics.of());
        let dw = dw.map(|dw| &mut **dw.cpu_mut());
        let taught = taught.map(|(teacher, slopes)| (teacher_of(teacher, rows), slopes));
        let beside = taught.map_or(0, |_| head::teacher_backward_workspace(shape, rows));
        let gradient = HeadGradient { statistics, d_logprobs, d_entropies, d_log_masses, taught };
        self.logits.with(head::backward_workspace(shape, rows) + beside, |logits| {
            head::backward(&self.workers, shape, x, weights, gradient, dx, dw, logits);
        });
    }
    fn entropy_slopes(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: DeviceIndex,
        masks: Arc<SamplingMasks>,
        temperature: f32,
    ) -> EntropySlopes {
        let (workers, targets) = (&self.workers, targets.into_own::<Vec<u32>>());
        let (x, weights) = (x.cpu().rows(targets.len(), shape.inputs), weights.cpu());
        self.logits.with(head::forward_workspace(shape, targets.len()), |logits| {
            head::entropy_slopes(workers, shape, x, weights, targets, masks, temperature, logits)
        })
    }
    fn draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        let rows = draw::rows(draws);
        let hidden = hidden.cpu().rows(rows, shape.inputs);
        let mut logits = self.buffer(Role::Activation(1, draw::workspace(shape, rows)));
        draw::draw(&self.workers, shape, hidden, weights.cpu(), draws, logits.cpu_mut())
    }
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> (DrawnTokens, QueuedDraws) {
        assert!(
            !draws.iter().any(|draw| draw.adjustments.departs()),
            "such a draw may be the host's"
        );
        let drawn = self.draw(shape, hidden, weights, draws);
        let token = |drawn: &Option<Drawn>| drawn.as_ref().map_or(0, |drawn| drawn.token);
        let tokens: Vec<u32> = drawn.iter().map(token).collect();
        // The CPU draws at once.
        (DrawnTokens::new(tokens), QueuedDraws::new(drawn))
    }
    fn read_draws(&self, drawing: QueuedDraws) -> Vec<Option<Drawn>> {
        drawing.into_own()
    }

    fn element_count(&self, kind: Kind) -> usize {
        let (rows, floats) = extent(Role::Gradient(kind));
        rows.saturating_mul(floats)
    }
    fn read_elements(&self, from: &Buffer, first: usize, elements: &mut [f32]) {
        elements.copy_from_slice(&from.cpu()[first..][..elements.len()]);
    }
    fn write_elements(&self, to: &mut Buffer, first: usize, elements: &[f32]) {
        to.cpu_mut()[first..][..elements.len()].copy_from_slice(elements);
    }
    fn copy_elements(&self, from: &Buffer, elements: Range<usize>, to: &mut Buffer, first: usize) {
        let from = &from.cpu()[elements];
        to.cpu_mut()[first..][..from.len()].copy_from_slice(from);
    }
    fn add(&self, from: &Buffer, to: &mut Buffer) {
        rows::add(&self.workers, from.cpu(), to.cpu_mut());
    }
    fn multiply(&self, factors: &Buffer, to: &mut Buffer) {
        rows::scale(&self.workers, factors.cpu(), to.cpu_mut());
    }
    fn square_sums(&self, parts: &[(&Buffer, Range<usize>)]) -> Vec<f32> {
        let parts: Vec<&[f32]> =
            parts.iter().map(|(tensor, elements)| &tensor.cpu()[elements.clone()]).collect();
        adamw::square_sums(&self.workers, &parts)
    }
    fn adamw(&self, settings: AdamW, parameters: &mut [UpdateSlice<'_>]) {
        for UpdateSlice { weights, elements, gradient, first, second } in parameters {
            let count = elements.len();
            let weights = &mut weights.cpu_mut()[elements.clone()];
            let gradient = &gradient.0.cpu()[gradient.1..][..count];
            let (first, second) = (&mut first.cpu_mut()[..count], &mut second.cpu_mut()[..count]);
            adamw::step(&self.workers, settings, weights, gradient, first, second);
        }
    }

    fn beside(&self) -> &dyn Backend {
        self
    }
    fn experts(&self) -> &dyn ExpertOperations {
        self
    }
    fn hybrid(&self) -> &dyn HybridOperations {
        self
    }
}

impl HybridOperations for Cpu {
    fn delta_rule(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        states: Option<&mut Buffer>,
        out: &mut Buffer,
    ) {
        let (batch, weights) = (batch.cpu(), weights.map(|weight| &**weight.cpu()));
        let rows = batch.host().rows();
        let mixed = mixed.cpu().rows(rows, shape.row());
        let out = out.cpu_mut().rows_mut(rows, shape.value_features());
        let states = states.map(|states| &mut **states.cpu_mut());
        delta_rule::forward(&self.workers, shape, weights, mixed, batch, states, out);
    }
    fn delta_rule_backward(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_mixed: &mut Buffer,
        d_weights: Option<DeltaWeights<&mut Buffer>>,
    ) {
        let (batch, weights) = (batch.cpu(), weights.map(|weight| &**weight.cpu()));
        let rows = batch.host().rows();
        let mixed = mixed.cpu().rows(rows, shape.row());
        let d_out = d_out.cpu().rows(rows, shape.value_features());
        let d_mixed = d_mixed.cpu_mut().rows_mut(rows, shape.row());
        let d_weights = d_weights.map(|weights| weights.map(|weight| &mut **weight.cpu_mut()));
        delta_rule::backward(
            &self.workers,
            shape,
            weights,
            mixed,
            batch,
            d_out,
            d_mixed,
            d_weights,
        );
    }
    fn copy_states(&self, states: &mut Buffer, pairs: &[(u32, u32)]) {
        let states = states.cpu_mut();
        let len = states.features();
        for &(from, to) in pairs {
            let (from, to) = (from as usize * len, to as usize * len);
            states.copy_within(from..from + len, to);
        }
    }
    fn copy_columns(&self, from: &Buffer, to: &mut Buffer, first: (usize, usize), rows: usize) {
        let (from, to) = (from.cpu(), to.cpu_mut());
        let strides = (from.features(), to.features());
        rows::copy_columns(&self.workers, (from, to), strides, first, rows);
    }
    fn gate_output(&self, x: &Buffer, gate: &Buffer, y: &mut Buffer, rows: usize) {
        let (x, features) = (x.cpu(), x.cpu().features());
        let (x, gate) = (x.rows(rows, features), gate.cpu().rows(rows, features));
        output_gate::forward(&self.workers, x, gate, y.cpu_mut().rows_mut(rows, features));
    }
    fn gate_output_backward(&self, x: &Buffer, gate: &mut Buffer, dy: &mut Buffer, rows: usize) {
        let (x, features) = (x.cpu(), x.cpu().features());
        let (x, gate) = (x.rows(rows, features), gate.cpu_mut().rows_mut(rows, features));
        output_gate::backward(&self.workers, x, gate, dy.cpu_mut().rows_mut(rows, features));
    }
}

impl ExpertOperations for Cpu {
    fn route(&self, router: Router, x: &Buffer, weights: &Buffer, tokens: usize) -> Routing {
        let shape = Linear { inputs: x.cpu().features(), outputs: router.experts };
        let mut probabilities = self.buffer(Role::Exact(tokens, router.experts));
        self.linear(shape, x, weights, None, &mut probabilities, tokens);
        let logits = probabilities.cpu_mut().rows_mut(tokens, router.experts);
        let (routes, entropies) = experts::route(&self.workers, router, logits, tokens);
        Routing { routes, probabilities, entropies, on_device: DeviceRoutes::new(()) }
    }
    fn route_backward(&self, routing: &Routing, d_weights: &Buffer, d_logits: &mut Buffer) {
        let Router { experts, chosen, .. } = routing.routes.router;
        let tokens = routing.routes.experts.len() / chosen;
        let d_weights = d_weights.cpu().rows(tokens, chosen);
        let d_logits = d_logits.cpu_mut().rows_mut(tokens, experts);
        experts::route_backward(&routing.routes, d_weights, probabilities_of(routing), d_logits);
    }
    fn copy_expert_rows(&self, routing: &Routing, expert: usize, from: &Buffer, to: &mut Buffer) {
        let rows = &routing.routes.by_expert.rows[routing.routes.of_expert(expert)];
        let from = from.cpu();
        let features = from.features();
        let to = to.cpu_mut().rows_mut(rows.len(), features);
        rows::copy_rows(&self.workers, features, from, rows, to);
    }
    fn add_expert_rows(
        &self,
        routing: &Routing,
        expert: usize,
        weighed: bool,
        from: &Buffer,
        sums: &mut Buffer,
    ) {
        let (choices, of) = (&routing.routes.by_expert, routing.routes.of_expert(expert));
        let rows = &choices.rows[of.clone()];
        let ones;
        let weights = if weighed {
            &choices.weights[of]
        } else {
            ones = vec![1.0; rows.len()];
            &ones
        };
        let from = from.cpu();
        let features = from.features();
        let from = from.rows(rows.len(), features);
        experts::add_weighted(&self.workers, features, from, rows, weights, sums.cpu_mut());
    }
    fn weigh_expert_rows(&self, routing: &Routing, expert: usize, x: &mut Buffer) {
        let weights = &routing.routes.by_expert.weights[routing.routes.of_expert(expert)];
        let x = x.cpu_mut();
        let features = x.features();
        experts::weigh(&self.workers, features, weights, x.rows_mut(weights.len(), features));
    }
    fn expert_row_products(
        &self,
        routing: &Routing,
        expert: usize,
        a: &Buffer,
        b: &Buffer,
        products: &mut Buffer,
    ) {
        let places = &routing.routes.by_expert.places[routing.routes.of_expert(expert)];
        let (a, b) = (a.cpu(), b.cpu());
        let features = a.features();
        let (a, b) = (a.rows(places.len(), features), b.rows(places.len(), features));
        experts::products(&self.workers, features, a, b, places, products.cpu_mut());
    }
    fn add_to_sums(&self, from: &Buffer, sums: &mut Buffer, rows: usize) {
        self.add_rows(from, sums, rows);
    }
    fn round_sums(&self, sums: Buffer, _: usize) -> Buffer {
        sums
    }
}

/// The probabilities of a choice, `[tokens, experts]`.
fn probabilities_of(routing: &Routing) -> &[f32] {
    let Router { experts, chosen, .. } = routing.routes.router;
    let tokens = routing.routes.experts.len() / chosen;
    routing.probabilities.cpu().rows(tokens, experts)
}
