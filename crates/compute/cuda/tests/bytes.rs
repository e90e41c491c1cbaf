//! The bytes of the GPU's memory that a decoding step and its draw move, and the least that they
//! could be: docs/guides/gpus.md has the table, and `UPDATE_DOCS=1` writes it there.
//!
//! The test counts the launches of a step, by their arguments and by the tiles it uploads. Each
//! kernel reads and writes what its comment says; nothing here knows how a step is made of kernels.

use crate::counting::{Counts, Launch};
use crate::guide::has_table;
use crate::qwen2::{HALF, Qwen2, SEVEN};
use isentrope_cuda::{Argument, Cuda, Dtype};
use isentrope_kernels::Draw;
use isentrope_model::{KvCache, Model, Step};
use std::fs;
use std::ops::AddAssign;
use std::sync::Arc;

/// Bytes of what launches read and write. What several blocks of a launch read counts once, as it
/// comes from memory once if the second cache has it for the others; what one launch writes and the
/// next one reads counts twice.
#[derive(Clone, Copy, Default)]
struct Bytes {
    weights: u64,
    keys_and_values: u64,
    logits: u64,
    activations: u64,
    /// Bytes that blocks read after other blocks of their launch did: they come from the second
    /// cache, if it is that large.
    again: u64,
}

impl Bytes {
    fn moved(&self) -> u64 {
        self.weights + self.keys_and_values + self.logits + self.activations
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, more: Self) {
        self.weights += more.weights;
        self.keys_and_values += more.keys_and_values;
        self.logits += more.logits;
        self.activations += more.activations;
        self.again += more.again;
    }
}

/// The integers among a launch's arguments, in their order; an address that is null is 0.
fn numbers(launch: &Launch) -> Vec<u64> {
    let number = |argument: &Argument| match *argument {
        Argument::Pointer(address) => address,
        Argument::U32(number) => number.into(),
        Argument::F32(_) => 0,
        ref other => panic!("{} takes {other:?}", launch.name),
    };
    launch.arguments.iter().map(number).collect()
}

/// A product in tiles: each reads its rows of x over all the depth, and its rows of the weights.
fn product(launch: &Launch, rows: u64, outputs: u64, depth: u64) -> Bytes {
    let [of_rows, of_outputs] = [launch.grid.blocks[0], launch.grid.blocks[1]].map(u64::from);
    let (x, weights) = (2 * rows * depth, 2 * outputs * depth);
    Bytes {
        weights,
        activations: x,
        again: (of_outputs - 1) * x + (of_rows - 1) * weights,
        ..Bytes::default()
    }
}

/// Bytes of the sums of a row's blocks: two of 512 tokens in f32, and one of 256 in f64.
fn sums_of_row(vocabulary: u64) -> u64 {
    8 * vocabulary.div_ceil(512) + 8 * vocabulary.div_ceil(256)
}

/// The bytes that one launch moves.
fn bytes_of(device: &Counts, launch: &Launch) -> Bytes {
    let n = numbers(launch);
    let mut bytes = Bytes::default();
    match launch.name {
        // packed, tokens, drawn, y, count, inputs: a row of the weights for each token.
        "embed_bf16" => {
            bytes.weights = 2 * n[4] * n[5];
            bytes.activations = 4 * n[4] + 2 * n[4] * n[5];
        }
        // x, weight, y, rows, strides, offset, groups, features.
        "rms_norm_bf16" => {
            let (groups, features) = (n[3] * n[7], n[8]);
            bytes.activations = 4 * groups * features;
            bytes.weights = 2 * features;
            bytes.again = 2 * (groups - 1) * features;
        }
        // a, b, bias, d, rows, columns, depth, strides, adds.
        "linear_bf16_64" | "linear_bf16_128" | "linear_bf16_narrow" => {
            let (rows, outputs, adds) = (n[4], n[5], n[10]);
            bytes = product(launch, rows, outputs, n[6]);
            bytes.activations += 2 * rows * outputs * (1 + adds);
            bytes.weights += if n[2] > 0 { 2 * outputs } else { 0 };
        }
        // a, b, bias, gate_up, y, rows, features, depth.
        "linear_swiglu_bf16_64" | "linear_swiglu_bf16_128" | "linear_swiglu_bf16_narrow" => {
            let (rows, features) = (n[5], n[6]);
            bytes = product(launch, rows, 2 * features, n[7]);
            bytes.activations += 2 * rows * features * if n[3] > 0 { 3 } else { 1 };
            bytes.weights += if n[2] > 0 { 4 * features } else { 0 };
        }
        // a, b, d, rows, columns, depth: f32.
        "logits_bf16_64" | "logits_bf16_128" | "logits_bf16_narrow" => {
            bytes = product(launch, n[3], n[4], n[5]);
            bytes.logits = 4 * n[3] * n[4];
        }
        // raw, qkv, norms, cos, sin, positions, rows, slots, layer, count, heads, kv heads,
        // head_dim: in place or not.
        "prepare_qkv_bf16" => {
            let (rows, heads, kv_heads, dim) = (n[10], n[11], n[12], n[13]);
            let written = if n[0] == n[1] { heads + kv_heads } else { heads + 2 * kv_heads };
            let slots = device.words(n[8], rows as usize);
            let stored = slots.iter().filter(|&&slot| slot != u32::MAX).count() as u64;
            let angles = 4 * rows * dim;
            bytes.activations =
                2 * rows * (heads + 2 * kv_heads + written) * dim + angles + 12 * rows;
            bytes.keys_and_values = 2 * stored * 2 * kv_heads * dim;
            bytes.again = (heads + kv_heads - 1) * angles;
        }
        // qkv, layer, tiles, pages, out, sums, extents, heads, kv heads, head_dim, window: the keys
        // that a tile's rows see.
        "attention_decode_64" | "attention_decode_128" => {
            let (heads, kv_heads, dim) = (n[7], n[8], n[9]);
            assert_eq!(n[10], 0, "windows");
            let group = heads / kv_heads;
            let tiles = device.words(n[2], 7 * launch.grid.blocks[0] as usize);
            for tile in tiles.chunks(7).filter(|tile| tile[2] > 0) {
                let (position, rows, first, split) = (tile[1], tile[2], tile[4], tile[5]);
                assert_eq!((rows, first), (1, 0), "a tile is a sequence's one row");
                let end = u64::from(position) + 1;
                let seen = match split {
                    u32::MAX => end,
                    split => end.min(1024 * (u64::from(split) + 1)) - 1024 * u64::from(split),
                };
                let pairs = group * kv_heads;
                bytes.keys_and_values += 4 * seen * kv_heads * dim;
                bytes.activations += 2 * pairs * dim;
                bytes.activations +=
                    if split == u32::MAX { 2 * pairs * dim } else { pairs * (4 * dim + 8) };
            }
        }
        // tiles, sums, extents, out, heads, kv heads, head_dim.
        "attention_merge" => {
            let (heads, dim) = (n[4], n[6]);
            let tiles = device.words(n[0], 5 * launch.grid.blocks[0] as usize);
            for tile in tiles.chunks(5) {
                bytes.activations += heads * (u64::from(tile[4]) * (4 * dim + 8) + 2 * dim);
            }
        }
        // from, rows, to, slots, count, features.
        "copy_rows_bf16" => bytes.activations = 4 * n[4] * n[5] + 4 * n[4],
        // logits, row numbers, maxima, vocabulary.
        "part_maxima" => {
            let [rows, parts] = [launch.grid.blocks[0], launch.grid.blocks[1]].map(u64::from);
            bytes.logits = 4 * rows * n[3];
            bytes.activations = 4 * rows * parts;
        }
        // logits, row numbers, temperatures, temperature, maxima, sums, masses, vocabulary: each
        // part reads the maxima of all.
        "part_sums" => {
            let [rows, parts] = [launch.grid.blocks[0], launch.grid.blocks[1]].map(u64::from);
            bytes.logits = 4 * rows * n[7];
            bytes.activations = rows * (4 * parts + sums_of_row(n[7]));
            bytes.again = (parts - 1) * 4 * rows * parts;
        }
        // logits, draws, maxima, sums, masses, statistics, drawn, vocabulary: and a block of 256
        // tokens.
        "draw" => {
            let rows = u64::from(launch.grid.blocks[0]);
            bytes.logits = 4 * rows * 256;
            bytes.activations = rows * (4 * n[7].div_ceil(4096) + sums_of_row(n[7]));
        }
        other => panic!("nobody has counted what {other} moves"),
    }
    bytes
}

/// The bytes that a step and its draw move, and the least possible: weights once, as passes read
/// them, and the keys and values of all positions so far once.
fn step(shape: &Qwen2, sequences: usize, position: usize) -> (Bytes, u64) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), shape.config().to_string()).unwrap();
    let cuda = Arc::new(Cuda::new(Arc::new(Counts::default()), Dtype::Bf16));
    let model = Model::zeros(directory.path(), cuda.clone()).unwrap();
    let mut cache = KvCache::new(&model, sequences * (position / 16 + 1)).unwrap();
    let mut step = Step::default();
    for _ in 0..sequences {
        let pages: Vec<u32> = (0..=position / 16).map(|_| cache.take().unwrap()).collect();
        step.push(&[1], position, &pages, true);
    }
    cuda.device().launched();
    let mut moved = Bytes::default();
    let mut count = || {
        for launch in cuda.device().launched() {
            moved += bytes_of(cuda.device(), &launch);
        }
    };
    let hidden = model.step(&step, &mut cache, None);
    // The draws' upload may take the place of the step's.
    count();
    let draw = |row| Draw::at_temperature(1.0, row, 0.5);
    model.draw(&hidden, &(0..sequences).map(draw).collect::<Vec<Draw>>());
    count();
    let of_position = model.layout.cache_page_bytes(&*cuda) / 16;
    let least = model.layout.read_bytes(&*cuda) + sequences * (position + 1) * of_position;
    (moved, least as u64)
}

fn table() -> String {
    let mut table = "| Qwen2.5 | sequences | position | at least | moved | | weights | keys and values | logits | activations \
                     | read again |\n\
                     |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for shape in [HALF, SEVEN] {
        for (sequences, position) in
            [(1, 1000), (1, 8000), (64, 500), (64, 4000), (256, 500), (256, 4000)]
        {
            let (bytes, least) = step(&shape, sequences, position);
            let moved = bytes.moved();
            assert!(moved >= least, "less is moved than must be");
            let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
            table += &format!(
                "| {} | {sequences} | {position} | {} | {} | {:.2} | {} | {} | {} | {} | {} |\n",
                shape.name,
                mb(least),
                mb(moved),
                moved as f64 / least as f64,
                mb(bytes.weights),
                mb(bytes.keys_and_values),
                mb(bytes.logits),
                mb(bytes.activations),
                mb(bytes.again),
            );
        }
    }
    table
}

#[test]
fn the_guide_says_what_a_step_moves() {
    has_table("tests/decoding_steps.md", "bytes", &table());
}
