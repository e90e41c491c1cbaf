//! CE-GPPO, gradient-preserving clipping (arXiv:2509.20712).

use super::{Clipped, Ratio, Term, clamp, unclipped};
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::ClipRange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "CE-GPPO",
    kind: Kind::Loss,
    equation: "-rho A; -beta1 (1 - clip_low) rho / sg(rho) A where rho < 1 - clip_low, A < 0; \
               -beta2 (1 + clip_high) rho / sg(rho) A where rho > 1 + clip_high, A > 0",
    source: "arXiv:2509.20712",
    setting: "objective.loss = \"ce-gppo\"",
    cost: FREE,
};

/// The loss `ce-gppo`: a token whose ratio `clip` would clip keeps the gradient that it has at the
/// bound, times a number: `beta1` for tokens of worse responses that have become less likely, whose
/// gradient lowers entropy where they are unlikely, and `beta2` for tokens of better responses that
/// have become likelier, whose gradient raises it there. With 1 and 1 this is GPPO
/// (arXiv:2508.07629), with 0 and 0 it has the gradient of `clip`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CeGppo {
    /// Weight of the gradient below the range, where A < 0: 0.75 in the published runs with 7B, 0.5
    /// with 1.5B.
    #[schemars(range(min = 0.0))]
    pub beta1: f64,
    /// Weight of the gradient above the range, where A > 0: 1 in the published runs.
    #[schemars(range(min = 0.0))]
    pub beta2: f64,
}

impl Default for CeGppo {
    fn default() -> Self {
        Self { beta1: 0.75, beta2: 1.0 }
    }
}

impl CeGppo {
    pub(super) fn term(&self, range: ClipRange, ratio: Ratio, advantage: f64) -> Term {
        let (bound, clipped) = clamp(range, ratio.value);
        let beta = match clipped {
            Some(Clipped::Low) if advantage < 0.0 => self.beta1,
            Some(Clipped::High) if advantage > 0.0 => self.beta2,
            _ => return unclipped(ratio, advantage),
        };
        // rho / sg(rho) is 1, and its derivative by log pi is 1.
        let value = -beta * bound * advantage;
        Term { value, slope: value, clipped }
    }
}
