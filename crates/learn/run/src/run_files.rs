//! Files of a run directory, and their names: the log, the recipe, the responses of each step.

use crate::{Error, Result};
use isentrope_files::{names, read_regular};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The numbers that follow from the recipe alone.
pub const METRICS: &str = "metrics.jsonl";
/// How long things took.
pub const TIMINGS: &str = "timings.jsonl";
/// The resolved recipe.
pub const RECIPE: &str = "recipe.toml";
/// The recipe's values, to compare with when the run is resumed. The file is written first and
/// removed last: a directory is a run if it has this file.
pub const VALUES: &str = ".recipe.json";
/// The manifest: program, model and data.
pub const MANIFEST: &str = "manifest.json";
/// Directory of sampled responses.
pub const ROLLOUTS: &str = "rollouts";
/// Directory of responses to held-out problems.
pub const EVALUATIONS: &str = "evaluations";
/// The responses from before the first step. Entropy is measured on their states again and again.
pub const INITIAL_STATES: &str = "initial-states.jsonl";
/// Directory of token records.
pub const TOKENS: &str = "tokens";

/// Largest recipe or manifest that is read, in bytes.
const MAX_JSON: u64 = 64 << 20;

/// The values of the recipe of the run at a path; none if it is no run of this program.
///
/// # Errors
/// As [`RunFiles::recipe`].
pub fn recipe_of(path: &Path) -> Result<Option<Value>> {
    if path.is_dir() { RunFiles::new(path).recipe() } else { Ok(None) }
}

/// A run directory.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// The directory.
    pub dir: PathBuf,
}

impl RunFiles {
    /// The files of a directory that is assumed to be a run's.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The resolved recipe's values; none if the directory has no recipe.
    ///
    /// # Errors
    /// When it cannot be read or is not JSON.
    pub fn recipe(&self) -> Result<Option<Value>> {
        self.json(VALUES)
    }

    /// Reads the manifest: program, model and data.
    ///
    /// # Errors
    /// As [`recipe`](Self::recipe).
    pub fn manifest(&self) -> Result<Option<Value>> {
        self.json(MANIFEST)
    }

    /// The steps whose sampled responses are kept, ascending.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn rollout_steps(&self) -> Result<Vec<u64>> {
        steps(&self.dir.join(ROLLOUTS))
    }

    /// The file of the responses that were sampled in a step.
    pub fn rollout(&self, step: u64) -> PathBuf {
        self.dir.join(ROLLOUTS).join(of_step(step))
    }

    /// The steps that have token records, ascending.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn token_steps(&self) -> Result<Vec<u64>> {
        steps(&self.dir.join(TOKENS))
    }

    /// The file of a step's token records.
    pub fn tokens(&self, step: u64) -> PathBuf {
        self.dir.join(TOKENS).join(of_step(step))
    }

    /// The file of the responses to a set of held-out problems after a step.
    pub fn evaluation(&self, step: u64, set: &str) -> PathBuf {
        self.dir.join(EVALUATIONS).join(format!("step-{step:06}-{set}.jsonl"))
    }

    fn json(&self, name: &str) -> Result<Option<Value>> {
        let path = self.dir.join(name);
        match read_regular(&path, MAX_JSON) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|e| Error::invalid(&path, e.to_string())),
            Err(isentrope_files::Error::Io { source, .. })
                if source.kind() == ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The name of a step's file.
fn of_step(step: u64) -> String {
    format!("step-{step:06}.jsonl")
}

/// The steps N of the files `step-N.jsonl` in a directory, ascending; none if the directory does
/// not exist.
fn steps(dir: &Path) -> Result<Vec<u64>> {
    let step = |name: &str| name.strip_prefix("step-")?.strip_suffix(".jsonl")?.parse::<u64>().ok();
    let mut steps: Vec<u64> = names(dir)?.iter().filter_map(|name| step(name.to_str()?)).collect();
    steps.sort_unstable();
    Ok(steps)
}
