//! Counts the host's requests to a GPU for each decoding step: decoding_steps.md has the table,
//! and `UPDATE_DOCS=1` writes it there.

use crate::counting::Counts;
use crate::guide::has_table;
use isentrope_cuda::{Cuda, Dtype};
use isentrope_kernels::{Backend, DeltaRule, DeltaWeights, Draw, HostBatch, Kind, Role, Run, Work};
use isentrope_model::adapter::{AdapterLayout, Rank};
use isentrope_model::{KvCache, Model, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

/// How steps are launched and read.
#[derive(Clone, Copy)]
struct StepStrategy {
    name: &'static str,
    /// Whether launches are captured and replayed as one.
    replays: bool,
    /// Whether draws are read after the step behind them was begun.
    draws_behind: bool,
}

const STRATEGIES: [StepStrategy; 3] = [
    StepStrategy { name: "one by one", replays: false, draws_behind: false },
    StepStrategy { name: "as one", replays: true, draws_behind: false },
    StepStrategy { name: "as one, draws read behind", replays: true, draws_behind: true },
];

/// Ends the name of a shape whose linear layers all have an adapter.
const ADAPTED: &str = " with adapters";
/// A family with linear attention in three of four layers.
const HYBRID: &str = "qwen3_5_text";

/// A model of zeros, whose linear layers may all have an adapter of rank 16.
fn model(config: &serde_json::Value, is_adapted: bool, cuda: Arc<Cuda>) -> Model {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let model = Model::zeros(directory.path(), cuda).unwrap();
    if !is_adapted {
        return model;
    }
    let layout = AdapterLayout::new(&model.layout, |_| Some(Rank { rank: 16, scale: 2.0 }));
    model.with_new_adapter(layout.unwrap(), 1).unwrap()
}

/// Counts of the last of a hundred steps, and the number of steps launched one by one. The model
/// has 24 layers, and sequences begin with `position` positions.
fn counted(
    shape: &str,
    sequences: usize,
    position: usize,
    strategy: StepStrategy,
) -> ([usize; 5], usize) {
    let (family, is_adapted) = match shape.strip_suffix(ADAPTED) {
        Some(family) => (family, true),
        None => (shape, false),
    };
    let mut config = serde_json::json!({
        "model_type": family, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 24,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000,
        "tie_word_embeddings": true, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
    });
    if family == HYBRID {
        for key in ["num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"] {
            config[format!("linear_{key}")] = 16.into();
        }
    }
    let device = Arc::new(Counts::default());
    let cuda = Cuda::new(device.clone(), Dtype::Bf16);
    let cuda = Arc::new(if strategy.replays { cuda } else { cuda.without_replay() });
    let model = model(&config, is_adapted, cuda);
    let mut cache = KvCache::new(&model, sequences * (position / 16 + 8)).unwrap();
    let mut pages: Vec<Vec<u32>> = vec![Vec::new(); sequences];
    let states: Vec<Option<u32>> = (0..sequences).map(|_| cache.take_state()).collect();
    let draws: Vec<Draw> = (0..sequences).map(|row| Draw::at_temperature(1.0, row, 0.5)).collect();
    let (mut last, mut one_by_one, mut behind) = ([0; 5], 0, None);
    for position in position..position + 100 {
        let mut step = Step::default();
        for (i, pages) in pages.iter_mut().enumerate() {
            while pages.len() * 16 <= position {
                pages.push(cache.take().unwrap());
            }
            match behind {
                Some(_) => step.push_drawn(i, position, pages),
                None => step.push(&[1], position, pages, true),
            }
            step.go_on_from_state(states[i]);
        }
        device.take();
        if strategy.draws_behind {
            let (tokens, before) = behind.unzip();
            let hidden = model.step_after(tokens.as_ref(), &step, &mut cache, None);
            drop(tokens);
            behind = Some(model.begin_draw(&hidden, &draws));
            before.map(|before| model.drawn(before));
        } else {
            let hidden = model.step(&step, &mut cache, None);
            model.draw(&hidden, &draws);
        }
        last = device.take();
        // Both the step and its draws were graphs.
        one_by_one += usize::from(last[1] < 2);
    }
    (last, one_by_one)
}

/// Launches of each kernel in one layer of Qwen2.5-7B, in a decoding step of 64 sequences.
fn of_layer(is_adapted: bool, has_library: bool) -> BTreeMap<&'static str, usize> {
    let [one, two] = [1, 2].map(|layers| {
        let config = serde_json::json!({
            "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18_944,
            "num_hidden_layers": layers, "num_attention_heads": 28, "num_key_value_heads": 4,
            "vocab_size": 152_064, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
        });
        let device = Arc::new(if has_library { Counts::with_library() } else { Counts::default() });
        let cuda = Arc::new(Cuda::new(device.clone(), Dtype::Bf16).without_replay());
        let model = model(&config, is_adapted, cuda);
        let mut cache = KvCache::new(&model, 64 * 32).unwrap();
        let mut step = Step::default();
        for _ in 0..64 {
            let pages: Vec<u32> = (0..32).map(|_| cache.take().unwrap()).collect();
            step.push(&[1], 500, &pages, true);
        }
        device.take_kernels();
        model.step(&step, &mut cache, None);
        device.take_kernels()
    });
    let more = two
        .into_iter()
        .map(|(kernel, count)| (kernel, count - one.get(kernel).copied().unwrap_or_default()));
    more.filter(|&(_, count)| count > 0).collect()
}

fn table_of_layer() -> String {
    let columns = [(false, false), (true, false), (false, true), (true, true)];
    let counts = columns.map(|(is_adapted, has_library)| of_layer(is_adapted, has_library));
    let kernels: BTreeSet<&str> = counts.iter().flat_map(|of| of.keys().copied()).collect();
    let mut table =
        "| kernel | own products | with adapters | library's products | with adapters |\n\
                     |---|---:|---:|---:|---:|\n"
            .to_owned();
    for kernel in kernels {
        let row =
            counts.each_ref().map(|of| of.get(kernel).map_or(String::new(), usize::to_string));
        table += &format!("| {kernel} | {} |\n", row.join(" | "));
    }
    let sums = counts.map(|of| of.values().sum::<usize>().to_string()).join(" | ");
    table + &format!("| all | {sums} |\n")
}

fn table() -> String {
    let mut table = "| shape, 24 layers | sequences | position | | kernels | graphs | uploads \
                     | waits for the step | waits for the one before | of 100 steps one by one |\n\
                     |---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (family, sequences, position) in [
        ("qwen2", 1, 1000),
        ("qwen2", 1, 5000),
        ("qwen2", 64, 500),
        ("qwen2", 256, 500),
        ("qwen3", 64, 500),
        ("qwen3 with adapters", 64, 500),
        (HYBRID, 64, 500),
    ] {
        for strategy in STRATEGIES {
            let (last, one_by_one) = counted(family, sequences, position, strategy);
            let counts = last.map(|count| count.to_string()).join(" | ");
            table += &format!(
                "| {family} | {sequences} | {position} | {} | {counts} | {one_by_one} |\n",
                strategy.name
            );
        }
    }
    table
}

/// Plans keep room for the graphs of 64 steps and of their draws, 64 KiB a kernel.
#[test]
fn plans_keep_room_for_graphs_of_as_many_kernels_as_steps_have() {
    let cuda = Cuda::new(Arc::new(Counts::default()), Dtype::Bf16);
    for (family, adapters, sequences, position) in [
        ("qwen2", 0, 64, 500),
        ("qwen3", 0, 64, 500),
        ("qwen3", 0, 1, 5000),
        ("qwen3 with adapters", 4 * 24, 1, 5000),
        (HYBRID, 0, 64, 500),
    ] {
        let kernels_planned = cuda.workspace(Work::Steps(24, adapters)) / (64 * (64 << 10));
        let ([kernels, ..], _) = counted(family, sequences, position, STRATEGIES[0]);
        assert!(kernels <= kernels_planned, "{family}: {kernels} and {kernels_planned}");
        assert!(kernels_planned < 2 * kernels, "{family}: {kernels} and {kernels_planned}");
    }
    assert_eq!(cuda.without_replay().workspace(Work::Steps(24, 96)), 0);
}

#[test]
fn the_guide_says_what_a_step_asks_for() {
    has_table("tests/decoding_steps.md", "launches", &table());
}

#[test]
fn the_guide_says_what_a_layer_launches() {
    has_table("tests/decoding_steps.md", "layer", &table_of_layer());
}

/// A launch has at most 65,535 blocks in its second dimension.
#[test]
fn linear_attention_steps_more_sequences_than_that() {
    let cuda = Cuda::new(Arc::new(Counts::default()), Dtype::Bf16);
    let (dim, sequences) = (16, 1 << 16);
    let shape = DeltaRule {
        key_heads: 1,
        value_heads: 1,
        key_dim: dim,
        value_dim: dim,
        taps: 4,
        eps: 1e-6,
    };
    let host = HostBatch {
        tokens: vec![0; sequences],
        runs: (0..sequences).map(|row| Run { row, len: 1, position: 9, pages: 0..0 }).collect(),
        states: (0..sequences as u32).collect(),
        ..HostBatch::default()
    };
    let batch = cuda.upload_batch(&host);
    let activation = |features| cuda.buffer(Role::Activation(sequences, features));
    let of_heads = Role::Weight(Kind::Vector(1));
    let (conv, norm) = (Kind::Matrix(shape.convolution()), Kind::Vector(dim));
    let weights = DeltaWeights {
        conv: &cuda.buffer(Role::Weight(conv)),
        a_log: &cuda.buffer(of_heads),
        dt_bias: &cuda.buffer(of_heads),
        norm: &cuda.buffer(Role::Weight(norm)),
    };
    let mut states = cuda.buffer(Role::Exact(sequences, shape.state()));
    let (mixed, mut out) = (activation(shape.row()), activation(shape.value_features()));
    cuda.hybrid().delta_rule(shape, weights, &mixed, &batch, Some(&mut states), &mut out);
}
