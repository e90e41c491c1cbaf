//! The checks of all runs before the first one starts, and their expected time.

use super::file::Training;
use super::runs::{PlannedRun, Problems};
use super::state::State;
use crate::adapters::fingerprint;
use crate::commands::train::{ask_for_teacher, describe_without_retries, refuse_misplaced_models};
use crate::device::{self, Device, DeviceRequest, LocalRank};
use crate::memory::Memory;
use crate::progress::Download;
use anyhow::{Error, Result, anyhow};
use isentrope_budget::time::Speeds;
use isentrope_kernels::Backend;
use isentrope_lab::seeds::without_seed;
use isentrope_model::ModelConfig;
use isentrope_model::checkpoint::Fingerprint;
use isentrope_train::settings::NumberType;
use isentrope_train::trainer::{Prepared, Trainer, TrainingRecipe};
use isentrope_train::{rl, sft};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The findings of the checks.
pub struct Checked {
    /// Seconds that each run will take from its first step to its last, `[runs]`.
    pub seconds: Vec<f64>,
    /// Notes for the user, each once.
    pub notes: BTreeSet<String>,
}

/// The needs of one run.
struct Needs {
    seconds: f64,
    notes: Vec<String>,
}

/// The machine's part in the checks.
pub struct Machine {
    /// The first device of the runs.
    pub device: DeviceRequest,
    /// The number of such devices.
    pub devices: usize,
    /// Threads of a run.
    pub threads: usize,
    /// Bytes that all runs on a device together may take.
    pub available: usize,
    /// The number of concurrent runs.
    pub jobs: usize,
}

/// Reads the models' descriptions and the data of all runs, as `train --dry-run` does. Runs that
/// differ in the seed alone are checked once; finished runs are not checked.
///
/// # Errors
/// The faults of all runs.
pub fn check(runs: &[PlannedRun], states: &[State], machine: &Machine) -> Result<Checked> {
    let mut seen: Vec<(Value, f64)> = Vec::new();
    let (mut bases, mut devices) = (Bases::default(), Devices::default());
    let mut problems = Problems::default();
    let mut checked = Checked { seconds: Vec::new(), notes: BTreeSet::new() };
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
        let needs = match run.command {
            Training::Train => needs::<rl::Recipe>(run, machine, &mut bases, &mut devices),
            Training::Sft => needs::<sft::Recipe>(run, machine, &mut bases, &mut devices),
        };
        match needs {
            Ok(needs) => {
                checked.seconds.push(needs.seconds);
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

fn needs<R: TrainingRecipe>(
    run: &PlannedRun,
    machine: &Machine,
    bases: &mut Bases,
    devices: &mut Devices,
) -> Result<Needs> {
    let recipe: R = serde_json::from_value(run.recipe().clone())?;
    refuse_misplaced_models(&recipe, &run.place.source)?;
    let dir = describe_without_retries(&recipe.tables().model.path)?;
    ask_for_teacher(&recipe);
    recipe.tables().check_base(&dir, |dir| bases.fingerprint(dir))?;
    let prepared = recipe.prepare(&dir, 1, &Download::default())?;
    let (device, speeds) = devices.with(prepared.trainer.tables().device.dtype, machine)?;
    device.check_shapes(&dir, &ModelConfig::read(&dir)?)?;
    if let Some(teacher) = &prepared.teacher {
        device.check_shapes(&teacher.dir, &teacher.config)?;
    }
    device.run(|backend| needs_on(prepared, machine, speeds, &*backend, device))
}

/// The fingerprints of adapters' bases by directories: each base is read once.
#[derive(Default)]
struct Bases(BTreeMap<PathBuf, Fingerprint>);

impl Bases {
    fn fingerprint(&mut self, dir: &Path) -> isentrope_model::Result<Fingerprint> {
        if let Some(known) = self.0.get(dir) {
            return Ok(known.clone());
        }
        let found = fingerprint(dir)?;
        self.0.insert(dir.to_owned(), found.clone());
        Ok(found)
    }
}

/// The device of the runs, opened once per type of numbers, and its measured speeds.
#[derive(Default)]
struct Devices(Vec<(NumberType, Device, Speeds)>);

impl Devices {
    fn with(&mut self, dtype: NumberType, machine: &Machine) -> Result<(&Device, &mut Speeds)> {
        let place = match self.0.iter().position(|(of, ..)| *of == dtype) {
            Some(place) => place,
            None => {
                let (request, threads) = (machine.device, Some(machine.threads));
                let device =
                    device::open(request, "device.dtype", dtype, threads, LocalRank::ALONE)?;
                self.0.push((dtype, device, Speeds::default()));
                self.0.len() - 1
            }
        };
        let (_, device, speeds) = &mut self.0[place];
        Ok((device, speeds))
    }
}

/// A run's needs, with its share of the device's memory.
fn needs_on<T: Trainer>(
    prepared: Prepared<T>,
    machine: &Machine,
    speeds: &mut Speeds,
    backend: &dyn Backend,
    device: &Device,
) -> Result<Needs> {
    let jobs = machine.jobs;
    let fewer = |error: Error| match jobs {
        1 => error,
        _ => anyhow!("{error}; or give a smaller --jobs than {jobs}"),
    };
    let plan = prepared
        .plan(backend, machine.available / jobs.div_ceil(machine.devices))
        .map_err(|error| fewer(device.unfitting(error)))?;
    plan.check_host(Memory::now().available as usize / jobs)
        .map_err(|error| fewer(error.into()))?;
    let seconds = prepared.estimate_with(backend, &plan, speeds)?.run.as_secs_f64();
    Ok(Needs { seconds, notes: prepared.notes })
}
