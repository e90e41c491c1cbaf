//! Saved weights: `tinker://RUN/weights/NAME` is the directory `RUN/weights/NAME` below the
//! server's, an adapter as peft reads it or a whole model; `optimizer/` in it has the moments of
//! AdamW, and `tinker.json` the rest.

use crate::error::{Failure, Result};
use isentrope_files::{AtomicDirectory, names, parent, remove, sync_directory, write_json};
use isentrope_kernels::{Backend, Role};
use isentrope_model::adapter::{AdapterConfig, BaseModel, write_adapter_files};
use isentrope_model::checkpoint::{
    MAX_SHARD_BYTES, WeightDtype, WriteOptions, Writer, write_checkpoint_files,
};
use isentrope_model::{Checkpoint, Layout, Model, ModelConfig};
use isentrope_train::learner::Learner;
use isentrope_train::optimizer::{Optimizer, UpdateCounts};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::fmt::{self, Display};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub(crate) const SCHEME: &str = "tinker://";
const STATE: &str = "tinker.json";
const OPTIMIZER: &str = "optimizer";
/// Prefix of the name that weights have while others take their place. No user's name begins with a
/// dot.
const FORMER: &str = ".former-";
/// Prefix of the name that weights have while they are deleted. A number comes behind it, since
/// weights that were saved anew under a name may be deleted before the former ones are gone.
const DELETED: &str = ".deleted-";
/// Deletions so far. What an earlier server has left is gone before the first.
static DELETIONS: AtomicU64 = AtomicU64::new(0);
/// Begins the name of weights that are being written.
const NEXT: &str = ".next-";
/// Most bytes of a part of a path.
const LONGEST: usize = 128;

/// The directory of saved weights, and the base that they are for.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub dir: PathBuf,
    /// The base's directory, whose tokenizer and template go into each adapter's.
    pub base_dir: PathBuf,
    /// The base, as adapters name it.
    pub base: BaseModel,
}

/// The use of saved weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Training can go on from them.
    Training,
    /// Sampling.
    Sampler,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Training, Self::Sampler];

    /// The directory of such weights in their run's.
    fn directory(self) -> &'static str {
        match self {
            Self::Training => "weights",
            Self::Sampler => "sampler_weights",
        }
    }
}

/// Saved weights in a list.
#[derive(Clone, Debug)]
pub(crate) struct SavedWeights {
    pub path: WeightsPath,
    /// The time when they were saved.
    pub time: SystemTime,
    /// Bytes of their files.
    pub bytes: u64,
}

/// The path of saved weights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WeightsPath {
    run: String,
    kind: Kind,
    name: String,
}

/// `tinker.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// The base's name on the server that saved it.
    pub base_model: String,
    /// Which of its layers are trained.
    pub train_attn: bool,
    /// Likewise.
    pub train_mlp: bool,
    /// The updates behind the moments; none without an optimizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<UpdateCounts>,
}

impl WeightsPath {
    /// The path of a name.
    ///
    /// # Errors
    /// When the name is not one of a file.
    pub fn new(run: &str, kind: Kind, name: &str) -> Result<Self> {
        for part in [run, name] {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
            if part.is_empty()
                || part.len() > LONGEST
                || part.starts_with('.')
                || !part.chars().all(is_plain)
            {
                return Err(Failure::user(format!(
                    "{part:?} cannot be the name of weights: up to {LONGEST} letters, digits and \
                     -_.: can, without a dot at the beginning"
                )));
            }
        }
        Ok(Self { run: run.to_owned(), kind, name: name.to_owned() })
    }

    /// Reads a path.
    ///
    /// # Errors
    /// When it is none of saved weights.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> =
            text.strip_prefix(SCHEME).map(|rest| rest.split('/').collect()).unwrap_or_default();
        match *parts {
            [run, "weights", name] => Self::new(run, Kind::Training, name),
            [run, "sampler_weights", name] => Self::new(run, Kind::Sampler, name),
            _ => Err(Failure::user(format!(
                "{text:?} is not {SCHEME}RUN/weights/NAME or {SCHEME}RUN/sampler_weights/NAME"
            ))),
        }
    }

    /// The use of the weights.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Their name in their run.
    pub fn id(&self) -> String {
        format!("{}/{}", self.kind.directory(), self.name)
    }
}

impl Display for WeightsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.run, self.id())
    }
}

fn io(path: &Path, error: std::io::Error) -> Failure {
    Failure::server(format!("{}: {error}", path.display()))
}

/// A model's config.json without the type of the saved numbers.
fn architecture(dir: &Path) -> Result<Map<String, Value>> {
    let mut json = ModelConfig::read(dir).map_err(Failure::server)?.json;
    json.retain(|key, _| key != "dtype" && key != "torch_dtype");
    Ok(json)
}

/// Bytes of the files in a directory.
fn file_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    files.map(|of| of.len()).sum()
}

impl Store {
    fn directory(&self, path: &WeightsPath) -> PathBuf {
        self.dir.join(&path.run).join(path.kind.directory()).join(&path.name)
    }

    /// Reads the state of saved weights, and the configuration of their adapter; none if they are
    /// all of a model's.
    ///
    /// # Errors
    /// When there are none, or they cannot be read.
    pub fn read(&self, path: &WeightsPath) -> Result<(SavedState, Option<AdapterConfig>)> {
        let dir = self.directory(path);
        let file = dir.join(STATE);
        let text = fs::read(&file)
            .map_err(|_| Failure::user(format!("there are no weights {path} on this server")))?;
        let state: SavedState = serde_json::from_slice(&text)
            .map_err(|error| Failure::server(format!("{}: {error}", file.display())))?;
        let adapter = AdapterConfig::is_in(&dir).then(|| AdapterConfig::read(&dir));
        Ok((state, adapter.transpose().map_err(Failure::server)?))
    }

    /// Does what [`read`](Self::read) does for weights that are to be used.
    ///
    /// # Errors
    /// As [`read`](Self::read); when they are for another base.
    pub fn describe(&self, path: &WeightsPath) -> Result<(SavedState, Option<AdapterConfig>)> {
        let (state, adapter) = self.read(path)?;
        let is_for_base = match &adapter {
            Some(adapter) => {
                let of = adapter.base.as_ref().and_then(|base| base.fingerprint.as_ref());
                of.is_none() || of == self.base.fingerprint.as_ref()
            }
            None => architecture(&self.directory(path))? == architecture(&self.base_dir)?,
        };
        if !is_for_base {
            let base = &state.base_model;
            let what = format!("{path} is for another model than this server's, once of {base}");
            return Err(Failure::user(what));
        }
        Ok((state, adapter))
    }

    /// The model of saved weights, which shares the base's if they are an adapter's; `whole` loads
    /// a model's directory.
    pub fn load(
        &self,
        path: &WeightsPath,
        adapter: Option<&AdapterConfig>,
        base: &Model,
        whole: fn(&Path, Arc<dyn Backend>) -> isentrope_model::Result<Model>,
    ) -> Result<Model> {
        let dir = self.directory(path);
        match adapter {
            Some(config) => base.base().with_adapter_from(&dir, config, Role::Weight),
            None => whole(&dir, base.backend.clone()),
        }
        .map_err(Failure::server)
    }

    /// Checks that saved weights can be loaded, with their optimizer if it is wanted. `layout` is
    /// the model's with their adapter. It reads all of them and keeps none.
    pub fn check(
        &self,
        path: &WeightsPath,
        adapter: Option<&AdapterConfig>,
        layout: &Layout,
        with_optimizer: bool,
    ) -> Result<()> {
        let dir = self.directory(path);
        match adapter {
            Some(config) => config.check_weights(&dir, layout),
            None => Model::check_weights(&dir),
        }
        .map_err(Failure::server)?;
        if with_optimizer {
            let moments = Checkpoint::open(&dir.join(OPTIMIZER)).map_err(Failure::server)?;
            Optimizer::check_moments(layout.trained(), &moments).map_err(Failure::server)?;
        }
        Ok(())
    }

    /// Reads the optimizer of saved weights into a learner of them.
    pub fn load_optimizer(
        &self,
        path: &WeightsPath,
        updates: UpdateCounts,
        learner: &mut Learner,
    ) -> Result<()> {
        let moments =
            Checkpoint::open(&self.directory(path).join(OPTIMIZER)).map_err(Failure::server)?;
        learner.read_moments(&moments, updates).map_err(Failure::server)
    }

    /// Saves an adapter or, without one, all weights, and their optimizer if the path is for
    /// training. They appear whole or not at all.
    ///
    /// # Errors
    /// When there are weights of this path and `overwrite` is not set; what could not be written.
    pub fn save(
        &self,
        path: &WeightsPath,
        learner: &Learner,
        adapter: Option<&AdapterConfig>,
        state: &SavedState,
        overwrite: bool,
    ) -> Result<()> {
        let target = self.directory(path);
        fs::create_dir_all(parent(&target)).map_err(|e| io(parent(&target), e))?;
        if target.exists() && !overwrite {
            let or = if path.kind == Kind::Training { ", or overwrite" } else { "" };
            let what = format!("there are weights {path} already: give another name{or}");
            return Err(Failure::user(what));
        }
        // No user's name begins with a dot.
        let next = target.with_file_name(format!("{NEXT}{}", path.name));
        remove(&next).map_err(Failure::server)?;
        let staged = AtomicDirectory::create(&next).map_err(Failure::server)?;
        let options = WriteOptions {
            dtype: WeightDtype::F32,
            max_shard_bytes: MAX_SHARD_BYTES,
            carry_from: Some(&self.base_dir),
            writer: Writer::ALONE,
        };
        let Model { config, layout, weights, backend, .. } = &learner.model;
        match adapter {
            Some(adapter) => write_adapter_files(staged.path(), &learner.model, adapter, options),
            None => {
                let tensors = weights.tensors(&**backend, &layout.parameters, "");
                write_checkpoint_files(staged.path(), &config.json, tensors, options)
            }
        }
        .map_err(Failure::server)?;
        let mut state = state.clone();
        state.optimizer = None;
        if path.kind == Kind::Training {
            let dir = staged.path().join(OPTIMIZER);
            fs::create_dir(&dir).map_err(|e| io(&dir, e))?;
            let options = WriteOptions { carry_from: None, ..options };
            learner.write_moments(&dir, options).map_err(Failure::server)?;
            state.optimizer = Some(learner.optimizer.progress);
        }
        write_json(&staged.path().join(STATE), &state).map_err(Failure::server)?;
        staged.commit().map_err(Failure::server)?;
        let former = target.with_file_name(format!("{FORMER}{}", path.name));
        if target.exists() {
            remove(&former).map_err(Failure::server)?;
            fs::rename(&target, &former).map_err(|e| io(&target, e))?;
        }
        if let Err(error) = fs::rename(&next, &target) {
            let _ = fs::rename(&former, &target); // the first failure is told
            return Err(io(&target, error));
        }
        sync_directory(parent(&target)).map_err(Failure::server)?;
        remove(&former).map_err(Failure::server)
    }

    /// The runs with directories of saved weights, in no order.
    pub fn runs(&self) -> Result<Vec<String>> {
        let found = names(&self.dir).map_err(Failure::server)?.into_iter();
        let names = found.filter_map(|name| name.into_string().ok());
        let names = names.filter(|run| WeightsPath::new(run, Kind::Training, "name").is_ok());
        Ok(names.filter(|run| is_directory(&self.dir.join(run))).collect())
    }

    /// The saved weights of a run, the newest first. Links are passed over.
    pub fn saved(&self, run: &str) -> Result<Vec<SavedWeights>> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            let dir =
                self.dir.join(WeightsPath::new(run, kind, "name")?.run).join(kind.directory());
            for name in names(&dir).map_err(Failure::server)? {
                let name = name.to_string_lossy();
                let Ok(path) = WeightsPath::new(run, kind, &name) else { continue };
                let dir = self.directory(&path);
                let time = fs::metadata(dir.join(STATE)).and_then(|of| of.modified());
                if let (true, Ok(time)) = (self.is_own(&path), time) {
                    let bytes = file_bytes(&dir) + file_bytes(&dir.join(OPTIMIZER));
                    all.push(SavedWeights { path, time, bytes });
                }
            }
        }
        all.sort_by_key(|saved| Reverse(saved.time));
        Ok(all)
    }

    /// Whether the directory of weights is there, below the server's and not by a link, which could
    /// lead elsewhere.
    fn is_own(&self, path: &WeightsPath) -> bool {
        self.directory(path).ancestors().take(3).all(is_directory)
    }

    /// Deletes saved weights. They lose their name at once.
    ///
    /// # Errors
    /// When there are none; what could not be renamed or removed.
    pub fn delete(&self, path: &WeightsPath) -> Result<()> {
        let none = || Failure::unknown(format!("there are no weights {path} on this server"));
        if !self.is_own(path) {
            return Err(none());
        }
        let target = self.directory(path);
        let number = DELETIONS.fetch_add(1, Ordering::Relaxed);
        let gone = target.with_file_name(format!("{DELETED}{number}"));
        fs::rename(&target, &gone).map_err(|error| match error.kind() {
            ErrorKind::NotFound => none(),
            _ => io(&target, error),
        })?;
        sync_directory(parent(&target)).map_err(Failure::server)?;
        remove(&gone).map_err(Failure::server)
    }

    /// Finishes what a server that was killed has left: weights that were being overwritten get
    /// their name back if no others have it, and those that were being written or deleted go.
    ///
    /// # Errors
    /// What could not be read, renamed or removed.
    pub fn recover(&self) -> Result<()> {
        for run in names(&self.dir).map_err(Failure::server)? {
            for kind in Kind::ALL {
                let dir = self.dir.join(&run).join(kind.directory());
                if !dir.ancestors().take(2).all(is_directory) {
                    continue;
                }
                for entry in names(&dir).map_err(Failure::server)? {
                    let (path, entry) = (dir.join(&entry), entry.to_string_lossy());
                    // A directory is written under its name with a dot and an ending more.
                    let unfinished = [DELETED.to_owned(), NEXT.to_owned(), format!(".{NEXT}")];
                    if unfinished.iter().any(|begin| entry.starts_with(begin)) {
                        remove(&path).map_err(Failure::server)?;
                    } else if let Some(name) = entry.strip_prefix(FORMER) {
                        let target = dir.join(name);
                        if target.exists() {
                            remove(&path).map_err(Failure::server)?;
                        } else {
                            fs::rename(&path, &target).map_err(|e| io(&target, e))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether this is a directory and no link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;
    use crate::training::tests::{base_dir, trainee};
    use isentrope_model::checkpoint::Fingerprint;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn store_in(out: &TempDir) -> Store {
        let base = BaseModel::new("base", Fingerprint::of(&base_dir()).unwrap()).unwrap();
        Store { dir: out.path().to_owned(), base_dir: base_dir(), base }
    }

    #[test]
    fn weights_outlast_an_end_while_they_are_overwritten() {
        let out = TempDir::new().unwrap();
        let store = store_in(&out);
        let path = WeightsPath::new("run", Kind::Training, "w").unwrap();
        trainee(64).save(&store, &path, false).unwrap();
        let dir = store.directory(&path);
        let former = dir.with_file_name(".former-w");
        fs::rename(&dir, &former).unwrap();
        store.describe(&path).unwrap_err();
        store.recover().unwrap();
        store.describe(&path).unwrap();
        // Where the new ones have their name, the former ones go.
        fs::create_dir(&former).unwrap();
        store.recover().unwrap();
        assert!(!former.exists());
        trainee(64).save(&store, &path, true).unwrap();
        store.describe(&path).unwrap();
        assert!(!former.exists());
        // A deletion that a kill has cut off is finished.
        let deleted = dir.with_file_name(".deleted-x");
        fs::create_dir(&deleted).unwrap();
        store.recover().unwrap();
        assert!(!deleted.exists());
    }

    /// Large files take a while to go, and the name is free meanwhile.
    #[test]
    fn a_name_can_be_deleted_while_its_former_weights_are_going() {
        let out = TempDir::new().unwrap();
        let store = store_in(&out);
        let path = WeightsPath::new("run", Kind::Training, "w").unwrap();
        trainee(64).save(&store, &path, false).unwrap();
        let dir = store.directory(&path);
        let going = dir.with_file_name(".deleted-w");
        fs::create_dir(&going).unwrap();
        store.delete(&path).unwrap();
        assert!(!dir.exists());
        assert_eq!(names(parent(&dir)).unwrap(), [".deleted-w"], "the former ones' own");
    }

    #[test]
    fn nothing_outside_is_listed_or_deleted() {
        let (out, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = store_in(&out);
        let path = |run, name| WeightsPath::new(run, Kind::Training, name).unwrap();
        trainee(64).save(&store, &path("run", "w"), false).unwrap();
        let dir = store.directory(&path("run", "w"));
        fs::rename(&dir, outside.path().join("w")).unwrap();
        symlink(outside.path().join("w"), &dir).unwrap();
        fs::create_dir(out.path().join("other")).unwrap();
        symlink(outside.path(), out.path().join("other/weights")).unwrap();
        fs::write(out.path().join("notes.txt"), "a stray file").unwrap();
        assert_eq!(store.runs().unwrap(), ["other", "run"]);
        for run in ["run", "other"] {
            assert!(store.saved(run).unwrap().is_empty(), "{run}");
            let failure = store.delete(&path(run, "w")).unwrap_err();
            assert_eq!(failure.cause, Cause::Unknown);
        }
        store.saved("..").unwrap_err();
        assert!(outside.path().join("w").join(STATE).is_file());
        // A link among the files of weights is removed, and what it leads to stays.
        trainee(64).save(&store, &path("run", "x"), false).unwrap();
        let linked = store.directory(&path("run", "x")).join("link");
        symlink(outside.path(), linked).unwrap();
        assert_eq!(store.saved("run").unwrap().len(), 1);
        store.delete(&path("run", "x")).unwrap();
        assert!(store.saved("run").unwrap().is_empty());
        assert!(outside.path().join("w").join(STATE).is_file());
        assert_eq!(store.delete(&path("run", "x")).unwrap_err().cause, Cause::Unknown);
    }
}
