//! A GPU as a [`Backend`].

use crate::batch::CudaBatch;
use crate::buffer::CudaBuffer;
use crate::cuda::Cuda;
use crate::device::Device;
use crate::draw::{CudaDrawing, CudaTokens};
use crate::failure::Failure;
use crate::head::CudaStatistics;
use crate::index::CudaIndex;
use crate::layout::{Layout, PAGE};
use crate::replay::Key;
use crate::{adamw, attention, draw, head, linear, splits};
use isentrope_kernels::{
    AdamW, Attention, Backend, Draw, Drawn, EntropySlopes, Grouped, HeadNorms, HeadScores, HostBatch, Kind,
    Linear, OutOfMemory, ReplayKey, Role, SamplingMasks, Turn, Updated, Work,
};
use std::ops::Range;
use std::sync::Arc;

impl<D: Device> Backend for Cuda<D> {
    type Buffer = CudaBuffer<D>;
    type Batch = CudaBatch<D>;
    type Index = CudaIndex<D>;
    type Statistics = CudaStatistics<D>;
    type Drawing = CudaDrawing<D>;
    type Tokens = CudaTokens<D>;

    const PAGE: usize = PAGE;

    fn bytes(&self, role: Role) -> usize {
        match role {
            Role::OffloadedMoment(_) => 0,
            role => Layout::new(self.dtype, role).bytes(),
        }
    }
    fn bytes_read(&self, kind: Kind) -> usize {
        let layout = Layout::new(self.dtype, Role::Weight(kind));
        layout.numbers().saturating_mul(layout.element.bytes())
    }
    fn host_bytes(&self, role: Role) -> usize {
        match role {
            Role::OffloadedMoment(_) => Layout::new(self.dtype, role).bytes(),
            _ => 0,
        }
    }
    fn workspace(&self, work: Work) -> usize {
        match work {
            Work::Head(shape, rows) => head::workspace(self.dtype, self.logits_blocks, shape, rows),
            Work::Statistics(rows) => head::statistics_bytes(rows),
            Work::Attention(shape, positions) => splits::workspace(self.dtype, shape, positions),
            Work::AttentionGradient(shape, positions) => {
                attention::gradient_workspace(self.dtype, shape, positions)
            }
            Work::Draw(shape, rows) => draw::workspace(self.logits_blocks, shape, rows),
            Work::Steps(layers) => self.steps_bytes(layers),
            Work::LinearSums(outputs) => match self.device.product_library() {
                Some(_) => linear::workspace(self.dtype, outputs),
                None => 0,
            },
            Work::OffloadedMoments(numbers) => adamw::workspace(self.piece.min(numbers)),
        }
    }
    fn allocate(&self, role: Role) -> Result<CudaBuffer<D>, OutOfMemory> {
        if let Role::OffloadedMoment(_) = role {
            return self.kept_on_host(Layout::new(self.dtype, role));
        }
        let buffer = self.kept(Layout::new(self.dtype, role))?;
        let bytes = buffer.layout.bytes();
        if bytes > 0 && !matches!(role, Role::Cache { .. }) {
            self.device.clear(buffer.memory(), 0, bytes);
            buffer.set_zero();
        }
        Ok(buffer)
    }
    fn buffer(&self, role: Role) -> CudaBuffer<D> {
        if let Role::OffloadedMoment(_) = role {
            return self.allocate(role).unwrap_or_else(|refused| Failure::from(refused).end());
        }
        let layout = Layout::new(self.dtype, role);
        CudaBuffer::new(self.scratch(layout.bytes()), layout)
    }
    fn trim(&self) {
        self.graphs.clear();
        self.pool.trim();
    }

    fn batch_of_drawn(&self, host: &HostBatch, drawn: Option<&CudaTokens<D>>) -> CudaBatch<D> {
        CudaBatch::new(host, drawn, |words| self.uploaded(words))
    }
    fn index(&self, numbers: &[u32]) -> CudaIndex<D> {
        self.indexed(numbers)
    }

    fn rows_of_step(&self, rows: usize) -> usize {
        self.rounded_rows(rows)
    }
    fn replayed<R>(&self, key: ReplayKey, f: impl FnOnce() -> R) -> R {
        self.step(Key::Step(key), f)
    }

    fn fill(&self, buffer: &mut CudaBuffer<D>, value: f32) {
        self.fill_whole(buffer, value);
    }
    fn write(&self, buffer: &mut CudaBuffer<D>, first: usize, rows: &[f32]) {
        self.write_rows(buffer, first, rows);
    }
    fn read(&self, buffer: &CudaBuffer<D>, first: usize, rows: &mut [f32]) {
        self.read_rows(buffer, first, rows);
    }
    fn copy(&self, from: &CudaBuffer<D>, to: &mut CudaBuffer<D>, rows: usize) {
        self.copy_first(from, to, rows);
    }
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut CudaBuffer<D>) {
        self.pack_rows(kind, first, rows, packed);
    }
    fn unpack(&self, kind: Kind, first: usize, packed: &CudaBuffer<D>, rows: &mut [f32]) {
        self.unpack_rows(kind, first, packed, rows);
    }

    fn linear(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        bias: Option<&CudaBuffer<D>>,
        y: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.forward(shape, x, weights, bias, y, tokens, false);
    }
    fn linear_add(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        bias: Option<&CudaBuffer<D>>,
        y: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.forward(shape, x, weights, bias, y, tokens, true);
    }
    fn linear_swiglu(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        bias: Option<&CudaBuffer<D>>,
        gate_up: Option<&mut CudaBuffer<D>>,
        y: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.forward_gated(shape, x, weights, bias, gate_up.as_deref(), y, tokens);
    }
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        dx: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.input_gradient(shape, dy, weights, dx, tokens);
    }
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &CudaBuffer<D>,
        x: &CudaBuffer<D>,
        dw: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.weight_gradient(shape, dy, x, dw, tokens);
    }
    fn linear_backward_bias(&self, shape: Linear, dy: &CudaBuffer<D>, db: &mut CudaBuffer<D>, tokens: usize) {
        self.bias_gradient(shape, dy, db, tokens);
    }

    fn embed(&self, vocabulary: Linear, packed: &CudaBuffer<D>, batch: &CudaBatch<D>, y: &mut CudaBuffer<D>) {
        self.look_up(vocabulary, packed, batch, y);
    }
    fn embed_backward(&self, slots: &CudaIndex<D>, dy: &CudaBuffer<D>, rows: &mut CudaBuffer<D>) {
        self.add_embedded(slots, dy, rows);
    }
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &CudaBuffer<D>,
        tokens: &CudaIndex<D>,
        packed: &mut CudaBuffer<D>,
    ) {
        self.add_to_embedding(vocabulary, rows, tokens, packed);
    }

    fn rms_norm(
        &self,
        layout: Grouped,
        eps: f32,
        x: &CudaBuffer<D>,
        weight: &CudaBuffer<D>,
        y: &mut CudaBuffer<D>,
        rows: usize,
    ) {
        self.norm(layout, eps, x, weight, y, rows);
    }
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        eps: f32,
        x: &CudaBuffer<D>,
        weight: &CudaBuffer<D>,
        dy: Option<&CudaBuffer<D>>,
        dx: &mut CudaBuffer<D>,
        dw: &mut CudaBuffer<D>,
        rows: usize,
    ) {
        self.norm_gradient(layout, eps, x, weight, dy, dx, dw, rows);
    }

    fn rope(
        &self,
        layout: Grouped,
        x: &mut CudaBuffer<D>,
        cos: &CudaBuffer<D>,
        sin: &CudaBuffer<D>,
        batch: &CudaBatch<D>,
        turn: Turn,
    ) {
        self.rotate(layout, x, cos, sin, batch, turn);
    }

    fn store_kv(
        &self,
        shape: Attention,
        qkv: &CudaBuffer<D>,
        batch: &CudaBatch<D>,
        cache: &mut CudaBuffer<D>,
        layer: usize,
    ) {
        self.store(shape, qkv, batch, cache, layer);
    }
    fn prepare_qkv(
        &self,
        shape: Attention,
        norms: Option<HeadNorms<'_, CudaBuffer<D>>>,
        angles: (&CudaBuffer<D>, &CudaBuffer<D>),
        qkv: &mut CudaBuffer<D>,
        batch: &CudaBatch<D>,
        cache: &mut CudaBuffer<D>,
        layer: usize,
    ) {
        self.prepare(shape, norms, angles, qkv, batch, cache, layer);
    }
    fn copy_pages(&self, shape: Attention, cache: &mut CudaBuffer<D>, pages: &[(u32, u32)]) {
        self.copy_in_every_layer(shape, cache, pages);
    }
    fn attention(
        &self,
        shape: Attention,
        qkv: &CudaBuffer<D>,
        batch: &CudaBatch<D>,
        cache: &CudaBuffer<D>,
        layer: usize,
        out: &mut CudaBuffer<D>,
    ) {
        self.attend(shape, qkv, batch, cache, layer, out);
    }
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &CudaBuffer<D>,
        batch: &CudaBatch<D>,
        d_out: &CudaBuffer<D>,
        d_qkv: &mut CudaBuffer<D>,
    ) {
        self.attention_gradient(shape, qkv, batch, d_out, d_qkv);
    }

    fn swiglu(&self, features: usize, gate_up: &CudaBuffer<D>, y: &mut CudaBuffer<D>, tokens: usize) {
        self.gate(features, gate_up, y, tokens);
    }
    fn swiglu_backward(
        &self,
        features: usize,
        dy: &mut CudaBuffer<D>,
        gate_up: &mut CudaBuffer<D>,
        tokens: usize,
    ) {
        self.gate_gradient(features, dy, gate_up, tokens);
    }

    fn gather_rows(&self, from: &CudaBuffer<D>, rows: &CudaIndex<D>, to: &mut CudaBuffer<D>) {
        self.copy_rows(from, Some(rows), to, None, rows.len());
    }
    fn store_rows(
        &self,
        from: &CudaBuffer<D>,
        rows: &CudaIndex<D>,
        to: &mut CudaBuffer<D>,
        slots: &CudaIndex<D>,
    ) {
        self.store_in_order(from, rows, to, slots);
    }
    fn scatter_rows(&self, from: &CudaBuffer<D>, rows: &CudaIndex<D>, to: &mut CudaBuffer<D>, total: usize) {
        self.scatter(from, rows, to, total);
    }

    fn head(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        targets: CudaIndex<D>,
        masks: Arc<SamplingMasks>,
        temperature: f32,
    ) -> CudaStatistics<D> {
        self.head_forward(shape, x, weights, targets, &masks, temperature)
    }
    fn scores(&self, statistics: &mut CudaStatistics<D>) -> HeadScores {
        self.read_scores(statistics)
    }
    fn head_backward(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        statistics: &CudaStatistics<D>,
        d_logprobs: &[f32],
        d_entropies: &[f32],
        d_log_masses: &[f32],
        dx: &mut CudaBuffer<D>,
        dw: &mut CudaBuffer<D>,
    ) {
        self.head_gradient(shape, x, weights, statistics, [d_logprobs, d_entropies, d_log_masses], dx, dw);
    }
    fn entropy_slopes(
        &self,
        shape: Linear,
        x: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        targets: &CudaIndex<D>,
        masks: &SamplingMasks,
        temperature: f32,
    ) -> EntropySlopes {
        self.slopes(shape, x, weights, self.indexed(&targets.host), masks, temperature)
    }
    fn draw(
        &self,
        shape: Linear,
        hidden: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        self.draw_tokens(shape, hidden, weights, draws)
    }
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        draws: &[Draw],
    ) -> (CudaTokens<D>, CudaDrawing<D>) {
        self.begin_drawing(shape, hidden, weights, draws)
    }
    fn draws_behind(&self) -> bool {
        true
    }
    fn drawn(&self, drawing: CudaDrawing<D>) -> Vec<Option<Drawn>> {
        self.read_drawing(drawing)
    }

    fn numbers(&self, kind: Kind) -> usize {
        Layout::new(self.dtype, Role::Gradient(kind)).numbers()
    }
    fn read_numbers(&self, from: &CudaBuffer<D>, first: usize, numbers: &mut [f32]) {
        self.settle(from);
        self.read_range(from, first, numbers);
    }
    fn write_numbers(&self, to: &mut CudaBuffer<D>, first: usize, numbers: &[f32]) {
        self.write_range(to, first, numbers);
    }
    fn add(&self, from: &CudaBuffer<D>, to: &mut CudaBuffer<D>) {
        self.add_whole(from, to);
    }
    fn square_sums(&self, parts: &[(&CudaBuffer<D>, Range<usize>)]) -> Vec<f32> {
        self.sums_of_squares(parts)
    }
    fn adamw(&self, settings: AdamW, parameters: &mut [Updated<'_, CudaBuffer<D>>]) {
        self.update(settings, parameters);
    }
}
