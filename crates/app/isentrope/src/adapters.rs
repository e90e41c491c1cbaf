//! Finds the base of an adapter that a command's arguments name.

use anyhow::{Context, Result, bail};
use isentrope_hub::{self as hub, HubConfig};
use isentrope_model::adapter::{AdapterConfig, other_companions};
use isentrope_model::checkpoint::Fingerprint;
use std::path::{Path, PathBuf};

use crate::messages;
use crate::progress::{Download, announce_if_slow};
use crate::run_directory::refuse_as_model;

/// A model, and the adapter beside it.
pub struct ModelPlace {
    /// A model directory or a hub id.
    pub model: String,
    /// The adapter's directory, and its configuration.
    pub adapter: Option<(PathBuf, AdapterConfig)>,
    /// The begin of the error that the model cannot be had, if the adapter names it.
    named_by: Option<String>,
}

impl ModelPlace {
    /// The place of MODEL with `--adapter`. Without the flag, MODEL may be an adapter itself.
    pub fn find(model: &str, adapter: Option<&Path>) -> Result<Self> {
        let dir = Path::new(model);
        adapter.map_or(Ok(()), refuse_as_model)?;
        if !AdapterConfig::is_in(dir) {
            let read = |dir: &Path| AdapterConfig::read(dir).map(|config| (dir.to_owned(), config));
            let adapter = adapter.map(read).transpose().context("--adapter")?;
            return Ok(Self { model: model.to_owned(), adapter, named_by: None });
        }
        if adapter.is_some() {
            bail!("{model}: is an adapter itself; --adapter goes with its base as MODEL")
        }
        let config = AdapterConfig::read(dir)?;
        let remedy = format!("give its base as MODEL, with --adapter {model}");
        let base = base_of(dir, &config, &remedy)?;
        let named_by = Some(named_by(dir, &remedy));
        Ok(Self { model: base, adapter: Some((dir.to_owned(), config)), named_by })
    }

    /// The directory of the model's files besides its weights, which are downloaded if need be.
    pub fn describe(&self, hub: &HubConfig) -> Result<PathBuf> {
        let found = hub::describe(hub, &self.model, &Download::default());
        match &self.named_by {
            Some(named_by) => found.with_context(|| named_by.clone()),
            None => Ok(found?),
        }
    }
}

/// The begin of the error that the base that an adapter names cannot be had.
pub fn named_by(adapter: &Path, remedy: &str) -> String {
    format!("the base that {} names ({remedy})", adapter.display())
}

/// The directory or hub id of the base that an adapter's configuration names. `remedy` says how the
/// user can name another.
pub fn base_of(adapter: &Path, config: &AdapterConfig, remedy: &str) -> Result<String> {
    let shown = adapter.display();
    let Some(base) = config.base.as_ref().filter(|base| !base.path.is_empty()) else {
        bail!("{shown}: names no base; {remedy}")
    };
    if let Some(found) = config.find_base(adapter) {
        return Ok(found.display().to_string());
    }
    let id = match &base.revision {
        Some(revision) => format!("{}@{revision}", base.path),
        None => base.path.clone(),
    };
    if hub::check_name(&id).is_err() {
        bail!("{shown}: its base {:?} is no directory here; {remedy}", base.path);
    }
    Ok(id)
}

/// The fingerprint of an adapter's base. All weights are read.
pub fn fingerprint(base: &Path) -> isentrope_model::Result<Fingerprint> {
    let what = format!("reading the weights in {}, for their fingerprint", base.display());
    announce_if_slow(&what, || Fingerprint::of(base))
}

/// Warns of a tokenizer or a chat template beside an adapter that the base does not have.
pub fn warn_of_companions(adapter: &Path, base: &Path) -> Result<()> {
    let others = other_companions(adapter, base)?;
    if !others.is_empty() {
        messages::warning(&format!(
            "{}: {} differ from the base's, {}, which are used",
            adapter.display(),
            others.join(", "),
            base.display()
        ));
    }
    Ok(())
}
