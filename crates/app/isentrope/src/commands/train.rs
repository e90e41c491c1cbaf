//! `isentrope train`, and the part that `sft` shares with it: from a recipe to a run directory.

mod card;
mod dry_run;
mod flags;
mod manifest;

pub use flags::RunArguments;

use crate::device::{self, Device, DeviceRequest};
use crate::disk::Room;
use crate::interrupt::{self, Interrupted};
use crate::memory::Memory;
use crate::messages;
use crate::progress::Download;
use crate::ranks::{self, Ranks, Watcher};
use crate::recipe;
use crate::run_directory::{self, default_out, latest_checkpoint, refuse_as_moved};
use crate::standard_output::print;
use crate::terminal;
use crate::trace::{StepTrace, TraceRequest};
use anyhow::{Context, Result, anyhow};
use clap::Args;
use dry_run::{Share, Target};
use isentrope_budget::memory::Plan;
use isentrope_data::Template;
use isentrope_files::Digest;
use isentrope_hub::{self as hub, HubConfig};
use isentrope_kernels::Backend;
use isentrope_model::ModelConfig;
use isentrope_model::chat_template::{ChatTemplate, Date};
use isentrope_model::tokenizer::SpecialTokens;
use isentrope_ranks::{Watch, shards_of_rank};
use isentrope_train::observer::ProgressObserver;
use isentrope_train::run::{Ending, Existing, RunLocation, RunSummary, word};
use isentrope_train::teacher::TEACHER;
use isentrope_train::trainer::{Tables, TrainingRecipe};
use isentrope_train::training_loop;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Train a model by reinforcement learning
///
/// A recipe names the model, the problems, the verifier, the objective and everything else;
/// recipes/ has some to start from. The run directory gets the resolved recipe, metrics.jsonl (the
/// same bytes whenever the same recipe runs), TensorBoard events, every sampled response with its
/// verdict, and checkpoints that transformers and vLLM load.
///
/// Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end the run after the current step and save it; --resume
/// continues from the last checkpoint, also after a crash.
///
/// --ranks, torchrun, srun and mpirun start several processes that train together, to the same
/// bits: docs/guides/several-machines.md.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    pub arguments: RunArguments,
}

impl RunArguments {
    /// Trains by a recipe, with reinforcement learning or on examples, and prints the results.
    pub fn train<R: TrainingRecipe>(self, command: &str) -> Result<()> {
        match &self.recipe {
            Some(path) if !self.keys => {
                // The recipe decides how ranks connect, so it is read before. An error in it is
                // reported after they have connected.
                let mut recipe: R = recipe::load(path, &self.set).unwrap_or_default();
                let settings = recipe.tables().ranks;
                let known = settings.check().map(|()| settings.patience());
                let patience = known.unwrap_or(Watch::default().silent);
                let work = |ranks: &Ranks| self.train_on::<R>(path, ranks, command);
                let shards = *recipe.shards_mut().1;
                let here = self.ranks_here(command, shards);
                ranks::together(self.threads, here, patience, work)
            }
            _ => print(&recipe::reference::<R>()),
        }
    }

    /// One rank's part: it checks everything that files and flags say, then opens its device and
    /// trains.
    fn train_on<R: TrainingRecipe>(&self, path: &Path, ranks: &Ranks, command: &str) -> Result<()> {
        let (recipe, place, shards) = self.resolve::<R>(path, ranks)?;
        let most = self.most_memory()?;
        let request = self.device(recipe.tables().device.kind)?;
        if ranks.is_first() {
            place.check_name().with_context(|| path.display().to_string())?;
            self.check_resumable(&place.dir)?;
        }
        if self.dry_run {
            return self.dry_run(recipe, &place, ranks, request, most, shards);
        }
        if ranks.is_first() && ranks.world.size() > 1 {
            // One process alone would make other weights.
            let found = |found: &String| format!("{found}; other numbers make other weights");
            shards.iter().map(found).for_each(|note| messages::note(&note));
        }
        let trace = self.trace(recipe.tables().run.steps, ranks)?;
        if self.end_with_standard_input && ranks.is_first() {
            interrupt::end_with_standard_input();
        }
        if ranks.is_first() {
            place.check()?; // the others would find what the first has begun
        }
        let mut digest = Digest::sha256();
        digest.update(place.recipe.0.as_bytes());
        ranks.world.same("recipe", &digest.hex())?;
        let device = open(&recipe, request, ranks)?;
        ranks.world.same("arithmetic", device.arithmetic())?;
        // Every rank makes the same plan, whatever its device has free at this moment.
        let available = ranks.world.least(device.available(most) as u64)? as usize;
        let checkpoints = place.dir.join("checkpoints");
        device
            .run(|backend| {
                Training { recipe, place, ranks, command, available, trace }.run(backend, &device)
            })
            .map_err(|error| match error.downcast_ref::<device::Failed>() {
                Some(failed) => self.with_remedies(failed, &checkpoints),
                None => error,
            })
    }

    /// Reads the recipe, fills in its defaults, and checks it; also says where the run is kept, and
    /// how the number of shards was found if the recipe does not set it.
    fn resolve<R: TrainingRecipe>(
        &self,
        path: &Path,
        ranks: &Ranks,
    ) -> Result<(R, RunLocation, Option<String>)> {
        let mut recipe: R = recipe::load(path, &self.set)?;
        let dir = recipe.run_mut().out.get_or_insert_with(|| default_out(path)).clone();
        let key = |set: &String| set.split('=').next().is_some_and(|key| key.trim() == "run.out");
        if !self.set.iter().any(key) {
            refuse_as_moved(path, &dir)?;
        }
        let shards = self.settle_shards(&mut recipe, &dir, ranks)?;
        recipe.resolve().with_context(|| path.display().to_string())?;
        shards_of_rank(recipe.tables().shards, self.count(ranks), 0)?;
        refuse_misplaced_models(&recipe, path)?;
        let place = RunLocation {
            dir,
            existing: self.existing(),
            source: path.to_path_buf(),
            recipe: rendered(&recipe)?,
            defaults: serde_json::to_value(R::default())?,
        };
        Ok((recipe, place, shards))
    }

    /// Sets the number of shards if the recipe does not: a resumed run keeps its own, a new one has
    /// one per rank. Says so.
    fn settle_shards<R: TrainingRecipe>(
        &self,
        recipe: &mut R,
        out: &Path,
        ranks: &Ranks,
    ) -> Result<Option<String>> {
        let (key, shards) = recipe.shards_mut();
        if shards.is_some() {
            return Ok(None);
        }
        let count = self.count(ranks);
        let found = ranks.first_finds(|| {
            let is_resumed = self.existing() == Existing::Resume;
            let saved = if is_resumed { RunLocation::saved_setting(out, key) } else { None };
            saved.and_then(|value| value.as_u64()).unwrap_or(count as u64).to_string()
        })?;
        let found = found.parse().with_context(|| key)?;
        *shards = Some(found);
        let why = if found == count { "one for each rank" } else { "as the run has it" };
        Ok(Some(format!("{key} = {found}, {why}, since the recipe does not set it")))
    }

    /// The dry run. Every rank opens its device, since ranks count who shares it; the first
    /// prints.
    fn dry_run<R: TrainingRecipe>(
        &self,
        recipe: R,
        place: &RunLocation,
        ranks: &Ranks,
        request: DeviceRequest,
        most: usize,
        shards: Option<String>,
    ) -> Result<()> {
        let target = match self.card()? {
            Some(card) => Target::Card(card),
            None => Target::Device(open(&recipe, request, ranks).map(|device| (device, most))),
        };
        match target {
            target if ranks.is_first() => {
                let share = Share { count: self.count(ranks), shards };
                dry_run::dry_run(recipe, place, ranks, share, target, self.all)
            }
            Target::Device(opened) => opened.map(drop),
            Target::Card(_) => Ok(()),
        }
    }
}

/// Opens this rank's device, then waits until all ranks have theirs: some may share one, others are
/// connected.
fn open<R: TrainingRecipe>(recipe: &R, request: DeviceRequest, ranks: &Ranks) -> Result<Device> {
    let (dtype, threads) = (recipe.tables().device.dtype, Some(ranks.threads));
    let mut device = device::open(request, "device.dtype", dtype, threads, ranks.local_rank())?;
    device::settle(&mut device, &ranks.world)?;
    device::connect(&device, &ranks.world, recipe.tables().ranks)?;
    Ok(device)
}

/// A run whose recipe is resolved and whose device is open.
struct Training<'a, R> {
    recipe: R,
    place: RunLocation,
    ranks: &'a Ranks,
    command: &'a str,
    /// Bytes of the device's memory.
    available: usize,
    trace: Option<TraceRequest>,
}

impl<R: TrainingRecipe> Training<'_, R> {
    /// Fetches, checks, plans, announces and trains. Files of some megabytes decide whether the run
    /// is possible, so the weights, which have gigabytes, are fetched only after the plan.
    fn run(self, backend: Arc<dyn Backend>, device: &Device) -> Result<()> {
        let Self { mut recipe, mut place, ranks, command, available, trace } = self;
        let model = recipe.tables().model.clone();
        let count = ranks.world.size();

        // The model's configuration and tokenizer.
        let hub = HubConfig::from_env()?;
        let download: &dyn hub::Progress =
            if ranks.is_first() { &Download::default() } else { &() };
        let describe = || Ok(hub::describe(&hub, &model.path, download)?);
        let model_dir = ranks.first_then_all(describe)?;
        settle_date_of_ranks(&mut recipe, &mut place, &model_dir, ranks)?;
        if ranks.is_first() {
            check_kind(&recipe, &place, &model_dir)?;
        }

        let mut watcher = Watcher::new(ranks);
        watcher.tracing(trace.map(|trace| StepTrace::new(trace, device.clone())));
        watcher.heading(&format!("{} on {}", model.path, place.dir.display()));
        device.heading().iter().for_each(|heading| watcher.heading(heading));

        // Whether the run is possible: first the model's shapes and size, then the data, then the
        // plan.
        let config = ModelConfig::read(&model_dir)?;
        device.check_shapes(&model_dir, &config)?;
        let layout = recipe.tables().layout(&model_dir, &config)?;
        Plan::check_model(
            &*backend,
            &layout,
            recipe.parameter_sets(count),
            recipe.tables().memory,
            available,
        )
        .map_err(|error| device.unfitting(error))?;
        let prepared = ranks.first_then_all(|| Ok(recipe.prepare(&model_dir, count, download)?))?;
        if let Some(teacher) = &prepared.teacher {
            device.check_shapes(&teacher.dir, &teacher.config)?;
        }
        let plan = prepared.plan(&*backend, available).map_err(|error| device.unfitting(error))?;
        plan.check_host(Memory::now().available as usize / ranks.local_rank().of)?;
        device.keep_within(plan.budget / 9 * 10); // with the tenth that a plan leaves free
        ranks.is_settled.set(true);

        watcher.heading(&plan.to_string());
        prepared.adapters().iter().for_each(|adapters| watcher.heading(adapters));
        watcher.heading(&prepared.estimate(&*backend, &plan)?.to_string());
        let products = device.products(&layout, &config, plan.micro_batch_tokens);
        products.iter().for_each(|products| watcher.heading(&products.to_string()));
        let dir = word(&place.dir.display().to_string());
        watcher.heading(&format!("watch it: isentrope show {dir} --follow"));
        let room = Room::of(&prepared, &place).warning();
        for note in prepared.notes.iter().chain(&room) {
            watcher.note(note);
        }

        // The weights, and the record of all files.
        if !model.from_scratch {
            let complete = || Ok(hub::complete(&hub, &model.path, &model_dir, download)?);
            ranks.first_then_all(complete)?;
        }
        if let Some(teacher) = &prepared.teacher {
            let complete = || Ok(hub::complete(&hub, &teacher.path, &teacher.dir, download)?);
            ranks.first_then_all(complete)?;
        }
        let manifest = manifest::manifest(device, products, &prepared, ranks, &model_dir)?;
        manifest::check_same_files(&manifest, ranks)?;

        if ranks.is_first() {
            interrupt::end_saying(
                "interrupted before the first step: nothing is lost, --resume starts here again",
            );
        } else {
            interrupt::wind_up_quietly();
        }
        let world = Arc::clone(&ranks.world);
        let summary =
            training_loop::train(prepared, &plan, &place, world, backend, manifest, &mut watcher)
                .map_err(isentrope_train::Error::or_free_space)?;
        watcher.finish();
        if ranks.is_first() {
            record_decoding_steps(device, &place);
        }
        conclude(&summary, command, ranks)
    }
}

/// Adds to the manifest how decoding steps were launched. A failure is only noted: the run is
/// complete without it.
fn record_decoding_steps(device: &Device, place: &RunLocation) {
    if let Some(steps) = device.steps_manifest()
        && let Err(error) = place.add_to_manifest("device", "decoding_steps", steps)
    {
        messages::note(&format!(
            "how decoding steps were launched is not in the manifest: {error}"
        ));
    }
}

/// Prints the summary; an interrupted run ends with an error that says how it continues.
fn conclude(summary: &RunSummary, command: &str, ranks: &Ranks) -> Result<()> {
    let printed = if ranks.is_first() { terminal::print_summary(summary, command) } else { Ok(()) };
    match summary.ending {
        Ending::Complete => printed,
        Ending::Interrupted => Err(Interrupted { kept: kept(summary) }.into()),
    }
}

/// A phrase with the step that an interrupted run has saved.
fn kept(summary: &RunSummary) -> String {
    match &summary.checkpoint {
        Some(saved) => {
            format!("step {} is saved in {}; --resume goes on", summary.step, saved.display())
        }
        None => "nothing has been trained yet; --resume starts again".into(),
    }
}

/// The recipe with every default, as text and as values.
fn rendered<R: TrainingRecipe>(recipe: &R) -> Result<(String, Value)> {
    Ok((recipe::render(recipe), serde_json::to_value(recipe)?))
}

/// Writes into the recipe the date that the chat template asks for: a resumed run keeps its own, a
/// new one has today's. A template that is wrong is reported when it is used.
fn settle_date<R: TrainingRecipe>(recipe: &mut R, model_dir: &Path, place: &RunLocation) {
    let data = recipe.data_mut();
    let is_open = data.date.is_none() && data.template != Template::None;
    let template = || ChatTemplate::read(model_dir, &SpecialTokens::default(), None).ok().flatten();
    let Some(today) = is_open.then(template).flatten().and_then(|template| template.date()) else {
        return;
    };
    let is_resumed = place.existing == Existing::Resume;
    let saved = if is_resumed { RunLocation::saved_setting(&place.dir, "data.date") } else { None };
    let saved = saved.and_then(|date| date.as_str()?.parse().ok());
    data.date = Some(saved.unwrap_or(today));
}

/// Writes the first rank's date into every rank's recipe.
fn settle_date_of_ranks<R: TrainingRecipe>(
    recipe: &mut R,
    place: &mut RunLocation,
    model_dir: &Path,
    ranks: &Ranks,
) -> Result<()> {
    let date = ranks.first_finds(|| {
        settle_date(recipe, model_dir, place);
        recipe.data_mut().date.map_or(String::new(), |date: Date| date.to_string())
    })?;
    if let Ok(date) = date.parse() {
        recipe.data_mut().date = Some(date);
        place.recipe = rendered(recipe)?;
    }
    Ok(())
}

/// The directory of a model with its configuration and tokenizer, for a look ahead, which does not
/// wait for an unreachable hub: there are no retries.
pub fn describe_without_retries(model: &str) -> hub::Result<PathBuf> {
    let hub = HubConfig { retries: 0, ..HubConfig::from_env()? };
    hub::describe(&hub, model, &Download::default())
}

/// Asks for the recipe's teacher without retries. [`TrainingRecipe::prepare`] opens it by the same
/// answers, so it does not wait either, and says what is wrong.
pub fn ask_for_teacher<R: TrainingRecipe>(recipe: &R) {
    let _ = recipe.tables().teacher.map(describe_without_retries);
}

/// Refuses to resume a run with a model or adapters of another kind.
fn check_kind<R: TrainingRecipe>(recipe: &R, place: &RunLocation, model_dir: &Path) -> Result<()> {
    let is_resumed = place.existing == Existing::Resume;
    let saved = is_resumed.then(|| latest_checkpoint(&place.dir.join("checkpoints"))).flatten();
    saved.map_or(Ok(()), |saved| Ok(training_loop::check_kind(recipe.tables(), model_dir, &saved)?))
}

/// Refuses paths of the recipe's models that would be taken for hub ids by mistake: a link to
/// nothing, a checkpoint that no run has written, or a directory that stands beside the recipe and
/// not here. Refuses a run's directory too.
pub fn refuse_misplaced_models<R: TrainingRecipe>(recipe: &R, file: &Path) -> Result<()> {
    let Tables { model, teacher, lora, .. } = recipe.tables();
    let adapter = lora.and_then(|lora| lora.adapter.as_deref());
    let named = [
        ("model.path", Some(Path::new(&model.path))),
        (TEACHER, teacher.map(Path::new)),
        ("lora.adapter", adapter),
    ];
    let mut named = named.into_iter().filter_map(|(key, path)| Some((key, path?)));
    named.try_for_each(|(key, path)| refuse_misplaced(key, path, file))
}

fn refuse_misplaced(key: &'static str, model: &Path, recipe: &Path) -> Result<()> {
    isentrope_files::refuse_dangling(model).context(key)?;
    run_directory::refuse_as_model(model).context(key)?;
    let beside =
        recipe.ancestors().skip(1).take(2).map(|dir| dir.join(model)).find(|dir| dir.is_dir());
    match beside {
        Some(found) if !model.is_dir() => Err(anyhow!(
            "{key}: there is no directory {} here, and paths are relative to the current \
             directory; there is {}",
            model.display(),
            found.display()
        )),
        _ => refuse_unwritten(model).context(key),
    }
}

/// Refuses the directory of a checkpoint that is not there.
fn refuse_unwritten(model: &Path) -> Result<()> {
    let checkpoints = model.parent().filter(|dir| dir.ends_with("checkpoints"));
    let run = checkpoints.and_then(Path::parent).filter(|run| !run.as_os_str().is_empty());
    let Some(run) = run.filter(|_| !model.is_dir()) else { return Ok(()) };
    let (model, run) = (model.display(), run.display());
    Err(anyhow!("there is no {model} here: train the run {run}, which is to write it, first"))
}
