//! Models, learners, ranks and metrics for the tests.

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_ranks::threads::{Faults, worlds};
use isentrope_ranks::{Settings, Watch, World};
use isentrope_train::learner::{Learner, PassLimits};
use isentrope_train::metrics::Metrics;
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::Ranks;
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::settings;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// A fixture of the crate of models.
pub fn model(name: &str, threads: usize) -> Model {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../compute/model/tests/fixtures/models")
        .join(name);
    Model::load(&dir, Arc::new(Cpu::new(Isa::available()[0], threads).unwrap())).unwrap()
}

pub fn learner(
    model: Model,
    settings: settings::Optimizer,
    limits: PassLimits,
    ranks: Ranks,
) -> Learner {
    let optimizer = Optimizer::new(&model, settings, &ranks).unwrap();
    Learner::new(model, optimizer, limits, ranks).unwrap()
}

/// Limits with room for all tapes and none for activations of sampling.
pub fn limits(micro_batch_tokens: usize) -> PassLimits {
    PassLimits { micro_batch_tokens, tape_bytes: usize::MAX, activation_slots: 0 }
}

pub fn location(dir: &Path, existing: Existing) -> RunLocation {
    RunLocation {
        dir: dir.to_owned(),
        existing,
        source: dir.join("recipe.toml"),
        recipe: (String::new(), json!({})),
        defaults: json!({}),
    }
}

pub fn metrics(pairs: &[(&str, f64)]) -> Metrics {
    let mut metrics = Metrics::default();
    pairs.iter().for_each(|(name, value)| metrics.set(*name, *value));
    metrics
}

/// The result of each of so many ranks, which are threads, in their order.
pub fn on_ranks<T: Send>(
    count: usize,
    watch: Watch,
    act: impl Fn(World, &Faults) -> T + Sync,
) -> Vec<T> {
    let settings = Settings {
        threads: 1,
        memory: 1 << 30,
        program: "isentrope of a test".into(),
        watch,
        tell: Arc::new(|_| {}),
    };
    let (worlds, faults) = match count {
        1 => (vec![World::alone()], Faults::default()),
        _ => worlds(count, &settings).unwrap(),
    };
    thread::scope(|scope| {
        let (act, faults) = (&act, &faults);
        let ranks: Vec<_> =
            worlds.into_iter().map(|world| scope.spawn(move || act(world, faults))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
