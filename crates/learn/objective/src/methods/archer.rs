//! Archer, dual-token constraints (arXiv:2507.15778).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{ClipRange, Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Archer",
    kind: Kind::ClipRange,
    equation: "wider clip range, and the KL to the reference times high_entropy_kl, where H is \
               above the quantile of its response",
    source: "arXiv:2507.15778; github.com/wizard-III/ArcherCodeR",
    setting: "objective.methods.archer",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// Tokens whose entropy is above a quantile of their own response's have a clip range of their own,
/// and the KL term to the reference model weighs otherwise on them. The others have `clip_low`,
/// `clip_high` and the whole term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Archer {
    /// The quantile, interpolated linearly between tokens; the published runs' is 0.8.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub quantile: f64,
    /// Lower clipping distance of tokens of high entropy; the published runs' is 0.5.
    #[schemars(range(min = 0.0))]
    pub high_entropy_clip_low: f64,
    /// Upper clipping distance of tokens of high entropy; the published runs' is 0.5.
    #[schemars(range(min = 0.0))]
    pub high_entropy_clip_high: f64,
    /// Weight of the KL term to the reference model on tokens of high entropy, beside
    /// `reference_kl.coefficient`; the published runs' is 0.
    #[schemars(range(min = 0.0))]
    pub high_entropy_kl: f64,
}

impl Default for Archer {
    fn default() -> Self {
        Self {
            quantile: 0.8,
            high_entropy_clip_low: 0.5,
            high_entropy_clip_high: 0.5,
            high_entropy_kl: 0.0,
        }
    }
}

impl TokenMethod for Archer {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let range =
            ClipRange { low: self.high_entropy_clip_low, high: self.high_entropy_clip_high };
        let mut start = 0;
        for &length in tokens.lengths {
            let response = start..start + length;
            start = response.end;
            let Some(threshold) = quantile(&tokens.entropies[response.clone()], self.quantile)
            else {
                continue;
            };
            for t in response.filter(|&t| tokens.entropies[t] > threshold) {
                treatment.clip[t] = range;
                treatment.reference_weights[t] *= self.high_entropy_kl;
            }
        }
    }
}

/// The value below which this share of the values lies, interpolated linearly; nothing of none.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let position = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * position.fract())
}
