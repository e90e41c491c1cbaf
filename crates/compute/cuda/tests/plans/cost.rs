//! Predicted seconds of a step on several GPUs: docs/guides/several-machines.md has this table, and
//! `UPDATE_DOCS=1` writes it there.

use super::cards::{cuda, demand, layout, memory};
use crate::guide::has_table;
use crate::qwen2::{Qwen2, SEVEN, THIRTY_TWO};
use isentrope_budget::memory::{Demand, MemorySettings, ParameterSets, Plan};
use isentrope_cuda::Dtype;

/// One H200, docs/guides/gpus.md: forward and backward, tokens of 7B per second.
const PASSES: f64 = 8810.0;
/// The same: of the 4.8 TB/s of its memory, attention reads keys and values with 0.49 TB/s, and
/// 172 decoding steps a second of 16 sequences of 7B take the rest of their time for 14.1 GB of
/// weights.
const OF_KEYS: f64 = 0.10;
const OF_WEIGHTS: f64 = 0.56;
/// Data sheets of an H100, bytes per second, each way, and 400 Gbit/s of network for each GPU.
const MEMORY: f64 = 3.35e12;
const NVLINK: f64 = 450e9;
const PCIE: f64 = 64e9;
const NETWORK: f64 = 50e9;

/// A step of recipes/qwen2.5-{7b,32b}-grpo.toml, with prompts of this many tokens.
const RESPONSES: f64 = 2048.0;
const UPDATES: f64 = 8.0;
const PROMPT: f64 = 256.0;

/// A line for each length of all responses: seconds of a step by kind, one after the other.
fn lines(shape: &Qwen2, ranks: usize, budget_gib: Option<f64>) -> String {
    let (layout, backend) = (layout(shape), cuda(80, Dtype::Bf16));
    let offload_moments = budget_gib.is_some();
    let all = demand(offload_moments);
    let demand = Demand {
        longest_sampled: 10_240,
        longest_trained: 10_240,
        sampled: 2048 / ranks,
        trained: 256,
        sets: ParameterSets { ranks, shards: 1, ..all.sets },
        ..all
    };
    let settings = MemorySettings { budget_gib, offload_moments, ..MemorySettings::default() };
    let plan = Plan::new(&backend, &layout, demand, &settings, memory(80)).unwrap();
    let weights: f64 = layout.trained().numbers(&backend).map(|count| count as f64).sum();
    let token = (layout.cache_page_bytes(&backend) / 16) as f64;
    let count = ranks as f64;
    // Halvings are with rank^1, rank^2, ...: a machine has eight ranks.
    let within = 1.0 - 1.0 / count.min(8.0);
    let between = 1.0 - 1.0 / count - within;
    let exchange = |bytes: f64| bytes * weights * (within / NVLINK + between / NETWORK) * UPDATES;
    let line = |length: f64| {
        let texts = RESPONSES / count;
        let at_once = (plan.kv_cache as f64 / (token * (PROMPT + length))).min(texts);
        let keys = at_once * (PROMPT + length / 2.0) * token;
        let read = layout.read_bytes(&backend, 1.0);
        let step = read / (OF_WEIGHTS * MEMORY) + keys / (OF_KEYS * MEMORY);
        let sampling = length * texts / at_once * step;
        // Forward once more: 4 thirds of a forward and a backward pass.
        let tokens = texts * (PROMPT + length);
        let passes = tokens * 4.0 / 3.0 / (PASSES * SEVEN.billions / shape.billions);
        let moments = if offload_moments { UPDATES * 16.0 * weights / count } else { 0.0 };
        let inputs = 2 * 2 * shape.layers * shape.hidden * usize::from(plan.host_inputs > 0);
        let host = (moments + tokens * inputs as f64) / PCIE;
        // Weights in slices come for both ways of an update, and whole once before sampling.
        let times = if plan.slice > 0 { 2.0 + 1.0 / UPDATES } else { 1.0 };
        let [gradients, shared] = [4.0, 2.0 * times].map(exchange);
        let sum = sampling + passes + host + gradients + shared;
        format!(
            "| {}, {ranks} GPUs | {length} | {at_once:.0} | {sampling:.0} | {passes:.0} | \
             {gradients:.1} | {shared:.1} | {host:.1} | {:.1} |\n",
            shape.name,
            sum / 60.0
        )
    };
    [1024.0, 8192.0].map(line).concat()
}

#[test]
fn the_guide_predicts_what_a_step_costs() {
    let heading = "| Qwen2.5 | tokens of each response | at once | sampling | passes | \
                   gradients | weights | host and GPU | a step, minutes |\n\
                   |---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    let runs = [(&SEVEN, 8, None), (&THIRTY_TWO, 8, Some(77.0)), (&THIRTY_TWO, 32, Some(77.0))];
    let table = runs.map(|(shape, ranks, budget_gib)| lines(shape, ranks, budget_gib)).concat();
    has_table("../../../docs/guides/several-machines.md", "cost", &format!("{heading}{table}"));
}
