//! `isentrope train`: reinforcement learning; and what `sft` shares with it, from a recipe to a run directory.

mod card;

use crate::device::{self, Device, DeviceFlag, Wanted};
use crate::interrupt::{self, Interrupted};
use crate::loaded_model::file_hashes;
use crate::memory::Memory;
use crate::messages;
use crate::progress::Download;
use crate::ranks::{self, Ranks, Watcher};
use crate::recipe;
use crate::run_directory;
use crate::standard_output::{print, print_text};
use crate::terminal;
use crate::trace::{StepTrace, TraceFile};
use anyhow::{Context, Error, Result, anyhow};
use card::Card;
use clap::Args;
use isentrope_data::{DataSettings, FileHash, Template};
use isentrope_files::Digest;
use isentrope_kernels::{Backend, Isa};
use isentrope_model::chat_template::{ChatTemplate, Date};
use isentrope_model::hub::{self, HubConfig};
use isentrope_model::tokenizer::SpecialTokens;
use isentrope_model::{Layout, ModelConfig};
use isentrope_ranks::shards_of_rank;
use isentrope_train::estimate::Speeds;
use isentrope_train::observer::ProgressObserver;
use isentrope_train::plan::Plan;
use isentrope_train::run::{Ending, Existing, RunLocation, RunSummary};
use isentrope_train::trainer::{Prepared, Trainer, TrainingRecipe};
use isentrope_train::training_loop;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Train a model by reinforcement learning
///
/// A recipe names the model, the problems, the verifier, the objective and everything else; recipes/ has some to start from.
/// The run directory gets the resolved recipe, metrics.jsonl (the same bytes whenever the same recipe runs), TensorBoard
/// events, every sampled response with its verdict, and checkpoints that transformers and vLLM load.
///
/// Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end the run after the current step and save it; --resume goes on from the last
/// checkpoint, also after a crash.
///
/// mpirun and srun start several processes that train together, to the same bits: docs/guides/several-machines.md.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    pub arguments: RunArguments,
}

/// Prompts or examples that a dry run shows.
const SHOWN: usize = 3;

/// What every command that trains takes.
#[derive(Args)]
pub struct RunArguments {
    /// The recipe, a TOML file; docs/reference/recipe.md has every key
    #[arg(value_name = "RECIPE", required_unless_present = "keys")]
    recipe: Option<PathBuf>,
    /// Sets a key of the recipe, as in --set optimizer.learning_rate=1e-5 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Goes on from the run's latest checkpoint, to the same bits as if it had never stopped
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Removes the run that is in the directory, and starts anew
    #[arg(long)]
    overwrite: bool,
    /// Shows what the run needs of memory and time, the recipe with every default and the first prompts; trains nothing. Of a
    /// model on the hub, only configuration and tokenizer are fetched
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: plans for a GPU of so many GB, such as 24, 80 or 141, whether there is one here or not
    #[arg(long, value_name = "GB", requires = "dry_run")]
    gpu_memory: Option<f64>,
    /// With --dry-run: plans for such a GPU (a100, a100-40gb, a100-pcie, l40s, rtx4090, h100-pcie, h100, h200, b200), and says
    /// how long a step takes at least by its data sheet
    #[arg(long, value_name = "NAME", requires = "dry_run", conflicts_with = "gpu_memory")]
    gpu: Option<String>,
    /// Prints what every key of a recipe means, as Markdown, and does nothing else
    #[arg(long, exclusive = true)]
    keys: bool,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    device: DeviceFlag,
    /// Writes where the time of one step goes, in Chrome's trace event format, which https://ui.perfetto.dev opens
    /// (docs/reference/commands.md). No result depends on it
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    trace: Option<PathBuf>,
    /// With --trace: which step [default: the second that is made]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    trace_step: Option<u64>,
    /// Takes at most so many GiB of the device's memory for free; the run takes nine tenths of that unless memory.budget_gib says
    /// [default: what is free]. Results do not depend on it
    #[arg(long, value_name = "GIB")]
    free_memory: Option<f64>,
    /// Ends the run after the current step, and saves it, when standard input ends: how a sweep ends its runs
    #[arg(long, hide = true)]
    end_with_standard_input: bool,
}

impl RunArguments {
    /// Trains as the recipe says, by reinforcement learning or on examples, and says what has come of it.
    pub fn train<R: TrainingRecipe>(self, command: &str) -> Result<()> {
        match &self.recipe {
            Some(path) if !self.keys => {
                ranks::together(self.threads, |ranks| self.train_on::<R>(path, ranks, command))
            }
            _ => print(&recipe::reference::<R>()),
        }
    }

    /// The part of one rank.
    fn train_on<R: TrainingRecipe>(&self, path: &Path, ranks: &Ranks, command: &str) -> Result<()> {
        let mut recipe: R = recipe::load(path, &self.set)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let out = recipe.run_mut().out.get_or_insert_with(|| Path::new("runs").join(&*name)).clone();
        self.settle_shards(&mut recipe, &out, ranks)?;
        recipe.resolve().with_context(|| path.display().to_string())?;
        shards_of_rank(recipe.tables().shards, ranks.world.size(), ranks.world.rank())?;
        refuse_misplaced(Path::new(&recipe.tables().model.path), path)?;
        let most = most_memory(self.free_memory)?;
        let wanted = device::wanted(&self.device, recipe.tables().device.kind)?;
        let place = RunLocation {
            dir: out,
            existing: match (self.resume, self.overwrite) {
                (true, _) => Existing::Resume,
                (_, true) => Existing::Overwrite,
                _ => Existing::Refuse,
            },
            source: path.to_path_buf(),
            recipe: resolved(&recipe)?,
            defaults: serde_json::to_value(R::default())?,
        };
        if ranks.is_first() {
            place.check_name().with_context(|| path.display().to_string())?;
        }
        if self.dry_run {
            let card = match (&self.gpu, self.gpu_memory) {
                (Some(name), _) => Some(Card::named(name)?),
                (None, Some(gb)) => Some(Card::new(gb)?),
                (None, None) => None,
            };
            let on = match card {
                Some(card) => On::Card(card),
                None => On::Device(open(&recipe, wanted, ranks).map(|device| (device, most))),
            };
            return match on {
                on if ranks.is_first() => dry_run(recipe, &place, ranks, on),
                On::Device(opened) => opened.map(drop),
                On::Card(_) => Ok(()),
            };
        }
        let trace = self
            .trace
            .as_deref()
            .map(|path| self.trace_to(path, recipe.tables().run.steps, ranks))
            .transpose()?;
        if self.end_with_standard_input {
            interrupt::end_with_standard_input();
        }
        if ranks.is_first() {
            place.check()?; // the others would find what the first has begun
        }
        let mut digest = Digest::sha256();
        digest.update(place.recipe.0.as_bytes());
        ranks.world.same("recipe", &digest.hex())?;
        let device = open(&recipe, wanted, ranks)?;
        ranks.world.same("arithmetic", device.arithmetic())?;
        let available = device.available(most);
        let checkpoints = place.dir.join("checkpoints");
        device
            .run(|backend| {
                Training {
                    recipe,
                    place,
                    ranks,
                    command,
                    available,
                    trace: trace.map(|file| (file, self.trace_step)),
                }
                .run(backend, &device)
            })
            .map_err(|error| match error.downcast_ref::<device::Failed>() {
                Some(failed) => self.remedied(failed, &checkpoints),
                None => error,
            })
    }

    /// A device's failure, with what helps: less memory where that was lacking, and how a run that has saved something goes on.
    fn remedied(&self, failed: &device::Failed, checkpoints: &Path) -> Error {
        let mut said = failed.to_string();
        if failed.lacks_memory() {
            said += "; --free-memory or memory.budget_gib has the run take less";
        }
        if isentrope_files::names(checkpoints).is_ok_and(|names| !names.is_empty()) {
            let instead = if self.overwrite { "--resume in place of --overwrite" } else { "--resume" };
            said += &format!("; the same command with {instead} goes on from the last checkpoint");
        }
        Error::msg(said)
    }

    /// The trace that is asked for, of a run of so many steps.
    fn trace_to(&self, path: &Path, steps: u64, ranks: &Ranks) -> Result<TraceFile> {
        if let Some(step) = self.trace_step.filter(|&step| step > steps) {
            return Err(anyhow!("--trace-step is {step}, and the run has {steps} steps"));
        }
        TraceFile::new(path, ranks.world.rank(), ranks.world.size())
    }

    /// Where the recipe does not say how many shards an update has: as many as the run has that is resumed, or as there are
    /// ranks.
    fn settle_shards<R: TrainingRecipe>(&self, recipe: &mut R, out: &Path, ranks: &Ranks) -> Result<()> {
        let (key, shards) = recipe.shards_mut();
        if shards.is_some() {
            return Ok(());
        }
        let found = ranks.first_finds(|| {
            let saved = if self.resume { RunLocation::saved_setting(out, key) } else { None };
            saved.and_then(|value| value.as_u64()).unwrap_or(ranks.world.size() as u64).to_string()
        })?;
        *shards = Some(found.parse().with_context(|| key)?);
        Ok(())
    }
}

/// Opens the device of this rank, once all ranks have: some may share it.
fn open<R: TrainingRecipe>(recipe: &R, wanted: Wanted, ranks: &Ranks) -> Result<Device> {
    let dtype = ("device.dtype", recipe.tables().device.dtype);
    let mut device = device::open(wanted, dtype, Some(ranks.threads), ranks.seat())?;
    device::settle(&mut device, &ranks.world)?;
    Ok(device)
}

/// A run that can begin, once there is a device.
struct Training<'a, R> {
    recipe: R,
    place: RunLocation,
    ranks: &'a Ranks,
    command: &'a str,
    /// Bytes of the device's memory.
    available: usize,
    /// Where a trace goes, and of which step, if it was said.
    trace: Option<(TraceFile, Option<u64>)>,
}

impl<R: TrainingRecipe> Training<'_, R> {
    fn run(self, backend: Arc<dyn Backend>, device: &Device) -> Result<()> {
        let Self { mut recipe, mut place, ranks, command, available, trace } = self;
        let model = recipe.tables().model.clone();
        // Whether the run can be is known from files of some megabytes; weights of gigabytes are fetched after that.
        let hub = HubConfig::from_env()?;
        let download: &dyn hub::Progress = if ranks.is_first() { &Download::default() } else { &() };
        let describe = || Ok(hub::describe_with(&hub, &model.path, download)?);
        let model_dir = ranks.first_then_all(describe)?;
        let date = ranks.first_finds(|| {
            let date = date_asked_for(recipe.data_mut(), &model_dir, &place);
            date.map_or(String::new(), |date| date.to_string())
        })?;
        if let Ok(date) = date.parse() {
            recipe.data_mut().date = Some(date);
            place.recipe = resolved(&recipe)?;
        }
        let mut watcher = Watcher::new(ranks);
        watcher.tracing(trace.map(|(file, step)| StepTrace::new(file, step, device.clone())));
        watcher.heading(&format!("{} on {}", model.path, place.dir.display()));
        device.heading().iter().for_each(|heading| watcher.heading(heading));
        watcher.computing_on(device);
        let config = ModelConfig::read(&model_dir)?;
        device.check_shapes(&model_dir, &config)?;
        let layout = Layout::new(&config);
        let tables = recipe.tables();
        Plan::check_model(
            &*backend,
            &layout,
            recipe.parameter_sets(ranks.world.size()),
            tables.memory,
            available,
        )
        .map_err(|error| device.unfitting(error))?;
        let count = ranks.world.size();
        let prepared = ranks.first_then_all(|| Ok(recipe.prepare(&model_dir, count, download)?))?;
        let plan = prepared.plan(&*backend, available).map_err(|error| device.unfitting(error))?;
        plan.check_host(Memory::now().available as usize / ranks.seat().of)?;
        device.keep_within(plan.budget / 9 * 10); // with the tenth that a plan leaves free
        ranks.is_settled.set(true);
        watcher.heading(&plan.to_string());
        watcher.heading(&prepared.estimate(&*backend, &plan)?.to_string());
        let products = device.products(&layout, &config, plan.micro_batch_tokens);
        products.iter().for_each(|products| watcher.heading(&products.to_string()));
        watcher.heading(&format!("watch it: isentrope show {} --follow", place.dir.display()));
        for note in &prepared.notes {
            watcher.note(note);
        }
        if !model.from_scratch {
            let complete = || Ok(hub::complete_with(&hub, &model.path, &model_dir, download)?);
            ranks.first_then_all(complete)?;
        }
        let mut manifest = manifest(device, &prepared.trainer, ranks, &model_dir)?;
        if let Some(products) = products {
            manifest["device"]["products"] = json!(products);
        }
        same_files(&manifest, ranks)?;
        if ranks.is_first() {
            interrupt::wind_up_first("finishing the current step");
        } else {
            interrupt::wind_up_quietly();
        }
        let world = Arc::clone(&ranks.world);
        let summary = training_loop::train(prepared, &plan, &place, world, backend, manifest, &mut watcher)
            .map_err(isentrope_train::Error::or_free_space)?;
        watcher.finish();
        if let Some(steps) = device.steps_manifest().filter(|_| ranks.is_first())
            && let Err(error) = place.add_to_manifest("device", "decoding_steps", steps)
        {
            // The run has all else that it is to leave.
            messages::note(&format!("how decoding steps were launched is not in the manifest: {error}"));
        }
        let printed = if ranks.is_first() { terminal::print_summary(&summary, command) } else { Ok(()) };
        match summary.ending {
            Ending::Complete => printed,
            Ending::Interrupted => Err(Interrupted { kept: kept(&summary) }.into()),
        }
    }
}

/// The recipe with every default, as text and as values.
fn resolved<R: TrainingRecipe>(recipe: &R) -> Result<(String, Value)> {
    Ok((recipe::render(recipe), serde_json::to_value(recipe)?))
}

/// The day that a run tells the model's chat template, where that asks for it and the recipe does not say: of a run that is
/// resumed its own, else today. What is wrong with the template is said when it is used.
fn date_asked_for(data: &DataSettings, model_dir: &Path, place: &RunLocation) -> Option<Date> {
    let template = || ChatTemplate::read(model_dir, &SpecialTokens::default(), None).ok().flatten();
    let is_open = data.date.is_none() && data.template != Template::None;
    let today = is_open.then(template).flatten()?.date()?;
    let is_resumed = place.existing == Existing::Resume;
    let saved = if is_resumed { RunLocation::saved_setting(&place.dir, "data.date") } else { None };
    let date = saved.and_then(|date| date.as_str()?.parse().ok());
    Some(date.unwrap_or(today))
}

/// Refuses to go on where ranks have other files of models or data than the first.
fn same_files(manifest: &Value, ranks: &Ranks) -> Result<()> {
    let parts = [
        ("the model", "/model/sha256"),
        ("prime.model", "/model/process_model/sha256"),
        ("the data", "/data/sha256"),
    ];
    for (whose, part) in parts {
        let files = manifest.pointer(part).and_then(Value::as_object).into_iter().flatten();
        // Each machine may keep what it has fetched in a directory of its own.
        let name = |path: &str| Path::new(path).file_name().unwrap_or_default().display().to_string();
        let files: Vec<(String, &str)> =
            files.map(|(path, sha256)| (name(path), sha256.as_str().unwrap_or_default())).collect();
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        ranks.world.same(&format!("list of files of {whose}"), &names.join(", "))?;
        for (name, sha256) in &files {
            ranks.world.same(&format!("{name} of {whose}"), sha256)?;
        }
    }
    Ok(())
}

/// Everything that can be known before step 1: first what the run would need. A recipe can be looked at before its model has
/// been fetched; where that cannot even be described, its data are checked all the same.
fn dry_run<R: TrainingRecipe>(mut recipe: R, place: &RunLocation, ranks: &Ranks, on: On) -> Result<()> {
    let data = looked_at(&recipe.data_places());
    let path = recipe.tables().model.path.clone();
    hub::check_name(&path)?;
    // Who looks does not want to wait for a hub that cannot be reached.
    let hub = HubConfig { retries: 0, ..HubConfig::from_env()? };
    let dir = match hub::describe_with(&hub, &path, &Download::default()) {
        Ok(dir) => dir,
        Err(error) => {
            let notes = recipe.check_data()?;
            // Whether the device can be used does not depend on the model.
            let device = match on {
                On::Device(Err(error)) => Err(error),
                On::Device(Ok(_)) | On::Card(_) => Ok(()),
            };
            if let Err(error) = &device {
                print_text(&unusable(error))?;
            }
            print_text(&place.recipe.0)?;
            print_notes(&notes)?;
            let why = match hub::neighbours(&path).filter(|_| path.contains('/')) {
                Some(there) => {
                    format!("{path} looks like a path, and there is no such directory ({there}); {error}")
                }
                None => error.to_string(),
            };
            print_text(&format!(
                "\n# The recipe is well-formed. {}What the run needs and its prompts cannot be shown without the model. {}\n",
                commented(&data),
                commented(&why)
            ))?;
            return device;
        }
    };
    if let Some(date) = date_asked_for(recipe.data_mut(), &dir, place) {
        recipe.data_mut().date = Some(date);
    }
    let rendered = recipe::render(&recipe);
    let mut prepared = recipe.prepare(&dir, ranks.world.size(), &Download::default())?;
    let config = ModelConfig::read(&dir)?;
    let looked = match on {
        On::Card(card) => device::check_shapes(&dir, &config).map(|()| {
            let (plans, fits) = card.plans(&prepared);
            (format!("# {}\n\n", commented(plans.trim_end())), fits)
        }),
        On::Device(opened) => opened.and_then(|(device, most)| {
            device.check_shapes(&dir, &config)?;
            let of_each = Memory::now().available as usize / ranks.seat().of;
            let needs = device.run(|backend| {
                Looking { prepared: &prepared, most, of_host: of_each }.run(backend, &device)
            })?;
            Ok((format!("{needs}\n"), Ok(())))
        }),
    };
    let (needs, fits) = looked.unwrap_or_else(|error| (unusable(&error), Err(error)));
    print_text(&needs)?;
    print_text(&rendered)?;
    print_notes(&prepared.notes)?;
    for (i, text) in prepared.preview(SHOWN)?.iter().enumerate() {
        print_text(&format!("\n# ── {} of the data ──\n{text}\n", i + 1))?;
    }
    fits
}

/// What stands above the recipe where there is no plan.
fn unusable(error: &Error) -> String {
    format!("# {}\n\n", commented(&crate::sentence(error)))
}

/// On what a dry run plans.
enum On {
    /// This device, with most bytes of its memory that are taken for free; or why it cannot be used.
    Device(Result<(Device, usize)>),
    /// A GPU of which the memory is known, whether there is one or not.
    Card(Card),
}

/// What a run needs of a device, as comments above its recipe.
struct Looking<'a, T> {
    prepared: &'a Prepared<T>,
    /// Most bytes of memory that are taken for free.
    most: usize,
    /// Bytes of the host's memory that are free for this rank.
    of_host: usize,
}

impl<T: Trainer> Looking<'_, T> {
    fn run(self, backend: Arc<dyn Backend>, device: &Device) -> Result<String> {
        let plan = self.prepared.plan(&*backend, device.available(self.most));
        let plan = plan.map_err(|error| device.unfitting(error))?;
        plan.check_host(self.of_host)?;
        let heading = device.heading().map(|heading| format!("# {heading}\n")).unwrap_or_default();
        let mut speeds = Speeds::default();
        let estimate = self.prepared.estimate_with(&*backend, &plan, &mut speeds)?;
        let limit = match device.data_sheet() {
            Some((sheet, dtype)) => {
                let limit = self.prepared.limit(&*backend, &plan, card::peak(sheet, dtype));
                format!("{}: {limit}", card::at_peak(sheet))
            }
            None => {
                let (limit, peak) = self.prepared.measured_limit(&*backend, &plan, &mut speeds)?;
                let (gflops, gb) = (peak.flops / 1e9, peak.bandwidth / 1e9);
                format!(
                    "limit, not a forecast: if all ran at the {gflops:.0} GFLOP/s and {gb:.0} GB/s that were measured here: \
                     {limit}"
                )
            }
        };
        Ok(format!("# {plan}\n{heading}# {estimate}\n# {limit}\n"))
    }
}

/// Most bytes of memory that are taken for free.
fn most_memory(free_memory: Option<f64>) -> Result<usize> {
    match free_memory {
        Some(gib) if gib > 0.0 => Ok((gib * f64::from(1 << 30)) as usize),
        Some(gib) => Err(anyhow!("--free-memory is {gib}: it must be above 0")),
        None => Ok(usize::MAX),
    }
}

/// Which data can be looked at without the model, and which only together with it, as sentences.
fn looked_at(places: &[PathBuf]) -> String {
    let shown =
        places.iter().map(|place| (isentrope_data::Place::of(place).is_local(), place.display().to_string()));
    let (here, hub): (Vec<_>, Vec<_>) = shown.partition(|(is_local, _)| *is_local);
    let listed = |places: Vec<(bool, String)>| {
        places.into_iter().map(|(_, place)| place).collect::<Vec<_>>().join(", ")
    };
    let mut said = String::new();
    if !here.is_empty() {
        said += &format!("Its data on this machine can be read: {}. ", listed(here));
    }
    if !hub.is_empty() {
        said += &format!("Its data on the hub have not been looked at: {}. ", listed(hub));
    }
    said
}

fn print_notes(notes: &[String]) -> Result<()> {
    if !notes.is_empty() {
        print_text("\n")?;
    }
    notes.iter().try_for_each(|note| print_text(&format!("# note: {}\n", commented(note))))
}

/// A text whose lines stay in the comment that it begins in.
fn commented(text: &str) -> String {
    text.replace('\n', "\n# ")
}

/// What an interrupted run has kept, and how it goes on.
fn kept(summary: &RunSummary) -> String {
    match &summary.checkpoint {
        Some(saved) => format!("step {} is saved in {}; --resume goes on", summary.step, saved.display()),
        None => "nothing has been trained yet; --resume starts again".into(),
    }
}

/// A link to nothing, or a model directory that is not where the command looks but beside the recipe, would else be taken for
/// a hub id; and a run's directory for a model that lacks its files.
pub fn refuse_misplaced(model: &Path, recipe: &Path) -> Result<()> {
    isentrope_files::refuse_dangling(model).context("model.path")?;
    run_directory::refuse_as_model(model).context("model.path")?;
    let beside = recipe.ancestors().skip(1).take(2).map(|dir| dir.join(model)).find(|dir| dir.is_dir());
    match beside {
        Some(found) if !model.is_dir() => Err(anyhow!(
            "model.path: there is no directory {} here, and paths are relative to the current directory; there is {}",
            model.display(),
            found.display()
        )),
        _ => Ok(()),
    }
}

/// Under what the run was made.
fn manifest(device: &Device, trainer: &impl Trainer, ranks: &Ranks, model_dir: &Path) -> Result<Value> {
    let hash = |file: &FileHash| (file.path.display().to_string(), Value::from(file.sha256.clone()));
    let data: Map<String, Value> = trainer.data_files().iter().map(hash).collect();
    let instruction_set = Isa::from_env().map_err(Error::msg)?.to_string();
    let mut model = json!({ "path": trainer.tables().model.path, "sha256": file_hashes(model_dir)? });
    if let Some(dir) = trainer.tables().process_model.and_then(|table| table.model) {
        model["process_model"] = json!({ "path": dir, "sha256": file_hashes(dir)? });
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(json!({
        "isentrope": env!("CARGO_PKG_VERSION"),
        "started_unix_s": now,
        "seed": trainer.tables().run.seed,
        "instruction_set": instruction_set,
        "threads": ranks.threads,
        "device": device.manifest(),
        "ranks": ranks.world.size(),
        "model": model,
        "data": { "sha256": data },
        "command": std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>(),
    }))
}
