//! The interface of a kind of training to the loop: reinforcement learning and supervised
//! fine-tuning.

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::observer::Observer;
use crate::ranks::TrainingRanks;
use crate::run::{RunDirectory, StepRecord, most_of_a_rank};
use crate::settings::{
    CheckpointSettings, DeviceSettings, Dtype, LoraSettings, ModelSource, OptimizerSettings,
    POLICY_OPTIMIZER, RanksSettings, RunSettings, Transport, count,
};
use crate::teacher::Teacher;
use isentrope_budget::memory::{
    Demand, MOMENTS, MemorySettings, ParameterSets, Plan, TeacherBytes,
};
use isentrope_budget::time::{Estimate, KeptShares, Limit, Peak, Speeds, Workload};
use isentrope_data::{DataSettings, FileHash, Problem};
use isentrope_environment::{Environment, EnvironmentSettings, EpisodeLimits};
use isentrope_evaluation::{Evaluation, EvaluationSet, EvaluationSettings};
use isentrope_hub as hub;
use isentrope_kernels::Backend;
use isentrope_model::adapter::AdapterConfig;
use isentrope_model::checkpoint::Fingerprint;
use isentrope_model::{ActivationCache, Layout, Model, ModelConfig, TapeKind};
use isentrope_reward::RewardSettings;
use isentrope_rollout::{EpisodePreview, Judge, Limits, Prompter, Turns};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The recipe of one kind of training, and its preparation.
pub trait TrainingRecipe: Default + DeserializeOwned + Serialize + JsonSchema {
    /// The trainer that it makes.
    type Trainer: Trainer;

    /// Checks every key and combinations of keys, then fills in unset keys.
    fn resolve(&mut self) -> Result<()>;

    /// The run as a whole, for a command that chooses its directory.
    fn run_mut(&mut self) -> &mut RunSettings;

    /// The shards of an update, for a command that knows how many ranks there are; and the key that
    /// sets them.
    fn shards_mut(&mut self) -> (&'static str, &mut Option<usize>);

    /// The data's settings, for a command that sets the date.
    fn data_mut(&mut self) -> &mut DataSettings;

    /// The tables that recipes of every kind have.
    fn tables(&self) -> Tables<'_>;

    /// Whether the model that training starts from is kept beside the one in training.
    fn needs_reference(&self) -> bool;

    /// The settings that would do without it.
    fn without_reference(&self) -> &'static str {
        "objective.reference_kl.coefficient = 0"
    }

    /// The sets of parameters that each of `ranks` ranks holds.
    fn parameter_sets(&self, ranks: usize) -> ParameterSets {
        let Tables {
            model,
            lora,
            process_model,
            shards,
            memory,
            ranks: RanksSettings { transport, shard, .. },
            ..
        } = self.tables();
        let is_apart = process_model.as_ref().is_some_and(|table| table.model.is_some());
        ParameterSets {
            reference: self.needs_reference(),
            reference_is_adapted: lora.is_some_and(|lora| lora.adapter.is_some()),
            without_reference: self.without_reference(),
            process_model: process_model.is_some(),
            shards: shards.div_ceil(ranks),
            ranks,
            shard: *shard,
            offloads_inputs: false,
            may_link: *transport != Transport::Host,
            offloads_moments: memory.offload_moments,
            may_adapt: !model.from_scratch && !is_apart,
        }
    }

    /// The data that the recipe names: files, patterns and hub data sets, for training and for
    /// evaluation.
    fn data_places(&self) -> Vec<PathBuf>;

    /// Checks the data files that are on this machine, as far as possible without a model. Returns
    /// notes for the user.
    fn check_data(&self) -> Result<Vec<String>>;

    /// Reads everything but the weights, and checks it with the resolved recipe, for one of `ranks`
    /// ranks. Downloads are reported to `progress`.
    fn prepare(
        self,
        model_dir: &Path,
        ranks: usize,
        progress: &dyn hub::Progress,
    ) -> Result<Prepared<Self::Trainer>>;
}

/// The tables that all recipes have and the loop uses.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// `run`.
    pub run: &'a RunSettings,
    /// `model`.
    pub model: &'a ModelSource,
    /// `lora`, if adapters are trained.
    pub lora: Option<&'a LoraSettings>,
    /// `optimizer`.
    pub optimizer: &'a OptimizerSettings,
    /// The settings of the process model in `prime`, if one is trained.
    pub process_model: Option<ProcessModelTable<'a>>,
    /// `objective.distillation.teacher`: a directory or hub id.
    pub teacher: Option<&'a str>,
    /// `data`.
    pub data: &'a DataSettings,
    /// `reward`.
    pub reward: &'a RewardSettings,
    /// `environment`, if responses have several turns.
    pub environment: Option<&'a EnvironmentSettings>,
    /// `eval`.
    pub eval: &'a EvaluationSettings,
    /// `checkpoint`.
    pub checkpoint: &'a CheckpointSettings,
    /// `device`.
    pub device: &'a DeviceSettings,
    /// `memory`.
    pub memory: &'a MemorySettings,
    /// `ranks`.
    pub ranks: &'a RanksSettings,
    /// `lab.track_states`.
    pub track_states: bool,
    /// `update.shards` or `sft.shards`.
    pub shards: usize,
}

impl Tables<'_> {
    /// Checks what the schema of these tables cannot say. A response has at most `longest_response`
    /// tokens.
    pub(crate) fn check(&self, longest_response: usize) -> Result<()> {
        self.ranks.check()?;
        self.data.check()?;
        self.reward.check(longest_response)?;
        self.optimizer.check(POLICY_OPTIMIZER)?;
        self.check_lora()?;
        Ok(self.eval.check()?)
    }

    fn check_lora(&self) -> Result<()> {
        let Some(lora) = self.lora else { return Ok(()) };
        lora.check()?;
        if self.model.from_scratch {
            let what = "is true, and [lora] trains adapters beside weights that stay as they are: \
                        leave one of them out";
            return Err(Error::setting("model.from_scratch", what));
        }
        if self.process_model.is_some_and(|table| table.model.is_some()) {
            let what = "names another model, and with [lora] the process model is an adapter \
                        beside the policy's weights: leave one of them out";
            return Err(Error::setting("prime.model", what));
        }
        Ok(())
    }

    /// The parameters of the model in `dir`, and of the adapters that are trained beside it.
    ///
    /// # Errors
    /// When the directory holds an adapter as well, or targets of adapters match nothing.
    pub fn layout(&self, dir: &Path, config: &ModelConfig) -> Result<Layout> {
        if AdapterConfig::is_in(dir) {
            let what = format!(
                "is {}, which holds an adapter: name its base here, and the adapter in \
                 lora.adapter; or make one model of them, `isentrope merge`",
                dir.display()
            );
            return Err(Error::setting("model.path", what));
        }
        let mut layout = Layout::new(config);
        if let Some(lora) = self.lora {
            layout.adapter = Some(lora.layout(&layout)?);
        }
        Ok(layout)
    }

    /// Checks that `lora.adapter` is for the model in `dir`, by the model's fingerprint, which is
    /// not asked for without that key. A run checks it by itself.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) when it is for another.
    pub fn check_base(
        &self,
        dir: &Path,
        fingerprint: impl FnOnce(&Path) -> isentrope_model::Result<Fingerprint>,
    ) -> Result<()> {
        self.lora.map_or(Ok(()), |lora| lora.check_base(dir, fingerprint))
    }

    /// The judge of responses of at most `max_tokens` tokens. Notes for the user are added to
    /// `notes`.
    pub(crate) fn judge(&self, max_tokens: usize, notes: &mut Vec<String>) -> Result<Judge> {
        let RewardSettings { verifier, overlong, .. } = self.reward;
        let judge = Judge { verifier: verifier.build()?, overlong: overlong.clone(), max_tokens };
        notes.extend(judge.verifier.notes());
        Ok(judge)
    }
}

/// The settings that a process model begins with.
#[derive(Clone, Copy)]
pub struct ProcessModelTable<'a> {
    /// `prime.model`: the model that the process model starts from, if it is not the policy's.
    pub model: Option<&'a Path>,
    /// `prime.optimizer`.
    pub optimizer: &'a OptimizerSettings,
}

/// One kind of training, as the loop uses it. A step has two halves: [`collect`](Self::collect)
/// finds what to learn from, [`learn`](Self::learn) learns it. Only the second can change weights
/// or state, so the loop can undo a step whose first half has failed. The loop itself evaluates,
/// records and saves.
pub trait Trainer {
    /// Its part of a checkpoint.
    type State: Serialize + DeserializeOwned;
    /// The data that a step learns from.
    type Collected;

    /// The tables of its recipe.
    fn tables(&self) -> Tables<'_>;

    /// The files that it learns from.
    fn data_files(&self) -> &[FileHash];

    /// The first texts to learn from, as the model will see them.
    fn preview(&mut self, prompter: &Prompter, count: usize) -> Result<Vec<String>>;

    /// The first prompt of the data as a teacher is shown it, if that is another than the model's.
    fn preview_taught(&mut self, _prompter: &Prompter) -> Result<Option<String>> {
        Ok(None)
    }

    /// The first problem that responses are sampled to, if any are.
    fn first_problem(&mut self) -> Option<Problem> {
        None
    }

    /// The state that the run begins with: a new one, or a checkpoint's under the present recipe.
    fn begin(&self, checkpoint: Option<Self::State>) -> Self::State;

    /// Whether a run can go on from a checkpoint's state under the present recipe. Asked before
    /// anything is written.
    ///
    /// # Errors
    /// Names the key that asks for what the state does not have.
    fn check(&self, _checkpoint: &Self::State) -> Result<()> {
        Ok(())
    }

    /// Whether [`collect`](Self::collect) samples, which takes all weights.
    fn samples(&self) -> bool;

    /// The first half of a step: samples or reads what to learn from. `self` is mutable because
    /// data are read lazily; the data at a position must depend on nothing else.
    ///
    /// # Errors
    /// As sampling's, judging's and reading's. The loop undoes the step, and saves what the steps
    /// before it came to.
    fn collect(
        &mut self,
        state: &Self::State,
        context: &mut CollectContext<'_>,
    ) -> Result<Self::Collected>;

    /// The second half of a step: updates the weights, and moves the state on.
    ///
    /// # Errors
    /// As [`Learner::step`]. The run ends with its last checkpoint.
    fn learn(
        &self,
        collected: Self::Collected,
        state: &mut Self::State,
        context: &mut LearnContext<'_>,
    ) -> Result<()>;

    /// Makes an evaluation's measurements besides the responses to the evaluation sets.
    fn evaluate(&self, _learner: &Learner, _record: &mut StepRecord) -> Result<()> {
        Ok(())
    }

    /// Adds the evaluations after a step, whose own numbers are already in the record. The same
    /// evaluations may come once more, if recording the step has failed.
    fn evaluated(
        &self,
        _step: u64,
        _evaluations: &[Evaluation],
        _state: &mut Self::State,
        _record: &mut StepRecord,
        _observer: &mut dyn Observer,
    ) {
    }

    /// Sentences on the evaluations of the whole run; the latest are those after `_step`.
    fn laws(&self, _state: &Self::State, _step: u64, _latest: &[Evaluation]) -> Vec<String> {
        Vec::new()
    }
}

/// A run that is ready for its first step.
pub struct Prepared<T> {
    /// Notes for the user before the run starts: defects of the data, settings without effect.
    pub notes: Vec<String>,
    /// The trainer, with its data.
    pub trainer: T,
    /// The directory that model, tokenizer and chat template come from.
    pub(crate) model_dir: PathBuf,
    pub(crate) prompter: Prompter,
    pub(crate) judge: Judge,
    /// The environment and the limits of its episodes, if the recipe has one.
    pub(crate) environment: Option<(Box<dyn Environment>, EpisodeLimits)>,
    /// The evaluation sets.
    pub(crate) sets: Vec<EvaluationSet>,
    /// Texts that end a response in evaluations.
    pub(crate) eval_stop: Vec<String>,
    /// The model's parameters.
    pub(crate) layout: Layout,
    /// The teacher, if the recipe has one.
    pub teacher: Option<Teacher>,
    /// The run's demand of memory.
    pub(crate) demand: Demand,
    /// The run's amount of computation.
    pub(crate) workload: Workload,
}

impl<T: Trainer> Prepared<T> {
    /// The evaluation sets by name, with the SHA-256 of each.
    pub fn evaluations(&self) -> BTreeMap<&str, String> {
        let mut drawn = self.trainer.tables().eval.sampling();
        drawn.stop_strings.clone_from(&self.eval_stop);
        self.sets.iter().map(|set| (&*set.name, set.sha256(&drawn))).collect()
    }

    /// How many weights are trained beside how many frozen ones, if adapters are trained.
    pub fn adapters(&self) -> Option<String> {
        Some(self.trainer.tables().lora?.summary(&self.layout))
    }

    /// The latest checkpoints that are kept.
    pub fn kept_checkpoints(&self) -> usize {
        self.trainer.tables().checkpoint.keep
    }

    /// Bytes of a checkpoint's weights and moments; and the most checkpoints at a time, among them
    /// the one that is being written.
    pub fn checkpoints(&self) -> (usize, usize) {
        let Tables { run, checkpoint, .. } = self.trainer.tables();
        let due = if checkpoint.every > 0 { run.steps.div_ceil(checkpoint.every) } else { 1 };
        let best = usize::from(!self.sets.is_empty());
        let interim = usize::from(checkpoint.minutes > 0.0);
        let due = usize::try_from(due).unwrap_or(usize::MAX);
        let count = due.min(checkpoint.keep.saturating_add(best + 1)).saturating_add(interim);
        (self.checkpoint_sets().iter().sum(), count)
    }

    /// The number of ranks, and most bytes of a checkpoint that one of them writes.
    pub fn checkpoint_of_rank(&self) -> (usize, usize) {
        let ranks = self.demand.sets.ranks;
        (ranks, most_of_a_rank(&self.checkpoint_sets(), ranks))
    }

    /// Bytes of a checkpoint's sets of files: the model, its exact weights if the model is rounded,
    /// its moments; a process model, its moments.
    fn checkpoint_sets(&self) -> [usize; 5] {
        let Tables { checkpoint, process_model, .. } = self.trainer.tables();
        let (exact, moments) = (4, 4 * MOMENTS);
        let policy = if checkpoint.dtype == Dtype::Float32 { [exact, 0] } else { [2, exact] };
        let process_model = if process_model.is_some() { [exact, moments] } else { [0, 0] };
        let [weights, exact] = policy;
        let [of_process_model, its_moments] = process_model;
        [weights, exact, moments, of_process_model, its_moments]
            .map(|bytes| bytes * count(self.layout.trained()))
    }

    /// Plans a device's memory. `available` are the bytes that the run may take unless the recipe
    /// says.
    pub fn plan(&self, backend: &dyn Backend, available: usize) -> Result<Plan> {
        let memory = self.trainer.tables().memory;
        Ok(Plan::new(backend, &self.layout, self.demand(backend), memory, available)?)
    }

    /// The least budget for which a plan exists, in bytes.
    pub fn least(&self, backend: &dyn Backend) -> usize {
        Plan::least(backend, &self.layout, self.demand(backend))
    }

    /// The run's demand of memory, with the teacher's part.
    fn demand(&self, backend: &dyn Backend) -> Demand {
        let of_teacher =
            |teacher: &Teacher| TeacherBytes::of(backend, &teacher.layout, self.demand);
        let teacher = self.teacher.as_ref().map(of_teacher).unwrap_or_default();
        let its = self.teacher.as_ref().map_or(&self.layout, |teacher| &teacher.layout);
        let row = if self.demand.is_taught { its.taught_bytes_per_token(backend) } else { 0 };
        Demand { teacher: teacher.with_rows(row), ..self.demand }
    }

    /// Estimates the run's time on a device, whose speed is measured for a tenth of a second.
    pub fn estimate(&self, backend: &dyn Backend, plan: &Plan) -> Result<Estimate> {
        self.estimate_with(backend, plan, &mut Speeds::default())
    }

    /// Like [`estimate`](Self::estimate), with speeds that were measured on this device before.
    pub fn estimate_with(
        &self,
        backend: &dyn Backend,
        plan: &Plan,
        speeds: &mut Speeds,
    ) -> Result<Estimate> {
        let speed = speeds.of(backend, &self.layout, self.workload.sampled_at_a_time)?;
        Ok(self.workload.estimate(&self.layout, self.kept(backend, plan), speed))
    }

    /// The least time of a step on a device with these peaks.
    pub fn limit(&self, backend: &dyn Backend, plan: &Plan, peak: Peak) -> Limit {
        Limit::new(self.workload.cost(backend, &self.layout, self.kept(backend, plan), plan), peak)
    }

    /// Like [`limit`](Self::limit), with peaks that are measured for a tenth of a second, unless
    /// they are known.
    pub fn measured_limit(
        &self,
        backend: &dyn Backend,
        plan: &Plan,
        speeds: &mut Speeds,
    ) -> Result<(Limit, Peak)> {
        let speed = speeds.of(backend, &self.layout, self.workload.sampled_at_a_time)?;
        let peak = Peak::measure(backend, speed)?;
        Ok((self.limit(backend, plan, peak), peak))
    }

    /// The shares that a plan has room to keep for backward passes.
    fn kept(&self, backend: &dyn Backend, plan: &Plan) -> KeptShares {
        let slots = self.demand.activation_slots;
        let of_sampling = plan.passes().activation_slots as f64 / slots.max(1) as f64;
        let each = |kind| self.layout.tape_bytes_per_token(backend, kind) as f64;
        let (least, all) = (each(TapeKind::BlockInputs), each(TapeKind::Activations));
        let of_passes = (plan.tape as f64 / plan.tape_tokens.max(1) as f64 - least) / (all - least);
        KeptShares { of_sampling, of_passes: of_passes.clamp(0.0, 1.0) }
    }

    /// The first texts that the run will learn from, as the model will see them.
    pub fn preview(&mut self, count: usize) -> Result<Vec<String>> {
        self.trainer.preview(&self.prompter, count)
    }

    /// The first of these texts as a teacher is shown it, if that is another.
    pub fn preview_taught(&mut self) -> Result<Option<String>> {
        self.trainer.preview_taught(&self.prompter)
    }

    /// The beginning of an episode, if the recipe has an environment: a turn that is made up and
    /// what the model is given behind it.
    ///
    /// # Errors
    /// The environment's fault.
    pub fn preview_episode(&mut self) -> Result<Option<EpisodePreview>> {
        let (Some((environment, limits)), Some(problem)) =
            (&self.environment, self.trainer.first_problem())
        else {
            return Ok(None);
        };
        let preview = Turns::new(&**environment, limits, &self.prompter).preview(&problem);
        let failed =
            |what| Error::Run(format!("{}: the environment failed: {what}", problem.origin));
        Ok(Some(preview.map_err(failed)?))
    }
}

/// The context of the first half of a step. The weights cannot be changed through it.
pub struct CollectContext<'a> {
    /// The step, from 1.
    pub step: u64,
    /// The model in training, with all weights if the trainer
    /// [samples](Trainer::samples).
    pub model: &'a Model,
    /// The checksum of its trained weights and, if these are an adapter, of its base.
    pub checksum: u64,
    /// Keeps activations from sampling for the update, if memory allows.
    pub activation_cache: Option<&'a mut ActivationCache>,
    /// The ranks that train together.
    pub ranks: &'a TrainingRanks,
    /// Turns problems into tokens.
    pub prompter: &'a Prompter,
    /// Judges responses.
    pub judge: &'a Judge,
    /// The environment that answers the model's turns, if the recipe has one.
    pub turns: Option<Turns<'a>>,
    /// Memory of sampling.
    pub limits: Limits,
    /// The directory that responses are kept in.
    pub directory: &'a RunDirectory,
    /// The measurements of the step.
    pub record: &'a mut StepRecord,
    /// The observer of the run.
    pub observer: &'a mut dyn Observer,
}

/// The context of the second half of a step.
pub struct LearnContext<'a> {
    /// The step, from 1.
    pub step: u64,
    /// The model in training, with its gradient and its optimizer.
    pub learner: &'a mut Learner,
    /// The process model, if the recipe has one.
    pub process_model: Option<&'a mut Learner>,
    /// The model that training started from, where the loss, the process model or a teacher needs
    /// it.
    pub reference: Option<&'a Model>,
    /// The teacher, if the recipe names a model.
    pub teacher: Option<&'a Model>,
    /// Renders prompts.
    pub prompter: &'a Prompter,
    /// Whether each phase must return its memory before the next ([`Plan::is_tight`]).
    pub is_tight: bool,
    /// The learning rate of this step's updates.
    pub learning_rate: f64,
    /// The measurements of the step.
    pub record: &'a mut StepRecord,
    /// The observer of the run.
    pub observer: &'a mut dyn Observer,
}
