//! SWEEP.toml: the settings that runs share, and the axes along which they differ.

use super::axis::Axis;
use super::compare::Compare;
use crate::recipe::{self, Node};
use anyhow::{Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A parsed sweep file. Settings of recipes are checked with each run's whole recipe.
pub struct SweepFile {
    /// The path, for errors.
    pub path: PathBuf,
    /// How the runs are trained.
    pub command: Training,
    /// The recipe that all runs begin with.
    pub base: PathBuf,
    /// The directory of all runs, if the file names it.
    pub out: Option<PathBuf>,
    /// Settings of every run, laid over the base.
    pub set: Option<Node>,
    /// The axes in the order written; the last one changes fastest.
    pub axes: Vec<Axis>,
    /// Values that are compared with another value than the first.
    pub compare: Compare,
}

/// A kind of training, which is the command that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    Train,
    Sft,
}

impl Training {
    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Sft => "sft",
        }
    }
}

const KEYS: [&str; 6] = ["command", "base", "out", "set", "axes", "compare"];

impl SweepFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// The fault, by file and line.
    pub fn read(path: &Path) -> Result<Self> {
        let root = recipe::read(path)?;
        let otherwise = "; settings of all runs go under [set], what a sweep file has is ";
        root.only_keys("", &KEYS, &format!("{otherwise}{}", KEYS.join(", ")))?;
        let base = root.get("base").ok_or_else(|| {
            anyhow!(
                "{}: the key `base` is missing: the recipe that all runs begin with",
                path.display()
            )
        })?;
        let command = match root.get("command") {
            None => Training::Train,
            Some(node) => match node.text("command")? {
                "train" => Training::Train,
                "sft" => Training::Sft,
                other => {
                    bail!("{}: command must be \"train\" or \"sft\", found {other:?}", node.at)
                }
            },
        };
        let axes_of = root.get("axes").ok_or_else(|| {
            anyhow!(
                "{}: the table `axes` is missing: what runs differ in, such as [axes.method.NAME]",
                path.display()
            )
        })?;
        let axes: Vec<Axis> = axes_of
            .table("axes")?
            .iter()
            .map(|(name, node)| Axis::parse(name, node))
            .collect::<Result<_>>()?;
        if axes.is_empty() {
            bail!(
                "{}: `axes` is empty: say what runs differ in, such as [axes.method.NAME]",
                axes_of.at
            );
        }
        let compare = root.get("compare").map(|node| Compare::parse(node, &axes)).transpose()?;
        let out = root.get("out").map(|node| node.text("out")).transpose()?;
        let set = root.get("set");
        set.map(|node| node.table("set")).transpose()?;
        Ok(Self {
            path: path.to_owned(),
            command,
            base: base_recipe(path, base)?,
            out: out.map(PathBuf::from),
            set: set.cloned(),
            axes,
            compare: compare.unwrap_or_default(),
        })
    }

    /// The name of the sweep: its file's.
    pub fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The default directory of all runs.
    pub fn default_out(&self) -> PathBuf {
        Path::new("runs").join(self.name())
    }
}

/// The base recipe, which the file names relative to itself.
fn base_recipe(path: &Path, node: &Node) -> Result<PathBuf> {
    let named = node.text("base")?;
    let found = isentrope_files::parent(path).join(named);
    // A sweep in the current directory needs no ./ in front of names.
    let found = found.strip_prefix(".").map(Path::to_owned).unwrap_or(found);
    match fs::metadata(&found) {
        Ok(there) if !there.is_dir() => Ok(found),
        Ok(_) => bail!("{}: base is {named:?}, a directory: name a recipe", node.at),
        Err(error) => bail!(
            "{}: base is {named:?}, relative to this file, and {} cannot be read: {error}",
            node.at,
            found.display()
        ),
    }
}
