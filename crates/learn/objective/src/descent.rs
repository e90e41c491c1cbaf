//! Tracks whether entropy is still falling towards its target.

use serde::{Deserialize, Serialize};

/// Entropy counts as at the target within this share of the target on either side.
pub(crate) const TOLERANCE: f64 = 0.1;
/// Number of steps without a new lowest entropy after which entropy counts as no longer falling.
const PATIENCE: u32 = 10;

/// Follows entropy down to a lower target. Until entropy arrives, its distance from the target says
/// nothing about the value that will hold it there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Descent {
    /// The target of the last step, nats.
    target: Option<f64>,
    /// The lowest entropy since the descent began, nats.
    lowest: Option<f64>,
    /// Steps since then.
    since_lowest: u32,
    /// Whether entropy has been at the target or below.
    has_arrived: bool,
}

impl Descent {
    /// Updates the descent with a step's entropy and target, both in nats. If the target moves down
    /// and entropy is above it by more than the tolerance, a new descent begins.
    pub(crate) fn step(&mut self, entropy: f64, target: f64) {
        let has_fallen = self.target.is_some_and(|last| target < last);
        if has_fallen && entropy > target * (1.0 + TOLERANCE) {
            *self = Self::default();
        }
        self.target = Some(target);
        if self.lowest.is_none_or(|lowest| entropy < lowest) {
            (self.lowest, self.since_lowest) = (Some(entropy), 0);
        } else {
            self.since_lowest = self.since_lowest.saturating_add(1);
        }
        self.has_arrived |= entropy <= target;
    }

    /// Whether entropy has been at this target or below.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    /// Whether entropy has not arrived and still falls.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.has_arrived && self.since_lowest < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_under_way_until_it_arrives_or_stalls() {
        let mut descent = Descent::default();
        let under_way = |descent: &mut Descent, entropy: f64, target: f64| {
            descent.step(entropy, target);
            descent.is_under_way()
        };
        assert!([2.0, 1.9, 1.95, 1.5, 1.01].iter().all(|entropy| under_way(
            &mut descent,
            *entropy,
            1.0
        )));
        assert!(!under_way(&mut descent, 1.0, 1.0) && descent.has_arrived());
        assert!(!under_way(&mut descent, 1.5, 1.0), "what rises again has been there");
        assert!(!under_way(&mut descent, 1.0, 0.95), "a target within the tolerance is not far");
        assert!(
            under_way(&mut descent, 1.0, 0.5) && !descent.has_arrived(),
            "a target that jumps down"
        );
        let stalled: Vec<bool> = (0..12).map(|_| under_way(&mut descent, 1.0, 0.5)).collect();
        assert_eq!(stalled, [[true; 9].as_slice(), &[false; 3]].concat());
        assert!(under_way(&mut descent, 0.9, 0.5) && !descent.has_arrived(), "it falls again");
    }
}
