//! Models, learners, ranks and metrics for the tests.

use isentrope_budget::PassLimits;
use isentrope_kernels::{Cpu, Isa, Role};
use isentrope_model::Model;
use isentrope_model::adapter::{AdapterConfig, Targets};
use isentrope_ranks::threads::{Faults, worlds};
use isentrope_ranks::{Settings, Watch, World};
use isentrope_train::learner::Learner;
use isentrope_train::metrics::Metrics;
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::settings::{OptimizerSettings, POLICY_OPTIMIZER};
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

/// A model with adapters beside queries, values and the MLP's outputs, which act.
pub fn adapted(name: &str, threads: usize) -> Model {
    let base = model(name, threads);
    let targets = Targets::Modules(["q_proj", "v_proj", "down_proj"].map(Into::into).to_vec());
    let layout = AdapterConfig::new(3, 6.0, false, targets).layout(&base.layout).unwrap();
    let mut model = base.base().with_new_adapter(layout, 1).unwrap();
    let (list, backend) = (model.layout.trained().clone(), model.backend.clone());
    for (id, parameter, tensor) in list.tensors() {
        let len: usize = parameter.shape(tensor).iter().product();
        let values: Vec<f32> = (0..len).map(|i| (i * 31 % 17) as f32 / 80.0 - 0.1).collect();
        model.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &values);
    }
    model
}

pub fn learner(
    model: Model,
    settings: OptimizerSettings,
    limits: PassLimits,
    ranks: TrainingRanks,
) -> Learner {
    let optimizer =
        Optimizer::new(&model, POLICY_OPTIMIZER, settings, &ranks, Role::Moment).unwrap();
    Learner::new(model, optimizer, limits, ranks).unwrap()
}

/// Limits with room for all tapes and none for activations of sampling.
pub fn limits(micro_batch_tokens: usize) -> PassLimits {
    PassLimits {
        micro_batch_tokens,
        tape_bytes: usize::MAX,
        activation_slots: 0,
        by_layer: false,
        offloads_inputs: false,
        weights_in_slices: false,
    }
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

/// The result of each of `count` ranks, which are threads, in their order.
pub fn on_ranks<T: Send>(
    count: usize,
    watch: Watch,
    act: impl Fn(World, &Faults) -> T + Sync,
) -> Vec<T> {
    let settings = Settings {
        threads: 1,
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
