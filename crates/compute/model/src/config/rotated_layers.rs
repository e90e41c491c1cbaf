//! Layers that rotate queries and keys by their positions.

use serde_json::Value;

use super::MAX_LAYERS;
use super::family::{Family, Rotated};
use super::fields::{Fields, shown};
use crate::Result;

const LIST: &str = "no_rope_layers";
/// transformers' default.
const DEFAULT_INTERVAL: usize = 4;

/// Reads which layers rotate, `[layers]`.
pub(super) fn read(config: Fields, family: &Family, layers: usize) -> Result<Vec<bool>> {
    let list = config.get(LIST);
    if family.rotated == Rotated::IfRope {
        let turns = config.text("position_embedding_type")? == Some("rope");
        return Ok(vec![turns; layers]);
    }
    if family.rotated == Rotated::All {
        return match list.filter(|value| !super::unsupported::is_neutral(value)) {
            Some(value) => {
                Err(config.unsupported(LIST, format!("is not supported (here {})", shown(value))))
            }
            None => Ok(vec![true; layers]),
        };
    }
    let Some(list) = list else {
        let interval =
            config.integer("no_rope_layer_interval", 1..=MAX_LAYERS)?.unwrap_or(DEFAULT_INTERVAL);
        return Ok((1..=layers).map(|number| !number.is_multiple_of(interval)).collect());
    };
    let invalid = || {
        let what = format!(
            "is {}; {} needs a list with a 1 (rotated) or a 0 for each of {layers} layers",
            shown(list),
            family.name
        );
        config.invalid(LIST, what)
    };
    let of_layer = |value: &Value| match value.as_u64() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(invalid()),
    };
    let list = list.as_array().filter(|list| list.len() >= layers).ok_or_else(invalid)?;
    list.iter().take(layers).map(of_layer).collect()
}
