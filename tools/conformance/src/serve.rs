//! Attention as a server meets it: sequences that share a cache, in batches of runs.

use crate::data::{self, POISON, is_poison};
use crate::device::{Device, width};
use isentrope_kernels::{Attention, Buffer, HostBatch, Role, Run};
use std::ops::Range;

/// The layer of the cache that sequences are served in.
pub const LAYER: usize = 2;

/// A stretch of a sequence: its index and its positions.
pub type Piece = (usize, Range<usize>);

/// Sequences, and the pages of a cache that are theirs: in scrambled order, with strangers' pages
/// between them.
pub struct Sequences {
    pub shape: Attention,
    /// `[len, row]` of each sequence.
    pub qkv: Vec<Vec<f32>>,
    /// Range of each sequence's pages in `pages`.
    pub ranges: Vec<Range<usize>>,
    /// Numbers of pages.
    pub pages: Vec<u32>,
    /// Pages in the cache.
    pub capacity: usize,
}

impl Sequences {
    pub fn new(device: &Device<'_>, shape: Attention, lens: &[usize], seed: u64) -> Self {
        let role = |len| Role::Activation(len, shape.row());
        let qkv = (0..).zip(lens).map(|(i, &len)| device.noise(role(len), seed + i)).collect();
        let page = device.page_positions();
        let mut ranges = Vec::new();
        let mut wanted = 1; // a page that no sequence has
        for len in lens {
            ranges.push(wanted..wanted + len.div_ceil(page));
            wanted += len.div_ceil(page);
        }
        let capacity = 2 * wanted;
        let mut order: Vec<u32> = (0..capacity as u32).collect();
        let keys = data::noise(seed + 77, capacity);
        order.sort_by(|&a, &b| keys[a as usize].total_cmp(&keys[b as usize]));
        Self { shape, qkv, ranges, pages: order[..wanted].to_vec(), capacity }
    }

    pub fn len(&self, sequence: usize) -> usize {
        self.qkv[sequence].len() / self.shape.row()
    }

    /// The batch that holds `pieces`, with a poisoned row around each, and its runs.
    pub fn batch(&self, pieces: &[Piece]) -> (Vec<f32>, Vec<Run>) {
        let row = self.shape.row();
        let (mut qkv, mut runs) = (vec![POISON; row], Vec::new());
        for (sequence, positions) in pieces {
            runs.push(Run {
                row: qkv.len() / row,
                len: positions.len(),
                position: positions.start,
                pages: self.ranges[*sequence].clone(),
            });
            qkv.extend_from_slice(&self.qkv[*sequence][positions.start * row..positions.end * row]);
            qkv.extend(vec![POISON; row]);
        }
        (qkv, runs)
    }

    /// A batch of `rows` rows with these runs, on this cache's pages.
    pub fn described(&self, rows: usize, runs: &[Run]) -> HostBatch {
        HostBatch {
            tokens: vec![0; rows],
            runs: runs.to_vec(),
            pages: self.pages.clone(),
            ..HostBatch::default()
        }
    }

    /// A cache full of poison. Sequences are served in the last of its layers.
    pub fn cache(&self, device: &Device<'_>) -> Buffer {
        let role = Role::Cache { shape: self.shape, layers: LAYER + 1, pages: self.capacity };
        let mut cache = device.buffer(role);
        device.fill(&mut cache, POISON);
        cache
    }

    /// Attention outputs `[len, heads * head_dim]` of every sequence, computed batch by batch from
    /// an empty cache. Runs are handed over in reverse, and rows that belong to no run must stay
    /// untouched.
    pub fn serve(&self, device: &Device<'_>, batches: &[Vec<Piece>]) -> Vec<Vec<f32>> {
        let shape = self.shape;
        let width = width(shape);
        let mut outputs: Vec<Vec<f32>> =
            (0..self.qkv.len()).map(|s| vec![POISON; self.len(s) * width]).collect();
        let mut cache = self.cache(device);
        for pieces in batches {
            let (qkv, mut runs) = self.batch(pieces);
            let rows = qkv.len() / shape.row();
            runs.reverse();
            let qkv = device.upload(Role::Activation(rows, shape.row()), &qkv);
            let out_role = Role::Activation(rows, width);
            let mut out = device.blank(out_role);
            let batch = device.upload_batch(&self.described(rows, &runs));
            device.store_kv(shape, &qkv, &batch, &mut cache, LAYER);
            device.attention(shape, &qkv, &batch, &cache, LAYER, &mut out);
            let mut out = device.download(out_role, &out);
            for ((sequence, positions), run) in pieces.iter().zip(runs.iter().rev()) {
                let part = &mut out[run.row * width..(run.row + run.len) * width];
                outputs[*sequence][positions.start * width..positions.end * width]
                    .copy_from_slice(part);
                part.fill(POISON);
            }
            assert!(out.into_iter().all(is_poison), "wrote to rows that belong to no run");
        }
        outputs
    }

    /// All sequences whole, in one batch.
    pub fn serve_whole(&self, device: &Device<'_>) -> Vec<Vec<f32>> {
        self.serve(device, &[(0..self.qkv.len()).map(|s| (s, 0..self.len(s))).collect()])
    }

    /// `d_qkv` of every sequence from `d_out`, all in one batch; other rows must stay untouched.
    pub fn backward(&self, device: &Device<'_>, d_out: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let shape = self.shape;
        let width = width(shape);
        let pieces: Vec<Piece> = (0..self.qkv.len()).map(|s| (s, 0..self.len(s))).collect();
        let (qkv, runs) = self.batch(&pieces);
        let mut d_batch = vec![POISON; qkv.len() / shape.row() * width];
        for (run, d_out) in runs.iter().zip(d_out) {
            d_batch[run.row * width..][..d_out.len()].copy_from_slice(d_out);
        }
        let rows = qkv.len() / shape.row();
        let role = Role::Activation(rows, shape.row());
        let mut d_qkv = device.blank(role);
        let (device_qkv, device_d) =
            (device.upload(role, &qkv), device.upload(Role::Activation(rows, width), &d_batch));
        let batch = device.upload_batch(&self.described(rows, &runs));
        device.attention_backward(shape, &device_qkv, &batch, &device_d, &mut d_qkv);
        let mut d_qkv = device.download(role, &d_qkv);
        let parts = runs.iter().map(|run| run.row * shape.row()..(run.row + run.len) * shape.row());
        let gradients = parts.clone().map(|part| d_qkv[part].to_vec()).collect();
        parts.for_each(|part| d_qkv[part].fill(POISON));
        assert!(d_qkv.into_iter().all(is_poison), "wrote to rows that belong to no run");
        gradients
    }
}
