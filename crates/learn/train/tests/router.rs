//! The use of a mixture's experts, as updates measure it.

use crate::learner::{
    ALL, NONE, SILENT, TEMPERATURE, accumulate, against_the_mean, learner, masks, on_policy,
    sample, sequences, tokens, weights,
};
use crate::ranks::{self, on_ranks};
use crate::support::{limits, model};
use isentrope_budget::PassLimits;
use isentrope_budget::time::Speeds;
use isentrope_data::TaskName;
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::checkpoint::{WeightDtype, WriteOptions, Writer};
use isentrope_model::{Model, Packed, RouterBalance, RouterUse, Sequence};
use isentrope_ranks::World;
use isentrope_train::learner::{Coefficients, Learner, OnPolicy, UpdateBatch};
use isentrope_train::metrics::{Metrics, ROUTER_METRICS};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::{rl, sft};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FAMILIES: [&str; 3] = ["olmoe", "qwen3-moe", "qwen3.5-moe"];

fn batch<'a>(
    sequences: &'a [Sequence<'a>],
    masks: &'a isentrope_kernels::SamplingMasks,
    on_policy: &'a [Option<OnPolicy<'a>>],
) -> UpdateBatch<'a> {
    UpdateBatch {
        sequences,
        masks,
        idle: &SILENT,
        on_policy,
        temperature: TEMPERATURE,
        teacher: None,
    }
}

/// The choices of each expert in each block by the rows that predict the targets of sequences with
/// derivatives, each sequence by itself.
fn counted_alone(name: &str, sequences: &[Sequence<'_>]) -> Vec<Vec<u64>> {
    let model = model(name, 1);
    let router = model.config.experts.unwrap();
    let mut counts = vec![vec![0; router.experts]; model.config.layers];
    for (sequence, _) in sequences.iter().zip(SILENT).filter(|(_, silent)| !silent) {
        let routes = model.routes(&Packed::new(std::slice::from_ref(sequence)));
        for (counts, routes) in counts.iter_mut().zip(routes) {
            let rows = sequence.score_from - 1..sequence.tokens.len() - 1;
            let choices = rows.start * router.chosen..rows.end * router.chosen;
            routes.experts[choices].iter().for_each(|&expert| counts[expert as usize] += 1);
        }
    }
    counts
}

#[test]
fn tokens_with_a_gradient_are_counted_once_however_passes_are_made() {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    for name in FAMILIES {
        let mut first: Option<RouterUse> = None;
        for micro_batch_tokens in [1, 40, 1000] {
            for (sampled, cached) in [(NONE, NONE), (ALL, NONE), (ALL, ALL)] {
                let limits = PassLimits { micro_batch_tokens, ..limits(0) };
                let limits = PassLimits { activation_slots: 200, ..limits };
                let mut learner = learner(model(name, 2), limits);
                let slots = sample(&mut learner, &sequences);
                let on_policy = on_policy(&learner, &sequences, sampled, cached, &slots);
                accumulate(&mut learner, batch(&sequences, &masks, &on_policy)).unwrap();
                let found = learner.take_router_use().unwrap().unwrap();
                assert_eq!(found, *first.get_or_insert_with(|| found.clone()));
                assert_eq!(learner.take_router_use().unwrap(), Some(RouterUse::default()));
            }
        }
        let found = first.unwrap();
        let counts = counted_alone(name, &sequences);
        let json = serde_json::to_value(&found).unwrap();
        for (block, counts) in json["blocks"].as_array().unwrap().iter().zip(&counts) {
            assert_eq!(block["choices"], serde_json::json!(counts), "{name}");
        }
        let loads = counts.iter().map(|of_block| {
            let mean = of_block.iter().sum::<u64>() as f64 / of_block.len() as f64;
            *of_block.iter().max().unwrap() as f64 / mean
        });
        let largest = loads.fold(0.0, f64::max);
        let unused = counts.concat().iter().filter(|&&count| count == 0).count();
        let mut metrics = Metrics::default();
        metrics.set_router_use(Some(&found));
        let [entropy, load, without] = ROUTER_METRICS.map(|name| metrics.get(name).unwrap());
        assert!((load - largest).abs() < 1e-12 && load > 1.0, "{load} {largest}");
        assert_eq!(without, unused as f64 / counts.concat().len() as f64);
        assert!(entropy > 0.1 && entropy < (counts[0].len() as f64).ln(), "{entropy}");
    }
}

#[test]
fn every_rank_has_the_use_of_all() {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    let used = |world: Arc<World>| {
        let mut learner = ranks::learner(model("olmoe", 1), world, 4);
        let none = vec![None; sequences.len()];
        accumulate(&mut learner, batch(&sequences, &masks, &none)).unwrap();
        learner.step(1e-3).unwrap();
        learner.take_router_use().unwrap()
    };
    let alone = used(Arc::new(World::alone()));
    assert!(alone.as_ref().is_some_and(|of| of.entropy().is_some()));
    for count in [2, 4] {
        assert!(on_ranks(count, used).iter().all(|of_rank| *of_rank == alone), "{count} ranks");
    }
}

/// The slopes of a load-balancing loss beside other derivatives, and the trained weights after an
/// update by them.
fn balanced(learner: &mut Learner, batch: UpdateBatch<'_>) -> (RouterBalance, Vec<u32>) {
    let balance = learner.router_balance(batch.sequences).unwrap();
    let forward = learner.forward(batch).unwrap();
    let scores = forward.scores.clone();
    let derivatives = Coefficients {
        d_experts: balance.slopes(0.1),
        ..against_the_mean(&scores, batch.sequences)
    };
    learner.backward(forward, &derivatives).unwrap();
    assert!(learner.step(1e-2).unwrap().is_finite());
    (balance, weights(learner))
}

#[test]
fn a_balanced_update_has_the_same_bits_however_its_passes_are_made() {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    let mut first = None;
    for (micro_batch_tokens, cached) in [(1, NONE), (40, NONE), (40, ALL), (1000, ALL)] {
        let limits = PassLimits { micro_batch_tokens, activation_slots: 200, ..limits(0) };
        let mut learner = learner(model("olmoe", 2), limits);
        let slots = sample(&mut learner, &sequences);
        let on_policy = on_policy(&learner, &sequences, cached, cached, &slots);
        let found = balanced(&mut learner, batch(&sequences, &masks, &on_policy));
        assert!(found == *first.get_or_insert_with(|| found.clone()), "{micro_batch_tokens}");
    }
    let none = vec![None; sequences.len()];
    let mut learner = learner(model("olmoe", 2), limits(40));
    accumulate(&mut learner, batch(&sequences, &masks, &none)).unwrap();
    learner.step(1e-2).unwrap();
    assert_ne!(weights(&learner), first.unwrap().1, "the loss acts");
    let of_rank = |world: Arc<World>| {
        let mut learner = ranks::learner(model("olmoe", 1), world, 4);
        balanced(&mut learner, batch(&sequences, &masks, &none))
    };
    let alone = of_rank(Arc::new(World::alone()));
    assert!(on_ranks(2, of_rank).iter().all(|of_rank| *of_rank == alone));
}

/// A shared expert's router has a row without a tensor, which must stay 0.
#[test]
fn an_updated_model_is_what_its_files_say() {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let (masks, none) = (masks(&sequences), vec![None; sequences.len()]);
    let mut learner = learner(model("qwen3.5-moe", 2), limits(40));
    for _ in 0..2 {
        accumulate(&mut learner, batch(&sequences, &masks, &none)).unwrap();
        learner.step(1e-2).unwrap();
    }
    let (dir, options) = (
        tempfile::tempdir().unwrap(),
        WriteOptions {
            dtype: WeightDtype::F32,
            max_shard_bytes: u64::MAX,
            carry_from: None,
            writer: Writer::ALONE,
        },
    );
    let saved = dir.path().join("model");
    learner.model.save(&saved, options).unwrap();
    let again = Model::load(&saved, learner.model.backend.clone()).unwrap();
    let packed = Packed::new(&sequences);
    let scores = |model: &Model| model.score(&packed, 1.0);
    assert!(scores(&again).same_bits(&scores(&learner.model)));
    assert!(!scores(&again).same_bits(&scores(&model("qwen3.5-moe", 2))));
}

#[test]
fn a_model_without_experts_has_no_router() {
    let mut learner = learner(model("qwen3", 1), limits(40));
    assert_eq!(learner.take_router_use().unwrap(), None);
}

/// The directory of the built-in task's model, which has no experts.
fn dense() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base")
}

fn fine_tuning(router_aux_coefficient: f64) -> sft::Recipe {
    let mut recipe = sft::Recipe::default();
    recipe.model.path = dense().display().to_string();
    recipe.data.task = Some(TaskName::Countdown);
    recipe.sft.router_aux_coefficient = router_aux_coefficient;
    recipe.eval.every = 0;
    recipe.resolve().unwrap();
    recipe
}

#[test]
fn a_model_without_experts_cannot_balance_them() {
    let mut reinforced = rl::Recipe::default();
    reinforced.model.path = dense().display().to_string();
    reinforced.data.task = Some(TaskName::Countdown);
    reinforced.objective.router_aux_coefficient = 0.01;
    reinforced.resolve().unwrap();
    for (key, error) in [
        ("objective.", reinforced.prepare(&dense(), 1, &()).err().unwrap()),
        ("sft.", fine_tuning(0.01).prepare(&dense(), 1, &()).err().unwrap()),
    ] {
        let sentence = format!("{key}router_aux_coefficient balances the experts of a mixture");
        assert!(error.to_string().starts_with(&sentence), "{error}");
    }
    assert!(fine_tuning(0.0).prepare(&dense(), 1, &()).is_ok());
}

/// The tokenizer is that of the built-in task.
#[test]
fn the_time_of_fine_tuning_counts_the_pass_that_balances() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(dense().join(file), dir.path().join(file)).unwrap();
    }
    let config = fs::read(dense().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let mixture = json!({
        "model_type": "qwen3_moe", "vocab_size": config["vocab_size"], "hidden_size": 32,
        "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2, "head_dim": 16,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 256, "eos_token_id": 1
    });
    fs::write(dir.path().join("config.json"), mixture.to_string()).unwrap();
    let (cpu, mut speeds) = (Cpu::new(Isa::available()[0], 1).unwrap(), Speeds::default());
    let [plain, balanced] = [0.0, 0.01].map(|coefficient| {
        let prepared = fine_tuning(coefficient).prepare(dir.path(), 1, &()).unwrap();
        let plan = prepared.plan(&cpu, 4 << 30).unwrap();
        prepared.estimate_with(&cpu, &plan, &mut speeds).unwrap().step.as_secs_f64()
    });
    // A forward and a backward pass, which is at least two, and another forward pass.
    let ratio = balanced / plain;
    assert!(ratio > 1.2 && ratio < 4.0 / 3.0 + 1e-6, "{ratio}");
}
