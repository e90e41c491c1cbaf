//! Which model fits on which GPU: docs/guides/gpus.md has this table, and `UPDATE_DOCS=1` writes it
//! there.

use crate::guide::has_table;
use crate::qwen2::{ALL, HALF, Qwen2, SEVEN, THIRTY_TWO};
use isentrope_budget::memory::MemorySettings;
use isentrope_budget::memory::{Demand, OVERHEAD, ParameterSets, Plan, Shard, TeacherBytes};
use isentrope_cuda::{Cuda, DataSheet, Dtype, PlanningDevice};
use isentrope_kernels::{Backend, Kind, NORM_BLOCK};
use isentrope_model::adapter::{AdapterConfig, Targets};
use isentrope_model::{AdapterLayout, Layout, ModelConfig};
use std::fs;
use std::sync::Arc;

/// GPUs by the GB that their sellers name.
const CARDS: [usize; 3] = [24, 80, 141];
const GIB: usize = 1 << 30;

pub fn layout(model: &Qwen2) -> Layout {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), model.config().to_string()).unwrap();
    Layout::new(&ModelConfig::read(dir.path()).unwrap())
}

/// Adapters beside all linear layers.
pub fn adapters(layout: &Layout) -> AdapterLayout {
    AdapterConfig::new(32, 64.0, false, Targets::AllLinear).layout(layout).unwrap()
}

/// On-policy updates of 64 prompts with 8 responses each: prompts of up to 1024 tokens, responses
/// of up to 4096.
pub fn demand(offloads_moments: bool) -> Demand {
    let (longest, responses) = (1024 + 4096, 64 * 8);
    Demand {
        longest_sampled: longest,
        sampled: responses,
        longest_trained: longest,
        trained: responses,
        waiting_tokens: 0,
        loss_tokens: responses * 4096,
        activation_slots: 64 * (1024 + 8 * 4096),
        kept_tokens: 0,
        scored: 0,
        sets: ParameterSets {
            reference: false,
            reference_is_adapted: false,
            without_reference: "",
            process_model: false,
            shards: 1,
            ranks: 1,
            shard: Shard::Auto,
            offloads_inputs: false,
            offloads_moments,
            may_adapt: false,
            may_link: true,
        },
        process_tokens: 0,
        ..Demand::default()
    }
}

/// Bytes of memory of a GPU that is sold with these GB, as `--gpu-memory` takes them.
pub fn memory(gb: usize) -> usize {
    DataSheet::bytes_of(gb as f64)
}

pub fn cuda(gb: usize, dtype: Dtype) -> Cuda {
    Cuda::new(Arc::new(PlanningDevice { memory: memory(gb) }), dtype)
}

fn plan(
    layout: &Layout,
    gb: usize,
    dtype: Dtype,
    demand: Demand,
) -> isentrope_budget::Result<Plan> {
    let settings = MemorySettings {
        offload_moments: demand.sets.offloads_moments,
        ..MemorySettings::default()
    };
    Plan::new(&cuda(gb, dtype), layout, demand, &settings, memory(gb))
}

#[test]
fn passes_read_two_bytes_of_a_weight_in_bf16_and_four_in_f32() {
    let layout = layout(&SEVEN);
    let weights = layout.parameters.iter().map(|parameter| match parameter.kind {
        Kind::Matrix(shape) => shape.inputs * shape.outputs,
        Kind::Vector(_) => 0,
    });
    // The embedding and the head are two tensors here, and a pass reads only some rows of the
    // embedding.
    let embedding = 152_064 * 3584;
    let weights = weights.sum::<usize>() - embedding;
    for (dtype, bytes) in [(Dtype::Bf16, 2), (Dtype::F32, 4)] {
        let read = layout.read_bytes(&cuda(0, dtype), 1.0);
        let ratio = read / (bytes * weights) as f64;
        assert!((1.0..1.01).contains(&ratio), "{dtype:?}: {ratio}");
    }
}

/// A teacher scores in passes: its head takes no more for an update of more tokens.
#[test]
fn a_teachers_head_is_planned_for_a_pass() {
    let backend = cuda(80, Dtype::Bf16);
    let teacher =
        |trained| TeacherBytes::of(&backend, &layout(&SEVEN), Demand { trained, ..demand(true) });
    assert_eq!(teacher(512), teacher(8));
}

/// One line a model and a way to keep its numbers: the least memory, and for each card the tokens
/// of keys and values that sampling has room for.
fn table() -> String {
    let mut table = String::from(
        "| Qwen2.5 | numbers, moments | needs at least | 24 GB | 80 GB | 141 GB |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    for shape in &ALL {
        let whole = layout(shape);
        let mut adapted = whole.clone();
        adapted.adapter = Some(adapters(&whole));
        for (layout, dtype, demand, name) in [
            (&whole, Dtype::F32, demand(false), "f32, on the GPU"),
            (&whole, Dtype::F32, demand(true), "f32, on the host"),
            (&whole, Dtype::Bf16, demand(false), "bf16, on the GPU"),
            (&whole, Dtype::Bf16, demand(true), "bf16, on the host"),
            (&adapted, Dtype::Bf16, demand(false), "bf16, adapters of rank 32"),
        ] {
            let backend = cuda(0, dtype);
            // A run may take nine tenths of a card.
            let least = Plan::least(&backend, layout, demand) as f64 / 0.9 / GIB as f64;
            let page = layout.cache_page_bytes(&backend) / 16;
            let cells = CARDS.map(|card| match plan(layout, card, dtype, demand) {
                Ok(plan) => format!("{:.0} k", (plan.kv_cache / page) as f64 / 1e3),
                Err(_) => "no".into(),
            });
            table +=
                &format!("| {} | {name} | {least:.1} GiB | {} |\n", shape.name, cells.join(" | "));
        }
    }
    table
}

#[test]
fn the_guide_says_what_fits_on_which_card() {
    has_table("../../../docs/guides/gpus.md", "plans", &table());
}

/// One line a model and a way to keep its moments, of one of eight ranks with bf16 and a shard
/// each: bytes of weights, gradient and moments, the least memory, and for each card the tokens of
/// keys and values that a rank has room for.
fn table_of_ranks() -> String {
    let mut table = String::from(
        "| Qwen2.5 | moments | weights | gradient | moments | needs at least | 80 GB | 141 GB |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for shape in ALL.iter().filter(|shape| shape.billions > 7.0) {
        let layout = layout(shape);
        for (offloads, name) in [(false, "on the GPU"), (true, "on the host")] {
            let all = demand(offloads);
            let sets = ParameterSets { ranks: 8, ..all.sets };
            let activation_slots = all.activation_slots / 8;
            let demand = Demand { sets, activation_slots, ..all };
            let backend = cuda(0, Dtype::Bf16);
            let gib = |bytes: usize| bytes as f64 / GIB as f64;
            let [weights, gradient, moments] = sets.bytes(&backend, &layout).map(gib);
            let moments = moments + gib(sets.host_bytes(&backend, &layout));
            let least = gib(Plan::least(&backend, &layout, demand)) / 0.9;
            let page = layout.cache_page_bytes(&backend) / 16;
            let cells = [80, 141].map(|card| match plan(&layout, card, Dtype::Bf16, demand) {
                Ok(plan) => format!("{:.0} k", (plan.kv_cache / page) as f64 / 1e3),
                Err(_) => "no".into(),
            });
            table += &format!(
                "| {} | {name} | {weights:.1} | {gradient:.1} | {moments:.1} | {least:.1} GiB | \
                 {} |\n",
                shape.name,
                cells.join(" | ")
            );
        }
    }
    table
}

#[test]
fn the_guide_says_what_fits_on_eight_ranks() {
    has_table("../../../docs/guides/gpus.md", "eight_ranks", &table_of_ranks());
}

/// The demand of one of `ranks` ranks with a shard each.
fn of_rank(ranks: usize, shard: Shard, offloads_moments: bool) -> Demand {
    let all = demand(offloads_moments);
    let sets = ParameterSets { ranks, shard, ..all.sets };
    Demand { sets, activation_slots: all.activation_slots / ranks, ..all }
}

/// One line a model and a number of ranks, with a shard each: bytes of the gradient and the least
/// memory, by what the ranks share; and with moments on the host the least memory, also if they
/// share weights, and the host's.
fn table_of_shared_gradients() -> String {
    let mut table = String::from(
        "| Qwen2.5 | ranks | gradient: whole | in slices | needs at least: whole | in slices | \
         and moments on the host | and weights in slices | of the host: block inputs | moments \
         |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let backend = cuda(0, Dtype::Bf16);
    let gib = |bytes: usize| bytes as f64 / GIB as f64;
    for shape in ALL.iter().filter(|shape| shape.billions > 7.0) {
        let layout = layout(shape);
        for ranks in [8, 32, 128] {
            let least = |demand: Demand| Plan::least(&backend, &layout, demand);
            let [whole, slices] = [Shard::Optimizer, Shard::Gradients].map(|shard| {
                let demand = of_rank(ranks, shard, false);
                [demand.sets.bytes(&backend, &layout)[1], least(demand)].map(gib)
            });
            let offloading = of_rank(ranks, Shard::Gradients, true);
            let weights = gib(least(of_rank(ranks, Shard::Weights, true)));
            let least = least(offloading);
            let settings =
                MemorySettings { budget_gib: Some(gib(least)), ..MemorySettings::default() };
            let plan = Plan::new(&backend, &layout, offloading, &settings, 0).unwrap();
            table += &format!(
                "| {} | {ranks} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | \
                 {:.0} | {:.0} |\n",
                shape.name,
                whole[0],
                slices[0],
                whole[1] / 0.9,
                slices[1] / 0.9,
                gib(least) / 0.9,
                weights / 0.9,
                gib(plan.host_inputs),
                gib(plan.host_moments)
            );
        }
    }
    table
}

#[test]
fn the_guide_says_what_fits_with_gradients_in_slices() {
    let guide = "../../../docs/guides/several-machines.md";
    has_table(guide, "gradients_in_slices", &table_of_shared_gradients());
}

/// With bf16: 2 + 2 bytes of a weight, 4 of its gradient, 8 of its moments; behind a matrix 16 rows
/// of gradients by outputs and 32 of inputs, 2 bytes a number. No dimension of these models wants
/// padding.
#[test]
fn a_parameter_takes_sixteen_bytes_and_a_matrix_the_tokens_that_wait() {
    for shape in &ALL {
        let (layout, backend) = (layout(shape), cuda(141, Dtype::Bf16));
        let (mut numbers, mut waiting, mut parameters) = (0, 0, 0);
        for parameter in layout.parameters.iter() {
            numbers += match parameter.kind {
                Kind::Vector(len) => len,
                Kind::Matrix(matrix) => {
                    waiting += 32 * (matrix.outputs + 2 * matrix.inputs);
                    matrix.outputs * matrix.inputs
                }
            };
            parameters += 1;
        }
        let billions = numbers as f64 / 1e9;
        assert!(
            (billions / shape.billions - 1.0).abs() < 0.01,
            "{}: {billions} billion weights",
            shape.name
        );
        let sets: usize = demand(false).sets.bytes(&backend, &layout).into_iter().sum();
        assert_eq!(sets, 16 * numbers + waiting, "{}", shape.name);
        // A matrix and its tail each begin at a multiple of 16 bytes. If there are several ranks, a
        // rank has whole blocks.
        assert!(waiting < numbers / 15 && parameters > 100, "{}: {waiting} bytes wait", shape.name);
        let sets = ParameterSets { ranks: 8, ..demand(false).sets };
        let [weights, _, moments] = sets.bytes(&backend, &layout);
        let rounding = NORM_BLOCK * (1 + parameters / 8);
        assert!(moments.abs_diff(numbers) <= 8 * rounding, "{moments} of {numbers}");
        // Operations read 2 of a weight's 4 bytes; a rank keeps the other 2 of its share alone.
        let of_rank = 2 * numbers + numbers / 4;
        assert!(weights.abs_diff(of_rank) <= 2 * rounding + 16 * parameters, "{weights}");
        // Beside adapters, a frozen weight takes 2 bytes, and so do all that share it.
        let mut adapted = layout.clone();
        adapted.adapter = Some(adapters(&layout));
        let sets = ParameterSets { reference: true, process_model: true, ..demand(false).sets };
        let [weights, gradients, moments] = sets.bytes(&backend, &adapted);
        let list = adapted.trained();
        let trained: usize = list.numbers(&backend).sum();
        assert_eq!((weights, moments), (2 * numbers + 2 * 4 * trained, 2 * 8 * trained));
        let tails = list.len() * 32 * (3 * 37_888 + 64);
        assert!((2 * 4 * trained..=2 * (8 * trained + 2 * tails)).contains(&gradients));
        assert!(trained < numbers / 15, "{}: {trained} of {numbers}", shape.name);
        // Only the moments are offloaded.
        let offloaded = demand(true).sets;
        let [weights, gradient, moments] = offloaded.bytes(&backend, &layout);
        assert_eq!((weights + gradient, moments), (8 * numbers + waiting, 0));
        assert_eq!(offloaded.host_bytes(&backend, &layout), 8 * numbers);
    }
}

/// 32 billion weights on four machines of eight GPUs of 80 GB, which have 79.6 GiB: the inputs of
/// 64 blocks, of 5120 numbers for each of the rank's 87,040 tokens, wait on the host.
#[test]
fn thirty_two_billion_weights_fit_32_gpus_of_80_gb() {
    let layout = layout(&THIRTY_TWO);
    let demand = of_rank(32, Shard::Auto, true);
    let backend = cuda(80, Dtype::Bf16);
    let settings = MemorySettings {
        budget_gib: Some(76.0),
        offload_moments: true,
        ..MemorySettings::default()
    };
    let plan = Plan::new(&backend, &layout, demand, &settings, memory(80)).unwrap();
    assert!(plan.by_layer && plan.passes().offloads_inputs, "{plan}");
    assert!(plan.peak() <= 76 * GIB && memory(80) - plan.peak() > 3 * GIB, "{plan}");
    let inputs = 64 * 2 * 5120 * 87_040;
    assert!((inputs..inputs + inputs / 20).contains(&plan.host_inputs), "{plan}");
    assert!(plan.host_inputs.is_multiple_of(backend.host_slab()), "memory is locked in slabs");
    assert!(plan.to_string().contains("in the host's memory, "), "{plan}");
    let host = plan.host_inputs + plan.host_moments + plan.host_program;
    plan.check_host(host).unwrap();
    plan.check_host(host - 1).unwrap_err();
}

/// On one machine of eight: what all ranks hold of the weights while an update learns has the place
/// of whole ones while they sample.
#[test]
fn thirty_two_billion_weights_fit_8_gpus_of_80_gb() {
    let layout = layout(&THIRTY_TWO);
    let backend = cuda(80, Dtype::Bf16);
    let settings = MemorySettings {
        budget_gib: Some(76.0),
        offload_moments: true,
        ..MemorySettings::default()
    };
    let plan = |shard| Plan::new(&backend, &layout, of_rank(8, shard, true), &settings, memory(80));
    plan(Shard::Gradients).unwrap_err();
    let plan = plan(Shard::Auto).unwrap();
    assert!(plan.by_layer && plan.passes().weights_in_slices && plan.is_tight(), "{plan}");
    assert!(plan.peak() <= 76 * GIB, "{plan}");
    let numbers: usize = layout.trained().numbers(&backend).sum();
    // Exact in an eighth; what operations read of the rest; a gradient of f32 in an eighth, and
    // layers.
    let slice = 4 * numbers / 8;
    assert!(plan.weights.abs_diff(slice) < slice / 100, "{plan}");
    assert!((plan.weights + plan.whole).abs_diff(2 * numbers + 2 * numbers / 8) < slice / 100);
    assert!((slice + 5 * GIB..slice + 7 * GIB).contains(&plan.gradient), "{plan}");
    // The head in f32, while it is loaded beside what is whole.
    assert!(plan.changing >= 4 * 152_064 * 5120, "{}", plan.changing);
    assert!(plan.to_string().contains("GiB in slices while an update learns)"), "{plan}");
}

/// From the least budget on, the tokens of a pass are chosen so that they fit.
#[test]
fn every_budget_from_the_least_on_has_a_plan_with_inputs_on_the_host() {
    let layout = layout(&THIRTY_TWO);
    for (dtype, shard) in [
        (Dtype::Bf16, Shard::Gradients),
        (Dtype::Bf16, Shard::Weights),
        (Dtype::F32, Shard::Gradients),
    ] {
        let (backend, demand) = (cuda(80, dtype), of_rank(32, shard, true));
        let least = Plan::least(&backend, &layout, demand);
        for more in (0..4 * GIB).step_by(16 << 20) {
            let budget_gib = Some((least + more) as f64 / GIB as f64);
            let settings = MemorySettings { budget_gib, ..MemorySettings::default() };
            let plan = Plan::new(&backend, &layout, demand, &settings, 0).unwrap();
            assert!(plan.host_inputs > 0 && plan.peak() <= least + more, "{plan}");
        }
    }
}

#[test]
fn a_refusal_names_what_would_fit() {
    let seven = layout(&SEVEN);
    let said = |gib, dtype, demand| plan(&seven, gib, dtype, demand).unwrap_err().to_string();
    // 7.6 billion weights of 16 bytes do not fit 72 GiB; without their moments they do.
    let offered = said(80, Dtype::Bf16, demand(false));
    assert!(offered.contains("; memory.offload_moments = true ("), "{offered}");
    let ranks = offered.split(" ranks and shards ").next().and_then(|said| said.rsplit(' ').next());
    let ranks: usize = ranks.and_then(|ranks| ranks.parse().ok()).expect(&offered);
    let of = |ranks| plan(&seven, 80, Dtype::Bf16, of_rank(ranks, Shard::Auto, false));
    assert!(of(ranks).is_ok() && of(ranks / 2).is_err(), "{offered}");
    let least = Plan::least(&cuda(80, Dtype::Bf16), &seven, demand(true));
    assert!(least > 57 * GIB && least < 72 * GIB, "{least}");
    plan(&seven, 80, Dtype::Bf16, demand(true)).unwrap();
    // In f32 nothing is enough for 24 GB.
    let lower = said(24, Dtype::F32, demand(false));
    assert!(lower.contains("; it would need less with memory.offload_moments = true ("), "{lower}");
    // The very least is enough, and a byte less is not.
    let budget = |bytes: usize| MemorySettings {
        budget_gib: Some(bytes as f64 / GIB as f64),
        ..Default::default()
    };
    let made = |bytes| Plan::new(&cuda(80, Dtype::Bf16), &seven, demand(true), &budget(bytes), 0);
    assert!(made(least).unwrap().peak() <= least);
    made(least - 1).unwrap_err();
    // The host must have the memory for offloaded moments.
    let plan = made(70 * GIB).unwrap();
    assert!(plan.to_string().contains("GiB in the host's memory; "), "{plan}");
    plan.check_host(60 * GIB).unwrap();
    let refused = plan.check_host(50 * GIB).unwrap_err().to_string();
    assert!(refused.starts_with("memory.offload_moments asks for 56.7 GiB"), "{refused}");
    // And without offloading, the program: its loss, the tokens that truncated sampling keeps, and
    // the embedding when it is saved.
    let kept = Demand { kept_tokens: 3 * GIB, loss_tokens: 1 << 20, ..demand(false) };
    let half = layout(&HALF);
    assert_eq!((half.loading_bytes(), half.saving_bytes()), (8 * 256 * 4864, 4 * 151_936 * 896));
    let plan = self::plan(&half, 80, Dtype::Bf16, kept).unwrap();
    plan.check_host(4 * GIB).unwrap();
    let refused = plan.check_host(3 * GIB).unwrap_err().to_string();
    assert!(refused.starts_with("the run needs 3895 MiB of the host's memory"), "{refused}");
    assert!(plan.peak() > OVERHEAD + plan.weights + plan.gradient);
}

/// Moments on the host and more than nine tenths of the GPU, together or with more ranks: a plan
/// with the settings that are named fits.
#[test]
fn a_refusal_names_settings_that_fit_together() {
    let layout = layout(&THIRTY_TWO);
    let backend = cuda(80, Dtype::Bf16);
    let plan = |demand, settings: &MemorySettings, memory| {
        Plan::new(&backend, &layout, demand, settings, memory)
    };
    let refused = |ranks, offloads, memory| {
        let demand = of_rank(ranks, Shard::Auto, offloads);
        plan(demand, &MemorySettings::default(), memory).unwrap_err().to_string()
    };
    let both = "memory.offload_moments = true and memory.budget_gib = ";
    let said = refused(8, false, memory(80));
    let named = said.split(&format!("to load and save a parameter; {both}")).nth(1);
    let named = named.and_then(|rest| rest.split(' ').next()).expect(&said);
    let budget_gib = Some(named.parse().unwrap());
    let settings = MemorySettings { budget_gib, ..MemorySettings::default() };
    let made = plan(of_rank(8, Shard::Auto, true), &settings, memory(80)).unwrap();
    assert!(made.peak() < memory(80) - 2 * GIB && made.peak() > memory(80) / 10 * 9, "{made}");
    // Fewer ranks are too few, whatever else is set.
    let of_four = refused(4, false, memory(80));
    let ranks = "8 ranks and shards for them (update.shards, sft.shards)";
    let ranks = format!("; {ranks} with {both}{named} (");
    assert!(of_four.contains(&ranks), "{of_four}");
    // The budget alone, as far as the GPU's driver and libraries have room beside it.
    let least = Plan::least(&backend, &layout, of_rank(8, Shard::Auto, true));
    let alone = format!("; memory.budget_gib = {named} (");
    let [fits, does_not] = [96, 98].map(|part| refused(8, true, least / part * 100));
    assert!(fits.contains(&alone), "{fits}");
    assert!(!does_not.contains("; memory.budget_gib = "), "{does_not}");
    // The shards of fewer ranks are enough, and more ranks have fewer sums of them.
    let sets = ParameterSets { shards: 4, ..of_rank(8, Shard::Auto, false).sets };
    let demand = Demand { sets, ..of_rank(8, Shard::Auto, false) };
    let said = plan(demand, &MemorySettings::default(), memory(80)).unwrap_err().to_string();
    assert!(said.contains(", or 16 ranks with memory.offload_moments = true ("), "{said}");
    // Before the data are known, the largest budget is named, whatever the rest needs.
    let alone = |offloads| {
        let (sets, settings) = (of_rank(32, Shard::Auto, offloads).sets, MemorySettings::default());
        Plan::check_model(&backend, &layout, sets, &settings, memory(80))
    };
    let said = alone(false).unwrap_err().to_string();
    let end =
        ", or memory.offload_moments = true if the rest does; memory.budget_gib may be up to ";
    let most: f64 = said.split(end).nth(1).expect(&said).parse().unwrap();
    let percent = most * GIB as f64 / memory(80) as f64 * 100.0;
    assert!(alone(true).is_ok() && (96.8..=97.0).contains(&percent), "{said}");
}
