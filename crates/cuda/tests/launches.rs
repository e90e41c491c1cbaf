//! What the host asks of a GPU for each decoding step, counted: docs/cuda.md has the table, and `UPDATE_DOCS=1` writes it there.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod guide;

use guide::has_table;
use isentrope_cuda::{Argument, Cuda, Device, Dtype, Function, Grid, Limits, Memory, MemoryInfo, Operation};
use isentrope_kernels::{Draw, OutOfMemory};
use isentrope_model::{KvCache, Model, Step};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A GPU that computes nothing, and counts what it is asked for.
#[derive(Default)]
struct Counts {
    launches: AtomicUsize,
    replays: AtomicUsize,
    uploads: AtomicUsize,
    waits: AtomicUsize,
    addresses: AtomicU64,
}

impl Counts {
    /// Launches of kernels and of graphs, uploads and waits since the last time.
    fn take(&self) -> [usize; 4] {
        [&self.launches, &self.replays, &self.uploads, &self.waits]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }
}

fn count(of: &AtomicUsize) {
    of.fetch_add(1, Ordering::Relaxed);
}

struct Nowhere {
    address: u64,
    bytes: usize,
}

impl Memory for Nowhere {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Device for Counts {
    type Memory = Nowhere;
    type HostMemory = ();
    type Fetch = ();
    type Graph = ();

    fn name(&self) -> String {
        "a GPU that counts".into()
    }
    fn limits(&self) -> Limits {
        Limits { capability: (9, 0), processors: 132, shared: 227 << 10 }
    }
    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo { free: 1 << 40, total: 1 << 40 }
    }
    fn keeps_memory(&self) -> bool {
        true
    }
    fn allocate(&self, bytes: usize) -> Result<Nowhere, OutOfMemory> {
        let size = (bytes as u64).next_multiple_of(256) + 256;
        Ok(Nowhere { address: 256 + self.addresses.fetch_add(size, Ordering::Relaxed), bytes })
    }
    fn upload(&self, _: &[u8], _: &Nowhere, _: usize) {
        count(&self.uploads);
    }
    fn download(&self, _: &Nowhere, _: usize, bytes: &mut [u8]) {
        count(&self.waits);
        bytes.fill(0);
    }
    fn fetch(&self, _: &Nowhere, _: usize, _: usize) {}
    fn fetched(&self, (): (), bytes: &mut [u8]) {
        count(&self.waits);
        bytes.fill(0);
    }
    fn copy(&self, _: &Nowhere, _: usize, _: &Nowhere, _: usize, _: usize) {
        count(&self.launches);
    }
    fn clear(&self, _: &Nowhere, _: usize, _: usize) {
        count(&self.launches);
    }
    fn allocate_host(&self, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }
    fn copy_in(&self, (): &(), _: usize, _: &Nowhere, _: usize, _: usize) {
        count(&self.uploads);
    }
    fn copy_out(&self, _: &Nowhere, _: usize, (): &(), _: usize, _: usize) {
        count(&self.uploads);
    }
    fn read_host(&self, (): &(), _: usize, _: &mut [u8]) {
        count(&self.waits);
    }
    fn write_host(&self, _: &[u8], (): &(), _: usize) {
        count(&self.waits);
    }
    fn launch(&self, _: &Function, grid: Grid, _: &[Argument]) {
        // A grid without blocks launches nothing.
        if !grid.blocks.contains(&0) {
            count(&self.launches);
        }
    }
    fn capture(&self, _: &[Operation]) -> Result<(), String> {
        Ok(())
    }
    fn replay(&self, (): &()) {
        count(&self.replays);
    }
    fn synchronize(&self) {
        count(&self.waits);
    }
}

/// What each of the last steps takes of a model of 24 layers, whose sequences begin with so many positions; and how often
/// a step of the many was launched one by one.
fn counted(family: &str, sequences: usize, position: usize, replays: bool) -> ([usize; 4], usize) {
    let config = serde_json::json!({
        "model_type": family, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 24,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000,
        "tie_word_embeddings": true, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
    });
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let cuda = Cuda::new(Arc::new(Counts::default()), Dtype::Bf16);
    let cuda = Arc::new(if replays { cuda } else { cuda.without_replay() });
    let model = Model::zeros(directory.path(), cuda.clone()).unwrap();
    let mut cache = KvCache::new(&model, sequences * (position / 16 + 8)).unwrap();
    let mut pages: Vec<Vec<u32>> = vec![Vec::new(); sequences];
    let (mut last, mut one_by_one) = ([0; 4], 0);
    for position in position..position + 100 {
        let mut step = Step::default();
        for pages in &mut pages {
            while pages.len() * 16 <= position {
                pages.push(cache.take().unwrap());
            }
            step.push(&[1], position, pages, true);
        }
        cuda.device().take();
        let hidden = model.step(&step, &mut cache, None);
        let draw = |row| Draw::at_temperature(1.0, row, 0.5);
        model.draw(&hidden, &(0..sequences).map(draw).collect::<Vec<Draw>>());
        last = cuda.device().take();
        one_by_one += usize::from(last[1] == 0);
    }
    (last, one_by_one)
}

fn table() -> String {
    let mut table = "| shape, 24 layers | sequences | position | | kernels | graphs | uploads | waits \
                     | of 100 steps one by one |\n\
                     |---|---:|---:|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (family, sequences, position) in
        [("qwen2", 1, 1000), ("qwen2", 1, 5000), ("qwen2", 64, 500), ("qwen2", 256, 500), ("qwen3", 64, 500)]
    {
        for (what, replays) in [("one by one", false), ("as one", true)] {
            let ([kernels, graphs, uploads, waits], one_by_one) =
                counted(family, sequences, position, replays);
            table += &format!(
                "| {family} | {sequences} | {position} | {what} | {kernels} | {graphs} | {uploads} | {waits} | {one_by_one} |\n"
            );
        }
    }
    table
}

#[test]
fn the_guide_says_what_a_step_asks_for() {
    has_table("launches", &table());
}
