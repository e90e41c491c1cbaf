//! The models that a run trains and asks, from its model directory or from a checkpoint.

use crate::error::{Error, Result};
use crate::model_kind::ModelKind;
use crate::settings::LoraSettings;
use crate::trainer::Tables;
use isentrope_kernels::{Backend, Role};
use isentrope_model::Model;
use isentrope_model::adapter::{AdapterConfig, BaseModel, Targets};
use isentrope_model::checkpoint::Fingerprint;
use std::path::Path;
use std::sync::Arc;

/// The origin of a run's models. With adapters, all of them are one base, which is loaded once: the
/// policy and the process model with an adapter each, the reference without.
pub(crate) struct Models<'a> {
    /// The directory of `model.path`.
    dir: &'a Path,
    tables: Tables<'a>,
    backend: Arc<dyn Backend>,
    adapted: Option<Adapted>,
}

/// The base of adapters, and their configuration.
struct Adapted {
    base: Model,
    config: AdapterConfig,
}

impl<'a> Models<'a> {
    /// Loads the base of adapters, if the recipe trains adapters.
    pub fn open(dir: &'a Path, tables: Tables<'a>, backend: Arc<dyn Backend>) -> Result<Self> {
        let adapted = |lora: &LoraSettings| {
            let base = Model::load_frozen(dir, backend.clone())?;
            let (path, fingerprint) = (tables.model.path.clone(), Some(Fingerprint::of(dir)?));
            let config = lora.config(Some(BaseModel { path, revision: None, fingerprint }));
            Ok::<_, Error>(Adapted { base, config })
        };
        let adapted = tables.lora.map(adapted).transpose()?;
        Ok(Self { dir, tables, backend, adapted })
    }

    /// The configuration of the adapters that are trained, if any are.
    pub fn adapter(&self) -> Option<&AdapterConfig> {
        self.adapted.as_ref().map(|adapted| &adapted.config)
    }

    /// The model that training starts from, to be asked and never trained.
    pub fn reference(&self) -> Result<Model> {
        Ok(match &self.adapted {
            Some(Adapted { base, .. }) => base.base(),
            None => Model::load_frozen(self.dir, self.backend.clone())?,
        })
    }

    /// A model before the first step, to be trained: that of `dir`, or of `model.path`.
    pub fn first(&self, dir: Option<&Path>) -> Result<Model> {
        let (dir, backend) = (dir.unwrap_or(self.dir), self.backend.clone());
        let seed = self.tables.run.seed;
        Ok(match &self.adapted {
            Some(Adapted { base, config }) => {
                base.base().with_new_adapter(config.layout(&base.layout)?, seed)?
            }
            None if self.tables.model.from_scratch => Model::initialize(dir, seed, backend)?,
            None => Model::load(dir, backend)?,
        })
    }

    /// A model of a checkpoint, to be trained further.
    pub fn saved(&self, dir: &Path) -> Result<Model> {
        Ok(match &self.adapted {
            Some(Adapted { base, config }) => {
                base.base().with_adapter_from(dir, config, Role::Weight)?
            }
            None => Model::load(dir, self.backend.clone())?,
        })
    }

    /// Refuses to go on from the checkpoint in `dir` with a model or adapters of another kind.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) naming the key; what is wrong with a
    /// model's files.
    pub fn check_resumable(&self, dir: &Path) -> Result<()> {
        let saved = AdapterConfig::is_in(dir).then(|| AdapterConfig::read(dir)).transpose()?;
        match (&self.adapted, saved) {
            (None, None) => self.check_kind(dir),
            (Some(Adapted { config, .. }), Some(saved)) => {
                if let Some((key, was)) = different(config, &saved) {
                    let what = format!(
                        "was {was} until {}, which the run goes on from: set it so, or start \
                         another run with --set run.out=...",
                        dir.display()
                    );
                    return Err(Error::setting(key, what));
                }
                let fingerprint = |config: &AdapterConfig| config.base.clone()?.fingerprint;
                if fingerprint(config) != fingerprint(&saved) {
                    return Err(self.other_model(dir, "base"));
                }
                Ok(())
            }
            (own, _) => {
                let (now, before) = ("trains adapters", "has trained all weights");
                let (now, before) = match own {
                    Some(_) => (now, before),
                    None => ("is not set, so that all weights are trained", "has trained adapters"),
                };
                let what = format!(
                    "{now}, and the run {before} until {}: start another with --set run.out=...",
                    dir.display()
                );
                Err(Error::setting("lora", what))
            }
        }
    }

    fn check_kind(&self, dir: &Path) -> Result<()> {
        match ModelKind::of(self.dir)?.differs_in(&ModelKind::of(dir)?) {
            Some(file) => Err(self.other_model(dir, file)),
            None => Ok(()),
        }
    }

    fn other_model(&self, dir: &Path, differs: &str) -> Error {
        let what = format!(
            "is {}, whose {differs} is another than that of {}, which the run goes on from: name \
             the model that the run began with, or start another run with --set run.out=...",
            self.dir.display(),
            dir.display()
        );
        Error::setting("model.path", what)
    }
}

/// The first key of `lora` that would change the function of a saved adapter, and its saved value.
fn different(now: &AdapterConfig, saved: &AdapterConfig) -> Option<(&'static str, String)> {
    if now.rank != saved.rank {
        Some(("lora.rank", saved.rank.to_string()))
    } else if now.alpha != saved.alpha {
        Some(("lora.alpha", saved.alpha.to_string()))
    } else if now.use_rslora != saved.use_rslora {
        Some(("lora.use_rslora", saved.use_rslora.to_string()))
    } else {
        let targets = || match &saved.targets {
            Targets::AllLinear => "all-linear".to_owned(),
            Targets::Modules(names) => format!("{names:?}"),
            Targets::Pattern(pattern) => pattern.clone(),
        };
        (now.targets != saved.targets).then(|| ("lora.targets", targets()))
    }
}
