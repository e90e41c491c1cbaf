//! Whether the models that are made first are still those that runs have begun with: runs on other
//! weights would be other samples.

use super::runs::{PlannedRun, Problems};
use super::state::State;
use crate::loaded_model::file_hashes;
use anyhow::{Result, anyhow};
use isentrope_lab::run_files::RunFiles;
use serde_json::Value;

/// Most runs that a message names.
const NAMED: usize = 8;

/// The states of all runs, if each could be told and no run has begun with a model other than the
/// one that is there.
///
/// # Errors
/// The faults of all models, with the runs that have begun with each.
pub fn checked(runs: &[PlannedRun], states: Vec<Result<State>>) -> Result<Vec<State>> {
    let mut problems = Problems::default();
    for (place, (run, state)) in runs.iter().zip(&states).enumerate() {
        let has_begun = |(other, state): &(&PlannedRun, &Result<State>)| {
            other.needs == Some(place) && !matches!(state, Ok(State::ToDo))
        };
        let begun: Vec<&PlannedRun> =
            runs.iter().zip(&states).filter(has_begun).map(|(other, _)| other).collect();
        let problem = match state {
            Err(error) if begun.is_empty() => Some(anyhow!(crate::sentence(error))),
            Err(error) => Some(anyhow!(
                "{}; with it those of the runs that have begun with it: {}",
                crate::sentence(error),
                listed(&begun)
            )),
            Ok(_) if begun.is_empty() => None,
            Ok(_) => is_theirs(run, &begun).err(),
        };
        problem.iter().for_each(|error| problems.add(&run.name, error));
    }
    if problems.is_empty() { states.into_iter().collect() } else { Err(problems.into_error()) }
}

/// Whether the model is what these runs have begun with, by the hashes in their manifests. One
/// whose manifest was removed cannot be told.
fn is_theirs(model: &PlannedRun, begun: &[&PlannedRun]) -> Result<()> {
    let remedy = "remove their directories to make them anew, or name another directory with --out";
    let checkpoint = model.last_checkpoint();
    if !checkpoint.exists() {
        return Err(anyhow!(
            "there is no {}, and runs have begun with it: {}; {remedy}",
            checkpoint.display(),
            listed(begun)
        ));
    }
    let now = Value::from(file_hashes(&checkpoint)?);
    let mut others = Vec::new();
    for run in begun {
        let manifest = RunFiles::new(run.dir()).manifest()?.unwrap_or_default();
        let before = &manifest["model"]["sha256"];
        if !before.is_null() && *before != now {
            others.push(*run);
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "{} is not what runs have begun with: {}; {remedy}",
        checkpoint.display(),
        listed(&others)
    ))
}

fn listed(runs: &[&PlannedRun]) -> String {
    let named: Vec<&str> = runs.iter().take(NAMED).map(|run| run.name.as_str()).collect();
    match runs.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
