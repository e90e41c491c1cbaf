//! Directories of adapters, as peft reads and writes them.

use super::config::ADAPTER_CONFIG;
use super::{AdapterConfig, AdapterLayout};
use crate::checkpoint::{
    Checkpoint, Fingerprint, WriteOptions, Writer, copy_companions, write_json, write_safetensors,
};
use crate::config::ModelConfig;
use crate::layout::Layout;
use crate::model::Model;
use crate::{Error, Result};
use isentrope_kernels::{Backend, Kind, Role};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of A and B.
const WEIGHTS: &str = "adapter_model.safetensors";
/// What peft puts before the name of each tensor.
const PREFIX: &str = "base_model.model.";

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

/// Opens the weights of an adapter's directory and checks them against its layout.
fn open(dir: &Path, layout: &AdapterLayout) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open_file(dir, WEIGHTS)?;
    let mut names = Vec::new();
    for (_, parameter, tensor) in layout.parameters.tensors() {
        let name = format!("{PREFIX}{}", tensor.name);
        checkpoint.expect(&name, &parameter.shape(tensor))?;
        names.push(name);
    }
    match checkpoint.unused(names.iter().map(String::as_str)).first() {
        None => Ok(checkpoint),
        Some(other) => Err(Error::unsupported(
            &dir.join(WEIGHTS),
            format!("tensor {other} is no A or B of the modules that {ADAPTER_CONFIG} names"),
        )),
    }
}

impl AdapterConfig {
    /// Checks that a model directory is the base that this adapter is for, as far as its files are
    /// known. It reads all weights.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the base and what differs.
    pub fn check_base(&self, dir: &Path) -> Result<()> {
        let Some(BaseIdentity { path, expected }) = self.base_identity() else { return Ok(()) };
        let found = Fingerprint::of(dir)?;
        let differs = match () {
            () if found.weights_crc32c != expected.weights_crc32c => "the weights differ",
            () if found.config_sha256 != expected.config_sha256 => "config.json differs",
            () => return Ok(()),
        };
        Err(Error::invalid(
            dir,
            format!("is not the base that the adapter was trained on, {path}: {differs}"),
        ))
    }

    fn base_identity(&self) -> Option<BaseIdentity<'_>> {
        let base = self.base.as_ref()?;
        Some(BaseIdentity { path: &base.path, expected: base.fingerprint.as_ref()? })
    }
}

struct BaseIdentity<'a> {
    path: &'a str,
    expected: &'a Fingerprint,
}

impl Model {
    /// Loads the adapter in `dir` beside the frozen weights of its base. `role` is
    /// [`Role::Weight`] if the adapter is to be trained.
    ///
    /// # Errors
    /// As [`AdapterConfig::read`], [`AdapterConfig::layout`], [`AdapterConfig::check_base`] and
    /// [`Model::load`]; also when a tensor is missing, has another shape, is not finite or is none
    /// of the adapter's.
    pub fn load_adapter(
        dir: &Path,
        base: &Path,
        backend: Arc<dyn Backend>,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        let config = AdapterConfig::read(dir)?;
        // What is cheap comes before the base's weights.
        open(dir, &config.layout(&Layout::new(&ModelConfig::read(base)?))?)?;
        config.check_base(base)?;
        Self::load_frozen(base, backend)?.with_adapter_from(dir, &config, role)
    }

    /// The model with the adapter in `dir`, whose configuration is `config`.
    ///
    /// # Errors
    /// As [`load_adapter`](Self::load_adapter), without those of the base.
    pub fn with_adapter_from(
        self,
        dir: &Path,
        config: &AdapterConfig,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        let layout = config.layout(&self.layout)?;
        let checkpoint = open(dir, &layout)?;
        self.with_adapter(layout, &checkpoint, PREFIX, role)
    }
}
