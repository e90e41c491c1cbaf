//! The directory of a run: everything that is written while it goes on, but for checkpoints' contents.
//!
//! `recipe.toml` (resolved), `manifest.json`, `metrics.jsonl` (what depends on the recipe alone: the same bytes for every
//! run of it), `timings.jsonl`, `tensorboard/`, `rollouts/`, `evaluations/`, `checkpoints/`.

use crate::checkpoint::CheckpointStore;
use crate::error::{Error, Result};
use crate::group::{Group, Response};
use crate::metrics::Metrics;
use crate::settings::Checkpoints;
use crate::sinks::{JsonlSink, TensorBoardSink};
use isentrope_data::Problem;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Where a run is to be kept.
#[derive(Clone, Debug)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// What to do when there is a run in it.
    pub existing: Existing,
    /// The resolved recipe, as text and as values.
    pub recipe: (String, Value),
}

/// What to do with a run that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it alone: an error.
    Refuse,
    /// Go on from its latest checkpoint; start it where there is none.
    Resume,
    /// Remove it.
    Overwrite,
}

/// An open run directory.
pub struct RunDirectory {
    /// The directory.
    pub dir: PathBuf,
    /// Its checkpoints.
    pub checkpoints: CheckpointStore,
    _lock: Option<File>,
}

/// Where a run's numbers go.
pub struct Log {
    metrics: JsonlSink,
    timings: JsonlSink,
    tensorboard: TensorBoardSink,
}

impl Place {
    /// Whether there is a run already.
    ///
    /// # Errors
    /// [`Error::Run`] when there is one that is to be left alone, or something else; [`Error::Io`].
    pub fn check(&self) -> Result<bool> {
        let shown = self.dir.display();
        if !self.dir.join(VALUES).exists() {
            let names = names(&self.dir)?;
            // A kill may have left the beginning of the first file.
            if names.iter().all(|name| partial(Path::new(VALUES)) == Path::new(name)) {
                return Ok(false);
            }
            let what = format!("{shown} has files in it and is no run; name another with --set run.out=...");
            return Err(Error::Run(what));
        }
        if self.existing == Existing::Refuse {
            return Err(Error::Run(format!(
                "{shown} holds a run; --resume goes on with it, --overwrite starts it anew, and --set run.out=... \
                 starts another"
            )));
        }
        Ok(true)
    }
}

impl RunDirectory {
    /// Opens or makes the directory.
    ///
    /// # Errors
    /// [`Error::Run`] when there is a run in it that is to be left alone, [`Error::Io`] when it cannot be written.
    pub fn open(place: &Place, checkpoints: Checkpoints, note: &mut dyn FnMut(&str)) -> Result<Self> {
        let Place { dir, existing, recipe: (text, values) } = place;
        let is_run = place.check()?;
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        let lock = lock(dir, "training")?;
        if is_run {
            match existing {
                Existing::Refuse => {}
                Existing::Resume => note_changes(dir, values, note)?,
                Existing::Overwrite => clear(dir)?,
            }
        }
        write_atomically(&dir.join(VALUES), values.to_string().as_bytes())?;
        write_atomically(&dir.join("recipe.toml"), text.as_bytes())?;
        for part in ["rollouts", "evaluations", "tensorboard"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).map_err(|e| Error::io(&part, e))?;
        }
        let checkpoints = CheckpointStore::open(dir.join("checkpoints"), checkpoints)?;
        Ok(Self { dir: dir.clone(), checkpoints, _lock: lock })
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

    /// Opens the metrics for a run that has made `step` steps, or that has no checkpoint to go on from; what is there of
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
        Ok(Log {
            metrics: jsonl("metrics.jsonl")?,
            timings: jsonl("timings.jsonl")?,
            tensorboard: match step {
                None => TensorBoardSink::create(&tensorboard)?,
                Some(step) => TensorBoardSink::resume(&tensorboard, step)?,
            },
        })
    }

    /// Starts the file of the responses sampled in a step.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn rollouts(&self, step: u64) -> Result<ResponseFile> {
        ResponseFile::create(self.dir.join(format!("rollouts/step-{step:06}.jsonl")))
    }

    /// Starts the file of the responses to a set of held-out problems after a step.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn evaluation(&self, step: u64, set: &str) -> Result<ResponseFile> {
        ResponseFile::create(self.dir.join(format!("evaluations/step-{step:06}-{set}.jsonl")))
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
const VALUES: &str = ".recipe.json";

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

/// Says which values are not what they were, by their keys.
pub(crate) fn differences(key: &str, before: &Value, now: &Value, changes: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(b), Value::Object(n)) => {
            for (name, value) in n {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                differences(&key, b.get(name).unwrap_or(&Value::Null), value, changes);
            }
        }
        _ if before != now => changes.push(format!("{key} {before} -> {now}")),
        _ => {}
    }
}

/// Names in a directory; none where it is not there.
pub(crate) fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::io(dir, e))?,
    };
    entries.map(|entry| entry.map(|e| e.file_name()).map_err(|e| Error::io(dir, e))).collect()
}

/// Keeps other processes out of a directory for as long as the file lives, on systems where directories can be locked. The
/// lock of a process that was killed is gone. `doing` is what the process does in it.
pub(crate) fn lock(dir: &Path, doing: &str) -> Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = File::open(dir).map_err(|e| Error::io(dir, e))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another process is {doing} in {}; wait for it or end it", dir.display());
            Err(Error::Run(what))
        }
        // A file system without locks: as before there were any.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Removes everything in the directory of a run. It stays known as one until all else is gone.
fn clear(dir: &Path) -> Result<()> {
    let names = names(dir)?;
    for name in names.iter().filter(|name| *name != VALUES) {
        remove(&dir.join(name))?;
    }
    remove(&dir.join(VALUES))
}

/// Removes a file or a directory that may be there.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(path, e)),
        _ => Ok(()),
    }
}

/// JSON lines of responses with their verdicts; the file appears when it is complete.
pub struct ResponseFile {
    path: PathBuf,
    temporary: PathBuf,
    writer: BufWriter<File>,
}

impl ResponseFile {
    fn create(path: PathBuf) -> Result<Self> {
        let temporary = path.with_extension("jsonl.partial");
        let file = File::create(&temporary).map_err(|e| Error::io(&temporary, e))?;
        Ok(Self { path, temporary, writer: BufWriter::new(file) })
    }

    /// Writes a group's responses.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn group(&mut self, group: &Group) -> Result<()> {
        self.responses(&group.problem, &group.responses)
    }

    /// Writes the responses to a problem.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn responses(&mut self, problem: &Problem, responses: &[Response]) -> Result<()> {
        for (sample, response) in responses.iter().enumerate() {
            let line = Value::Object(response_line(problem, sample, response));
            writeln!(self.writer, "{line}").map_err(|e| Error::io(&self.path, e))?;
        }
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(|e| Error::io(&self.path, e))?;
        fs::rename(&self.temporary, &self.path).map_err(|e| Error::io(&self.path, e))
    }
}

/// What is kept of a response.
pub(crate) fn response_line(problem: &Problem, sample: usize, response: &Response) -> Map<String, Value> {
    let fields = [
        ("origin", json!(problem.origin)),
        ("prompt", json!(problem.prompt.question())),
        ("ground_truth", problem.ground_truth.clone()),
        ("sample", json!(sample)),
        ("response", json!(response.text)),
        ("tokens", json!(response.tokens.len())),
        ("truncated", json!(response.truncated)),
        ("verdict", json!(response.judgement.verdict)),
        ("extracted", json!(response.judgement.extracted)),
        ("reason", json!(response.judgement.reason)),
        ("reward", json!(response.reward)),
        ("entropy", json!(response.entropy())),
    ];
    let mut line: Map<String, Value> =
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    if !response.judgement.metrics.is_empty() {
        line.insert("metrics".into(), json!(response.judgement.metrics));
    }
    if let Some(vote) = &response.vote {
        line.insert("vote".into(), json!(vote));
    }
    line
}

/// The name of a file that is not complete.
fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

/// Writes a value, indented, as a whole or not at all.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| Error::io(path, e.into()))?;
    text.push(b'\n');
    write_atomically(path, &text)
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = partial(path);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| Error::io(path, e))
}
