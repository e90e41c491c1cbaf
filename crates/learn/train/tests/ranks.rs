//! Updates on several ranks, which are threads here, against the same updates on one.

use crate::learner::{SILENT, TEMPERATURE, accumulate, masks, sequences, tokens, weights};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_ranks::threads::{Faults, worlds};
use isentrope_ranks::{Settings, Watch, World};
use isentrope_train::learner::{Coefficients, Learner, PassLimits, UpdateBatch};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::Ranks;
use isentrope_train::{Error, settings};
use std::path::Path;
use std::sync::Arc;
use std::thread;

fn settings() -> Settings {
    Settings {
        threads: 1,
        memory: 1 << 30,
        program: "isentrope of a test".into(),
        watch: Watch { silent: None, ..Watch::default() },
        tell: Arc::new(|_| {}),
    }
}

/// The result of each of so many ranks, in their order.
fn on_ranks<T: Send>(count: usize, act: impl Fn(Arc<World>, &Faults) -> T + Sync) -> Vec<T> {
    let (worlds, faults) = match count {
        1 => (vec![World::alone()], Faults::default()),
        _ => worlds(count, &settings()).unwrap(),
    };
    thread::scope(|scope| {
        let (act, faults) = (&act, &faults);
        let start = |world| scope.spawn(move || act(Arc::new(world), faults));
        let ranks: Vec<_> = worlds.into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn learner(world: Arc<World>, shards: usize) -> Learner {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../compute/model/tests/fixtures/models/qwen3");
    let model = Model::load(&dir, Arc::new(Cpu::new(Isa::available()[0], 1).unwrap())).unwrap();
    let ranks = Ranks::new(world, shards).unwrap();
    let optimizer = Optimizer::new(&model, settings::Optimizer::default(), &ranks).unwrap();
    let limits = PassLimits { micro_batch_tokens: 40, tape_bytes: usize::MAX, activation_slots: 0 };
    Learner::new(model, optimizer, limits, ranks).unwrap()
}

/// Two updates of reinforcement learning and one of fine-tuning: their weights, and all that is
/// scored on the way.
fn updates(world: Arc<World>, shards: usize) -> (Vec<u8>, Vec<Vec<f32>>) {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    let mut learner = learner(world, shards);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let batch = UpdateBatch {
            sequences: &sequences,
            masks: &masks,
            idle: &SILENT,
            on_policy: &vec![None; sequences.len()],
            temperature: TEMPERATURE,
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
    (weights(&learner), seen)
}

#[test]
fn every_rank_has_the_bits_that_one_alone_would_have() {
    for (shards, counts) in [(4, &[1, 2, 4][..]), (6, &[1, 3, 6]), (3, &[1, 3]), (8, &[1, 8])] {
        let alone = updates(Arc::new(World::alone()), shards);
        assert!(alone.1.iter().all(|scores| !scores.is_empty()));
        for &count in counts {
            let all = on_ranks(count, |world, _| updates(world, shards));
            for (rank, of_rank) in all.iter().enumerate() {
                assert!(*of_rank == alone, "rank {rank} of {count}, {shards} shards");
            }
        }
    }
    let of = |shards| updates(Arc::new(World::alone()), shards).0;
    assert!(of(4) != of(6), "the number of shards shows, or nothing was tried");
}

#[test]
fn groups_are_sampled_where_they_are_trained_on() {
    let own = |count, first, groups| {
        on_ranks(count, |world, _| Ranks::new(world, count).unwrap().own_groups(first, groups))
    };
    assert_eq!(own(2, 4, 12), [vec![0, 1, 4, 5, 6, 7], vec![2, 3, 8, 9, 10, 11]]);
    assert_eq!(own(1, 4, 6), [vec![0, 1, 2, 3, 4, 5]]);
    assert_eq!(own(4, 0, 3).concat(), [0, 1, 2], "a rank may have none");
    assert_eq!(own(2, 9, 3).concat(), [0, 1, 2], "all are of the first update");
}

#[test]
fn a_rank_that_has_computed_something_else_is_found() {
    let ended = on_ranks(3, |world, _| {
        let mut learner = learner(Arc::clone(&world), 3);
        learner
            .ranks
            .note("the metrics of the step", &if world.rank() == 2 { 1.5 } else { 1.0 })
            .unwrap();
        let tokens = tokens();
        let sequences = sequences(&tokens);
        let told = learner.score(&sequences, 1.0).unwrap_err();
        assert!(matches!(told, Error::Ranks(_)));
        assert!(learner.step(0.0).is_err(), "it is over for good");
        told.to_string()
    });
    for told in &ended {
        assert!(told.contains("rank 2") && told.contains("the metrics of the step"), "{told}");
    }
}

#[test]
fn shards_that_cannot_be_spread_are_refused() {
    let refused = on_ranks(3, |world, _| Ranks::new(world, 4).err().unwrap().to_string());
    assert!(
        refused.iter().all(|told| told.contains("4 shards (update.shards, sft.shards)")
            && told.contains("not over 3"))
    );
}
