//! A model in training: the weights that are trained, the gradient since the last update, and
//! AdamW.

use crate::error::{Failure, Result};
use crate::example::Example;
use crate::loss::Loss;
use crate::memory::{PassMemory, Room};
use crate::promises::Outcome;
use crate::sampling::SampledWeights;
use crate::store::{SavedState, Store, WeightsPath};
use crate::wire::{ArrayRecord, BatchedTensor, FLOAT32, ForwardBackwardOutput, bytes};
use isentrope_kernels::Role;
use isentrope_model::adapter::AdapterConfig;
use isentrope_model::{Model, Packed, Scores};
use isentrope_train::learner::{Coefficients, Learner};
use isentrope_train::optimizer::{Optimizer, UpdateCounts};
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::{OptimizerSettings, POLICY_OPTIMIZER};
use prost::Message;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Snapshots of an adapter that are kept for its samplers, if memory has room for them.
const SNAPSHOTS: usize = 8;
/// Snapshots of all weights, likewise.
const WHOLE_SNAPSHOTS: usize = 2;
/// The only output of every loss.
const OUTPUT: &str = "logprobs";

/// A model in training.
pub(crate) struct Trainee {
    learner: Learner,
    /// The configuration of its adapter; none if all weights are trained.
    adapter: Option<AdapterConfig>,
    state: SavedState,
    passes: PassMemory,
    snapshots: Snapshots,
    room: Room,
}

/// A model's weights as they were for its latest samplers, by the sampler's id.
pub(crate) type Snapshots = VecDeque<(String, Rc<SampledWeights>)>;

/// The loss of a call: the log-probs of its targets, and its sum.
struct Evaluated {
    logprobs: Vec<Vec<f32>>,
    loss: f64,
}

impl Trainee {
    /// A model before its first update, which takes `room`.
    pub fn new(
        model: Model,
        adapter: Option<AdapterConfig>,
        state: SavedState,
        passes: PassMemory,
        room: Room,
    ) -> Result<Self> {
        let ranks = TrainingRanks::alone(1);
        let settings = OptimizerSettings::default();
        let optimizer = Optimizer::new(&model, POLICY_OPTIMIZER, settings, &ranks, Role::Moment)
            .map_err(Failure::server)?;
        let limits = passes.limits(&model);
        let learner = Learner::new(model, optimizer, limits, ranks).map_err(Failure::server)?;
        Ok(Self { learner, adapter, state, passes, snapshots: VecDeque::new(), room })
    }

    /// A model with saved weights that takes `room`, and with their optimizer after `updates`.
    pub fn load(
        base: &Model,
        store: &Store,
        path: &WeightsPath,
        (state, adapter): (SavedState, Option<AdapterConfig>),
        updates: Option<UpdateCounts>,
        passes: PassMemory,
        room: Room,
    ) -> Result<Self> {
        let model = store.load(path, adapter.as_ref(), base, Model::load)?;
        let mut trainee = Self::new(model, adapter, state, passes, room)?;
        if let Some(updates) = updates {
            store.load_optimizer(path, updates, &mut trainee.learner)?;
        }
        Ok(trainee)
    }

    /// The log-probs of all targets and the loss, whose gradient is added to the model's if
    /// `backward` is set.
    ///
    /// # Errors
    /// When log-probs are not finite. The gradient since the last update is dropped then.
    pub fn pass(&mut self, data: &[Example], loss: Loss, backward: bool) -> Result<Outcome> {
        let mut evaluated = Evaluated { logprobs: Vec::new(), loss: 0.0 };
        let lack = |tokens, targets| self.passes.lack(&self.learner.model, tokens, targets);
        for (number, example) in data.iter().enumerate() {
            if let Some(lack) = lack(example.tokens.len(), example.targets.len()) {
                return Err(Failure::user(format!("datum {number}: {lack}")));
            }
        }
        let limit = self.passes.micro_batch_tokens;
        let mut rest = data;
        while let Some(first) = rest.first() {
            let (mut count, mut tokens, mut targets) = (1, first.tokens.len(), first.targets.len());
            while let Some(next) = rest.get(count) {
                tokens += next.tokens.len();
                targets += next.targets.len();
                if targets > limit
                    || self.passes.lack(&self.learner.model, tokens, targets).is_some()
                {
                    break;
                }
                count += 1;
            }
            let (batch, after) = rest.split_at(count);
            rest = after;
            let sequences: Vec<_> =
                batch.iter().map(|example| (&example.tokens[..], &example.targets[..])).collect();
            let packed = Packed::predicting(&sequences);
            if backward {
                let of = |scores: &Scores| evaluated.take(batch, loss, scores);
                self.learner.accumulate(packed, 1.0, of).map_err(Failure::server)?;
            } else {
                evaluated.take(batch, loss, &self.learner.model.score(&packed, 1.0));
            }
        }
        if !evaluated.logprobs.iter().flatten().all(|logprob| logprob.is_finite()) {
            self.learner.free_gradient();
            return Err(Failure::server(
                "the model's log-probs are not finite: its weights are damaged; go on from saved \
                 ones with a lower learning rate",
            ));
        }
        Ok(evaluated.outcome(data))
    }

    /// One update of AdamW from the gradient of the passes since the last one.
    ///
    /// # Errors
    /// When the gradient is not finite. It is dropped, and no weight changes.
    pub fn step(&mut self, settings: OptimizerSettings) -> Result<Outcome> {
        let learning_rate = settings.learning_rate;
        let optimizer = &mut self.learner.optimizer;
        optimizer.settings = settings;
        optimizer.progress.skipped_in_a_row = 0; // each has its own answer
        let norm = self.learner.step(learning_rate).map_err(Failure::server)?;
        if !norm.is_finite() {
            return Err(Failure::user(
                "the gradient is not finite, and is dropped: no weight has changed",
            ));
        }
        Ok(Outcome::Json(json!({"metrics": {"grad_norm": norm}})))
    }

    /// Saves the weights, and the optimizer if the path is for training.
    pub fn save(&self, store: &Store, path: &WeightsPath, overwrite: bool) -> Result<()> {
        store.save(path, &self.learner, self.adapter.as_ref(), &self.state, overwrite)
    }

    /// Drops the gradient since the last update.
    pub fn drop_gradient(&mut self) {
        self.learner.free_gradient();
    }

    /// Bytes of a copy of the weights.
    pub fn snapshot_bytes(&self) -> usize {
        let Model { backend, layout, .. } = &self.learner.model;
        layout.trained().bytes(&**backend, Role::Weight)
    }

    /// Bytes that it takes without its snapshots.
    pub fn bytes(&self) -> usize {
        self.room.bytes()
    }

    /// Bytes that become free if all snapshots are dropped.
    pub fn freed_by_dropping_snapshots(&self) -> usize {
        self.snapshots.iter().map(|(_, weights)| weights.freed_by_dropping()).sum()
    }

    /// Leaves one snapshot fewer than are kept at most.
    pub fn trim_snapshots(&mut self) {
        let most = if self.adapter.is_some() { SNAPSHOTS } else { WHOLE_SNAPSHOTS };
        self.snapshots.truncate(most - 1);
    }

    /// Drops the oldest snapshot; false if there is none.
    pub fn drop_oldest_snapshot(&mut self) -> bool {
        self.snapshots.pop_back().is_some()
    }

    /// Keeps a copy of the weights for a sampler.
    pub fn keep(&mut self, sampler: &str, room: Room) -> Result<()> {
        let copy = self.learner.model.snapshot().map_err(Failure::server)?;
        let copy = Rc::new(SampledWeights::new(copy, Some(room)));
        self.snapshots.push_front((sampler.to_owned(), copy));
        Ok(())
    }

    /// The rank of its adapter; none if all weights are trained.
    pub fn rank(&self) -> Option<usize> {
        self.adapter.as_ref().map(|adapter| adapter.rank)
    }

    /// The snapshots.
    pub fn into_snapshots(self) -> Snapshots {
        self.snapshots
    }

    /// Takes over the snapshots of other weights.
    pub fn set_snapshots(&mut self, snapshots: Snapshots) {
        self.snapshots = snapshots;
    }

    /// The weights that were kept for a sampler.
    pub fn kept(&self, sampler: &str) -> Result<Rc<SampledWeights>> {
        let found = self.snapshots.iter().find(|(id, _)| id == sampler);
        found.map(|(_, weights)| Rc::clone(weights)).ok_or_else(|| {
            Failure::user(format!(
                "the weights of this sampler are gone: of a model the latest {SNAPSHOTS} are kept, \
                 or {WHOLE_SNAPSHOTS} if all weights are trained, and fewer if memory is short; \
                 name weights that are to stay (save_weights_for_sampler)"
            ))
        })
    }
}

impl Evaluated {
    /// Takes the scores of some examples. Returns the derivatives of their loss.
    fn take(&mut self, batch: &[Example], loss: Loss, scores: &Scores) -> Coefficients {
        let mut d_logprobs = Vec::with_capacity(scores.logprobs.len());
        let mut logprobs = &scores.logprobs[..];
        for example in batch {
            let (own, after) = logprobs.split_at(example.targets.len());
            logprobs = after;
            let terms = loss.terms(own, &example.inputs);
            self.loss += terms.loss;
            d_logprobs.extend(terms.d_logprobs.into_iter().map(|derivative| derivative as f32));
            self.logprobs.push(own.to_vec());
        }
        let d_entropies = vec![0.0; d_logprobs.len()];
        Coefficients { d_logprobs, d_entropies, ..Coefficients::default() }
    }

    /// The answer: examples with equally many targets of each token are one record.
    fn outcome(self, data: &[Example]) -> Outcome {
        let all: Vec<_> = data.iter().zip(self.logprobs).collect();
        let record = |alike: &[(&Example, Vec<f32>)]| {
            let mut offsets = vec![0i64];
            let mut data = Vec::new();
            for (_, logprobs) in alike {
                data.extend(bytes(logprobs, f32::to_le_bytes));
                offsets.push(data.len() as i64);
            }
            let tensor = BatchedTensor {
                data,
                offsets: bytes(&offsets, i64::to_le_bytes),
                dtype: FLOAT32,
                trailing_shape: alike[0].0.of_each.iter().map(|&of_each| of_each as i64).collect(),
            };
            ArrayRecord {
                type_tag: String::new(),
                fields: HashMap::from([(OUTPUT.to_owned(), tensor)]),
                num_datums: alike.len() as i64,
            }
        };
        let records = all.chunk_by(|(a, _), (b, _)| a.of_each == b.of_each).map(record);
        let output = ForwardBackwardOutput {
            loss_fn_output_type: "ArrayRecord".to_owned(),
            loss_fn_outputs: records.collect(),
            metrics: HashMap::from([("loss:sum".to_owned(), self.loss)]),
        };
        Outcome::Proto(output.encode_to_vec())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::store::Kind;
    use isentrope_budget::PassLimits;
    use isentrope_kernels::{Cpu, Isa};
    use isentrope_model::Sequence;
    use isentrope_model::TapeKind;
    use isentrope_model::adapter::{BaseModel, Targets};
    use isentrope_model::checkpoint::{Fingerprint, Tensor};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use tempfile::TempDir;

    pub(crate) fn base_dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base")
    }

    pub(crate) fn cpu() -> Arc<Cpu> {
        Arc::new(Cpu::new(Isa::available()[0], 1).unwrap())
    }

    fn adapter() -> AdapterConfig {
        AdapterConfig::new(3, 32.0, false, Targets::AllLinear)
    }

    /// A model with a new adapter, or one whose weights are all trained.
    fn model(adapter: Option<&AdapterConfig>) -> Model {
        let Some(config) = adapter else { return Model::load(&base_dir(), cpu()).unwrap() };
        let base = Model::load_frozen(&base_dir(), cpu()).unwrap();
        let layout = config.layout(&base.layout).unwrap();
        base.with_new_adapter(layout, 7).unwrap()
    }

    fn trainee_of(adapter: Option<AdapterConfig>, passes: PassMemory) -> Trainee {
        let state = SavedState {
            base_model: String::new(),
            train_attn: true,
            train_mlp: true,
            optimizer: None,
        };
        let room = Memory::new(1 << 30).take(1 << 20, "").unwrap();
        Trainee::new(model(adapter.as_ref()), adapter, state, passes, room).unwrap()
    }

    pub(crate) fn trainee(micro_batch_tokens: usize) -> Trainee {
        trainee_of(Some(adapter()), PassMemory { bytes: 1 << 27, micro_batch_tokens })
    }

    /// The numbers of tensors, in order.
    fn numbers(tensors: Vec<Tensor<'_>>) -> Vec<f32> {
        tensors.into_iter().flat_map(|tensor| (tensor.values)().unwrap().into_owned()).collect()
    }

    fn gradient(learner: &mut Learner) -> Vec<f32> {
        numbers(learner.gradient().unwrap())
    }

    fn trained(model: &Model) -> Vec<f32> {
        numbers(model.trained().tensors(&*model.backend, model.layout.trained(), ""))
    }

    pub(crate) fn example(
        tokens: &[u32],
        targets: &[u32],
        of_each: Option<usize>,
        weight: f32,
    ) -> Example {
        let inputs = HashMap::from([("weights", vec![weight; targets.len()])]);
        Example { tokens: tokens.to_vec(), targets: targets.to_vec(), of_each, inputs }
    }

    /// Gradients and updates have the bits of the trainer's own parts.
    #[test]
    fn gradients_and_updates_are_the_trainers() {
        [Some(adapter()), None].into_iter().for_each(is_the_trainers);
    }

    fn is_the_trainers(adapter: Option<AdapterConfig>) {
        let sequences: [&[u32]; 3] = [&[3, 4, 5, 6], &[7, 8, 3], &[4, 4, 9, 10, 2, 3]];
        let weights = [0.5, -1.25, 2.0];
        let examples: Vec<Example> = sequences
            .iter()
            .zip(weights)
            .map(|(all, weight)| example(&all[..all.len() - 1], &all[1..], None, weight))
            .collect();
        let (model, ranks) = (model(adapter.as_ref()), TrainingRanks::alone(1));
        let settings = OptimizerSettings { learning_rate: 1e-3, ..OptimizerSettings::default() };
        let optimizer =
            Optimizer::new(&model, POLICY_OPTIMIZER, settings.clone(), &ranks, Role::Moment);
        let limits = PassLimits {
            micro_batch_tokens: 1024,
            tape_bytes: usize::MAX,
            activation_slots: 0,
            by_layer: false,
            offloads_inputs: false,
            weights_in_slices: false,
        };
        let mut trainer = Learner::new(model, optimizer.unwrap(), limits, ranks).unwrap();
        let of_trainer = sequences.map(|tokens| Sequence { tokens, score_from: 1 });
        let counts = sequences.iter().map(|all| all.len() - 1);
        let d_logprobs: Vec<f32> =
            counts.zip(weights).flat_map(|(count, weight)| vec![-weight; count]).collect();
        let d_entropies = vec![0.0; d_logprobs.len()];
        let coefficients = Coefficients { d_logprobs, d_entropies, ..Coefficients::default() };
        trainer.accumulate_weighted(&of_trainer, 1.0, &coefficients).unwrap();
        let expected = gradient(&mut trainer);
        let first = trained(&trainer.model);
        trainer.step(settings.learning_rate).unwrap();
        let updated = trained(&trainer.model);
        assert!(first != updated);
        // One call or several, in one pass or one each: not a bit differs.
        for (micro_batch_tokens, calls) in [(1024, 3), (1, 3), (1024, 1), (6, 2)] {
            let passes = PassMemory { bytes: 1 << 27, micro_batch_tokens };
            let mut trainee = trainee_of(adapter.clone(), passes);
            for call in examples.chunks(calls) {
                trainee.pass(call, Loss::CrossEntropy, true).unwrap();
            }
            assert!(gradient(&mut trainee.learner) == expected, "{micro_batch_tokens} {calls}");
            let room = || Memory::new(1).take(1, "").unwrap();
            trainee.keep("sampler", room()).unwrap();
            trainee.step(settings.clone()).unwrap();
            assert!(trained(&trainee.learner.model) == updated, "{micro_batch_tokens} {calls}");
            // An update leaves snapshots as they were.
            assert!(trained(&trainee.kept("sampler").unwrap().model) == first);
        }
    }

    #[test]
    fn an_example_without_memory_for_a_pass_is_refused() {
        let tokens = [3; 200];
        let long = || example(&tokens, &tokens, None, 1.0);
        let mut trainee = trainee(1024);
        let Model { layout, backend, .. } = model(Some(&adapter()));
        let needed = |n: usize| {
            let tape = layout.tape_bytes_per_token(&*backend, TapeKind::BlockInputs);
            n * tape + layout.working_bytes(&*backend, n)
        };
        let enough = needed(200) / 3 * 4 + 8;
        trainee.passes.bytes = enough;
        trainee.pass(&[long()], Loss::CrossEntropy, true).unwrap();
        trainee.passes.bytes = needed(199) / 3 * 4;
        let before = gradient(&mut trainee.learner);
        let short = example(&[3], &[4], None, 1.0);
        let failure = trainee.pass(&[short, long()], Loss::CrossEntropy, true).unwrap_err();
        assert!(failure.message.starts_with("datum 1: 200 tokens take"), "{}", failure.message);
        assert!(gradient(&mut trainee.learner) == before);
        // Examples that fit one by one are not packed into a pass that does not.
        let both = [&tokens[..120]; 2].map(|part| example(part, part, None, 1.0));
        trainee.pass(&both, Loss::CrossEntropy, false).unwrap();
        trainee.passes.bytes = enough;
        let many = example(&tokens, &vec![4; 200 * 400], Some(400), 1.0);
        let failure = trainee.pass(&[many], Loss::CrossEntropy, true).unwrap_err();
        assert!(failure.message.contains("80000 targets take"), "{}", failure.message);
    }

    #[test]
    fn several_targets_of_a_token_add_their_gradients() {
        let tokens = [3, 4, 5];
        let mut together = trainee(1024);
        let both = example(&tokens, &[4, 7, 5, 8, 6, 9], Some(2), 1.0);
        together.pass(&[both], Loss::CrossEntropy, true).unwrap();
        let mut apart = trainee(1024);
        let each = [[4, 5, 6], [7, 8, 9]].map(|targets| example(&tokens, &targets, None, 1.0));
        apart.pass(&each, Loss::CrossEntropy, true).unwrap();
        let (together, apart) = (gradient(&mut together.learner), gradient(&mut apart.learner));
        let scale = apart.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
        assert!(scale > 0.0);
        let near = together.iter().zip(&apart).all(|(a, b)| (a - b).abs() <= 1e-5 * scale);
        assert!(near);
    }

    #[test]
    fn saving_between_a_pass_and_its_update_leaves_the_gradient() {
        let out = TempDir::new().unwrap();
        let base_dir = base_dir();
        let base = BaseModel::new("base", Fingerprint::of(&base_dir).unwrap()).unwrap();
        let store = Store { dir: out.path().to_owned(), base_dir, base };
        let path = WeightsPath::new("run", Kind::Training, "between").unwrap();
        let mut trainee = trainee(1024);
        let data = [example(&[3, 4], &[4, 5], None, 1.0)];
        trainee.pass(&data, Loss::CrossEntropy, true).unwrap();
        trainee.step(OptimizerSettings::default()).unwrap();
        trainee.pass(&data, Loss::CrossEntropy, true).unwrap();
        let before = gradient(&mut trainee.learner);
        assert!(before.iter().any(|&value| value != 0.0));
        trainee.save(&store, &path, false).unwrap();
        assert!(gradient(&mut trainee.learner) == before);
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_no_weight() {
        let mut trainee = trainee(1024);
        let before = trainee.learner.checksum().unwrap();
        let huge = example(&[3, 4], &[4, 5], None, f32::MAX);
        trainee.pass(&[huge], Loss::CrossEntropy, true).unwrap();
        let failure = trainee.step(OptimizerSettings::default()).unwrap_err();
        assert!(failure.message.contains("not finite"));
        assert_eq!(trainee.learner.checksum().unwrap(), before);
        trainee.pass(&[example(&[3], &[4], None, 1.0)], Loss::CrossEntropy, true).unwrap();
        trainee.step(OptimizerSettings::default()).unwrap();
        assert_ne!(trainee.learner.checksum().unwrap(), before);
    }
}
