//! Notices when a covariance setting does nothing for steps on end.

use crate::{Covariance, Method, Statistics};
use serde::{Deserialize, Serialize};

/// Rollout steps in a row without effect before an alarm.
const PATIENCE: u32 = 5;

/// Watches whether the covariance method has an effect. Part of a run's saved state, so that a
/// resumed run gives the same alarms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarms {
    /// Rollout steps in a row in which no update changed the gradient.
    idle_steps: u32,
    /// Whether any token was picked in those steps.
    selected: bool,
    /// Whether the policy left the one that sampled in those steps.
    moved: bool,
    /// The largest covariance in those steps, nats.
    largest: Option<f64>,
}

impl Alarms {
    /// Takes in the statistics of all updates of a rollout step, and returns a sentence with cause
    /// and remedy when the covariance method has been without effect for five such steps in a row:
    /// once, until it has an effect again.
    pub fn after_step(&mut self, settings: &Covariance, updates: &[Statistics]) -> Option<String> {
        if settings.method == Method::None || updates.iter().any(|s| s.cov_gradient_share > 0.0) {
            *self = Self::default();
            return None;
        }
        for statistics in updates.iter().filter(|s| s.tokens > 0) {
            self.selected |= statistics.cov_selected > 0;
            self.moved |= statistics.log_ratio_abs > 0.0;
            self.largest =
                Some(self.largest.map_or(statistics.cov_max, |l| l.max(statistics.cov_max)));
        }
        self.idle_steps = self.idle_steps.saturating_add(1);
        (self.idle_steps == PATIENCE).then(|| self.message(settings))
    }

    fn message(&self, settings: &Covariance) -> String {
        let cause = match (settings.method, self.largest) {
            (_, None) => "the minibatches have no tokens.".into(),
            (Method::ClipCov, Some(largest)) if !self.selected && largest <= settings.low => format!(
                "the largest covariance was {largest:.4}, below the band from {} to {}. Lower \
                 objective.covariance.low (cov/top_0.2_percent shows where the largest covariances lie).",
                settings.low, settings.high
            ),
            (Method::ClipCov, Some(largest)) if !self.selected => format!(
                "no token that ratio clipping left a gradient had a covariance between {} and {}; the largest was \
                 {largest:.4}. Widen objective.covariance.low and objective.covariance.high, or objective.clip_low \
                 and objective.clip_high.",
                settings.low, settings.high
            ),
            (Method::KlCov, Some(_)) if !self.moved => "the policy was exactly the one that sampled in every update, \
                 where the penalty has no gradient. Use more than one update per rollout, or \
                 objective.covariance.method = \"clip-cov\"."
                .into(),
            _ => "the picked tokens had no gradient to change: their advantages or log-ratios are 0. Check that \
                 rewards differ within groups (cov/max) and raise objective.covariance.fraction."
                .into(),
        };
        format!(
            "objective.covariance has had no effect for {PATIENCE} rollout steps in a row: {cause}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip_cov() -> Covariance {
        Covariance { method: Method::ClipCov, ..Default::default() }
    }

    fn kl_cov() -> Covariance {
        Covariance { method: Method::KlCov, ..Default::default() }
    }

    fn idle(cov_max: f64) -> Statistics {
        Statistics { tokens: 100, cov_max, ..Default::default() }
    }

    /// The alarms of 20 equal steps, by step.
    fn steps(settings: &Covariance, updates: &[Statistics]) -> Vec<(usize, String)> {
        let mut alarms = Alarms::default();
        (1..=20).filter_map(|step| Some((step, alarms.after_step(settings, updates)?))).collect()
    }

    #[test]
    fn a_band_outside_the_covariances_is_named_once_after_five_steps() {
        let said = steps(&clip_cov(), &[idle(0.25), idle(0.75)]);
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].0, 5);
        assert!(said[0].1.contains("0.7500") && said[0].1.contains("from 1 to 5"), "{}", said[0].1);

        let above = steps(&clip_cov(), &[idle(7.0)]);
        assert!(above[0].1.contains("7.0000") && above[0].1.contains("Widen"), "{}", above[0].1);
    }

    #[test]
    fn one_update_per_rollout_is_named_for_kl_cov() {
        let same = Statistics { cov_selected: 3, ..idle(2.0) };
        assert!(
            steps(&kl_cov(), std::slice::from_ref(&same))[0].1.contains("one update per rollout")
        );
        let moved = Statistics { log_ratio_abs: 0.1, ..same };
        assert!(steps(&kl_cov(), &[moved])[0].1.contains("no gradient to change"));
    }

    #[test]
    fn an_effect_in_any_update_of_a_step_starts_the_count_again() {
        let (nothing, effect) = (idle(0.0), Statistics { cov_gradient_share: 0.01, ..idle(2.0) });
        assert!(steps(&kl_cov(), &[nothing.clone(), effect.clone()]).is_empty());
        let mut alarms = Alarms::default();
        let mut step = |updates: &[Statistics]| alarms.after_step(&clip_cov(), updates).is_some();
        for round in 0..3 {
            for i in 0..9 {
                assert_eq!(step(std::slice::from_ref(&nothing)), i == 4, "{round}");
            }
            assert!(!step(std::slice::from_ref(&effect)));
        }
    }

    #[test]
    fn no_method_and_no_tokens_are_told_apart() {
        assert!(steps(&Covariance::default(), &[idle(0.0)]).is_empty());
        assert!(steps(&clip_cov(), &[])[0].1.contains("no tokens"));
    }

    #[test]
    fn a_saved_count_goes_on() {
        let mut alarms = Alarms::default();
        for _ in 0..4 {
            assert_eq!(alarms.after_step(&clip_cov(), &[idle(0.1)]), None);
        }
        let saved = serde_json::to_string(&alarms).unwrap();
        let mut resumed: Alarms = serde_json::from_str(&saved).unwrap();
        assert_eq!(resumed, alarms);
        assert!(resumed.after_step(&clip_cov(), &[idle(0.1)]).is_some());
    }
}
