//! The passes of an update of Qwen2.5-7B's shape: docs/guides/gpus.md has this table, and
//! `UPDATE_DOCS=1` writes it there.

use super::cards::{adapters, cuda, demand, layout, memory};
use crate::guide::has_table;
use crate::qwen2::SEVEN;
use isentrope_budget::memory::{Demand, MemorySettings, Plan};
use isentrope_budget::{PassSize, PassTape};
use isentrope_cuda::Dtype;
use isentrope_model::{Layout, TapeKind};

const PROMPT: usize = 256;
const RESPONSE: usize = 512;
/// 16 prompts with 8 responses each.
const RESPONSES: usize = 128;
/// Inputs of a sequence: the last token is a target alone. Two responses behind their prompt would
/// have more than 1024 tokens, so each has a prompt of its own.
const INPUTS: usize = PROMPT + RESPONSE - 1;

/// Work for each token of passes that go forward before the loss, in forward passes; backward
/// counts as two.
fn units(tapes: &[PassTape], blocks: usize) -> f64 {
    let again = |kind| match kind {
        TapeKind::Activations => 0.0,
        TapeKind::LastBlocks(last) => 1.0 - last as f64 / blocks as f64,
        TapeKind::BlockInputs | TapeKind::OffloadedBlockInputs => 1.0,
    };
    let of = |tape: &PassTape| match *tape {
        PassTape::Waiting(kind) => 3.0 + again(kind),
        PassTape::Later(kind) => 4.0 + again(kind),
    };
    tapes.iter().map(of).sum::<f64>() / tapes.len() as f64
}

fn line(layout: &Layout, card: usize, offloads: bool, name: &str) -> String {
    let demand = Demand {
        longest_sampled: PROMPT + RESPONSE,
        sampled: 2 * RESPONSES,
        longest_trained: PROMPT + RESPONSE,
        trained: RESPONSES,
        waiting_tokens: RESPONSES * INPUTS,
        loss_tokens: RESPONSES * RESPONSE,
        activation_slots: 0,
        ..demand(offloads)
    };
    let backend = cuda(card, Dtype::Bf16);
    let settings = MemorySettings { offload_moments: offloads, ..MemorySettings::default() };
    let plan = Plan::new(&backend, layout, demand, &settings, memory(card)).unwrap();
    assert!(plan.peak() <= memory(card) / 10 * 9, "{plan}");
    let each = (plan.micro_batch_tokens / INPUTS).max(1);
    let passes = RESPONSES.div_ceil(each);
    let sizes = |waits| vec![PassSize { tokens: each * INPUTS, waits, is_idle: false }; passes];
    let units = |waits| {
        let tapes = plan.passes().tapes(&backend, layout, &sizes(waits));
        // No pass of an on-policy update goes forward before the loss; no activation is cached.
        units(&tapes, layout.block_count()) - if waits { 0.0 } else { 1.0 }
    };
    format!(
        "| {name} | {card} GB | {passes} of {} | {:.1} | {:.1} |\n",
        each * INPUTS,
        units(false),
        units(true)
    )
}

fn table() -> String {
    let whole = layout(&SEVEN);
    let mut adapted = whole.clone();
    adapted.adapter = Some(adapters(&whole));
    [
        line(&whole, 80, true, "all, moments on the host"),
        line(&whole, 141, true, "all, moments on the host"),
        line(&whole, 141, false, "all, moments on the GPU"),
        line(&adapted, 80, false, "adapters of rank 32"),
        line(&adapted, 141, false, "adapters of rank 32"),
    ]
    .into_iter()
    .fold(
        "| trained | GPU | passes of tokens | first | later |\n|---|---:|---:|---:|---:|\n"
            .to_owned(),
        |table, line| table + &line,
    )
}

#[test]
fn the_guide_says_which_passes_an_update_makes() {
    has_table("../../../docs/guides/gpus.md", "passes", &table());
}
