//! `--dry-run`: the needs of a run, its settings, and its first prompts.

use super::card::{self, Card};
use super::{ask_for_teacher, check_kind, describe_without_retries, settle_date};
use crate::adapters::fingerprint;
use crate::device::{self, Device};
use crate::disk::Room;
use crate::memory::{Memory, human};
use crate::messages::{PLAIN_WIDTH, fitted};
use crate::progress::Download;
use crate::ranks::Ranks;
use crate::recipe;
use crate::standard_output::{print, width};
use anyhow::Result;
use isentrope_budget::memory::Plan;
use isentrope_budget::time::Speeds;
use isentrope_hub as hub;
use isentrope_kernels::Backend;
use isentrope_model::ModelConfig;
use isentrope_rollout::EpisodePreview;
use isentrope_train::run::RunLocation;
use isentrope_train::trainer::{Prepared, Trainer, TrainingRecipe};
use std::path::PathBuf;

/// Number of prompts or examples that are shown.
const SHOWN: usize = 3;

/// The device or GPU for which the run is planned.
pub enum Target {
    /// This device and the most bytes that count as free, or the reason why it cannot be used.
    Device(Result<(Device, usize)>),
    /// A GPU of a data sheet or memory size, which need not be here.
    Card(Card),
}

/// The ranks that share the work.
pub struct Share {
    pub count: usize,
    /// How the number of shards was found, if the recipe does not set it.
    pub shards: Option<String>,
}

/// Prints everything that can be known before step 1, the needs of one rank first. If the model's
/// configuration cannot be fetched, the recipe's data are checked all the same.
pub fn dry_run<R: TrainingRecipe>(
    mut recipe: R,
    place: &RunLocation,
    ranks: &Ranks,
    share: Share,
    target: Target,
    all: bool,
) -> Result<()> {
    let path = recipe.tables().model.path.clone();
    let data = describe_data(&recipe.data_places());
    hub::check_name(&path)?;
    let model_dir = match describe_without_retries(&path) {
        Ok(dir) => dir,
        Err(error) => return without_model(&recipe, &data, &error, target, all),
    };
    ask_for_teacher(&recipe);
    settle_date(&mut recipe, &model_dir, place);
    check_kind(&recipe, place, &model_dir)?;
    recipe.tables().check_base(&model_dir, fingerprint)?;
    let rendered = rendered(&recipe, all);
    let mut prepared = recipe.prepare(&model_dir, share.count, &Download::default())?;
    let config = ModelConfig::read(&model_dir)?;
    let of_teacher = prepared.teacher.as_ref().map(|teacher| (&teacher.dir, &teacher.config));
    let models = || std::iter::once((&model_dir, &config)).chain(of_teacher);
    let check_shapes = || models().try_for_each(|(dir, config)| device::check_shapes(dir, config));
    let (needs, usable) = match target {
        Target::Card(card) => {
            check_shapes()?;
            let needs = comment(&card.plans(&prepared, share.count)?);
            (needs + &comment(&Room::elsewhere(&prepared, place).line()), Ok(()))
        }
        Target::Device(Ok((device, most))) => {
            models().try_for_each(|(dir, config)| device.check_shapes(dir, config))?;
            let free = Memory::now().available as usize;
            let of_host = free / ranks.local_rank().of;
            let needs = device.run(|backend| {
                let plan = planned(&prepared, most, of_host, &*backend, &device)?;
                let host = plan.on_host(share.count).map(|host| {
                    comment(&format!("the host's memory: {host}; {} are free here", human(free)))
                });
                Ok(needs(&prepared, &plan, &*backend, &device)? + &host.unwrap_or_default())
            })?;
            let room = Room::of(&prepared, place);
            prepared.notes.extend(room.warning());
            (needs + &comment(&room.line()), Ok(()))
        }
        // The recipe may be for a machine with the device.
        Target::Device(Err(error)) => {
            let said = crate::sentence(&error);
            let planned = "--gpu NAME or --gpu-memory GB plans for a GPU that is not here.";
            (comment(&format!("{said} {planned}")), Err(error))
        }
    };
    if share.count > 1 {
        let shards = share.shards.map(|shards| format!("; {shards}")).unwrap_or_default();
        let count = share.count;
        print(&comment(&format!("one of {count} ranks, each with a device of its own{shards}:")))?;
    }
    print(&format!("{needs}\n{rendered}"))?;
    print_notes(&prepared.notes)?;
    for (i, text) in prepared.preview(SHOWN)?.iter().enumerate() {
        print(&format!("\n# ── {} of the data ──\n{text}\n", i + 1))?;
    }
    if let Some(text) = prepared.preview_taught()? {
        print(&format!("\n# ── 1 of the data, as the teacher is shown it ──\n{text}\n"))?;
    }
    if let Some(EpisodePreview { prompt, turn, given }) = prepared.preview_episode()? {
        let heading = "an episode: ⟦sampled⟧ text is learnt, all other is given";
        let rest = match given {
            Some(given) => format!("{given}⟦...⟧"),
            None => "\n# the environment ends the episode after such a turn".to_owned(),
        };
        print(&format!("\n# ── {heading} ──\n{prompt}⟦{turn}⟧{rest}\n"))?;
    }
    usable
}

/// The recipe with every key, or its changes of the defaults.
fn rendered<R: TrainingRecipe>(recipe: &R, all: bool) -> String {
    if all {
        return recipe::render(recipe);
    }
    let heading = comment("what differs from the defaults; --dry-run --all shows every setting");
    format!("{heading}{}", recipe::render_changes(recipe))
}

/// Prints the recipe and its notes if the model's configuration cannot be fetched.
fn without_model<R: TrainingRecipe>(
    recipe: &R,
    data: &str,
    error: &isentrope_hub::Error,
    target: Target,
    all: bool,
) -> Result<()> {
    let notes = recipe.check_data()?;
    // Whether the device can be used does not depend on the model.
    let device = match target {
        Target::Device(Err(error)) => Err(error),
        Target::Device(Ok(_)) | Target::Card(_) => Ok(()),
    };
    if let Err(error) = &device {
        print(&format!("{}\n", comment(&crate::sentence(error))))?;
    }
    print(&rendered(recipe, all))?;
    print_notes(&notes)?;
    let path = &recipe.tables().model.path;
    let why = match hub::neighbours(path).filter(|_| path.contains('/')) {
        Some(there) => {
            format!("{path} looks like a path, and there is no such directory ({there}); {error}")
        }
        None => error.to_string(),
    };
    let text = format!(
        "The recipe is well-formed. {data}What the run needs and its prompts cannot be shown \
         without the model. {why}"
    );
    print(&format!("\n{}", comment(&text)))?;
    device
}

/// Sentences that list the data on this machine and the data on the hub.
fn describe_data(places: &[PathBuf]) -> String {
    let (here, hub): (Vec<_>, Vec<_>) =
        places.iter().partition(|place| isentrope_data::DataLocation::of(place).is_local());
    let list = |places: &[&PathBuf]| {
        places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    if !here.is_empty() {
        text += &format!("Its data on this machine can be read: {}. ", list(&here));
    }
    if !hub.is_empty() {
        text += &format!("Its data on the hub have not been looked at: {}. ", list(&hub));
    }
    text
}

/// Plans a run on a device. `most` bytes of the device's memory at most count as free, and
/// `of_host` bytes of the host's are free for this rank.
fn planned<T: Trainer>(
    prepared: &Prepared<T>,
    most: usize,
    of_host: usize,
    backend: &dyn Backend,
    device: &Device,
) -> Result<Plan> {
    let plan = prepared.plan(backend, device.available(most));
    let plan = plan.map_err(|error| device.unfitting(error))?;
    plan.check_host(of_host)?;
    Ok(plan)
}

/// Computes the needs of a planned run on a device, as comments above its recipe.
fn needs<T: Trainer>(
    prepared: &Prepared<T>,
    plan: &Plan,
    backend: &dyn Backend,
    device: &Device,
) -> Result<String> {
    let mut speeds = Speeds::default();
    let estimate = prepared.estimate_with(backend, plan, &mut speeds)?;
    let limit = match device.data_sheet() {
        Some((sheet, dtype)) => {
            let limit = prepared.limit(backend, plan, card::peak(sheet, dtype));
            format!("{}: {limit}", card::at_peak(sheet))
        }
        None => {
            let (limit, peak) = prepared.measured_limit(backend, plan, &mut speeds)?;
            let (gflops, gb) = (peak.flops / 1e9, peak.bandwidth / 1e9);
            format!(
                "limit, not a forecast: if all ran at the {gflops:.0} GFLOP/s and {gb:.0} \
                 GB/s that were measured here: \
                 {limit}"
            )
        }
    };
    let lines = [Some(plan.to_string()), prepared.adapters(), device.heading()];
    let lines = lines.into_iter().flatten().chain([estimate.to_string(), limit]);
    Ok(lines.map(|line| comment(&line)).collect())
}

fn print_notes(notes: &[String]) -> Result<()> {
    if !notes.is_empty() {
        print("\n")?;
    }
    notes.iter().try_for_each(|note| print(&comment(&format!("note: {note}"))))
}

/// Lines of text as comments of a recipe, broken between words.
fn comment(text: &str) -> String {
    let width = width().unwrap_or(PLAIN_WIDTH) - "# ".len();
    let lines = fitted(text, Some(width));
    lines.lines().map(|line| format!("# {line}\n")).collect()
}
