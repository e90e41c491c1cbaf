//! Saved weights: `tinker://RUN/weights/NAME` is the directory `RUN/weights/NAME` below the
//! server's, an adapter as peft reads it; `optimizer/` in it has the moments of AdamW, and
//! `tinker.json` the rest.

use crate::error::{Failure, Result};
use isentrope_files::{AtomicDirectory, names, parent, remove, sync_directory, write_json};
use isentrope_kernels::Role;
use isentrope_model::adapter::{AdapterConfig, BaseModel, write_adapter_files};
use isentrope_model::checkpoint::{MAX_SHARD_BYTES, WeightDtype, WriteOptions, Writer};
use isentrope_model::{Checkpoint, Model};
use isentrope_train::learner::Learner;
use isentrope_train::optimizer::UpdateCounts;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

const SCHEME: &str = "tinker://";
const STATE: &str = "tinker.json";
const OPTIMIZER: &str = "optimizer";
/// Prefix of the name that weights have while others take their place. No user's name begins with a
/// dot.
const FORMER: &str = ".former-";
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Training can go on from them.
    Training,
    /// Sampling.
    Sampler,
}

/// The path of saved weights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WeightsPath {
    run: String,
    is_for_training: bool,
    name: String,
}

/// `tinker.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// The base's name on the server that saved it.
    pub base_model: String,
    /// Which of its layers have an adapter.
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
        let is_for_training = kind == Kind::Training;
        Ok(Self { run: run.to_owned(), is_for_training, name: name.to_owned() })
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

    fn kind(&self) -> &'static str {
        if self.is_for_training { "weights" } else { "sampler_weights" }
    }
}

impl Display for WeightsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", self.run, self.kind(), self.name)
    }
}

fn io(path: &Path, error: std::io::Error) -> Failure {
    Failure::server(format!("{}: {error}", path.display()))
}

impl Store {
    fn directory(&self, path: &WeightsPath) -> PathBuf {
        self.dir.join(&path.run).join(path.kind()).join(&path.name)
    }

    /// Reads the state and the configuration of saved weights.
    ///
    /// # Errors
    /// When there are none, they are for another base, or they cannot be read.
    pub fn describe(&self, path: &WeightsPath) -> Result<(SavedState, AdapterConfig)> {
        let file = self.directory(path).join(STATE);
        let text = fs::read(&file)
            .map_err(|_| Failure::user(format!("there are no weights {path} on this server")))?;
        let state: SavedState = serde_json::from_slice(&text)
            .map_err(|error| Failure::server(format!("{}: {error}", file.display())))?;
        let config = AdapterConfig::read(&self.directory(path)).map_err(Failure::server)?;
        let of = config.base.as_ref().and_then(|base| base.fingerprint.as_ref());
        if of.is_some() && of != self.base.fingerprint.as_ref() {
            let base = &state.base_model;
            let what = format!("{path} is for other weights than this server's, once of {base}");
            return Err(Failure::user(what));
        }
        Ok((state, config))
    }

    /// The adapter of saved weights beside a base.
    pub fn load(&self, path: &WeightsPath, base: &Model) -> Result<Model> {
        let (_, config) = self.describe(path)?;
        base.base()
            .with_adapter_from(&self.directory(path), &config, Role::Weight)
            .map_err(Failure::server)
    }

    /// Reads the optimizer of saved weights into a learner of them.
    pub fn load_optimizer(&self, path: &WeightsPath, learner: &mut Learner) -> Result<()> {
        let (state, _) = self.describe(path)?;
        let updates = state.optimizer.ok_or_else(|| {
            Failure::user(format!("{path} has no optimizer: only save_state saves one"))
        })?;
        let moments =
            Checkpoint::open(&self.directory(path).join(OPTIMIZER)).map_err(Failure::server)?;
        learner.read_moments(&moments, updates).map_err(Failure::server)
    }

    /// Saves an adapter, and its optimizer if it is for training. It appears whole or not at all.
    ///
    /// # Errors
    /// When there are weights of this path and `overwrite` is not set; what could not be written.
    pub fn save(
        &self,
        path: &WeightsPath,
        learner: &Learner,
        config: &AdapterConfig,
        state: &SavedState,
        overwrite: bool,
    ) -> Result<()> {
        let target = self.directory(path);
        fs::create_dir_all(parent(&target)).map_err(|e| io(parent(&target), e))?;
        if target.exists() && !overwrite {
            let or = if path.is_for_training { ", or overwrite" } else { "" };
            let what = format!("there are weights {path} already: give another name{or}");
            return Err(Failure::user(what));
        }
        // No user's name begins with a dot.
        let next = target.with_file_name(format!(".next-{}", path.name));
        remove(&next).map_err(Failure::server)?;
        let staged = AtomicDirectory::create(&next).map_err(Failure::server)?;
        let options = WriteOptions {
            dtype: WeightDtype::F32,
            max_shard_bytes: MAX_SHARD_BYTES,
            carry_from: Some(&self.base_dir),
            writer: Writer::ALONE,
        };
        write_adapter_files(staged.path(), &learner.model, config, options)
            .map_err(Failure::server)?;
        let mut state = state.clone();
        state.optimizer = None;
        if path.is_for_training {
            let dir = staged.path().join(OPTIMIZER);
            fs::create_dir(&dir).map_err(|e| io(&dir, e))?;
            let options = WriteOptions { carry_from: None, ..options };
            learner.write_moments_of_one(&dir, options).map_err(Failure::server)?;
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

    /// Finishes what a server that was killed while it overwrote weights has left: the former ones
    /// get their name back if no others have it.
    ///
    /// # Errors
    /// What could not be read, renamed or removed.
    pub fn recover(&self) -> Result<()> {
        for run in names(&self.dir).map_err(Failure::server)? {
            let dir = self.dir.join(run).join("weights");
            let entries =
                if dir.is_dir() { names(&dir).map_err(Failure::server)? } else { continue };
            for entry in entries {
                let Some(name) = entry.to_str().and_then(|entry| entry.strip_prefix(FORMER)) else {
                    continue;
                };
                let (former, target) = (dir.join(&entry), dir.join(name));
                if target.exists() {
                    remove(&former).map_err(Failure::server)?;
                } else {
                    fs::rename(&former, &target).map_err(|e| io(&target, e))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::tests::{base_dir, trainee};
    use tempfile::TempDir;

    #[test]
    fn weights_outlast_an_end_while_they_are_overwritten() {
        let out = TempDir::new().unwrap();
        let base = BaseModel::of("base", &base_dir()).unwrap();
        let store = Store { dir: out.path().to_owned(), base_dir: base_dir(), base };
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
    }
}
