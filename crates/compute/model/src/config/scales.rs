//! Factors of the embeddings, of attention's scores, of what branches add, and of logits.

use std::ops::RangeInclusive;

use super::fields::Fields;
use crate::Result;

const BOUNDS: RangeInclusive<f64> = 1e-6..=1e6;

/// The keys of [`FamilyScales::Multipliers`].
pub(super) const MULTIPLIERS: [&str; 4] =
    ["embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"];

/// The source of a family's factors.
#[derive(Debug, PartialEq)]
pub(super) enum FamilyScales {
    /// Scores of attention have `head_dim^-0.5`, and nothing else has a factor.
    Plain,
    /// Embeddings have the root of the hidden size, scores `query_pre_attn_scalar^-0.5`, by default
    /// of this number.
    Roots(f64),
    /// Each has a multiplier in config.json, by default 1. Logits have a divisor.
    Multipliers,
}

/// Factors of one decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    /// The factor of attention's scores.
    pub scores: f32,
    /// The factor of embeddings.
    pub embeddings: Option<f32>,
    /// The factor of what a block's two branches add to the residual stream.
    pub branches: Option<f32>,
    /// The factor of the final hidden states, and so of logits.
    pub hidden: Option<f32>,
}

/// Reads the factors.
pub(super) fn read(
    config: Fields,
    scales: &FamilyScales,
    hidden_size: usize,
    head_dim: usize,
) -> Result<Scales> {
    let number = |key: &str, default: f64| -> Result<f64> {
        Ok(config.number(key, BOUNDS)?.unwrap_or(default))
    };
    let plain = Scales {
        scores: inverse_root(head_dim as f64),
        embeddings: None,
        branches: None,
        hidden: None,
    };
    Ok(match scales {
        FamilyScales::Plain => plain,
        FamilyScales::Roots(default) => Scales {
            scores: inverse_root(number("query_pre_attn_scalar", *default)?),
            embeddings: Some((hidden_size as f64).sqrt() as f32),
            ..plain
        },
        FamilyScales::Multipliers => {
            let [embeddings, scores, branches, logits] = MULTIPLIERS.map(|key| number(key, 1.0));
            let unless_one = |factor: f64| (factor != 1.0).then_some(factor as f32);
            Scales {
                scores: scores? as f32,
                embeddings: unless_one(embeddings?),
                branches: unless_one(branches?),
                hidden: unless_one(1.0 / logits?),
            }
        }
    })
}

fn inverse_root(x: f64) -> f32 {
    (1.0 / x.sqrt()) as f32
}
