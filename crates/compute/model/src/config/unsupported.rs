//! Keys of config.json that this decoder does not implement.

use serde_json::Value;

use super::family::Family;
use super::fields::{Fields, shown};
use super::scales::{FamilyScales, MULTIPLIERS};
use crate::Result;
use isentrope_kernels::Gate;

/// Keys of neighbouring architectures that change the mathematics, unless null, false, zero or
/// empty.
const REFUSED_EXTENSIONS: [&str; 14] = [
    "alibi",
    "attention_chunk_size",
    "attention_sink",
    "attention_sinks",
    "attn_logit_softcapping",
    "clip_qkv",
    "compression_config",
    "final_logit_softcapping",
    "per_layer_config",
    "sinks",
    "use_attention_sinks",
    "use_bidirectional_attention",
    "use_mrope",
    "use_qk_norm",
];

/// Scales of other architectures (Granite, Cohere, MiniCPM), harmless when 1.
const REFUSED_SCALES: [&str; 7] = [
    "attention_multiplier",
    "embedding_multiplier",
    "logit_scale",
    "logits_scaling",
    "residual_multiplier",
    "scale_depth",
    "scale_emb",
];

/// Refuses by name keys that would change the mathematics of `family` in a way that is not
/// implemented.
pub(super) fn refuse(config: Fields, family: &Family) -> Result<()> {
    // The key of the gate's function, and its names.
    let (key, names): (_, &[&str]) = match family.gate {
        Gate::Silu => ("hidden_act", &["silu", "swish"]),
        Gate::GeluTanh => ("hidden_activation", &["gelu_pytorch_tanh"]),
    };
    if let Some(activation) = config.text(key)?
        && !names.contains(&activation)
    {
        let what = format!("{activation:?} is not supported ({} is)", names[0]);
        return Err(config.unsupported(key, what));
    }
    for key in REFUSED_EXTENSIONS {
        if let Some(value) = config.get(key).filter(|value| !is_neutral(value)) {
            return Err(
                config.unsupported(key, format!("is not supported (here {})", shown(value)))
            );
        }
    }
    let is_read =
        |key: &&str| family.scales == FamilyScales::Multipliers && MULTIPLIERS.contains(key);
    for key in REFUSED_SCALES.into_iter().filter(|key| !is_read(key)) {
        if let Some(value) = config.get(key).filter(|value| value.as_f64() != Some(1.0)) {
            return Err(config
                .unsupported(key, format!("is not supported unless 1 (here {})", shown(value))));
        }
    }
    Ok(())
}

/// Whether a key with this value might as well be absent.
pub(crate) fn is_neutral(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
