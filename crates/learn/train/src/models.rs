//! The models that a run trains and asks, from its model directory or from a checkpoint.

use crate::error::{Error, Result};
use crate::model_kind::{ModelKind, tokenizer_of};
use crate::ranks::TrainingRanks;
use crate::settings::{LoraSettings, first_change};
use crate::trainer::Tables;
use isentrope_kernels::{Backend, Kind, Role};
use isentrope_model::adapter::{AdapterConfig, BaseModel};
use isentrope_model::checkpoint::Fingerprint;
use isentrope_model::{Checkpoint, Layout, Model};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The origin of a run's models. With adapters, all of them are one base, which is loaded once: the
/// policy and the process model with an adapter each, the reference with the one that they start
/// from, if it is not new.
pub(crate) struct Models<'a> {
    /// The directory of `model.path`.
    dir: &'a Path,
    tables: Tables<'a>,
    ranks: TrainingRanks,
    backend: Arc<dyn Backend>,
    adapted: Option<AdaptedBase<'a>>,
}

/// The base of adapters, and their configuration.
struct AdaptedBase<'a> {
    base: Model,
    config: AdapterConfig,
    /// The directory of the adapter that training starts from; none if it starts from a new one.
    first: Option<&'a Path>,
}

impl AdaptedBase<'_> {
    /// The base with the adapter that training starts from; none if that one is new.
    fn with_first(&self, role: fn(Kind) -> Role) -> Result<Option<Model>> {
        let load = |dir| self.base.base().with_adapter_from(dir, &self.config, role);
        Ok(self.first.map(load).transpose()?)
    }
}

impl<'a> Models<'a> {
    /// Loads the base of adapters, if the recipe trains adapters. The first rank alone reads the
    /// base for its fingerprint: all ranks have the same files. `saved` is the checkpoint that the
    /// run goes on from.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) when the checkpoint has a model or adapters
    /// of another kind, or `lora.adapter` is for another base; what is wrong with a model's files.
    pub fn open(
        dir: &'a Path,
        tables: Tables<'a>,
        saved: Option<&Path>,
        ranks: &TrainingRanks,
        backend: Arc<dyn Backend>,
    ) -> Result<Self> {
        let own = tables.lora.map(|lora| lora.config(None));
        let before = saved.map(|saved| check_kind_of(dir, own.as_ref(), saved)).transpose()?;
        let adapted = |lora: &'a LoraSettings| {
            let fingerprint = ranks.first_finds(|| Ok(Fingerprint::of(dir)?))?;
            if let (Some(saved), Some(Some(before))) = (saved, before)
                && before.base.and_then(|base| base.fingerprint).as_ref() != Some(&fingerprint)
            {
                let differs = "weights or config.json are others than those of the base";
                return Err(other_model(dir, saved, differs));
            }
            lora.check_base(dir, |_| Ok(fingerprint.clone()))?;
            let config = lora.config(Some(BaseModel::new(&tables.model.path, fingerprint)?));
            let base = Model::load_frozen(dir, backend.clone())?;
            Ok(AdaptedBase { base, config, first: lora.adapter.as_deref() })
        };
        let adapted = tables.lora.map(adapted).transpose()?;
        Ok(Self { dir, tables, ranks: ranks.clone(), backend, adapted })
    }

    /// The configuration of the adapters that are trained, if any are.
    pub fn adapter(&self) -> Option<&AdapterConfig> {
        self.adapted.as_ref().map(|adapted| &adapted.config)
    }

    /// The model that training starts from, to be asked and never trained.
    pub fn reference(&self) -> Result<Model> {
        Ok(match &self.adapted {
            Some(adapted) => {
                adapted.with_first(Role::Frozen)?.unwrap_or_else(|| adapted.base.base())
            }
            None => Model::load_frozen(self.dir, self.backend.clone())?,
        })
    }

    /// A model before the first step, to be trained: that of `dir`, or of `model.path`.
    pub fn first(&self, dir: Option<&Path>) -> Result<Model> {
        let (dir, backend) = (dir.unwrap_or(self.dir), self.backend.clone());
        let seed = self.tables.run.seed;
        Ok(match &self.adapted {
            Some(adapted) => match adapted.with_first(Role::Weight)? {
                Some(first) => first,
                None => {
                    let AdaptedBase { base, config, .. } = adapted;
                    base.base().with_new_adapter(config.layout(&base.layout)?, seed)?
                }
            },
            None if self.tables.model.from_scratch => {
                Model::initialize_slice(dir, seed, backend, |layout| self.own_elements(layout))?
            }
            None => Model::load_slice(dir, None, backend, |layout| self.own_elements(layout))?,
        })
    }

    /// A model of a checkpoint, to be trained further. `exact` has the trained weights if those in
    /// `dir` are rounded.
    pub fn saved(&self, dir: &Path, exact: Option<&Checkpoint>) -> Result<Model> {
        let Some(AdaptedBase { base, config, .. }) = &self.adapted else {
            let (own, backend) = (|layout: &_| self.own_elements(layout), self.backend.clone());
            return Ok(Model::load_slice(dir, exact, backend, own)?);
        };
        let mut model = base.base().with_adapter_from(dir, config, Role::Weight)?;
        if let Some(exact) = exact {
            let list = model.layout.trained().clone();
            model.trained_mut().fill(&*self.backend, &list, exact, "")?;
        }
        Ok(model)
    }

    /// The elements of each parameter that this rank updates.
    fn own_elements(&self, layout: &Layout) -> Vec<Range<usize>> {
        self.ranks.own_elements(layout, &*self.backend)
    }
}

/// The checksum of a model's weights, from that of the trained ones: if these are an adapter, its
/// base counts, because a new adapter has the same weights beside any base. The base is known by
/// its content, and may have been moved.
pub(crate) fn checksum_with_base(trained: u64, adapter: Option<&AdapterConfig>) -> u64 {
    let base = adapter.and_then(|adapter| adapter.base.as_ref()?.fingerprint.as_ref());
    base.map_or(trained, |Fingerprint { config_sha256, weights_crc32c }| {
        let text = format!("{config_sha256} {weights_crc32c}");
        trained ^ u64::from(crc32c::crc32c(text.as_bytes()))
    })
}

/// Refuses to go on from the checkpoint in `saved` with a model in `dir`, or adapters, of another
/// kind. The weights of a base are not compared. Returns the configuration of the checkpoint's
/// adapters, if it has any.
pub(crate) fn check_kind_of(
    dir: &Path,
    own: Option<&AdapterConfig>,
    saved: &Path,
) -> Result<Option<AdapterConfig>> {
    let before = AdapterConfig::is_in(saved).then(|| AdapterConfig::read(saved)).transpose()?;
    let differs = match (own, &before) {
        (None, None) => ModelKind::of(dir)?
            .differs_in(&ModelKind::of(saved)?)
            .map(|file| format!("{file} is another than that")),
        (Some(own), Some(before)) => {
            if let Some((key, was)) = first_change(own, before) {
                let what = format!(
                    "was {was} until {}, which the run goes on from: set it so, or start another \
                     run with --set run.out=...",
                    saved.display()
                );
                return Err(Error::setting(key, what));
            }
            let is_other = tokenizer_of(dir)? != tokenizer_of(saved)?;
            is_other.then(|| "tokenizer.json is another than that".to_owned())
        }
        (own, _) => {
            let (now, then) = match own {
                Some(_) => ("trains adapters", "has trained all weights"),
                None => ("is not set, so that all weights are trained", "has trained adapters"),
            };
            let what = format!(
                "{now}, and the run {then} until {}: start another with --set run.out=...",
                saved.display()
            );
            return Err(Error::setting("lora", what));
        }
    };
    differs.map_or(Ok(before), |differs| Err(other_model(dir, saved, &differs)))
}

/// The error that `model.path` is not what the run began with.
fn other_model(dir: &Path, saved: &Path, differs: &str) -> Error {
    let what = format!(
        "is {}, whose {differs} of {}, which the run goes on from: name the model that the run \
         began with, or start another run with --set run.out=...",
        dir.display(),
        saved.display()
    );
    Error::setting("model.path", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_model::adapter::Targets;

    #[test]
    fn an_adapter_beside_another_base_has_another_checksum() {
        let beside = |path: &str, config: &str, weights: &str| {
            let fingerprint =
                Fingerprint { config_sha256: config.into(), weights_crc32c: weights.into() };
            let mut adapter = AdapterConfig::new(16, 32.0, false, Targets::AllLinear);
            adapter.base = Some(BaseModel::new(path, fingerprint).unwrap());
            checksum_with_base(7, Some(&adapter))
        };
        let first = beside("model", "a1", "b2");
        assert_eq!(beside("moved", "a1", "b2"), first);
        assert_ne!(beside("model", "a1", "b3"), first);
        assert_ne!(beside("model", "a2", "b2"), first);
        assert_eq!(checksum_with_base(7, None), 7, "all weights are trained");
    }
}
