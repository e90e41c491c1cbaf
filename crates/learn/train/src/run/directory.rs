//! The directory of a run: all files that it writes, except checkpoints' contents.
//!
//! `recipe.toml` (resolved), `manifest.json`, `metrics.jsonl` (what depends on the recipe alone:
//! the same bytes for every run of it), `timings.jsonl`, `tensorboard/`, `rollouts/`, `tokens/`,
//! `evaluations/`, `initial-states.jsonl`, `checkpoints/`.

use super::checkpoint::{CheckpointStore, FoundCheckpoint};
use super::journal::{Heading, Journal, is_journal, remove_journals};
use super::location::{Existing, RunLocation};
use super::log::{Log, TENSORBOARD};
use super::response_file::{Durability, ResponseFile};
use crate::error::Result;
use crate::ranks::TrainingRanks;
use crate::settings::CheckpointSettings;
use isentrope_files::{
    Lock, lock_directory, make_directory, names, partial, remove, sync_directory, sync_file,
    write_file,
};
use isentrope_run::run_files::{
    EVALUATIONS, INITIAL_STATES, MANIFEST, METRICS, RECIPE, ROLLOUTS, RunFiles, TIMINGS, TOKENS,
    VALUES,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// An open run directory. The first rank writes it; the others only read.
pub struct RunDirectory {
    /// The directory.
    pub dir: PathBuf,
    /// Its checkpoints.
    pub checkpoints: CheckpointStore,
    /// The arithmetic with which this process computes.
    pub arithmetic: String,
    /// The lock, on the rank that writes.
    lock: Option<Lock>,
    /// Files that stay as this process has written them, with their contents.
    written: Vec<(PathBuf, Vec<u8>)>,
}

impl RunDirectory {
    /// Opens or makes the directory, and locks it against other processes. An existing run is not
    /// changed before [`begin`](Self::begin).
    pub(super) fn open(
        place: &RunLocation,
        checkpoints: CheckpointSettings,
        ranks: &TrainingRanks,
        manifest: &Value,
    ) -> Result<Self> {
        let dir = place.dir.clone();
        let checkpoints = CheckpointStore::new(dir.join("checkpoints"), checkpoints);
        let mut lock = None;
        if ranks.is_first() {
            place.check()?;
            make_directory(&dir)?;
            lock = Some(lock_directory(&dir, "training")?);
        }
        ranks.require_directory(&dir)?;
        let arithmetic = arithmetic_of(manifest).to_owned();
        Ok(Self { dir, checkpoints, arithmetic, lock, written: Vec::new() })
    }

    /// Writes a file that stays until the run ends.
    fn write(&mut self, name: &str, content: Vec<u8>) -> Result<()> {
        let path = self.dir.join(name);
        write_file(&path, &content)?;
        self.written.push((path, content));
        Ok(())
    }

    /// Writes recipe and manifest again if they were removed or changed since this process wrote
    /// them. Returns the paths of those written.
    pub(super) fn restore(&self) -> Result<Vec<PathBuf>> {
        let mut restored = Vec::new();
        for (path, content) in &self.written {
            if fs::read(path).is_ok_and(|found| found == *content) {
                continue;
            }
            write_file(path, content)?;
            restored.push(path.clone());
        }
        Ok(restored)
    }

    /// Whether this rank writes it.
    pub(super) fn is_written(&self) -> bool {
        self.lock.is_some()
    }

    /// The checkpoint that the run goes on from, if it is to be resumed and has one: the first rank
    /// chooses it. Settings that have changed since the run was last started are reported to
    /// `note`.
    pub(super) fn resumed<S: DeserializeOwned>(
        &self,
        place: &RunLocation,
        ranks: &TrainingRanks,
        note: &mut dyn FnMut(&str),
    ) -> Result<Option<FoundCheckpoint<S>>> {
        let goes_on = self.is_written()
            && place.existing == Existing::Resume
            && self.dir.join(VALUES).exists();
        if goes_on {
            place.check_saved()?;
            let changes = place.changes()?;
            if !changes.is_empty() {
                note(&format!(
                    "resuming with other settings than the run was last started with: {}",
                    changes.join(", ")
                ));
            }
        }
        if ranks.broadcast(goes_on)? { self.checkpoints.latest(ranks, note) } else { Ok(None) }
    }

    /// Prepares the directory once the run can start. Removes a run that is overwritten. Writes the
    /// recipe only if this process `makes_steps`, so that the file is the recipe of the steps made.
    pub(super) fn begin(&mut self, place: &RunLocation, makes_steps: bool) -> Result<()> {
        if !self.is_written() {
            return Ok(());
        }
        let (text, values) = &place.recipe;
        if place.overwrites() {
            clear(&self.dir)?;
        }
        if makes_steps {
            self.write(VALUES, values.to_string().into_bytes())?;
            self.write(RECIPE, text.clone().into_bytes())?;
        }
        for part in RESPONSES {
            make_directory(&self.dir.join(part))?;
        }
        self.checkpoints.make()
    }

    /// Writes manifest.json when a process starts or resumes after step `after`. Changed files of
    /// model, data, reward and environment, and another arithmetic, are reported to `note`.
    pub(super) fn write_manifest(
        &mut self,
        manifest: &Value,
        after: u64,
        note: &mut dyn FnMut(&str),
    ) -> Result<()> {
        if !self.is_written() {
            return Ok(());
        }
        let path = self.dir.join(MANIFEST);
        let before =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let hashes = |files| Some((before.as_ref()?.pointer(files)?, manifest.pointer(files)?));
        for (part, files) in [
            ("model", "/model/sha256"),
            ("data", "/data/sha256"),
            ("adapter", "/model/adapter/sha256"),
            ("teacher", "/model/teacher/sha256"),
            ("reward and the environment", "/programs/sha256"),
        ] {
            let changes =
                hashes(files).map_or_else(Vec::new, |(before, now)| changed_files(before, now));
            if !changes.is_empty() {
                note(&format!(
                    "files of the {part} are not what the run was last started with: {}",
                    changes.join(", ")
                ));
            }
        }
        let mut changed = Vec::new();
        if let Some((before, now)) = hashes("/evaluation/sha256") {
            changed = changed_files(before, now);
            changed.retain(|name| before.get(name).is_some()); // nothing is compared with a new set
        }
        if !changed.is_empty() {
            note(&format!(
                "evaluated on other problems, or with responses drawn otherwise, than up to step \
                 {after}: {}. Numbers from before and after that step cannot be compared, and \
                 reports do not know it",
                changed.join(", ")
            ));
        }
        let (now, earlier) = (arithmetic_of(manifest), before.as_ref().map(arithmetic_of));
        if let Some(earlier) = earlier.filter(|earlier| after > 0 && *earlier != now) {
            note(&format!(
                "the run's arithmetic was {earlier} until step {after} and is {now} from there on: \
                 another run of the recipe has these bits only if it changes at the same step"
            ));
        }
        self.write(MANIFEST, format!("{manifest:#}\n").into_bytes())
    }

    /// Removes the responses of steps after this one, or all if there is no checkpoint to go on
    /// from. Keeps the journals of those steps, from which they are made again.
    pub(super) fn remove_responses(&self, step: Option<u64>) -> Result<()> {
        let parts = if self.is_written() { &RESPONSES[..] } else { &[] };
        parts.iter().try_for_each(|part| remove_later(&self.dir.join(part), step))
    }

    /// Opens the metrics for a run that has recorded `step` steps, or that has no checkpoint to go
    /// on from, and removes the metrics of later steps. Missing metrics of earlier steps are
    /// reported to `note`. None on ranks that do not write.
    pub(super) fn log(&self, step: Option<u64>, note: &mut dyn FnMut(&str)) -> Result<Option<Log>> {
        if !self.is_written() {
            return Ok(None);
        }
        if let Some(step) = step {
            return Log::resume(&self.dir, step, note).map(Some);
        }
        for name in [METRICS, TIMINGS, TENSORBOARD] {
            remove(&self.dir.join(name))?;
        }
        Log::create(&self.dir).map(Some)
    }

    /// Starts the file of the responses sampled in a step.
    pub fn rollouts(&self, step: u64) -> Result<ResponseFile> {
        self.file(&RunFiles::new(&self.dir).rollout(step), Durability::AtCheckpoint)
    }

    /// The journal of the responses sampled in a step, with the responses that an earlier process
    /// has left. Every rank has its own.
    pub fn journal(&self, step: u64, rank: usize, heading: &Heading) -> Result<Journal> {
        Journal::open(&self.dir.join(ROLLOUTS), step, rank, heading)
    }

    /// Removes the journals of steps that a checkpoint has.
    pub(super) fn remove_journals(&self, step: u64) -> Result<()> {
        if self.is_written() { remove_journals(&self.dir.join(ROLLOUTS), step) } else { Ok(()) }
    }

    /// Starts the file of a step's token records.
    pub fn tokens(&self, step: u64) -> Result<ResponseFile> {
        self.file(&RunFiles::new(&self.dir).tokens(step), Durability::AtCheckpoint)
    }

    /// Starts the file of the responses to a set of held-out problems after a step.
    pub fn evaluation(&self, step: u64, set: &str) -> Result<ResponseFile> {
        self.file(&RunFiles::new(&self.dir).evaluation(step, set), Durability::AtOnce)
    }

    fn file(&self, path: &Path, durability: Durability) -> Result<ResponseFile> {
        if self.is_written() {
            ResponseFile::create(path, durability)
        } else {
            Ok(ResponseFile::nowhere())
        }
    }

    /// Syncs the responses of a step and of later ones: a checkpoint is about to have these steps.
    pub(super) fn sync_responses(&self, from_step: u64) -> Result<()> {
        for part in [ROLLOUTS, TOKENS].map(|part| self.dir.join(part)) {
            for name in names(&part)? {
                if !is_journal(&name) && step_of(&name).is_some_and(|step| step >= from_step) {
                    sync_file(&part.join(name))?;
                }
            }
            if part.exists() {
                sync_directory(&part)?;
            }
        }
        Ok(())
    }
}

/// Directories of files of responses, each of a step.
const RESPONSES: [&str; 3] = [ROLLOUTS, EVALUATIONS, TOKENS];

/// Names of all files and folders that a run writes, except [`VALUES`].
const WRITTEN: [&str; 10] = [
    RECIPE,
    MANIFEST,
    METRICS,
    TIMINGS,
    TENSORBOARD,
    ROLLOUTS,
    EVALUATIONS,
    TOKENS,
    INITIAL_STATES,
    "checkpoints",
];

/// The arithmetic of a process, from its manifest.
fn arithmetic_of(manifest: &Value) -> &str {
    manifest["device"]["arithmetic"].as_str().unwrap_or("f32")
}

/// Names of files whose hashes differ, and of files that are not there any more.
fn changed_files(before: &Value, now: &Value) -> Vec<String> {
    let hashes = now.as_object().into_iter().flatten();
    let changed =
        hashes.filter(|(name, hash)| before.get(name) != Some(hash)).map(|(name, _)| name.clone());
    let names = before.as_object().into_iter().flatten().map(|(name, _)| name);
    let gone = names.filter(|name| now.get(name).is_none()).map(|name| format!("{name} (gone)"));
    changed.chain(gone).collect()
}

/// Removes the files `step-N...` of steps after this one, or of all steps.
fn remove_later(dir: &Path, last_step: Option<u64>) -> Result<()> {
    for name in names(dir)? {
        let later = step_of(&name).is_some_and(|step| last_step.is_none_or(|last| step > last));
        if later && !is_journal(&name) {
            remove(&dir.join(&name))?;
        }
    }
    Ok(())
}

/// The step of a file `step-N...`.
pub(super) fn step_of(name: &OsStr) -> Option<u64> {
    let digits =
        name.to_str()?.strip_prefix("step-")?.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Removes all files of a run, and none of the user's. [`VALUES`] marks a directory as a run, so it
/// goes last.
fn clear(dir: &Path) -> Result<()> {
    for name in WRITTEN {
        remove(&dir.join(name))?;
        remove(&partial(&dir.join(name)))?;
    }
    Ok(remove(&dir.join(VALUES))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_that_have_changed_come_or_gone_are_told() {
        let before = json!({"same": "1", "changed": "2", "gone": "3"});
        let now = json!({"same": "1", "changed": "0", "new": "4"});
        assert_eq!(changed_files(&before, &now), ["changed", "new", "gone (gone)"]);
    }

    #[test]
    fn responses_of_later_steps_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            "mine.txt",
            "step-000000-set.jsonl",
            "step-000002.jsonl",
            "step-000003-7b.jsonl",
            "step-000003.jsonl.partial",
            "step-000003.rank-0.journal",
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
        let journal = "step-000003.rank-0.journal";
        assert_eq!(
            left(),
            ["mine.txt", "step-000000-set.jsonl", "step-000002.jsonl", journal, "step-x.jsonl"]
        );
        remove_later(dir.path(), None).unwrap();
        assert_eq!(left(), ["mine.txt", journal, "step-x.jsonl"]);
    }
}
