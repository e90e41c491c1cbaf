//! The directory of a run: everything that is written while it goes on, but for checkpoints' contents.
//!
//! `recipe.toml` (resolved), `manifest.json`, `metrics.jsonl` (what depends on the recipe alone: the same bytes for every
//! run of it), `timings.jsonl`, `tensorboard/`, `rollouts/`, `evaluations/`, `checkpoints/`.

use crate::checkpoint::{CheckpointStore, Found};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::response_file::ResponseFile;
use crate::settings::Checkpoints;
use crate::sinks::{JsonlSink, TensorBoardSink};
use isentrope_files::{AtomicFile, Lock, make_directory, remove, sync_directory, try_lock_directory};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

pub use crate::place::{Existing, Place};
pub(crate) use isentrope_files::names;

/// An open run directory.
pub struct RunDirectory {
    /// The directory.
    pub dir: PathBuf,
    /// Its checkpoints.
    pub checkpoints: CheckpointStore,
    _lock: Lock,
}

/// Where a run's numbers go.
pub struct Log {
    metrics: JsonlSink,
    timings: JsonlSink,
    tensorboard: TensorBoardSink,
}

impl RunDirectory {
    /// Opens or makes the directory, and keeps other processes out of it. A run that is there stays as it is until
    /// [`begin`](Self::begin).
    ///
    /// # Errors
    /// As [`Place::check`]; [`Error::Io`] when the directory cannot be made.
    pub fn open(place: &Place, checkpoints: Checkpoints) -> Result<Self> {
        place.check()?;
        let dir = place.dir.clone();
        make_directory(&dir)?;
        let lock = lock(&dir, "training")?;
        let checkpoints = CheckpointStore::new(dir.join("checkpoints"), checkpoints);
        Ok(Self { dir, checkpoints, _lock: lock })
    }

    /// What the run goes on from, if it is to be resumed and has a checkpoint. Tells `note` which settings are not what it was
    /// started with.
    ///
    /// # Errors
    /// As [`CheckpointStore::latest`]; [`Error::Invalid`] when the recipe that it was started with cannot be read.
    pub fn resumed<S: DeserializeOwned>(
        &self,
        place: &Place,
        note: &mut dyn FnMut(&str),
    ) -> Result<Option<Found<S>>> {
        if place.existing != Existing::Resume || !self.dir.join(VALUES).exists() {
            return Ok(None);
        }
        note_changes(&self.dir, &place.recipe.1, note)?;
        self.checkpoints.latest(note)
    }

    /// Writes down what is run, now that it can start, in place of a run that is to be overwritten.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn begin(&self, place: &Place) -> Result<()> {
        let Place { existing, recipe: (text, values), .. } = place;
        if *existing == Existing::Overwrite && self.dir.join(VALUES).exists() {
            clear(&self.dir)?;
        }
        write_atomically(&self.dir.join(VALUES), values.to_string().as_bytes())?;
        write_atomically(&self.dir.join(RECIPE), text.as_bytes())?;
        for part in [ROLLOUTS, EVALUATIONS] {
            make_directory(&self.dir.join(part))?;
        }
        self.checkpoints.make()
    }

    /// Writes manifest.json, and says which files of model and data are not what the run began with.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_manifest(&self, manifest: &Value, note: &mut dyn FnMut(&str)) -> Result<()> {
        let path = self.dir.join("manifest.json");
        let before = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        for part in ["model", "data"] {
            let mut changes = Vec::new();
            if let Some(before) = &before {
                changed_files(&before[part]["sha256"], &manifest[part]["sha256"], &mut changes);
            }
            if !changes.is_empty() {
                note(&format!("files of the {part} are not what the run began with: {}", changes.join(", ")));
            }
        }
        write_json(&path, manifest)
    }

    /// Removes the responses of steps after this one, or all where there is no checkpoint to go on from.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_responses(&self, step: Option<u64>) -> Result<()> {
        [ROLLOUTS, EVALUATIONS].iter().try_for_each(|part| remove_later(&self.dir.join(part), step))
    }

    /// Opens the metrics for a run that has recorded `step` steps, or that has no checkpoint to go on from; what is there of
    /// later ones is removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn log(&self, step: Option<u64>) -> Result<Log> {
        if step.is_none() {
            for name in ["metrics.jsonl", "timings.jsonl", "tensorboard"] {
                remove(&self.dir.join(name))?;
            }
        }
        let jsonl = |name: &str| {
            let path = self.dir.join(name);
            match step {
                None => JsonlSink::create(path),
                Some(step) => JsonlSink::resume(path, step),
            }
        };
        let tensorboard = self.dir.join("tensorboard");
        let log = Log {
            metrics: jsonl("metrics.jsonl")?,
            timings: jsonl("timings.jsonl")?,
            tensorboard: match step {
                None => TensorBoardSink::create(&tensorboard)?,
                Some(step) => TensorBoardSink::resume(&tensorboard, step)?,
            },
        };
        // The files' own names: their lines are nothing without.
        sync_directory(&tensorboard)?;
        sync_directory(&self.dir)?;
        Ok(log)
    }

    /// Starts the file of the responses sampled in a step.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn rollouts(&self, step: u64) -> Result<ResponseFile> {
        ResponseFile::create(&self.dir.join(format!("{ROLLOUTS}/step-{step:06}.jsonl")))
    }

    /// Starts the file of the responses to a set of held-out problems after a step.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn evaluation(&self, step: u64, set: &str) -> Result<ResponseFile> {
        ResponseFile::create(&self.dir.join(format!("{EVALUATIONS}/step-{step:06}-{set}.jsonl")))
    }
}

impl Log {
    /// Waits until the metrics are on the disk, so that they are there whenever a checkpoint made later is.
    ///
    /// # Errors
    /// [`Error::Sink`].
    pub fn sync(&self) -> Result<()> {
        self.metrics.sync()?;
        Ok(self.timings.sync()?)
    }

    /// Writes the numbers of a step.
    ///
    /// # Errors
    /// [`Error::Sink`].
    pub fn write(&mut self, step: u64, metrics: &Metrics, timings: &Metrics) -> Result<()> {
        self.metrics.write(step, metrics)?;
        self.timings.write(step, timings)?;
        self.tensorboard.write(step, metrics)?;
        Ok(self.tensorboard.write(step, timings)?)
    }
}

/// The recipe's values, to compare with when the run is resumed. Written first and removed last: a directory that holds
/// it is a run.
pub(crate) const VALUES: &str = ".recipe.json";
/// The resolved recipe.
pub(crate) const RECIPE: &str = "recipe.toml";
/// Where sampled responses are kept.
const ROLLOUTS: &str = "rollouts";
/// Where responses to held-out problems are kept.
const EVALUATIONS: &str = "evaluations";

/// All that a run writes into its directory, but for [`VALUES`].
const WRITTEN: [&str; 8] = [
    RECIPE,
    "manifest.json",
    "metrics.jsonl",
    "timings.jsonl",
    "tensorboard",
    ROLLOUTS,
    EVALUATIONS,
    "checkpoints",
];

/// Says which settings are not what the run was started with.
fn note_changes(dir: &Path, values: &Value, note: &mut dyn FnMut(&str)) -> Result<()> {
    let path = dir.join(VALUES);
    let before = fs::read(&path).map_err(|e| Error::io(&path, e))?;
    let before: Value = serde_json::from_slice(&before).map_err(|e| Error::invalid(&path, e.to_string()))?;
    let mut changes = Vec::new();
    differences("", &before, values, &mut changes);
    if !changes.is_empty() {
        note(&format!("resuming with other settings than the run began with: {}", changes.join(", ")));
    }
    Ok(())
}

/// Names of files whose hashes differ.
fn changed_files(before: &Value, now: &Value, changes: &mut Vec<String>) {
    let hashes = now.as_object().into_iter().flatten();
    changes
        .extend(hashes.filter(|(name, hash)| before.get(name) != Some(hash)).map(|(name, _)| name.clone()));
}

/// Says which values are not what they were, by their keys; what is not there is null.
pub(crate) fn differences(key: &str, before: &Value, now: &Value, changes: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(b), Value::Object(n)) => {
            for name in n.keys().chain(b.keys().filter(|name| !n.contains_key(*name))) {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                let value = |values: &Map<String, Value>| values.get(name).cloned().unwrap_or_default();
                differences(&key, &value(b), &value(n), changes);
            }
        }
        _ if before != now => changes.push(format!("{key} {before} -> {now}")),
        _ => {}
    }
}

/// Keeps other processes out of a directory for as long as the lock lives. `doing` is what the process does in it.
pub(crate) fn lock(dir: &Path, doing: &str) -> Result<Lock> {
    try_lock_directory(dir)?.ok_or_else(|| {
        Error::Run(format!("another process is {doing} in {}; wait for it or end it", dir.display()))
    })
}

/// Removes the files `step-N...` of steps after this one, or of all steps.
fn remove_later(dir: &Path, last_step: Option<u64>) -> Result<()> {
    for name in names(dir)? {
        let text = name.to_string_lossy();
        let number = text.strip_prefix("step-").map(|rest| rest.split(|c: char| !c.is_ascii_digit()));
        let step = number.and_then(|mut parts| parts.next()?.parse::<u64>().ok());
        if step.is_some_and(|step| last_step.is_none_or(|last| step > last)) {
            remove(&dir.join(&name))?;
        }
    }
    Ok(())
}

/// Removes all that a run has written, and nothing that the user has put beside it. The directory stays known as a run's
/// until all else is gone.
fn clear(dir: &Path) -> Result<()> {
    for name in WRITTEN {
        remove(&dir.join(name))?;
        remove(&partial(&dir.join(name)))?;
    }
    Ok(remove(&dir.join(VALUES))?)
}

/// The name of a file that is not complete.
pub(crate) fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

/// Writes a value, indented, as a whole or not at all.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.json(value)?;
    Ok(file.commit()?)
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.write(bytes)?;
    Ok(file.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_later_steps_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            "mine.txt",
            "step-000000-set.jsonl",
            "step-000002.jsonl",
            "step-000003-7b.jsonl",
            "step-000003.jsonl.partial",
            "step-1000000.jsonl",
            "step-x.jsonl",
        ];
        for name in files {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let left = || {
            let mut left = names(dir.path()).unwrap();
            left.sort();
            left
        };
        remove_later(dir.path(), Some(2)).unwrap();
        assert_eq!(left(), ["mine.txt", "step-000000-set.jsonl", "step-000002.jsonl", "step-x.jsonl"]);
        remove_later(dir.path(), None).unwrap();
        assert_eq!(left(), ["mine.txt", "step-x.jsonl"]);
    }
}
