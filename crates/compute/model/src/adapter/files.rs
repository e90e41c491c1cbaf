//! Directories of adapters, as peft reads and writes them.

use super::config::ADAPTER_CONFIG;
use super::{Adapter, AdapterConfig, AdapterLayout};
use crate::checkpoint::{
    COMPANIONS, Checkpoint, Fingerprint, WriteOptions, Writer, copy_companions, write_json,
    write_safetensors,
};
use crate::config::ModelConfig;
use crate::layout::Layout;
use crate::model::Model;
use crate::parameters::Parameters;
use crate::{Error, Result};
use isentrope_files::sha256_of_file;
use isentrope_kernels::{Backend, Kind, Role};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of A and B.
const WEIGHTS: &str = "adapter_model.safetensors";
/// The remedy for weights that do not fit the configuration and the model.
const OF_ANOTHER: &str =
    "give the model that the adapter was trained beside, or save the adapter again";
/// The remedy for weights that are not finite.
pub(super) const DIVERGED: &str = "its training has diverged, or the file is damaged; take an \
                                   earlier checkpoint, or copy the file again";
/// The beginning of the name of each tensor.
pub(super) const PREFIX: &str = "base_model.model.";

/// Writes the adapter of a model into the existing directory `dir`, for peft, transformers and
/// vLLM to load: adapter_config.json, adapter_model.safetensors, the base's fingerprint if it is
/// known, and the files of [`WriteOptions::carry_from`]. All weights are one file, so of several
/// writers the first writes everything. Returns the written files.
///
/// # Errors
/// As [`write_checkpoint_files`](crate::checkpoint::write_checkpoint_files); [`Error::Input`] when
/// the model has no adapter.
pub fn write_adapter_files(
    dir: &Path,
    model: &Model,
    config: &AdapterConfig,
    options: WriteOptions,
) -> Result<Vec<PathBuf>> {
    let (Some(layout), Some(adapter)) = (&model.layout.adapter, &model.adapter) else {
        return Err(Error::Input("the model has no adapter".to_owned()));
    };
    if options.writer.number != Writer::ALONE.number {
        return Ok(Vec::new());
    }
    let path = dir.join(ADAPTER_CONFIG);
    write_json(&path, &config.to_json())?;
    let mut written = vec![path];
    if let Some(fingerprint) = config.base.as_ref().and_then(|base| base.fingerprint.as_ref()) {
        written.push(fingerprint.write(dir)?);
    }
    if let Some(source) = options.carry_from {
        written.extend(copy_companions(source, dir)?);
    }
    let path = dir.join(WEIGHTS);
    let tensors = adapter.weights.tensors(&*model.backend, &layout.parameters, PREFIX);
    write_safetensors(&path, tensors, options.dtype)?;
    written.push(path);
    Ok(written)
}

/// Files of a base, such as its tokenizer and chat template, that an adapter's directory holds with
/// other contents. The base's are used.
///
/// # Errors
/// [`Error::File`] when a file cannot be read.
pub fn other_companions(adapter: &Path, base: &Path) -> Result<Vec<&'static str>> {
    let mut others = Vec::new();
    for name in COMPANIONS {
        let (own, of_base) = (adapter.join(name), base.join(name));
        if own.is_file()
            && !(of_base.is_file() && sha256_of_file(&own)? == sha256_of_file(&of_base)?)
        {
            others.push(name);
        }
    }
    Ok(others)
}

/// Opens the weights of the adapter in `dir`, whose configuration is `config`, and checks them
/// against its layout beside a model.
pub(super) fn open(
    dir: &Path,
    config: &AdapterConfig,
    model: &Layout,
) -> Result<(AdapterLayout, Checkpoint)> {
    let layout = config.layout(model)?;
    let checkpoint = Checkpoint::open_file(dir, WEIGHTS)?;
    Parameters::expect(&layout.parameters, &checkpoint, PREFIX)
        .map_err(|error| error.with_remedy(OF_ANOTHER))?;
    let names = layout.parameters.tensors().map(|(_, _, of)| format!("{PREFIX}{}", of.name));
    let names: Vec<String> = names.collect();
    match checkpoint.unused(names.iter().map(String::as_str)).first() {
        None => Ok((layout, checkpoint)),
        Some(other) => Err(Error::unsupported(
            &dir.join(WEIGHTS),
            format!("tensor {other} is no A or B of the modules that {ADAPTER_CONFIG} names"),
        )
        .with_remedy(OF_ANOTHER)),
    }
}

impl AdapterConfig {
    /// Checks the weights of the adapter in `dir`, beside a model with this layout. It reads all of
    /// them.
    ///
    /// # Errors
    /// Those of [`Model::load_adapter`] that are about the adapter's weights.
    pub fn check_weights(&self, dir: &Path, model: &Layout) -> Result<()> {
        let (layout, weights) = open(dir, self, model)?;
        Parameters::check(&layout.parameters, &weights, PREFIX)
            .map_err(|error| error.with_remedy(DIVERGED))
    }

    /// Checks that a model directory is the base that this adapter is for, as far as that is known
    /// and its files are there. `fingerprint` is asked for the directory's fingerprint if it is
    /// needed: [`Fingerprint::of`] reads all weights.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the base and what differs.
    pub fn check_base(
        &self,
        dir: &Path,
        fingerprint: impl FnOnce(&Path) -> Result<Fingerprint>,
    ) -> Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let Some(expected) = &base.fingerprint else { return Ok(()) };
        let Some(differs) = expected.differs_from_dir(dir, fingerprint)? else { return Ok(()) };
        let what = format!("is not the base that the adapter is for, {}: {differs}", base.path);
        Err(Error::invalid(dir, what))
    }

    /// As [`check_base`](Self::check_base), but of the directory's config.json alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the base and what differs.
    pub fn check_base_config(&self, dir: &Path) -> Result<()> {
        let known = self.base.as_ref().and_then(|base| base.fingerprint.clone());
        known.map_or(Ok(()), |known| self.check_base(dir, |_| Ok(known)))
    }
}

impl Model {
    /// Loads the adapter in `dir`, whose configuration is `config`, beside the frozen weights of a
    /// base, which only their shapes need fit: [`AdapterConfig::check_base`] compares their values.
    /// `role` is [`Role::Weight`] if the adapter is to be trained.
    ///
    /// # Errors
    /// As [`AdapterConfig::layout`] and [`Model::load`]; also when a tensor is missing, has another
    /// shape, is not finite or is none of the adapter's.
    pub fn load_adapter(
        dir: &Path,
        config: &AdapterConfig,
        base: &Path,
        backend: Arc<dyn Backend>,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        // The adapter is small: it is checked before the base is loaded.
        let (layout, weights) = open(dir, config, &Layout::new(&ModelConfig::read(base)?))?;
        Self::load_frozen(base, backend)?.with_adapter(layout, &weights, role)
    }

    /// The model with the adapter in `dir`, whose configuration is `config`.
    ///
    /// # Errors
    /// Those of [`load_adapter`](Self::load_adapter) that are about the adapter.
    pub fn with_adapter_from(
        self,
        dir: &Path,
        config: &AdapterConfig,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        let (layout, weights) = open(dir, config, &self.layout)?;
        self.with_adapter(layout, &weights, role)
    }

    fn with_adapter(
        self,
        layout: AdapterLayout,
        weights: &Checkpoint,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        let backend = self.backend.clone();
        let mut adapter = Adapter::zeros(&*backend, &layout, role)?;
        adapter
            .weights
            .fill(&*backend, &layout.parameters, weights, PREFIX)
            .map_err(|error| error.with_remedy(DIVERGED))?;
        Ok(self.adapted(layout, adapter))
    }
}
