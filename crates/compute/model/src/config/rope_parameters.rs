//! Rotary embedding in config.json: `rope_parameters` of transformers 5, or `rope_scaling` and
//! `rope_theta` of transformers 4. Defaults and precedence follow transformers'
//! `modeling_rope_utils`.

use serde_json::{Map, Value};

use super::MAX_POSITIONS;
use super::family::Family;
use super::fields::Fields;
use crate::rope::{Rope, RopeScaling};
use crate::{Error, Result};

/// Below this, logarithms of the base are meaningless; above, f32 powers of it overflow.
const THETA: std::ops::RangeInclusive<f64> = 1.001..=1e15;
const FACTOR: std::ops::RangeInclusive<f64> = 1.0..=1e6;
/// Divisors of single frequencies.
const FACTORS: std::ops::RangeInclusive<f64> = 1e-3..=1e6;
const POSITIVE: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// The key of a base.
const BASE: &str = "rope_theta";
/// Settings in transformers 5, of all layers or by their types.
const PARAMETERS: &str = "rope_parameters";
/// The share of a head that turns.
const PARTLY: &str = "partial_rotary_factor";
/// Settings in transformers 4.
const SCALING: &str = "rope_scaling";

/// Facts about heads and context that an embedding depends on.
#[derive(Clone, Copy)]
struct Heads {
    /// Features of a head.
    dim: usize,
    max_position_embeddings: usize,
    /// The default of the share of features that turn; none if only all may.
    turned_share: Option<f64>,
    /// Whether the family has multimodal positions. In a text they are ordinary ones.
    has_image_positions: bool,
}

/// Reads the rotary embedding of heads of `head_dim` features from the whole config.json, and that
/// of the layers with a window, if the family has another one for them.
pub(super) fn read(
    config: Fields,
    family: &Family,
    head_dim: usize,
    max_position_embeddings: usize,
) -> Result<(Rope, Option<Rope>)> {
    let heads = Heads {
        dim: head_dim,
        max_position_embeddings,
        turned_share: family.turned_share,
        has_image_positions: family.is_hybrid,
    };
    let theta = family.defaults.rope_theta;
    if !head_dim.is_multiple_of(2) {
        return Err(config
            .invalid("head_dim", format!("is {head_dim}; rotary embedding needs an even number")));
    }
    if family.needs_rope_parameters
        && [SCALING, PARAMETERS].iter().all(|key| !is_given(config, key))
    {
        return Err(config.invalid(PARAMETERS, format!("is missing; {} needs it", family.name)));
    }

    let Some(windowed) = &family.window_rope else {
        return Ok((read_single(config, heads, theta)?, None));
    };
    if is_given(config, PARAMETERS) {
        if is_given(config, SCALING) {
            return Err(config.invalid(SCALING, "stands beside rope_parameters"));
        }
        return Ok((
            read_type(config, "full_attention", heads, (BASE, theta))?,
            Some(read_type(config, "sliding_attention", heads, (windowed.key, windowed.theta))?),
        ));
    }
    let base = config.number(windowed.key, THETA)?.unwrap_or(windowed.theta);
    let plain = Rope::new(head_dim, base, RopeScaling::Default);
    Ok((read_single(config, heads, theta)?, Some(plain)))
}

/// Reads the settings that `rope_parameters` has for a type of layers. The base is the second of
/// `default`, or what config.json has under the key that is the first.
fn read_type(config: Fields, layer_type: &str, heads: Heads, default: (&str, f64)) -> Result<Rope> {
    let of_type = config.get(PARAMETERS).and_then(|of_all| of_all.get(layer_type));
    let Some(object) = of_type.and_then(Value::as_object) else {
        return Err(config.invalid(PARAMETERS, format!("has no object {layer_type}")));
    };
    let fields = Fields { object, prefix: &format!("{PARAMETERS}.{layer_type}."), ..config };
    read_one(config, fields, heads, default)
}

/// Reads the settings that all layers share.
fn read_single(config: Fields, heads: Heads, default_theta: f64) -> Result<Rope> {
    let Some(key) = [SCALING, PARAMETERS].into_iter().find(|key| is_given(config, key)) else {
        let none = Fields { object: &Map::new(), ..config };
        return read_one(config, none, heads, (BASE, default_theta));
    };
    let Some(object) = config.get(key).and_then(Value::as_object) else {
        return Err(config.invalid(key, "is not an object"));
    };
    if object.values().any(Value::is_object) {
        let what = "differs by layer type; one embedding for all layers is supported";
        return Err(config.unsupported(key, what));
    }
    let fields = Fields { object, prefix: &format!("{key}."), ..config };
    read_one(config, fields, heads, (BASE, default_theta))
}

fn read_one(
    config: Fields,
    fields: Fields,
    heads: Heads,
    (base_key, default_theta): (&str, f64),
) -> Result<Rope> {
    let max_position_embeddings = heads.max_position_embeddings;
    let turned = heads.turned_features(config, fields)?;
    if fields.get("mrope_section").is_some() && !heads.has_image_positions {
        return Err(fields.unsupported("mrope_section", "(multimodal positions) is not supported"));
    }
    let theta = match fields.number(BASE, THETA)? {
        Some(theta) => theta,
        None => config.number(base_key, THETA)?.unwrap_or(default_theta),
    };
    let required = |key: &str, value: Option<f64>| {
        value.ok_or_else(|| -> Error { fields.invalid(key, "is missing") })
    };
    let factor = || required("factor", fields.number("factor", FACTOR)?);
    let original_context = || -> Result<usize> {
        let key = "original_max_position_embeddings";
        let bounds = 1..=MAX_POSITIONS;
        Ok(match config.integer(key, bounds.clone())? {
            Some(context) => context,
            None => fields.integer(key, bounds)?.unwrap_or(max_position_embeddings),
        })
    };

    let mut limit = None;
    let kind_key = if fields.get("rope_type").is_some() { "rope_type" } else { "type" };
    // Phi-3 has called it so from its first version on.
    let is_long = fields.get("short_factor").is_some();
    let kind = match fields.text(kind_key)?.unwrap_or("default") {
        "su" | "yarn" if is_long => "longrope",
        kind => kind,
    };
    let scaling = match kind {
        "default" => RopeScaling::Default,
        "linear" => RopeScaling::Linear { factor: factor()? },
        "llama3" => {
            let low_freq_factor =
                required("low_freq_factor", fields.number("low_freq_factor", POSITIVE)?)?;
            let high_freq_factor =
                required("high_freq_factor", fields.number("high_freq_factor", POSITIVE)?)?;
            if high_freq_factor <= low_freq_factor {
                return Err(fields.invalid("high_freq_factor", "is not above low_freq_factor"));
            }
            RopeScaling::Llama3 {
                factor: factor()?,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: original_context()?,
            }
        }
        "yarn" => {
            let original_max_position_embeddings = original_context()?;
            let ratio = max_position_embeddings as f64 / original_max_position_embeddings as f64;
            let beta_fast = fields.number("beta_fast", POSITIVE)?.unwrap_or(32.0);
            let beta_slow = fields.number("beta_slow", POSITIVE)?.unwrap_or(1.0);
            if beta_fast < beta_slow {
                return Err(fields.invalid("beta_fast", "is below beta_slow"));
            }
            RopeScaling::Yarn {
                factor: fields.number("factor", FACTOR)?.unwrap_or(ratio),
                original_max_position_embeddings,
                beta_fast,
                beta_slow,
                truncate: fields.boolean("truncate")?.unwrap_or(true),
                attention_factor: fields.number("attention_factor", POSITIVE)?,
                mscale: fields.number("mscale", 0.0..=1e6)?,
                mscale_all_dim: fields.number("mscale_all_dim", 0.0..=1e6)?,
            }
        }
        "longrope" => {
            let original = original_context()?;
            if original < 2 {
                let what = format!("is {original}, and longrope needs 2 positions");
                return Err(fields.invalid("original_max_position_embeddings", what));
            }
            limit = Some(original);
            let factors = fields.numbers("short_factor", FACTORS)?;
            let short_factor = factors.filter(|factors| factors.len() == turned / 2);
            let ratio = max_position_embeddings as f64 / original as f64;
            let factor = fields.number("factor", FACTOR)?.unwrap_or(ratio).max(1.0);
            let stretch = || (1.0 + libm::log(factor) / libm::log(original as f64)).sqrt();
            RopeScaling::LongRope {
                short_factor: short_factor.ok_or_else(|| {
                    fields.invalid("short_factor", format!("is not a list of {}", turned / 2))
                })?,
                attention_factor: match fields.number("attention_factor", POSITIVE)? {
                    Some(factor) => factor,
                    None if factor == 1.0 => 1.0,
                    None => stretch(),
                },
            }
        }
        other => {
            let what = format!(
                "{other:?} is not supported (default, linear, llama3, yarn and longrope are)"
            );
            return Err(fields.unsupported(kind_key, what));
        }
    };
    // Scores of later positions are larger: the logarithm of how many times they hold this context.
    if fields.number("llama_4_scaling_beta", 0.0..=1e6)?.is_some_and(|beta| beta != 0.0) {
        limit = Some(original_context()?);
    }
    let still_pairs = (heads.dim - turned) / 2;
    Ok(Rope { still_pairs, limit, ..Rope::new(turned, theta, scaling) })
}

impl Heads {
    /// The number of a head's features that turn, from the embedding's settings or from the whole
    /// config.json.
    fn turned_features(self, config: Fields, fields: Fields) -> Result<usize> {
        let given = [fields, config].into_iter().find(|fields| fields.get(PARTLY).is_some());
        let fields = given.unwrap_or(fields);
        let share = fields.number(PARTLY, 0.0..=1.0)?.or(self.turned_share).unwrap_or(1.0);
        let turned = (self.dim as f64 * share) as usize;
        if share != 1.0 && self.turned_share.is_none() {
            let what = format!("is {share}; only rotation of the whole head, 1, is supported");
            return Err(fields.unsupported(PARTLY, what));
        }
        if turned == 0 || !turned.is_multiple_of(2) {
            let what =
                format!("is {share}: {turned} of {} features cannot turn in pairs", self.dim);
            return Err(fields.invalid(PARTLY, what));
        }
        Ok(turned)
    }
}

/// Whether a key holds settings.
fn is_given(config: Fields, key: &str) -> bool {
    config.get(key).is_some_and(|value| !is_empty_object(value))
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
