//! Checkpoints of a run: Hugging Face model directories that a run can go on from.
//!
//! `step-N/` is a model directory, or with adapters peft's; `step-N/trainer/` has the rest of the
//! run's state: `state.json`, the optimizer's moments in `moments/`, the exact weights in
//! `weights/` if the model's files are in 16 bits, a process model in `process_model/`, which is a
//! model directory with its own `moments/`, and `files.json`, the SHA-256 of every file. A
//! checkpoint appears whole or not at all; the hashes show whether it was damaged afterwards.

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::optimizer::UpdateCounts;
use crate::ranks::TrainingRanks;
use crate::settings::{CheckpointSettings, Dtype};
use isentrope_evaluation::Evaluation;
use isentrope_files::{AtomicDirectory, NewFile, names, sha256_of_file};
use isentrope_model::adapter::{AdapterConfig, write_adapter_files};
use isentrope_model::checkpoint::{
    MAX_SHARD_BYTES, Tensor, WeightDtype, WriteOptions, Writer, write_checkpoint_files,
    write_tensors,
};
use isentrope_model::{Checkpoint, Model};
use isentrope_run::alarms::Alarms;
use isentrope_run::tokens::TokenRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const STEP_PREFIX: &str = "step-";
/// A checkpoint that is being removed.
const REMOVED_PREFIX: &str = ".removed-";
// The files of a checkpoint beside the model.
const STATE: &str = "trainer/state.json";
const FILES: &str = "trainer/files.json";
const MOMENTS: &str = "trainer/moments";
const WEIGHTS: &str = "trainer/weights";
const PROCESS_MODEL: &str = "trainer/process_model";
const PROCESS_MOMENTS: &str = "trainer/process_model/moments";

/// The checkpoints of one run.
pub struct CheckpointStore {
    dir: PathBuf,
    settings: CheckpointSettings,
    max_file_bytes: u64,
}

/// A run's evaluations, best checkpoint and alarms so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// The best checkpoint so far by evaluation: step and mean accuracy.
    pub best: Option<(u64, f64)>,
    /// The hashes of the sets that it was evaluated on, by name; null if they are not known.
    #[serde(default)]
    pub best_on: Value,
    /// Evaluations before the first step.
    pub first: Vec<Evaluation>,
    /// The latest evaluations.
    pub last: Vec<Evaluation>,
    /// The step after which the latest evaluations were made.
    pub last_step: u64,
    /// The state of the alarms.
    #[serde(default)]
    pub alarms: Alarms,
}

/// The state that a run goes on from, besides weights and moments. `S` is the trainer's part.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunState<S> {
    /// Steps made.
    pub step: u64,
    /// The optimizer's.
    pub optimizer: UpdateCounts,
    /// The updates of the process model, if one is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_optimizer: Option<UpdateCounts>,
    /// The run's evaluations, best checkpoint and alarms so far.
    #[serde(flatten)]
    pub standing: Standing,
    /// The step's metrics, if it failed after its updates and has yet to be evaluated and recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<Metrics>,
    /// Its token records, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<TokenRecord>,
    /// Whether the checkpoint was saved only because the last one was too old. The next one
    /// replaces it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_interim: bool,
    /// The SHA-256 of the states from before the first step, if they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_states: Option<String>,
    /// The trainer's own.
    pub trainer: S,
}

impl<S> RunState<S> {
    /// The last step whose metrics are written.
    pub fn recorded(&self) -> u64 {
        self.step - u64::from(self.unrecorded.is_some())
    }
}

/// The learners of a run, to be saved.
pub(crate) struct Learners<'a> {
    /// The policy.
    pub policy: &'a mut Learner,
    /// The process model, if one is trained.
    pub process_model: Option<&'a mut Learner>,
    /// The configuration of their adapters, if adapters are trained.
    pub adapter: Option<&'a AdapterConfig>,
}

impl Learners<'_> {
    /// The policy's learner, then those trained beside it.
    pub fn iter(&self) -> impl Iterator<Item = &Learner> {
        std::iter::once(&*self.policy).chain(self.process_model.as_deref())
    }
}

/// Moments in a checkpoint, and the updates that made them.
pub(crate) type SavedMoments = (Checkpoint, UpdateCounts);

/// A checkpoint whose hashes are right.
pub struct FoundCheckpoint<S> {
    /// Its directory.
    pub dir: PathBuf,
    /// Its state.
    pub state: RunState<S>,
}

/// `files.json`.
#[derive(Serialize, Deserialize)]
struct Files(BTreeMap<String, FileDigest>);

#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct FileDigest {
    bytes: u64,
    sha256: String,
}

impl CheckpointStore {
    /// The checkpoints in `dir`, which need not be there yet.
    pub fn new(dir: PathBuf, settings: CheckpointSettings) -> Self {
        Self { dir, settings, max_file_bytes: MAX_SHARD_BYTES }
    }

    /// Makes the directory if need be, and removes files from it that a kill left half written or
    /// half removed.
    pub fn make(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        for name in names(&self.dir)? {
            let text = name.to_string_lossy();
            if text.starts_with(REMOVED_PREFIX) || text.starts_with(&format!(".{STEP_PREFIX}")) {
                let path = self.dir.join(&name);
                fs::remove_dir_all(&path).map_err(|e| Error::io(&path, e))?;
            }
        }
        Ok(())
    }

    /// The directory of a step's checkpoint.
    pub fn path(&self, step: u64) -> PathBuf {
        self.dir.join(format!("{STEP_PREFIX}{step:06}"))
    }

    /// Whether to save after `step` of `steps`.
    pub fn due(&self, step: u64, steps: u64) -> bool {
        step == steps || (self.settings.every > 0 && step.is_multiple_of(self.settings.every))
    }

    /// Whether to save because the last checkpoint, or the run's start, is too long ago.
    pub fn is_late(&self, since: Duration) -> bool {
        self.settings.minutes > 0.0 && since.as_secs_f64() >= 60.0 * self.settings.minutes
    }

    /// Saves a checkpoint. All ranks call this, and each writes some of the files. Rank 0's `state`
    /// is saved; tokenizer and chat template are copied from its `source`.
    ///
    /// # Errors
    /// Names the file that could not be written; nothing is left of the checkpoint then, and all
    /// earlier ones stay. When another rank has failed.
    pub(crate) fn save<S: Serialize>(
        &self,
        learners: &mut Learners<'_>,
        source: &Path,
        state: &RunState<S>,
    ) -> Result<()> {
        let ranks = learners.policy.ranks.clone();
        let exact_weights = (self.settings.dtype != Dtype::Float32).then_some(WEIGHTS);
        let process_model = learners.process_model.as_ref().map(|_| PROCESS_MOMENTS);
        let parts: Vec<&str> =
            [Some(MOMENTS), exact_weights, process_model].into_iter().flatten().collect();
        let staged = ranks.is_first().then(|| self.stage(state.step, &parts)).transpose()?;
        let name = staged.as_ref().and_then(|staged| staged.path().file_name()?.to_str());
        let dir = self.dir.join(ranks.broadcast(name.unwrap_or_default().to_owned())?);
        let writer = |set: usize| writer(ranks.rank(), ranks.count(), set);
        let options = WriteOptions {
            dtype: self.settings.dtype.into(),
            max_shard_bytes: self.max_file_bytes,
            carry_from: Some(source),
            writer: writer(0),
        };
        let exact = |set| WriteOptions {
            dtype: WeightDtype::F32,
            carry_from: None,
            writer: writer(set),
            ..options
        };
        let Learners { policy, process_model, adapter } = learners;
        let mut written = policy.write_weights(options, |model, tensors| {
            write_model(&dir, model, tensors, *adapter, options)
        })?;
        if let Some(weights_dir) = exact_weights {
            written.extend(policy.write_weights(exact(1), |_, tensors| {
                Ok(write_tensors(&dir.join(weights_dir), tensors, exact(1))?)
            })?);
        }
        written.extend(policy.write_moments(&dir.join(MOMENTS), exact(2))?);
        if let Some(learner) = process_model {
            let options = WriteOptions { carry_from: Some(source), ..exact(3) };
            let dir_of_process_model = dir.join(PROCESS_MODEL);
            written.extend(learner.write_weights(options, |model, tensors| {
                write_model(&dir_of_process_model, model, tensors, *adapter, options)
            })?);
            written.extend(learner.write_moments(&dir.join(PROCESS_MOMENTS), exact(4))?);
        }
        if ranks.is_first() {
            written.push(dir.join(STATE));
            write_json(&dir.join(STATE), state)?;
        }
        let files =
            ranks.gather(written.iter().map(|path| hashed(&dir, path)).collect::<Result<_>>()?)?;
        if let Some(staged) = staged {
            write_json(&dir.join(FILES), &Files(files.into_iter().collect()))?;
            // A checkpoint of this step may be the last, so it goes when the new one is whole.
            staged.sync()?;
            let before = self.path(state.step);
            let hidden = before.exists().then(|| self.hide(&before)).transpose()?;
            if let Err(error) = staged.commit() {
                if let Some(hidden) = hidden.filter(|_| !before.exists()) {
                    fs::rename(&hidden, &before).map_err(|e| Error::io(&before, e))?;
                }
                return Err(error.into());
            }
            if let Some(hidden) = hidden {
                fs::remove_dir_all(&hidden).map_err(|e| Error::io(&hidden, e))?;
            }
        }
        Ok(())
    }

    /// The directory that is to become a step's checkpoint, with these directories in it.
    fn stage(&self, step: u64, parts: &[&str]) -> Result<AtomicDirectory> {
        let staged = AtomicDirectory::beside(&self.path(step))?;
        // One rank does this before the others can see the checkpoint: otherwise files that it
        // removes after an error could come back.
        for name in parts {
            let part = staged.path().join(name);
            fs::create_dir_all(&part).map_err(|e| Error::io(&part, e))?;
        }
        Ok(staged)
    }

    /// Finds the latest whole checkpoint, for all ranks; each rank checks some of the files.
    /// Damaged checkpoints are passed over, and reported to `note`.
    ///
    /// # Errors
    /// [`File`](isentrope_evaluation::Error::File) when the directory cannot be read;
    /// [`Error::Run`] when there are checkpoints and all are damaged;
    /// [`Invalid`](isentrope_evaluation::Error::Invalid) when this version cannot go on from the
    /// latest whole checkpoint; when another rank has failed.
    pub fn latest<S: DeserializeOwned>(
        &self,
        ranks: &TrainingRanks,
        note: &mut dyn FnMut(&str),
    ) -> Result<Option<FoundCheckpoint<S>>> {
        let steps = ranks.first_finds(|| self.steps())?;
        for &step in steps.iter().rev() {
            let dir = self.path(step);
            let damage = Self::verify(&dir, ranks).err().map(|error| error.to_string());
            match ranks.gather(damage.into_iter().collect())?.first() {
                None => return Ok(Some(FoundCheckpoint { state: read_state(&dir)?, dir })),
                Some(damage) => note(&format!("passing over a damaged checkpoint: {damage}")),
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        Err(Error::Run(format!(
            "{}: every checkpoint is damaged; start anew in another run.out, or with --overwrite",
            self.dir.display()
        )))
    }

    /// Checks this rank's part of the files.
    fn verify(dir: &Path, ranks: &TrainingRanks) -> Result<()> {
        let Files(expected) = read_json(&dir.join(FILES))?;
        let sizes: Vec<usize> = expected
            .values()
            .map(|hashed| usize::try_from(hashed.bytes).unwrap_or(usize::MAX))
            .collect();
        let own = ranks.own(&sizes);
        for (name, hashed) in expected.iter().skip(own.start).take(own.len()) {
            let path = dir.join(name);
            if hash_file(&path)? != *hashed {
                return Err(Error::invalid(&path, "the file is not what was saved"));
            }
        }
        Ok(())
    }

    fn steps(&self) -> Result<Vec<u64>> {
        let mut steps = Vec::new();
        for name in names(&self.dir)? {
            let number = name.to_str().and_then(|name| name.strip_prefix(STEP_PREFIX));
            steps.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Removes the checkpoints up to a step's, except the last few and the best. The interim one
    /// does not count and stays.
    pub fn retire(&self, step: u64, best: Option<u64>, interim: Option<u64>) -> Result<()> {
        let counts = |&s: &u64| s <= step && interim != Some(s);
        let steps: Vec<u64> = self.steps()?.into_iter().filter(counts).collect();
        let old = steps.len().saturating_sub(self.settings.keep.max(1));
        for &step in &steps[..old] {
            if best != Some(step) {
                self.remove(&self.path(step))?;
            }
        }
        Ok(())
    }

    /// Removes a step's checkpoint, if it is there.
    pub fn remove_step(&self, step: u64) -> Result<()> {
        let dir = self.path(step);
        if dir.exists() { self.remove(&dir) } else { Ok(()) }
    }

    /// The directory is renamed first, so that a checkpoint under its own name is always whole.
    fn remove(&self, dir: &Path) -> Result<()> {
        let hidden = self.hide(dir)?;
        fs::remove_dir_all(&hidden).map_err(|e| Error::io(&hidden, e))
    }

    /// Renames a checkpoint, so that it is none any more. Returns its new path.
    fn hide(&self, dir: &Path) -> Result<PathBuf> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let hidden = self.dir.join(format!("{REMOVED_PREFIX}{name}"));
        if hidden.exists() {
            fs::remove_dir_all(&hidden).map_err(|e| Error::io(&hidden, e))?;
        }
        fs::rename(dir, &hidden).map_err(|e| Error::io(dir, e))?;
        Ok(hidden)
    }
}

impl<S> FoundCheckpoint<S> {
    /// Loads the policy and its optimizer's state.
    pub(crate) fn policy(&self, models: &Models<'_>) -> Result<(Model, SavedMoments)> {
        let exact = self.dir.join(WEIGHTS);
        let exact = exact.exists().then(|| Checkpoint::open(&exact)).transpose()?;
        let model = models.saved(&self.dir, exact.as_ref())?;
        Ok((model, (Checkpoint::open(&self.dir.join(MOMENTS))?, self.state.optimizer)))
    }

    /// Loads the process model and its optimizer's state.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) when the run had none.
    pub(crate) fn process_model(&self, models: &Models<'_>) -> Result<(Model, SavedMoments)> {
        let Some(progress) = self.state.process_optimizer else {
            let what = "is \"prime\", and the checkpoint has no process model, since the run was \
                        one without until there: start anew in another run.out with model.path set \
                        to the checkpoint";
            return Err(Error::setting("objective.advantage", what));
        };
        let model = models.saved(&self.dir.join(PROCESS_MODEL), None)?;
        Ok((model, (Checkpoint::open(&self.dir.join(PROCESS_MOMENTS))?, progress)))
    }
}

/// The files that a rank of `ranks` writes of one set, such as the moments. Small models have one
/// file in each set, so each set begins with another rank.
fn writer(rank: usize, ranks: usize, set: usize) -> Writer {
    Writer { number: (rank + set * (ranks - 1)) % ranks, of: ranks }
}

/// Most bytes that one of `ranks` ranks writes of a checkpoint whose sets have these bytes. Files
/// count as full, although they end with a whole tensor.
pub(crate) fn most_of_a_rank(sets: &[usize], ranks: usize) -> usize {
    let most = MAX_SHARD_BYTES as usize;
    let file = |(file, at): (usize, usize), bytes: usize| (file, most.min(bytes - at));
    let of_rank = |rank| -> usize {
        let of_set = |(set, &bytes): (usize, &usize)| -> usize {
            let files = (0..bytes).step_by(most).enumerate().map(move |at| file(at, bytes));
            let writer = writer(rank, ranks, set);
            files.filter(|&(file, _)| writer.has(file)).map(|(_, bytes)| bytes).sum()
        };
        sets.iter().enumerate().map(of_set).sum()
    };
    (0..ranks).map(of_rank).max().unwrap_or(0)
}

/// The name of a checkpoint's file below it, and its hash.
fn hashed(checkpoint: &Path, path: &Path) -> Result<(String, FileDigest)> {
    let below = path.strip_prefix(checkpoint).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    Ok((parts.join("/"), hash_file(path)?))
}

/// Writes an adapter, if the model has one, or else the whole model, whose exact weights are these.
fn write_model(
    dir: &Path,
    model: &Model,
    tensors: Vec<Tensor<'_>>,
    adapter: Option<&AdapterConfig>,
    options: WriteOptions<'_>,
) -> Result<Vec<PathBuf>> {
    Ok(match adapter {
        Some(config) => write_adapter_files(dir, model, config, options)?,
        None => write_checkpoint_files(dir, &model.config.json, tensors, options)?,
    })
}

fn hash_file(path: &Path) -> Result<FileDigest> {
    let bytes = fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    Ok(FileDigest { bytes, sha256: sha256_of_file(path)? })
}

/// Writes without spaces: groups that are kept for the next step may have millions of numbers.
fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.json_line(value)?;
    Ok(file.finish()?)
}

/// Reads the state of a checkpoint whose hashes are right.
fn read_state<S: DeserializeOwned>(dir: &Path) -> Result<RunState<S>> {
    let path = dir.join(STATE);
    let text = fs::read(&path).map_err(|e| Error::io(&path, e))?;
    serde_json::from_slice(&text).map_err(|e| {
        let what = format!(
            "another version of isentrope has saved this, and this one cannot go on from it ({e}): \
             go on with that one, or start anew in another run.out, or with --overwrite"
        );
        Error::invalid(&path, what)
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(|e| Error::io(path, e))?;
    serde_json::from_slice(&text).map_err(|e| Error::invalid(path, e.to_string()))
}

#[cfg(test)]
mod tests;
