//! A GPU as a [`Backend`].

use crate::adamw::{self, Parameter};
use crate::batch::CudaBatch;
use crate::buffer::CudaBuffer;
use crate::cuda::Cuda;
use crate::dtype::Dtype;
use crate::failure::DeviceFailure;
use crate::host_pool::{SLAB, in_blocks};
use crate::index::CudaIndex;
use crate::layout::{Layout, PAGE};
use crate::replay::Key;
use crate::{attention, delta_rule, draw, head, linear, splits};
use isentrope_kernels::{
    AdamW, Attention, Backend, Buffer, DeviceBatch, DeviceIndex, DeviceLinks, Draw, Drawn,
    DrawnTokens, EntropySlopes, ExpertOperations, Gate, Grouped, HeadNorms, HeadScores,
    HeadStatistics, HostBatch, HybridOperations, Kind, Linear, LowRank, OutOfMemory, QueuedDraws,
    ReplayKey, RmsNorm, Role, SamplingMasks, SplitWeights, TeacherRows, Turn, UpdateSlice, Work,
};
use std::ops::Range;
use std::sync::Arc;

impl Backend for Cuda {
    fn page_positions(&self) -> usize {
        PAGE
    }

    fn bytes(&self, role: Role) -> usize {
        match role {
            Role::OffloadedMoment(_) | Role::OffloadedActivation(..) => 0,
            role => Layout::new(self.dtype, role).bytes(),
        }
    }
    fn bytes_read(&self, kind: Kind) -> usize {
        let layout = Layout::new(self.dtype, Role::Weight(kind));
        layout.elements().saturating_mul(layout.element.bytes())
    }
    fn host_bytes(&self, role: Role) -> usize {
        match role {
            Role::OffloadedMoment(_) => Layout::new(self.dtype, role).bytes(),
            Role::OffloadedActivation(..) => in_blocks(Layout::new(self.dtype, role).bytes()),
            _ => 0,
        }
    }
    fn host_slab(&self) -> usize {
        SLAB
    }
    fn workspace(&self, work: Work) -> usize {
        match work {
            Work::Head(shape, rows) => head::workspace(self.dtype, self.logits_blocks, shape, rows),
            Work::Scores(shape, rows) => head::scores_workspace(self.logits_blocks, shape, rows),
            Work::TaughtHead(shape, rows) => {
                head::taught_workspace(self.dtype, self.logits_blocks, shape, rows)
            }
            Work::Statistics(rows) | Work::TeacherStatistics(rows) => head::statistics_bytes(rows),
            Work::Attention(shape, positions) => splits::workspace(self.dtype, shape, positions),
            Work::AttentionGradient(shape, positions) => {
                attention::gradient_workspace(self.dtype, shape, positions)
            }
            Work::DeltaGradient(shape, positions) => {
                delta_rule::gradient_workspace(shape, positions)
            }
            Work::Draw(shape, rows) => draw::workspace(self.logits_blocks, shape, rows),
            Work::Steps(layers, adapters) => self.steps_bytes(layers, adapters),
            Work::LinearSums(outputs) => match self.device.product_library() {
                Some(_) => linear::workspace(self.dtype, outputs),
                None => 0,
            },
            Work::AddedInputGradient(inputs, rows) => self.bytes(Role::Activation(rows, inputs)),
            Work::OffloadedMoments(elements) => adamw::workspace(self.piece.min(elements)),
            Work::LinkedSums(elements) => 4 * self.linked_piece.min(elements),
        }
    }
    /// A pass reads and writes the gradient of every weight, 8 bytes, and reads 6 bytes of the
    /// weight. At 4 TB/s and 600 TFLOP/s that takes the time of 350 rows, of 6 operations a weight
    /// each: 17 % of a pass of 2048 rows, 4 % of this one.
    fn enough_rows(&self) -> usize {
        8192
    }
    fn allocate(&self, role: Role) -> Result<Buffer, OutOfMemory> {
        let layout = Layout::new(self.dtype, role);
        match role {
            Role::OffloadedMoment(_) => return self.kept_on_host(layout).map(Buffer::new),
            Role::OffloadedActivation(..) => return self.waiting_on_host(layout).map(Buffer::new),
            _ => {}
        }
        let buffer = self.kept(layout)?;
        let bytes = buffer.layout.bytes();
        if bytes > 0 && !matches!(role, Role::Cache { .. }) {
            self.device.clear(buffer.memory(), 0, bytes);
            buffer.set_zero();
        }
        Ok(Buffer::new(buffer))
    }
    fn buffer(&self, role: Role) -> Buffer {
        if let Role::OffloadedMoment(_) | Role::OffloadedActivation(..) = role {
            return self
                .allocate(role)
                .unwrap_or_else(|refused| DeviceFailure::from(refused).end());
        }
        let layout = Layout::new(self.dtype, role);
        Buffer::new(CudaBuffer::new(self.scratch(layout.bytes()), layout))
    }
    fn trim(&self) {
        self.graphs.clear();
        self.pool.trim();
    }

    fn upload_drawn_batch(&self, host: &HostBatch, drawn: Option<&DrawnTokens>) -> DeviceBatch {
        let drawn = drawn.map(DrawnTokens::of);
        DeviceBatch::new(CudaBatch::new(host, drawn, |words| self.uploaded(words)))
    }
    fn upload_index(&self, numbers: &[u32]) -> DeviceIndex {
        DeviceIndex::new(self.indexed(numbers))
    }

    fn round_up_rows(&self, rows: usize) -> usize {
        self.rounded_rows(rows)
    }
    fn run_step(&self, key: ReplayKey, step: &mut dyn FnMut() -> Buffer) -> Buffer {
        self.step(Key::Step(key), step)
    }

    fn fill(&self, buffer: &mut Buffer, value: f32) {
        self.fill_whole(buffer.of_mut(), value);
    }
    fn write(&self, buffer: &mut Buffer, first: usize, rows: &[f32]) {
        self.write_rows(buffer.of_mut(), first, rows);
    }
    fn read(&self, buffer: &Buffer, first: usize, rows: &mut [f32]) {
        self.read_rows(buffer.of(), first, rows);
    }
    fn copy_first_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize) {
        self.copy_first(from.of(), to.of_mut(), rows);
    }
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut Buffer) {
        self.pack_rows(kind, first, rows, packed.of_mut());
    }
    fn unpack(&self, kind: Kind, first: usize, packed: &Buffer, rows: &mut [f32]) {
        self.unpack_rows(kind, first, packed.of(), rows);
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
        self.forward(shape, x.of(), weights.of(), bias.map(Buffer::of), y.of_mut(), tokens, false);
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
        self.forward(shape, x.of(), weights.of(), bias.map(Buffer::of), y.of_mut(), tokens, true);
    }
    fn linear_add_norm(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        norm: RmsNorm,
        norm_weight: &Buffer,
        normed: &mut Buffer,
        tokens: usize,
    ) {
        self.forward_normed(
            shape,
            x.of(),
            weights.of(),
            bias.map(Buffer::of),
            y.of_mut(),
            norm,
            norm_weight.of(),
            normed.of_mut(),
            tokens,
        );
    }
    fn linear_glu(
        &self,
        shape: Linear,
        by: Gate,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        gate_up: Option<&mut Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        self.forward_gated(
            shape,
            by,
            x.of(),
            weights.of(),
            bias.map(Buffer::of),
            gate_up.as_deref().map(Buffer::of),
            y.of_mut(),
            tokens,
        );
    }
    fn linear_adapted(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        adapter: LowRank<'_>,
        y: &mut Buffer,
        tokens: usize,
        adds: bool,
    ) {
        self.forward_adapted(
            shape,
            x.of(),
            weights.of(),
            bias.map(Buffer::of),
            adapter,
            y.of_mut(),
            tokens,
            adds,
            None,
        );
    }
    fn linear_adapted_glu(
        &self,
        shape: Linear,
        by: Gate,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        adapter: LowRank<'_>,
        gate_up: &mut Buffer,
        y: &mut Buffer,
        tokens: usize,
    ) {
        self.forward_adapted(
            shape,
            x.of(),
            weights.of(),
            bias.map(Buffer::of),
            adapter,
            gate_up.of_mut(),
            tokens,
            false,
            Some((by, y.of_mut())),
        );
    }
    fn reduce(&self, adapter: LowRank<'_>, x: &Buffer, reduced: &mut Buffer, tokens: usize) {
        self.reduce_rows(adapter, x.of(), reduced.of_mut(), tokens);
    }
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        self.input_gradient(shape, dy.of(), weights.of(), dx.of_mut(), tokens);
    }
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &Buffer,
        x: &Buffer,
        dw: &mut Buffer,
        tokens: usize,
    ) {
        self.weight_gradient(shape, dy.of(), x.of(), dw.of_mut(), tokens);
    }
    fn linear_backward_bias(&self, shape: Linear, dy: &Buffer, db: &mut Buffer, tokens: usize) {
        self.bias_gradient(shape, dy.of(), db.of_mut(), tokens);
    }

    fn embed(&self, vocabulary: Linear, packed: &Buffer, batch: &DeviceBatch, y: &mut Buffer) {
        self.look_up(vocabulary, packed.of(), batch.of(), y.of_mut());
    }
    fn embed_backward(&self, slots: &DeviceIndex, dy: &Buffer, rows: &mut Buffer) {
        self.add_embedded(slots.of(), dy.of(), rows.of_mut());
    }
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &Buffer,
        tokens: &DeviceIndex,
        packed: &mut Buffer,
    ) {
        self.add_to_embedding(vocabulary, rows.of(), tokens.of(), packed.of_mut());
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
        self.norm(layout, norm, x.of(), weight.of(), y.of_mut(), rows);
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
        self.norm_gradient(
            layout,
            norm,
            x.of(),
            weight.of(),
            dy.map(Buffer::of),
            dx.of_mut(),
            dw.as_deref().map(Buffer::of),
            rows,
        );
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
        self.rotate(layout, x.of_mut(), cos.of(), sin.of(), batch.of(), turn);
    }

    fn store_kv(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &mut Buffer,
        layer: usize,
    ) {
        self.store(shape, qkv.of(), batch.of(), cache.of_mut(), layer);
    }
    fn prepare_qkv(
        &self,
        shape: Attention,
        norms: Option<HeadNorms<'_>>,
        (cos, sin): (&Buffer, &Buffer),
        qkv: &mut Buffer,
        batch: &DeviceBatch,
        cache: &mut Buffer,
        layer: usize,
    ) {
        self.prepare(
            shape,
            norms,
            (cos.of(), sin.of()),
            qkv.of_mut(),
            batch.of(),
            cache.of_mut(),
            layer,
        );
    }
    fn copy_pages(&self, shape: Attention, cache: &mut Buffer, pages: &[(u32, u32)]) {
        self.copy_in_every_layer(shape, cache.of_mut(), pages);
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
        self.attend(shape, qkv.of(), batch.of(), cache.of(), layer, out.of_mut());
    }
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_qkv: &mut Buffer,
    ) {
        self.attention_gradient(shape, qkv.of(), batch.of(), d_out.of(), d_qkv.of_mut());
    }

    fn glu(&self, by: Gate, features: usize, gate_up: &Buffer, y: &mut Buffer, tokens: usize) {
        self.gate(by, features, gate_up.of(), y.of_mut(), tokens);
    }
    fn glu_backward(
        &self,
        by: Gate,
        features: usize,
        dy: &mut Buffer,
        gate_up: &mut Buffer,
        tokens: usize,
    ) {
        self.gate_gradient(by, features, dy.of_mut(), gate_up.of_mut(), tokens);
    }

    fn scale_rows(&self, factors: &Buffer, x: &mut Buffer, rows: usize) {
        self.scale(factors.of(), x.of_mut(), rows);
    }
    fn add_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize) {
        self.add_first(from.of(), to.of_mut(), rows);
    }

    fn copy_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer) {
        let rows: &CudaIndex = rows.of();
        self.copy_rows(from.of(), Some(rows), to.of_mut(), None, rows.len());
    }
    fn store_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, slots: &DeviceIndex) {
        self.store_in_order(from.of(), rows.of(), to.of_mut(), slots.of());
    }
    fn scatter_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, total: usize) {
        self.scatter(from.of(), rows.of(), to.of_mut(), total);
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
        HeadStatistics::new(self.head_forward(
            shape,
            x.of(),
            weights.of(),
            targets.into_own(),
            &masks,
            temperature,
            teacher,
        ))
    }
    fn scores(&self, statistics: &mut HeadStatistics) -> HeadScores {
        self.read_scores(statistics.of_mut())
    }
    fn divergences(&self, statistics: &HeadStatistics) -> Vec<f32> {
        self.read_divergences(statistics.of())
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
        self.head_gradient(
            shape,
            x.of(),
            weights.of(),
            statistics.of(),
            [d_logprobs, d_entropies, d_log_masses],
            taught,
            dx.of_mut(),
            dw.as_deref().map(Buffer::of),
        );
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
        self.slopes(shape, x.of(), weights.of(), targets.into_own(), &masks, temperature)
    }
    fn draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        self.draw_tokens(shape, hidden.of(), weights.of(), draws)
    }
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> (DrawnTokens, QueuedDraws) {
        let (tokens, drawing) = self.begin_drawing(shape, hidden.of(), weights.of(), draws);
        (DrawnTokens::new(tokens), QueuedDraws::new(drawing))
    }
    fn draws_behind(&self) -> bool {
        true
    }
    fn read_draws(&self, drawing: QueuedDraws) -> Vec<Option<Drawn>> {
        self.read_drawing(drawing.into_own())
    }

    fn element_count(&self, kind: Kind) -> usize {
        Layout::new(self.dtype, Role::Gradient(kind)).elements()
    }
    fn read_elements(&self, from: &Buffer, first: usize, elements: &mut [f32]) {
        let from: &CudaBuffer = from.of();
        self.settle(from);
        self.read_range(from, first, elements);
    }
    fn write_elements(&self, to: &mut Buffer, first: usize, elements: &[f32]) {
        self.write_range(to.of_mut(), first, elements);
    }
    fn copy_elements(&self, from: &Buffer, elements: Range<usize>, to: &mut Buffer, first: usize) {
        self.copy_range(from.of(), elements, to.of_mut(), first);
    }
    fn add(&self, from: &Buffer, to: &mut Buffer) {
        self.add_whole(from.of(), to.of_mut());
    }
    fn multiply(&self, factors: &Buffer, to: &mut Buffer) {
        self.multiply_whole(factors.of(), to.of_mut());
    }
    fn square_sums(&self, parts: &[(&Buffer, Range<usize>)]) -> Vec<f32> {
        let parts: Vec<_> =
            parts.iter().map(|(part, elements)| (part.of(), elements.clone())).collect();
        self.sums_of_squares(&parts)
    }
    fn adamw(&self, settings: AdamW, parameters: &mut [UpdateSlice<'_>]) {
        let parameters: Vec<_> = parameters.iter().map(Parameter::of).collect();
        self.update(settings, &parameters);
    }

    fn experts(&self) -> &dyn ExpertOperations {
        self
    }
    fn split_weights(&self) -> Option<&dyn SplitWeights> {
        (self.dtype == Dtype::Bf16).then_some(self)
    }
    fn beside(&self) -> &dyn Backend {
        self.second().map_or(self, |second| second)
    }
    fn finish(&self) {
        self.device.finish();
    }
    fn device_links(&self) -> Option<&dyn DeviceLinks> {
        self.communicator().is_some().then_some(self)
    }
    fn hybrid(&self) -> &dyn HybridOperations {
        self
    }
}
