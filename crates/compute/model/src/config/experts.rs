//! Mixtures of experts in config.json.

use isentrope_kernels::Router;
use serde_json::Value;

use super::MAX_DIMENSION;
use super::family::Family;
use super::fields::{Fields, shown};
use super::unsupported::is_neutral;
use crate::Result;

/// Largest number of experts of all layers together, several times that of any published model.
const MAX_EXPERTS: usize = 1 << 16;

/// Largest number of experts of a layer: a GPU orders them by comparing each with each.
pub(crate) const MAX_EXPERTS_OF_A_LAYER: usize = 1024;

/// The number of experts, under the names of transformers and of its versions 5.
const COUNT: &str = "num_experts";
const COUNT_5: &str = "num_local_experts";

/// The facts of a family whose blocks have experts.
#[derive(Debug, PartialEq)]
pub(super) struct FamilyExperts {
    /// The default of the number of experts. A token goes to 8 of them by default.
    pub count: usize,
    /// Whether the weights of a token's experts sum to 1 whatever `norm_topk_prob` says.
    pub always_normalised: bool,
    /// The default of the inner features of an expert that all tokens go to; none if the family has
    /// no such expert.
    pub shared: Option<usize>,
}

/// Reads how tokens are sent to experts, each of `size` inner features, in each of `layers`; none
/// if blocks have a single MLP.
pub(super) fn read(
    config: Fields,
    family: &Family,
    size: usize,
    layers: usize,
) -> Result<Option<Router>> {
    let Some(of) = &family.experts else {
        return match [COUNT, COUNT_5].map(|key| config.get(key).map(|value| (key, value))) {
            [Some((key, value)), _] | [_, Some((key, value))] if !is_neutral(value) => {
                Err(config.unsupported(key, format!("is not supported (here {})", shown(value))))
            }
            _ => Ok(None),
        };
    };
    // transformers writes either name, and reads both.
    let given = [COUNT, COUNT_5].map(|key| config.integer(key, 1..=MAX_EXPERTS_OF_A_LAYER));
    let [count, other] = given;
    let (count, other) = (count?, other?);
    if let (Some(count), Some(other)) = (count, other)
        && count != other
    {
        return Err(config.invalid(COUNT, format!("is {count}, and {COUNT_5} is {other}")));
    }
    let experts = count.or(other).unwrap_or(of.count);
    if experts * layers > MAX_EXPERTS {
        let what = format!("is {experts}, too many for {layers} layers");
        return Err(config.invalid(COUNT, what));
    }
    if experts * size > MAX_DIMENSION {
        let what = format!("{size} times {experts} experts is above {MAX_DIMENSION}");
        return Err(config.invalid(family.intermediate_size, what));
    }
    let chosen = config.integer("num_experts_per_tok", 1..=MAX_EXPERTS_OF_A_LAYER)?.unwrap_or(8);
    if chosen > experts {
        let what = format!("is {chosen}, more than the {experts} experts");
        return Err(config.invalid("num_experts_per_tok", what));
    }
    // Blocks without experts among the others are in no published checkpoint.
    let everywhere = |value: &Value| value.as_u64() == Some(1);
    if let Some(step) = config.get("decoder_sparse_step").filter(|value| !everywhere(value)) {
        let what = format!("is {}; only experts in every layer, 1, are supported", shown(step));
        return Err(config.unsupported("decoder_sparse_step", what));
    }
    if let Some(layers) = config.get("mlp_only_layers").filter(|value| !is_neutral(value)) {
        let what = format!("is {}; only experts in every layer are supported", shown(layers));
        return Err(config.unsupported("mlp_only_layers", what));
    }
    let normalised = of.always_normalised || config.boolean("norm_topk_prob")?.unwrap_or(false);
    Ok(Some(Router { experts, chosen, normalised }))
}

/// Reads the inner features of the expert that all tokens go to; none if the family has none.
pub(super) fn read_shared(config: Fields, family: &Family) -> Result<Option<usize>> {
    let Some(default) = family.experts.as_ref().and_then(|of| of.shared) else { return Ok(None) };
    let size = config.integer("shared_expert_intermediate_size", 1..=MAX_DIMENSION)?;
    Ok(Some(size.unwrap_or(default)))
}
