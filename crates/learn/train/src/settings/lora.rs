//! Low-rank adapters.

use crate::error::{Error, Result};
use isentrope_model::adapter::{
    AdapterConfig, AdapterLayout, BaseModel, DEFAULT_RANK, Targets as AdapterTargets,
};
use isentrope_model::checkpoint::Fingerprint;
use isentrope_model::{Layout, NamedTensor, Parameter, ParameterList};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A learning rate below this is one for all weights.
const LOW_RATE: f64 = 5e-6;

/// Low-rank adapters (LoRA, arXiv:2106.09685) are trained in place of the model's weights, which
/// are frozen: `y = W x + s B (A x)`. The sampler computes this branch as the trainer does; nothing
/// is merged. With this table, even an empty one, checkpoints are adapters as peft reads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraSettings {
    /// The rank of A and B.
    #[schemars(range(min = 1, max = 4096))]
    pub rank: usize,
    /// The branch's scale s is `alpha / rank`.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e6))]
    pub alpha: f64,
    /// s is `alpha / sqrt(rank)` (rsLoRA, arXiv:2312.03732).
    pub use_rslora: bool,
    /// The modules that get an adapter: `"all-linear"`, or the ends of their names, such as
    /// `["q_proj", "v_proj"]`. Neither embeddings, the head nor a router can have one, and experts
    /// only by name: `"all-linear"` leaves them out.
    pub targets: Targets,
    /// The directory of the adapter that training starts from, as a run or peft wrote it. It must
    /// have the modules, ranks and scales of the other keys. A reference model has it, too. Without
    /// the key, training starts from a new adapter.
    pub adapter: Option<PathBuf>,
}

impl Default for LoraSettings {
    fn default() -> Self {
        let targets = Targets::All(AllLinear::AllLinear);
        Self { rank: DEFAULT_RANK, alpha: 32.0, use_rslora: false, targets, adapter: None }
    }
}

/// The modules that get an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Targets {
    /// All linear layers of the blocks; experts have none.
    All(AllLinear),
    /// Modules whose names are or end with one of these.
    Modules(Vec<String>),
}

/// The word for all linear layers, as in peft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllLinear {
    /// All linear layers of the blocks; experts have none.
    AllLinear,
}

/// Numbers in all tensors of a list.
pub(crate) fn count(list: &ParameterList) -> usize {
    let numbers = |(_, parameter, tensor): (_, &Parameter, &NamedTensor)| {
        parameter.shape(tensor).iter().product::<usize>()
    };
    list.tensors().map(numbers).sum()
}

impl LoraSettings {
    /// Checks what the schema cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.targets {
            Targets::Modules(modules) if modules.is_empty() => {
                let what = "is an empty list: name modules, such as [\"q_proj\", \"v_proj\"], or \
                            leave the key out for all linear layers";
                Err(Error::setting("lora.targets", what))
            }
            _ => Ok(()),
        }
    }

    /// The parameters of the adapters beside a model's.
    ///
    /// # Errors
    /// When the targets match nothing.
    pub(crate) fn layout(&self, layout: &Layout) -> Result<AdapterLayout> {
        let wrong = |error| Error::setting("lora.targets", format!("cannot be had: {error}"));
        self.config(None).layout(layout).map_err(wrong)
    }

    /// Checks that training can start from `adapter` beside the model in `model_dir`, whose
    /// parameters with the adapters of these settings are `layout`. Of that model, only config.json
    /// is compared with the adapter's base: [`check_base`](Self::check_base) compares its weights.
    ///
    /// # Errors
    /// When the adapter cannot be read, is for another base, or is another than these settings ask
    /// for.
    pub(crate) fn check_adapter(&self, model_dir: &Path, layout: &Layout) -> Result<()> {
        let (Some(dir), Some(own)) = (&self.adapter, &layout.adapter) else { return Ok(()) };
        let first = AdapterConfig::read(dir).map_err(cannot)?;
        // The base comes first: with another one, no other setting would make it right.
        first.check_base_config(model_dir).map_err(cannot)?;
        if first.layout(layout).map_err(cannot)?.has_form_of(own) {
            return first.check_weights(dir, layout).map_err(cannot);
        }
        let what = match first_change(&self.config(None), &first) {
            Some((key, theirs)) => format!("has {key} = {theirs}: set it so"),
            None => "has other ranks or scales for some modules, which [lora] cannot say: \
                     `isentrope merge` makes a model of it"
                .to_owned(),
        };
        Err(Error::setting("lora.adapter", format!("is {}, which {what}", dir.display())))
    }

    /// Checks that the weights of the model in `model_dir` are those that `adapter` is for, by the
    /// model's fingerprint.
    ///
    /// # Errors
    /// When the adapter cannot be read or is for another base.
    pub(crate) fn check_base(
        &self,
        model_dir: &Path,
        fingerprint: impl FnOnce(&Path) -> isentrope_model::Result<Fingerprint>,
    ) -> Result<()> {
        let Some(dir) = &self.adapter else { return Ok(()) };
        let first = AdapterConfig::read(dir).map_err(cannot)?;
        first.check_base(model_dir, fingerprint).map_err(cannot)
    }

    /// A note if the learning rate is one of whole models.
    pub(crate) fn warning(&self, learning_rate: f64) -> Option<String> {
        (learning_rate < LOW_RATE).then(|| {
            format!(
                "optimizer.learning_rate = {learning_rate:e} is a rate for whole models: adapters \
                 take three to twenty times as much"
            )
        })
    }

    /// A note if a module's adapter has more ranks than the module has inputs or outputs.
    pub(crate) fn rank_note(&self, layout: &Layout) -> Option<String> {
        let adapter = layout.adapter.as_ref()?;
        adapter.parameters.tensors().find_map(|(_, parameter, tensor)| {
            let (module, part) = tensor.name.rsplit_once(".lora_")?;
            let &[rows, columns] = &parameter.shape(tensor)[..] else { return None };
            let is_a = part.starts_with('A');
            let (rank, width) = if is_a { (rows, columns) } else { (columns, rows) };
            let side = if is_a { "inputs" } else { "outputs" };
            (rank > width).then(|| {
                format!(
                    "lora.rank = {rank} is above the {width} {side} of {module}: {width} ranks are \
                     as many as any change of its weights has"
                )
            })
        })
    }

    /// How many weights are trained, of how many.
    pub fn summary(&self, layout: &Layout) -> String {
        let [trained, frozen] = [count(layout.trained()), count(&layout.parameters)];
        format!(
            "adapters: rank {}, {:.3} million trained weights beside {:.3} million frozen ones",
            self.rank,
            trained as f64 / 1e6,
            frozen as f64 / 1e6
        )
    }

    /// The adapter's configuration, beside a base.
    pub(crate) fn config(&self, base: Option<BaseModel>) -> AdapterConfig {
        let Self { rank, alpha, use_rslora, targets, .. } = self.clone();
        let targets = match targets {
            Targets::All(AllLinear::AllLinear) => AdapterTargets::AllLinear,
            Targets::Modules(modules) => AdapterTargets::Modules(modules),
        };
        let mut config = AdapterConfig::new(rank, alpha, use_rslora, targets);
        config.base = base;
        config
    }
}

/// The error that training cannot start from `lora.adapter`.
fn cannot(error: isentrope_model::Error) -> Error {
    Error::setting("lora.adapter", format!("cannot be started from: {error}"))
}

/// The first key of `lora` in which an adapter differs, and its value there.
pub(crate) fn first_change(
    now: &AdapterConfig,
    other: &AdapterConfig,
) -> Option<(&'static str, String)> {
    if now.rank != other.rank {
        Some(("lora.rank", other.rank.to_string()))
    } else if now.alpha != other.alpha {
        Some(("lora.alpha", other.alpha.to_string()))
    } else if now.use_rslora != other.use_rslora {
        Some(("lora.use_rslora", other.use_rslora.to_string()))
    } else {
        let targets = || match &other.targets {
            AdapterTargets::AllLinear => "all-linear".to_owned(),
            AdapterTargets::Modules(names) => format!("{names:?}"),
            AdapterTargets::Pattern(pattern) => pattern.clone(),
        };
        (now.targets != other.targets).then(|| ("lora.targets", targets()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::config;

    /// The hidden state of this model has 32 features, and its attention 64.
    #[test]
    fn ranks_that_no_change_of_weights_has_are_noted() {
        let note = |rank: usize, module: &str| {
            let targets = Targets::Modules(vec![module.to_owned()]);
            let lora = LoraSettings { rank, targets, ..LoraSettings::default() };
            let mut layout = Layout::new(&config());
            layout.adapter = Some(lora.config(None).layout(&layout).unwrap());
            lora.rank_note(&layout)
        };
        for (module, side) in [("q_proj", "inputs"), ("o_proj", "outputs")] {
            assert_eq!(note(32, module), None);
            let above =
                format!("lora.rank = 33 is above the 32 {side} of model.layers.0.self_attn.");
            let note = note(33, module).unwrap();
            assert!(note.starts_with(&format!("{above}{module}: ")), "{note}");
        }
    }
}
