//! Runs on several ranks, which are threads with an emulated device each: the same bytes on any
//! number of them, in the memory that the plan of one of them says.

use super::MOMENT;
use super::runs::{Watcher, emulated, imitation, last, location, model_of};
use isentrope_budget::memory::{OVERHEAD, Plan, Shard};
use isentrope_cuda::Dtype;
use isentrope_data::TaskName;
use isentrope_ranks::threads::worlds;
use isentrope_ranks::{Settings, Watch, World};
use isentrope_train::rl;
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// The least memory that a run is planned for.
#[derive(Clone, Copy, PartialEq)]
enum Least {
    /// All plans count.
    OfAll,
    /// Only plans count whose block inputs wait on the device.
    OnDevice,
}

/// Makes or continues a run on `ranks` ranks whose devices have no more memory than the least plan
/// says; returns that plan.
fn run<R: TrainingRecipe>(
    recipe: impl Fn() -> R + Sync,
    model: &Path,
    out: &Path,
    dtype: Dtype,
    ranks: usize,
    least: Least,
) -> Plan {
    let prepare = |budget: Option<usize>| {
        let mut values = serde_json::to_value(recipe()).unwrap();
        if let Some(bytes) = budget {
            values["memory"]["budget_gib"] = json!(bytes as f64 / f64::from(1 << 30));
        }
        let mut recipe: R = serde_json::from_value(values).unwrap();
        recipe.resolve().unwrap();
        recipe.prepare(model, ranks, &()).unwrap()
    };
    let roomy = emulated(1 << 30, dtype);
    let plan = |budget| prepare(Some(budget)).plan(&roomy, 0).unwrap();
    let mut budget = prepare(None).least(&roomy);
    if least == Least::OnDevice && plan(budget).host_inputs > 0 {
        let mut enough = 1 << 30;
        while enough - budget > 1 {
            let between = budget.midpoint(enough);
            let is_enough = plan(between).host_inputs == 0;
            *(if is_enough { &mut enough } else { &mut budget }) = between;
        }
        budget = enough;
    }
    let plan = plan(budget);
    assert!(plan.is_tight(), "{plan}");
    let place = RunLocation { existing: Existing::Resume, ..location(out, "run") };
    let settings = Settings {
        threads: 1,
        program: "isentrope of a test".into(),
        watch: Watch { silent: None, ..Watch::default() },
        tell: Arc::new(|_| {}),
    };
    let worlds = match ranks {
        1 => vec![World::alone()],
        _ => worlds(ranks, &settings).unwrap().0,
    };
    let act = |world: World| {
        let device = Arc::new(emulated(plan.peak() - OVERHEAD + MOMENT, dtype));
        let (world, watcher) = (Arc::new(world), &mut Watcher::default());
        train(prepare(Some(budget)), &plan, &place, world, device, json!({}), watcher).map(drop)
    };
    thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> =
            worlds.into_iter().map(|world| scope.spawn(move || act(world))).collect();
        threads.into_iter().for_each(|rank| rank.join().unwrap().unwrap());
    });
    plan
}

/// The weights and moments of the last checkpoint, by name.
fn saved(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![last(out)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "safetensors") {
                let name = path.strip_prefix(last(out)).unwrap().display().to_string();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Compares runs with a run of one rank. A run makes each of its steps on another number of ranks,
/// which share what the recipe says.
///
/// Returns the bytes of block inputs in the host's memory of each run's first step.
fn check<R: TrainingRecipe>(
    recipe: impl Fn(usize) -> R + Sync,
    model: &Path,
    out: &Path,
    dtype: Dtype,
    runs: &[&[usize]],
    least: Least,
) -> Vec<usize> {
    let whole = out.join("whole");
    let alone = run(|| recipe(runs[0].len()), model, &whole, dtype, 1, least);
    let want = saved(&whole);
    assert!(want.len() > 1, "weights and moments");
    let mut host_inputs = Vec::new();
    let shard = recipe(1).tables().ranks.shard;
    assert_ne!(shard, Shard::Auto, "a plan would choose");
    for counts in runs {
        let out = out.join(format!("{counts:?}"));
        for (step, &ranks) in counts.iter().enumerate() {
            let plan = run(|| recipe(step + 1), model, &out, dtype, ranks, least);
            if step == 0 {
                host_inputs.push(plan.host_inputs);
            }
            assert_eq!(plan.by_layer, ranks > 1 && shard != Shard::Optimizer, "{plan}");
            assert_eq!(plan.slice > 0, ranks > 1 && shard == Shard::Weights, "{plan}");
            let is_less = ranks > 1 && (dtype == Dtype::Bf16 || plan.slice > 0);
            assert_eq!(plan.weights < alone.weights, is_less, "{plan}");
        }
        assert!(saved(&out) == want, "{dtype:?}, on {counts:?} ranks");
    }
    host_inputs
}

/// A tiny model. Its head is the embedding, unless ranks of several shards are to share gradients.
fn model(dir: &Path, shards: usize, shard: Shard, runs: &[&[usize]]) {
    let has_one_shard = runs.iter().copied().flatten().all(|&ranks| ranks == shards);
    let is_tied = shard == Shard::Optimizer || has_one_shard;
    model_of(dir, json!({ "tie_word_embeddings": is_tied }));
}

/// Imitation with checkpoints whose model files are rounded, beside exact weights.
fn imitating(
    dtype: Dtype,
    shards: usize,
    shard: Shard,
    runs: &[&[usize]],
    least: Least,
) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), shards, shard, runs);
    let recipe = |steps: usize| {
        let mut recipe = imitation(dir.path(), steps as u64, 1);
        recipe.sft.shards = Some(shards);
        recipe.sft.batch = shards;
        recipe.ranks.shard = shard;
        recipe.checkpoint.dtype = isentrope_train::settings::Dtype::Bfloat16;
        recipe
    };
    check(recipe, dir.path(), dir.path(), dtype, runs, least)
}

#[test]
fn ranks_in_bf16_have_one_ranks_bytes_and_keep_only_their_own_remainders() {
    imitating(Dtype::Bf16, 2, Shard::Optimizer, &[&[2]], Least::OfAll);
}

/// Slices of the gradient, and the inputs of blocks in the host's memory.
#[test]
fn ranks_whose_block_inputs_wait_on_the_host_have_one_ranks_bytes() {
    let host = imitating(Dtype::Bf16, 2, Shard::Gradients, &[&[2]], Least::OfAll);
    assert!(host[0] > 0);
}

/// Slices of the weights too: whole ones for evaluations and checkpoints.
#[test]
fn ranks_with_slices_of_the_weights_have_one_ranks_bytes_in_the_memory_of_their_plan() {
    imitating(Dtype::Bf16, 2, Shard::Weights, &[&[2]], Least::OfAll);
}

#[test]
#[ignore = "deep: many runs on the emulator"]
fn ranks_with_slices_have_one_ranks_bytes_in_the_memory_of_their_plan() {
    for dtype in [Dtype::Bf16, Dtype::F32] {
        let on_device = imitating(dtype, 4, Shard::Gradients, &[&[4, 4]], Least::OnDevice);
        assert_eq!(on_device, [0]);
        let host = imitating(dtype, 4, Shard::Gradients, &[&[4, 4]], Least::OfAll);
        assert!(host[0] > 0);
        imitating(dtype, 4, Shard::Weights, &[&[4, 4], &[1, 4]], Least::OfAll);
    }
}

#[test]
#[ignore = "deep: many runs on the emulator"]
fn any_number_of_ranks_makes_the_same_bytes() {
    let shards = [Shard::Optimizer, Shard::Gradients, Shard::Weights];
    let kinds = [Dtype::Bf16, Dtype::F32].into_iter();
    for (dtype, shard) in kinds.flat_map(|dtype| shards.map(|shard| (dtype, shard))) {
        let runs: &[&[usize]] = match dtype {
            Dtype::Bf16 => &[&[8, 4], &[4, 2], &[2, 1], &[1, 8]],
            Dtype::F32 => &[&[8, 4], &[1, 8]],
        };
        imitating(dtype, 8, shard, runs, Least::OfAll);
        // With a process model, which is trained as well, beside a reference: each type and each
        // way once, but for slices of weights, which such a run refuses.
        let with_model = [(Dtype::Bf16, Shard::Gradients), (Dtype::F32, Shard::Optimizer)];
        if !with_model.contains(&(dtype, shard)) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let runs: [&[usize]; 3] = [&[1, 4], &[4, 2], &[2, 1]];
        model(dir.path(), 4, shard, &runs);
        let first = || imitation(dir.path(), 1, 1);
        run(first, dir.path(), &dir.path().join("first"), dtype, 1, Least::OfAll);
        let base = last(&dir.path().join("first"));
        let recipe = |steps: usize| {
            let mut values = serde_json::to_value(rl::Recipe::default()).unwrap();
            values["objective"]["advantage"] = json!("prime");
            let mut recipe: rl::Recipe = serde_json::from_value(values).unwrap();
            recipe.model.path = base.display().to_string();
            recipe.data.task = Some(TaskName::Countdown);
            recipe.rollout.filter = false;
            (recipe.rollout.prompts, recipe.rollout.responses) = (4, 2);
            recipe.rollout.max_tokens = 12;
            (recipe.run.steps, recipe.eval.every) = (steps as u64, 1);
            (recipe.eval.problems, recipe.eval.samples) = (Some(1), Some(1));
            recipe.eval.max_tokens = Some(4);
            recipe.update.shards = Some(4);
            recipe.ranks.shard = shard;
            recipe
        };
        check(recipe, &base, dir.path(), dtype, &runs, Least::OfAll);
    }
}
