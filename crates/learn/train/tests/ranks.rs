//! Updates on several ranks, which are threads here, against the same updates on one.

use crate::learner::{NONE, SILENT, TEMPERATURE, accumulate, masks, sequences, tokens, weights};
use crate::support::{self, adapted, limits, model};
use isentrope_budget::PassLimits;
use isentrope_budget::memory::{Demand, MemorySettings, ParameterSets, Plan, Shard};
use isentrope_kernels::{Cpu, Isa, Role};
use isentrope_model::checkpoint::{WeightDtype, WriteOptions, Writer};
use isentrope_model::{Layout, Model, ModelConfig, Packed, Parameters, Sequence};
use isentrope_ranks::{Error as RanksError, Watch, World};
use isentrope_train::Error;
use isentrope_train::gradient_slice::GradientSlice;
use isentrope_train::learner::{Coefficients, Learner, UpdateBatch};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::OptimizerSettings;
use isentrope_train::weight_slice::WeightSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result of each of `count` ranks, in their order.
pub fn on_ranks<T: Send>(count: usize, act: impl Fn(Arc<World>) -> T + Sync) -> Vec<T> {
    let watch = Watch { silent: None, ..Watch::default() };
    support::on_ranks(count, watch, |world, _| act(Arc::new(world)))
}

pub fn learner(model: Model, world: Arc<World>, shards: usize) -> Learner {
    learner_within(model, world, shards, limits(40))
}

fn learner_within(model: Model, world: Arc<World>, shards: usize, limits: PassLimits) -> Learner {
    let ranks = TrainingRanks::new(world, shards).unwrap();
    support::learner(model, OptimizerSettings::default(), limits, ranks)
}

/// Two updates of reinforcement learning and one of fine-tuning: their weights, and all that is
/// scored on the way.
fn updates(
    model: Model,
    world: Arc<World>,
    shards: usize,
    limits: PassLimits,
) -> (Vec<u32>, Vec<Vec<f32>>) {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    let mut learner = learner_within(model, world, shards, limits);
    let mut seen = Vec::new();
    for _ in 0..2 {
        // As before sampling; a rank of several may then have all weights.
        learner.make_whole().unwrap();
        let batch = UpdateBatch {
            sequences: &sequences,
            masks: &masks,
            idle: &SILENT,
            on_policy: &vec![None; sequences.len()],
            temperature: TEMPERATURE,
            teacher: None,
        };
        let scores = accumulate(&mut learner, batch).unwrap();
        seen.extend([scores.logprobs, scores.entropies, scores.log_masses]);
        assert!(learner.step(1e-3).unwrap().is_finite());
    }
    let ones = vec![-1e-2; seen[0].len()];
    let imitate = Coefficients {
        d_entropies: vec![0.0; ones.len()],
        d_logprobs: ones,
        ..Coefficients::default()
    };
    seen.push(learner.accumulate_weighted(&sequences, 1.0, &imitate).unwrap().logprobs);
    assert!(learner.step(1e-3).unwrap().is_finite());
    let (scores, slopes) = learner.entropy_slopes(&sequences, &masks, TEMPERATURE).unwrap();
    seen.extend([slopes, scores.log_masses, learner.score(&sequences, 1.0).unwrap().entropies]);
    assert!(learner.is_finite().unwrap());
    let halves = |bits: u64| [0, 16, 32, 48].map(|at| f32::from((bits >> at) as u16)).to_vec();
    seen.push(halves(u64::from(learner.weights_checksum().unwrap())));
    seen.push(halves(learner.checksum().unwrap()));
    learner.make_whole().unwrap();
    seen.push(learner.score(&sequences, 1.0).unwrap().logprobs);
    (weights(&learner), seen)
}

#[test]
fn every_rank_has_the_bits_that_one_alone_would_have() {
    every_rank_has_the_bits_of_one(|| model("qwen3", 1));
    every_rank_has_the_bits_of_one(|| adapted("qwen3", 1));
}

fn every_rank_has_the_bits_of_one(model: impl Fn() -> Model + Sync) {
    for (shards, counts) in [(4, &[1, 2, 4][..]), (6, &[1, 3, 6]), (3, &[1, 3]), (8, &[1, 8])] {
        let alone = updates(model(), Arc::new(World::alone()), shards, limits(40));
        assert!(alone.1.iter().all(|scores| !scores.is_empty()));
        for &count in counts {
            let all = on_ranks(count, |world| updates(model(), world, shards, limits(40)));
            for (rank, of_rank) in all.iter().enumerate() {
                assert!(*of_rank == alone, "rank {rank} of {count}, {shards} shards");
            }
        }
    }
    let of = |shards| updates(model(), Arc::new(World::alone()), shards, limits(40)).0;
    assert!(of(4) != of(6), "the number of shards shows, or nothing was tried");
}

/// Each rank has a slice of the gradient, and perhaps of the weights. Where the head is the
/// embedding, a rank has one shard. Passes that only score gather weights together, or each by
/// itself where tapes have no room.
#[test]
fn updates_in_slices_have_the_bits_of_whole_ones() {
    type Make = fn() -> Model;
    let cases: [(Make, usize, &[usize], bool); 8] = [
        (|| model("qwen3-untied", 1), 4, &[1, 2, 4], true),
        (|| model("qwen3-untied", 1), 6, &[3], true),
        (|| model("qwen3", 1), 4, &[4], true),
        (|| model("gemma3", 1), 2, &[2], true),
        (|| model("olmo3", 1), 2, &[2], true),
        (|| model("qwen3.5", 1), 2, &[2], true),
        (|| model("qwen3.5-moe", 1), 4, &[4], false),
        (|| adapted("qwen3", 1), 4, &[2], false),
    ];
    for (model, shards, counts, may_share_weights) in cases {
        let alone = updates(model(), Arc::new(World::alone()), shards, limits(40));
        let (room, none) = (usize::MAX, 0);
        for (offloads_inputs, weights_in_slices, tape_bytes) in
            [(false, false, room), (true, false, room), (false, true, room), (true, true, none)]
        {
            if weights_in_slices && !may_share_weights {
                continue;
            }
            let by_layer = true;
            let limits = PassLimits {
                tape_bytes,
                by_layer,
                offloads_inputs,
                weights_in_slices,
                ..limits(40)
            };
            for &count in counts {
                for of_rank in on_ranks(count, |world| updates(model(), world, shards, limits)) {
                    let name = model().config.family.name;
                    assert!(of_rank == alone, "{count} ranks of {name}, {limits:?}");
                }
            }
        }
    }
}

/// By its own free memory one of two ranks would share the gradient, and the other would not.
#[test]
fn ranks_with_other_free_memory_share_the_gradient_or_none_does() {
    let dir = tempfile::tempdir().unwrap();
    let config = r#"{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": false}"#;
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    let layout = Layout::new(&ModelConfig::read(dir.path()).unwrap());
    let cpu = Cpu::new(Isa::available()[0], 1).unwrap();
    let demand = |shard| Demand {
        longest_trained: 1000,
        trained: 8,
        waiting_tokens: 8 * 1000,
        loss_tokens: 5600,
        sets: ParameterSets { ranks: 8, shard, ..ParameterSets::default() },
        ..Demand::default()
    };
    let goes_by_layer = |available: usize| {
        let settings = MemorySettings { budget_gib: None, ..MemorySettings::default() };
        Plan::new(&cpu, &layout, demand(Shard::Auto), &settings, available).unwrap().by_layer
    };
    // A plan leaves a tenth of the free memory.
    let whole = Plan::least(&cpu, &layout, demand(Shard::Optimizer));
    let available = [whole / 9 * 10 + 1000, whole / 9 * 10 - 1000];
    assert_eq!(available.map(goes_by_layer), [false, true]);
    let together = on_ranks(2, |world| {
        let least = world.least(available[world.rank()] as u64).unwrap();
        goes_by_layer(least as usize)
    });
    assert_eq!(together, [true, true]);
}

#[test]
fn groups_are_sampled_where_they_are_trained_on() {
    let own = |count, first, groups| {
        on_ranks(count, |world| TrainingRanks::new(world, count).unwrap().own_groups(first, groups))
    };
    assert_eq!(own(2, 4, 12), [vec![0, 1, 4, 5, 6, 7], vec![2, 3, 8, 9, 10, 11]]);
    assert_eq!(own(1, 4, 6), [vec![0, 1, 2, 3, 4, 5]]);
    assert_eq!(own(4, 0, 3).concat(), [0, 1, 2], "a rank may have none");
    assert_eq!(own(2, 9, 3).concat(), [0, 1, 2], "all are of the first update");
}

#[test]
fn a_rank_that_has_computed_something_else_is_found() {
    let ended = on_ranks(3, |world| {
        let mut learner = learner(model("qwen3", 1), Arc::clone(&world), 3);
        learner
            .ranks
            .note("the metrics of the step", &if world.rank() == 2 { 1.5 } else { 1.0 })
            .unwrap();
        let tokens = tokens();
        let sequences = sequences(&tokens);
        let error = learner.score(&sequences, 1.0).unwrap_err();
        assert!(matches!(error, Error::Ranks(_)));
        assert!(learner.step(0.0).is_err(), "it is over for good");
        error.to_string()
    });
    for error in &ended {
        assert!(error.contains("rank 2") && error.contains("the metrics of the step"), "{error}");
    }
}

/// Ranks write files of one tensor each, and rank 1 fails at its second.
#[test]
fn a_rank_that_cannot_write_its_files_ends_the_others() {
    let errors = on_ranks(3, |world| {
        let learner = learner(model("qwen3", 1), Arc::clone(&world), 3);
        let options = WriteOptions {
            dtype: WeightDtype::F32,
            max_shard_bytes: 1,
            carry_from: None,
            writer: Writer { number: world.rank(), of: 3 },
        };
        let dir = tempfile::tempdir().unwrap();
        if world.rank() == 1 {
            let files = 2 * learner.model.layout.trained().tensors().count();
            let in_the_way = format!("model-00005-of-{files:05}.safetensors");
            std::fs::create_dir(dir.path().join(in_the_way)).unwrap();
        }
        let error = learner.write_moments(dir.path(), options).unwrap_err();
        world.fail(&error.to_string());
        error
    });
    for (rank, error) in errors.iter().enumerate() {
        let is_of_ranks = matches!(error, Error::Ranks(RanksError::Rank { rank: 1, .. }));
        assert_eq!(is_of_ranks, rank != 1, "{error}");
    }
}

/// While an update learns, what reads the model's own weights panics, and a rank that fails ends
/// those that gather them.
#[test]
fn weights_that_are_elsewhere_are_not_read_and_a_failure_ends_their_gathering() {
    let limits = PassLimits { by_layer: true, weights_in_slices: true, ..limits(40) };
    let errors = on_ranks(3, |world| {
        let new = model("qwen3-untied", 1);
        let mut learner = learner_within(new, Arc::clone(&world), 3, limits);
        let packed = Packed::new(&[Sequence { tokens: &[1, 2, 3], score_from: 1 }]);
        let read = |learner: &Learner| {
            catch_unwind(AssertUnwindSafe(|| learner.model.score(&packed, 1.0)))
        };
        assert!(read(&learner).is_ok());
        learner.allocate_gradient().unwrap();
        assert!(read(&learner).is_err());
        if world.rank() == 1 {
            learner.ranks.any(false).unwrap(); // whether a rank has passes
            return world.fail("a full disk").to_string();
        }
        let tokens = tokens();
        learner.score(&sequences(&tokens), 1.0).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("a full disk")), "{errors:?}");
}

/// An update that no rank has passes for exchanges gradients, and gathers no weights.
#[test]
fn weights_are_gathered_for_passes_alone() {
    let limits = PassLimits { by_layer: true, weights_in_slices: true, ..limits(40) };
    let sent = on_ranks(2, |world| {
        let mut learner = learner_within(model("qwen3-untied", 1), Arc::clone(&world), 2, limits);
        let tokens = tokens();
        let sequences = sequences(&tokens);
        let mut backward = |slope: f32| {
            let (masks, on_policy) = (masks(&sequences), vec![None; sequences.len()]);
            let batch = UpdateBatch {
                sequences: &sequences,
                masks: &masks,
                idle: &NONE,
                on_policy: &on_policy,
                temperature: TEMPERATURE,
                teacher: None,
            };
            let forward = learner.forward(batch).unwrap();
            let d_logprobs = vec![slope; forward.scores.logprobs.len()];
            let d_entropies = vec![0.0; d_logprobs.len()];
            let slopes = Coefficients { d_logprobs, d_entropies, ..Coefficients::default() };
            let before = world.traffic().sent_bytes;
            learner.backward(forward, &slopes).unwrap();
            learner.step(0.0).unwrap();
            world.traffic().sent_bytes - before
        };
        let [with_passes, without] = [1.0, 0.0].map(&mut backward);
        let trained = learner.model.layout.trained();
        // The way back reads all but the embedding.
        let weights = trained.numbers(&*learner.model.backend).skip(trained.groups()[0].len());
        (with_passes - without, 4 * weights.sum::<usize>() as u64)
    });
    let (saved, weights) = (sent[0].0 + sent[1].0, sent[0].1);
    assert!(saved.abs_diff(weights) < weights / 10, "{saved} of {weights}");
}

#[test]
fn a_gradient_that_is_added_group_by_group_is_the_whole() {
    for (count, adapted_only) in [(1, false), (2, false), (3, false), (4, true)] {
        let new = || if adapted_only { adapted("qwen3", 1) } else { model("qwen3", 1) };
        on_ranks(count, |world| {
            let ranks = TrainingRanks::new(Arc::clone(&world), count).unwrap();
            // By group, in a slice apart or in place; or all groups at once.
            let update = |is_apart: Option<bool>| {
                let mut model = new();
                let backend = model.backend.clone();
                let trained = model.layout.trained();
                let mut gradient = Parameters::zeros(&*backend, trained, Role::Gradient).unwrap();
                for (index, buffer) in gradient.buffers_mut().iter_mut().enumerate() {
                    let elements = backend.element_count(trained[index].kind);
                    let number = |at| ((31 * at + 7 * index) % 97 + world.rank()) as f32 / 97.0;
                    let numbers: Vec<f32> = (0..elements).map(number).collect();
                    backend.write_elements(buffer, 0, &numbers);
                }
                let settings = OptimizerSettings::default();
                let mut optimizer =
                    Optimizer::new(&model, "optimizer", settings, &ranks, Role::Moment).unwrap();
                let mut slice = match is_apart {
                    Some(true) => GradientSlice::apart(&model, &ranks).unwrap(),
                    _ => GradientSlice::in_place(&model, &ranks),
                };
                if is_apart.is_some() {
                    for group in (0..trained.groups().len()).rev() {
                        let parameters = trained.groups()[group].clone();
                        let gradient = &mut gradient.buffers_mut()[parameters];
                        slice.add_over_ranks(&*backend, &ranks, group, gradient).unwrap();
                    }
                } else {
                    let all = ranks.slices(&model);
                    ranks.sum_gradients(&*backend, gradient.buffers_mut(), &all).unwrap();
                }
                let own = slice.elements(&gradient);
                let mut weights = WeightSlice::new(&model, &ranks);
                let norm = optimizer.update(&mut model, &mut weights, &own, &ranks, 1e-3);
                let elements = model.layout.trained().numbers(&*backend);
                let weights = model.trained().buffers().iter().zip(elements);
                let bits = weights.map(|(buffer, elements)| {
                    let mut numbers = vec![0.0; elements];
                    backend.read_elements(buffer, 0, &mut numbers);
                    numbers.into_iter().map(f32::to_bits).collect()
                });
                (norm.unwrap(), bits.collect::<Vec<Vec<u32>>>())
            };
            let whole = update(None);
            assert!([true, false].map(|is_apart| update(Some(is_apart)) == whole) == [true; 2]);
        });
    }
}
