//! The CPU as a [`Backend`].

use crate::adamw::{self, AdamW};
use crate::attention::{self, Attention, Run};
use crate::backend::Backend;
use crate::buffer::{CpuBuffer, Recycler, Reserved};
use crate::embedding;
use crate::head::{self, Distribution, HeadGradient};
use crate::linear::{self, Destination, Linear};
use crate::norm::{self, Grouped};
use crate::rope::{self, Turn};
use crate::rows;
use crate::simd::Isa;
use crate::swiglu;
use crate::threads::{Engine, Threads};
use std::sync::Arc;

/// The processor this program runs on.
pub struct Cpu {
    engine: Engine,
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
        let engine = Engine { isa, threads: Threads::new(threads)? };
        Ok(Self { engine, recycler: Arc::default(), logits: Reserved::default() })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.engine.isa
    }

    /// Threads in the pool.
    pub fn threads(&self) -> usize {
        self.engine.threads.count()
    }
}

impl Backend for Cpu {
    type Buffer = CpuBuffer;

    fn buffer(&self, len: usize) -> CpuBuffer {
        self.recycler.buffer(len)
    }
    fn zeros(&self, len: usize) -> CpuBuffer {
        self.recycler.zeros(len)
    }
    fn len(&self, buffer: &CpuBuffer) -> usize {
        (**buffer).len()
    }
    fn fill(&self, buffer: &mut CpuBuffer, value: f32) {
        buffer.fill(value);
    }
    fn write(&self, buffer: &mut CpuBuffer, offset: usize, data: &[f32]) {
        buffer[offset..offset + data.len()].copy_from_slice(data);
    }
    fn read(&self, buffer: &CpuBuffer, offset: usize, data: &mut [f32]) {
        data.copy_from_slice(&buffer[offset..offset + data.len()]);
    }
    fn with_host<R>(&self, buffer: &CpuBuffer, len: usize, look: impl FnOnce(&[f32]) -> R) -> R {
        look(&buffer[..len])
    }
    fn copy(&self, from: &CpuBuffer, from_offset: usize, to: &mut CpuBuffer, to_offset: usize, len: usize) {
        rows::copy(&self.engine, &from[from_offset..from_offset + len], &mut to[to_offset..to_offset + len]);
    }
    fn trim(&self) {
        self.recycler.clear();
        self.logits.clear();
    }
    fn parallel(&self, tasks: usize, f: impl Fn(usize) + Sync) {
        self.engine.threads.each(tasks, f);
    }

    fn pack(&self, shape: Linear, first: usize, rows: &[f32], packed: &mut CpuBuffer) {
        shape.pack(first, rows, packed);
    }
    fn unpack(&self, shape: Linear, first: usize, packed: &CpuBuffer, rows: &mut [f32]) {
        shape.unpack(first, packed, rows);
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
        linear::forward(&self.engine, shape, x, weights, bias.map(|b| &**b), y, Destination::Replace, tokens);
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
        linear::forward(&self.engine, shape, x, weights, bias.map(|b| &**b), y, Destination::Add, tokens);
    }
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &CpuBuffer,
        weights: &CpuBuffer,
        dx: &mut CpuBuffer,
        tokens: usize,
    ) {
        linear::backward_input(&self.engine, shape, dy, weights, dx, tokens);
    }
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &CpuBuffer,
        x: &CpuBuffer,
        dw: &mut CpuBuffer,
        tokens: usize,
    ) {
        linear::backward_weight(&self.engine, shape, dy, x, dw, tokens);
    }
    fn linear_backward_bias(&self, shape: Linear, dy: &CpuBuffer, db: &mut CpuBuffer, tokens: usize) {
        linear::backward_bias(&self.engine, shape.outputs, dy, db, tokens);
    }

    fn embed(&self, table: Linear, packed: &CpuBuffer, tokens: &[u32], y: &mut CpuBuffer) {
        embedding::forward(&self.engine, table, packed, tokens, y);
    }
    fn embed_backward(&self, hidden: usize, slots: &[u32], dy: &CpuBuffer, rows: &mut CpuBuffer) {
        embedding::backward(&self.engine, hidden, slots, dy, rows);
    }
    fn add_embedding_rows(&self, table: Linear, rows: &CpuBuffer, tokens: &[u32], packed: &mut CpuBuffer) {
        embedding::add_rows(table, rows, tokens, packed);
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
        norm::forward(&self.engine, layout, eps, x, weight, y, rows);
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
        norm::backward(&self.engine, layout, eps, x, weight, dy.map(|d| &**d), dx, dw, rows);
    }

    fn rope(
        &self,
        layout: Grouped,
        x: &mut CpuBuffer,
        cos: &CpuBuffer,
        sin: &CpuBuffer,
        positions: &[u32],
        turn: Turn,
    ) {
        rope::rotate(&self.engine, layout, x, cos, sin, positions, turn);
    }

    fn store_kv(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        runs: &[Run],
        table: &[u32],
        cache: &mut CpuBuffer,
    ) {
        attention::store(&self.engine, shape, qkv, runs, table, cache);
    }
    fn attention(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        runs: &[Run],
        table: &[u32],
        cache: &CpuBuffer,
        out: &mut CpuBuffer,
    ) {
        attention::forward(&self.engine, shape, qkv, runs, table, cache, out);
    }
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &CpuBuffer,
        runs: &[Run],
        d_out: &CpuBuffer,
        d_qkv: &mut CpuBuffer,
    ) {
        attention::backward(&self.engine, shape, qkv, runs, d_out, d_qkv);
    }

    fn swiglu(&self, features: usize, gate_up: &CpuBuffer, y: &mut CpuBuffer, tokens: usize) {
        swiglu::forward(&self.engine, features, gate_up, y, tokens);
    }
    fn swiglu_backward(&self, features: usize, dy: &mut CpuBuffer, gate_up: &mut CpuBuffer, tokens: usize) {
        swiglu::backward(&self.engine, features, dy, gate_up, tokens);
    }

    fn gather_rows(&self, features: usize, from: &CpuBuffer, rows: &[u32], to: &mut CpuBuffer) {
        rows::gather(&self.engine, features, from, rows, to);
    }
    fn store_rows(&self, features: usize, from: &CpuBuffer, rows: &[u32], to: &mut CpuBuffer, slots: &[u32]) {
        rows::store(&self.engine, features, from, rows, to, slots);
    }
    fn scatter_rows(
        &self,
        features: usize,
        from: &CpuBuffer,
        rows: &[u32],
        to: &mut CpuBuffer,
        total: usize,
    ) {
        rows::scatter(features, from, rows, to, total);
    }

    fn head(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        targets: &[u32],
        temperature: f32,
    ) -> (Vec<f32>, Vec<Distribution>) {
        self.logits.with(head::forward_workspace(shape, targets.len()), |logits| {
            head::forward(&self.engine, shape, x, weights, targets, temperature, logits)
        })
    }
    fn head_backward(
        &self,
        shape: Linear,
        x: &CpuBuffer,
        weights: &CpuBuffer,
        gradient: HeadGradient<'_>,
        dx: &mut CpuBuffer,
        dw: &mut CpuBuffer,
    ) {
        self.logits.with(head::backward_workspace(shape, gradient.targets.len()), |logits| {
            head::backward(&self.engine, shape, x, weights, gradient, dx, dw, logits);
        });
    }
    fn distribution(&self, logits: &[f32], temperature: f32) -> Distribution {
        Distribution::of(self.engine.isa, logits, temperature)
    }
    fn softmax_weights(&self, logits: &[f32], temperature: f32, max: f32, weights: &mut [f32]) {
        head::softmax_weights(self.engine.isa, logits, temperature, max, weights);
    }

    fn sum_of_squares(&self, x: &CpuBuffer) -> f64 {
        adamw::sum_of_squares(&self.engine, x)
    }
    fn adamw(
        &self,
        settings: AdamW,
        weights: &mut CpuBuffer,
        gradient: &CpuBuffer,
        first: &mut CpuBuffer,
        second: &mut CpuBuffer,
    ) {
        adamw::step(&self.engine, settings, weights, gradient, first, second);
    }
}
