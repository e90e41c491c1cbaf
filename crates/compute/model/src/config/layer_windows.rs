//! Sliding windows of layers.

use super::family::{Family, Windows};
use super::fields::Fields;
use super::{MAX_DIMENSION, MAX_LAYERS, MAX_POSITIONS};
use crate::Result;

/// transformers' default of Qwen's first sliding layer.
const DEFAULT_MAX_WINDOW_LAYERS: usize = 28;

/// Reads the width of each layer's window, `[layers]`. `rotated` says which layers rotate.
pub(super) fn read(
    config: Fields,
    family: &Family,
    rotated: &[bool],
) -> Result<Vec<Option<usize>>> {
    let layers = rotated.len();
    let width = match config.object.get("sliding_window") {
        None => family.defaults.sliding_window,
        Some(_) => config.integer("sliding_window", 1..=MAX_POSITIONS)?,
    };
    let is_used = match family.windows {
        Windows::Never | Windows::NeverAsListed => false,
        Windows::Always | Windows::AllButEvery { .. } => true,
        Windows::IfUsed | Windows::AllIfUsed | Windows::NotRotatedIfUsed => {
            config.boolean("use_sliding_window")?.unwrap_or(false)
        }
    };
    let width = width.filter(|_| is_used);
    if family.is_hybrid {
        return Ok(vec![None; layers]); // `linear_attention` reads the types of layers
    }
    if let Some(layer_types) = config.texts("layer_types")? {
        return by_type(config, family, layers, width, &layer_types);
    }
    if family.windows == Windows::NeverAsListed {
        let what = format!("is missing; {} needs it, with attention in each layer", family.name);
        return Err(config.invalid("layer_types", what));
    }
    let first = match family.windows {
        Windows::IfUsed => config
            .integer("max_window_layers", 0..=MAX_DIMENSION)?
            .unwrap_or(DEFAULT_MAX_WINDOW_LAYERS),
        _ => 0,
    };
    let full = match family.windows {
        Windows::AllButEvery { key, interval } => {
            if width.is_none() {
                let what = format!("is null, but most layers of {} have a window", family.name);
                return Err(config.invalid("sliding_window", what));
            }
            let given = key.map_or(Ok(None), |key| config.integer(key, 1..=MAX_LAYERS))?;
            given.unwrap_or(interval)
        }
        _ => usize::MAX,
    };
    let has_window = |layer: usize| match family.windows {
        Windows::AllButEvery { .. } => !(layer + 1).is_multiple_of(full),
        Windows::NotRotatedIfUsed => !rotated[layer],
        _ => layer >= first,
    };
    Ok((0..layers).map(|layer| width.filter(|_| has_window(layer))).collect())
}

fn by_type(
    config: Fields,
    family: &Family,
    layers: usize,
    width: Option<usize>,
    layer_types: &[&str],
) -> Result<Vec<Option<usize>>> {
    if layer_types.len() != layers {
        let what = format!("has {} entries for {layers} layers", layer_types.len());
        return Err(config.invalid("layer_types", what));
    }
    let window = |(layer, layer_type): (usize, &&str)| match (*layer_type, width) {
        ("full_attention", _) => Ok(None),
        // The word of transformers 4.
        ("attention", _) if family.windows == Windows::NeverAsListed => Ok(None),
        ("sliding_attention", Some(width)) => Ok(Some(width)),
        ("sliding_attention", None) if family.windows == Windows::Never => {
            let what = format!("asks for sliding_attention, which {} does not have", family.name);
            Err(config.unsupported("layer_types", what))
        }
        ("sliding_attention", None) => {
            let what =
                format!("makes layer {layer} sliding_attention, but no sliding_window is in force");
            Err(config.invalid("layer_types", what))
        }
        (other, _) => Err(config.unsupported(
            "layer_types",
            format!("has {other:?}; full_attention and sliding_attention are supported"),
        )),
    };
    layer_types.iter().enumerate().map(window).collect()
}
