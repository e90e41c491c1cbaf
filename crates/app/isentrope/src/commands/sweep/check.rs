//! The checks of all runs before the first one starts, and their expected time.

use super::file::Training;
use super::runs::{PlannedRun, Problems};
use super::state::State;
use crate::commands::train::refuse_misplaced;
use crate::device::{self, Device, DeviceRequest, LocalRank};
use crate::memory::Memory;
use crate::progress::Download;
use anyhow::{Result, anyhow};
use isentrope_hub::{self as hub, HubConfig};
use isentrope_kernels::Backend;
use isentrope_lab::seeds::without_seed;
use isentrope_model::ModelConfig;
use isentrope_train::estimate::Speeds;
use isentrope_train::plan::Plan;
use isentrope_train::settings::NumberType;
use isentrope_train::trainer::{Prepared, Trainer, TrainingRecipe};
use isentrope_train::{rl, sft};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The findings of the checks.
pub struct Checked {
    /// `[runs]`: seconds that each will take from its first step to its last.
    pub seconds: Vec<f64>,
    /// How many runs may go on at once, for the sake of memory.
    pub jobs: usize,
    /// Notes for the user, each once.
    pub notes: BTreeSet<String>,
}

/// The needs of one run.
struct Needs {
    seconds: f64,
    jobs: usize,
    notes: Vec<String>,
}

/// The machine's part in the checks.
pub struct Machine {
    /// The first device of the runs.
    pub wanted: DeviceRequest,
    /// How many such devices there are.
    pub devices: usize,
    /// Threads of a run.
    pub threads: usize,
    /// Bytes that all runs on a device together may take.
    pub available: usize,
    /// Most runs that may go on at once.
    pub jobs: usize,
    /// Whether so many were asked for, and fewer will not do.
    pub asked: bool,
}

impl Machine {
    /// Bytes that each of so many runs may take.
    fn share(&self, jobs: usize) -> usize {
        self.available / jobs.div_ceil(self.devices)
    }
}

/// Reads the models' descriptions and the data of all runs, as `train --dry-run` does. Runs that
/// differ in nothing but the seed are checked once, those that are done not at all.
///
/// # Errors
/// The faults of all runs.
pub fn check(runs: &[PlannedRun], states: &[State], machine: &Machine) -> Result<Checked> {
    let mut seen: Vec<(Value, f64)> = Vec::new();
    let mut devices = Devices::default();
    let mut models = Models::default();
    let mut problems = Problems::default();
    let mut checked = Checked { seconds: Vec::new(), jobs: machine.jobs, notes: BTreeSet::new() };
    for (run, state) in runs.iter().zip(states) {
        if *state == State::Done {
            checked.seconds.push(0.0);
            continue;
        }
        let bare = without_seed(run.recipe());
        if let Some((_, seconds)) = seen.iter().find(|(known, _)| *known == bare) {
            checked.seconds.push(*seconds);
            continue;
        }
        let mut recipe = run.recipe().clone();
        // A model that is yet to be made is like the one that it is made from, but for its weights.
        if let Some(model) = run.needs.map(|model| &runs[model])
            && !model.last_checkpoint().exists()
        {
            recipe["model"]["path"] = model.recipe()["model"]["path"].clone();
        }
        let needs = match run.command {
            Training::Train => {
                needs::<rl::Recipe>(recipe, &run.place.source, machine, &mut devices, &mut models)
            }
            Training::Sft => {
                needs::<sft::Recipe>(recipe, &run.place.source, machine, &mut devices, &mut models)
            }
        };
        match needs {
            Ok(needs) => {
                checked.seconds.push(needs.seconds);
                checked.jobs = checked.jobs.min(needs.jobs);
                checked.notes.extend(needs.notes);
                seen.push((bare, needs.seconds));
            }
            Err(error) => {
                problems.add(&run.name, &error);
                checked.seconds.push(0.0);
            }
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(problems.into_error()) }
}

/// The models' descriptions, or why there are none: the hub is asked for each once, whatever the
/// number of runs.
#[derive(Default)]
struct Models(BTreeMap<String, Result<PathBuf, String>>);

impl Models {
    fn described(&mut self, path: &str) -> Result<PathBuf> {
        let found = self.0.entry(path.to_owned()).or_insert_with(|| {
            HubConfig::from_env()
                .and_then(|config| hub::describe(&config, path, &Download::default()))
                .map_err(|error| crate::sentence(&error.into()))
        });
        found.clone().map_err(|said| anyhow!(said))
    }
}

fn needs<R: TrainingRecipe>(
    recipe: Value,
    source: &Path,
    machine: &Machine,
    devices: &mut Devices,
    models: &mut Models,
) -> Result<Needs> {
    let recipe: R = serde_json::from_value(recipe)?;
    let path = recipe.tables().model.path.clone();
    refuse_misplaced(Path::new(&path), source)?;
    let dir = models.described(&path)?;
    let prepared = recipe.prepare(&dir, 1, &Download::default())?;
    let (device, speeds) = devices.with(prepared.trainer.tables().device.dtype, machine)?;
    device.check_shapes(&dir, &ModelConfig::read(&dir)?)?;
    device.run(|backend| needs_on(prepared, machine, speeds, &*backend, device))
}

/// The device of the runs, by the types of numbers that they keep, and its speeds so far.
#[derive(Default)]
struct Devices(Vec<(NumberType, Device, Speeds)>);

impl Devices {
    fn with(&mut self, dtype: NumberType, machine: &Machine) -> Result<(&Device, &mut Speeds)> {
        let place = match self.0.iter().position(|(of, ..)| *of == dtype) {
            Some(place) => place,
            None => {
                let setting = ("device.dtype", dtype);
                let device =
                    device::open(machine.wanted, setting, Some(machine.threads), LocalRank::ALONE)?;
                self.0.push((dtype, device, Speeds::default()));
                self.0.len() - 1
            }
        };
        let (_, device, speeds) = &mut self.0[place];
        Ok((device, speeds))
    }
}

/// A run's needs of its device.
fn needs_on<T: Trainer>(
    prepared: Prepared<T>,
    machine: &Machine,
    speeds: &mut Speeds,
    backend: &dyn Backend,
    device: &Device,
) -> Result<Needs> {
    let (jobs, plan) =
        jobs(&prepared, backend, machine).map_err(|error| device.unfitting(error))?;
    let free = Memory::now().available as usize;
    let fits = |jobs: usize| plan.check_host(free / jobs);
    let least = if machine.asked { jobs } else { 1 };
    let jobs = (least..=jobs).rev().find(|&jobs| fits(jobs).is_ok()).unwrap_or(jobs);
    fits(jobs).map_err(|error| match (machine.asked, jobs) {
        (true, 2..) => anyhow!("{error}; or give a smaller --jobs"),
        _ => error.into(),
    })?;
    let seconds = prepared.estimate_with(backend, &plan, speeds)?.run.as_secs_f64();
    Ok(Needs { seconds, jobs, notes: prepared.notes })
}

/// The most runs like this one that have room beside each other, and do not lose time for want of
/// it; and the plan of each.
fn jobs<T: Trainer>(
    prepared: &Prepared<T>,
    backend: &dyn Backend,
    machine: &Machine,
) -> Result<(usize, Plan)> {
    let of = |jobs: usize| Ok((jobs, prepared.plan(backend, machine.share(jobs))?));
    if machine.asked {
        return of(machine.jobs);
    }
    // A budget of the recipe's own is not divided.
    let taken = prepared.trainer.tables().memory.budget_gib.map(|gib| gib * f64::from(1 << 30));
    let on_each = taken.map_or(machine.jobs, |taken| (machine.available as f64 / taken) as usize);
    let fitting = on_each.saturating_mul(machine.devices).min(machine.jobs);
    let has_room = |jobs: &usize| {
        prepared.plan(backend, machine.share(*jobs)).is_ok_and(|plan| !plan.is_tight())
    };
    // One on each device has all of it.
    let least = machine.devices.min(machine.jobs);
    of((least + 1..=fitting).rev().find(has_room).unwrap_or(least))
}
