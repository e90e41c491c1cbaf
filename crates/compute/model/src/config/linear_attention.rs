//! Linear attention (the gated delta rule) in some layers.

use super::family::Family;
use super::fields::{Fields, shown};
use super::{MAX_DIMENSION, MAX_LAYERS};
use crate::Result;
use isentrope_kernels::DeltaRule;

const TYPES: &str = "layer_types";
const LINEAR: &str = "linear_attention";
const FULL: &str = "full_attention";
/// Kernels go through the features of a head in vectors of this many.
const VECTOR: usize = 16;
/// Largest width of the convolution, several times the published one.
const MAX_TAPS: usize = 64;

/// Reads the gated delta rule, and the layers that have it, `[layers]`. None unless the family is
/// hybrid.
pub(super) fn read(
    config: Fields,
    family: &Family,
    layers: usize,
    eps: f32,
) -> Result<(Option<DeltaRule>, Vec<bool>)> {
    if !family.is_hybrid {
        return Ok((None, vec![false; layers]));
    }
    let is_linear = read_layers(config, family, layers)?;
    if is_linear.iter().all(|is_linear| *is_linear) {
        let what = format!("has no {FULL}; a model without any is not supported");
        return Err(config.unsupported(TYPES, what));
    }
    if config.boolean("attn_output_gate")? == Some(false) {
        let what = "is false; attention without output gates is not supported here";
        return Err(config.unsupported("attn_output_gate", what));
    }
    let number = |key: &str, default: usize, most: usize| -> Result<usize> {
        Ok(config.integer(key, 1..=most)?.unwrap_or(default))
    };
    let dim = |key: &str| -> Result<usize> {
        let dim = number(key, 128, MAX_DIMENSION)?;
        if !dim.is_multiple_of(VECTOR) {
            let what = format!("is {dim}; multiples of {VECTOR} are supported");
            return Err(config.unsupported(key, what));
        }
        Ok(dim)
    };
    let rule = DeltaRule {
        key_heads: number("linear_num_key_heads", 16, MAX_DIMENSION)?,
        value_heads: number("linear_num_value_heads", 32, MAX_DIMENSION)?,
        key_dim: dim("linear_key_head_dim")?,
        value_dim: dim("linear_value_head_dim")?,
        taps: number("linear_conv_kernel_dim", 4, MAX_TAPS)?,
        eps,
    };
    if !rule.value_heads.is_multiple_of(rule.key_heads) {
        let (values, keys) = (rule.value_heads, rule.key_heads);
        let what = format!("is {values}, not a multiple of linear_num_key_heads {keys}");
        return Err(config.invalid("linear_num_value_heads", what));
    }
    if rule.taps < 2 {
        let what = "is 1; a convolution of at least 2 tokens is supported";
        return Err(config.unsupported("linear_conv_kernel_dim", what));
    }
    let features = |heads: usize, dim: usize| heads.saturating_mul(dim);
    let widest = features(rule.key_heads, rule.key_dim)
        .max(features(rule.value_heads, rule.value_dim))
        .max(features(rule.key_dim, rule.value_dim));
    if widest > MAX_DIMENSION {
        let what = format!("{} and the heads of linear attention are too large", rule.value_dim);
        return Err(config.invalid("linear_value_head_dim", what));
    }
    Ok((Some(rule), is_linear))
}

fn read_layers(config: Fields, family: &Family, layers: usize) -> Result<Vec<bool>> {
    let Some(types) = config.texts(TYPES)? else {
        let every = config.integer("full_attention_interval", 1..=MAX_LAYERS)?.unwrap_or(4);
        return Ok((1..=layers).map(|number| !number.is_multiple_of(every)).collect());
    };
    if types.len() != layers {
        let what = format!("has {} entries for {layers} layers", types.len());
        return Err(config.invalid(TYPES, what));
    }
    let is_linear = |kind: &&str| match *kind {
        LINEAR => Ok(true),
        FULL => Ok(false),
        other => {
            let what = format!(
                "has {}; of {}, {LINEAR} and {FULL} are supported",
                shown(&other.into()),
                family.name
            );
            Err(config.unsupported(TYPES, what))
        }
    };
    types.iter().map(is_linear).collect()
}
