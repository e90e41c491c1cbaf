//! Notices when a covariance setting or a method does nothing for steps on end.

use crate::{Covariance, Method, Methods, Statistics};
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
    /// Rollout steps in a row in which no method changed the gradient.
    #[serde(default)]
    idle_methods_steps: u32,
}

impl Alarms {
    /// As [`after_step`](Self::after_step), of the methods that are on, all together.
    pub fn after_step_of_methods(
        &mut self,
        methods: &Methods,
        updates: &[Statistics],
    ) -> Option<String> {
        let active = methods.active();
        let acts = |update: &Statistics| update.method_gradient_share > Some(0.0);
        if active.is_empty() || updates.iter().any(acts) {
            self.idle_methods_steps = 0;
            return None;
        }
        self.idle_methods_steps = self.idle_methods_steps.saturating_add(1);
        if self.idle_methods_steps != PATIENCE {
            return None;
        }
        let names: Vec<String> =
            active.iter().map(|active| format!("objective.methods.{}", active.key)).collect();
        let moved = updates.iter().any(|update| update.log_ratio_abs > 0.0);
        let touched =
            updates.iter().flat_map(|update| &update.methods).any(|(_, share)| *share > 0.0);
        let cause = if !moved && active.iter().all(|active| active.is_idle_on_policy) {
            "the policy was exactly the one that sampled in every update. Use more than one update \
             per rollout."
        } else if touched {
            "no token that it changes had a gradient that depends on it. Check that rewards differ \
             within groups (cov/max), and that ratios leave the clip range (policy/ratio_max)."
        } else {
            "it has changed no token: every advantage, weight and clip range stayed. Make it \
             stronger, or check that rewards differ within groups (cov/max)."
        };
        Some(format!(
            "{} has had no effect for {PATIENCE} rollout steps in a row: {cause}",
            names.join(" with ")
        ))
    }

    /// Takes in the statistics of all updates of a rollout step, and returns a sentence with cause
    /// and remedy when the covariance method has been without effect for five such steps in a row:
    /// once, until it has an effect again.
    pub fn after_step(&mut self, settings: &Covariance, updates: &[Statistics]) -> Option<String> {
        if settings.method == Method::None || updates.iter().any(|s| s.cov_gradient_share > 0.0) {
            let idle_methods_steps = self.idle_methods_steps;
            *self = Self { idle_methods_steps, ..Self::default() };
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
            (Method::ClipCov, Some(largest)) if !self.selected && largest <= settings.low => {
                format!(
                    "the largest covariance was {largest:.4}, below the band from {} to {}. Lower \
                 objective.covariance.low (cov/top_0.2_percent shows where the largest covariances \
                 lie).",
                    settings.low, settings.high
                )
            }
            (Method::ClipCov, Some(largest)) if !self.selected => format!(
                "no token that ratio clipping left a gradient had a covariance between {} and {}; \
                 the largest was {largest:.4}. Widen objective.covariance.low and \
                 objective.covariance.high, or objective.clip_low and objective.clip_high.",
                settings.low, settings.high
            ),
            (Method::KlCov, Some(_)) if !self.moved => {
                "the policy was exactly the one that sampled in every update, where the penalty \
                 has no gradient. Use more than one update per rollout, or \
                 objective.covariance.method = \"clip-cov\"."
                    .to_owned()
            }
            _ => "the picked tokens had no gradient to change: their advantages or log-ratios are \
                  0. Check that rewards differ within groups (cov/max) and raise \
                  objective.covariance.fraction."
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

    fn covariance(method: Method) -> Covariance {
        Covariance { method, ..Default::default() }
    }

    fn idle(cov_max: f64) -> Statistics {
        Statistics { tokens: 100, cov_max, ..Default::default() }
    }

    /// The alarms of 20 equal steps, by step. The state is saved and read again after each.
    fn steps(method: Method, updates: &[Statistics]) -> Vec<(usize, String)> {
        let mut alarms = Alarms::default();
        let mut step = || {
            alarms = serde_json::from_str(&serde_json::to_string(&alarms).unwrap()).unwrap();
            alarms.after_step(&covariance(method), updates)
        };
        (1..=20).filter_map(|number| Some((number, step()?))).collect()
    }

    #[test]
    fn a_method_without_effect_is_told_once_after_five_steps_with_its_cause() {
        let same = Statistics { cov_selected: 3, ..idle(2.0) };
        let moved = Statistics { log_ratio_abs: 0.1, ..same.clone() };
        for (method, updates, parts) in [
            (Method::ClipCov, vec![idle(0.25), idle(0.75)], ["0.7500", "from 1 to 5"]),
            (Method::ClipCov, vec![idle(7.0)], ["7.0000", "Widen"]),
            (Method::ClipCov, vec![], ["no tokens", ""]),
            (Method::KlCov, vec![same], ["one update per rollout", ""]),
            (Method::KlCov, vec![moved], ["no gradient to change", ""]),
        ] {
            let [(5, told)] = &steps(method, &updates)[..] else { panic!("one is due") };
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
        assert!(steps(Method::None, &[idle(0.0)]).is_empty());
    }

    #[test]
    fn methods_without_effect_are_told_of_once_with_the_likely_cause() {
        let erc = || Methods { erc: Some(crate::Erc::default()), ..Methods::default() };
        let bapo = Methods { bapo: Some(crate::Bapo::default()), ..erc() };
        let w_reinforce =
            Methods { w_reinforce: Some(crate::WReinforce::default()), ..Methods::default() };
        let update = |touched, moved| Statistics {
            methods: vec![("method/erc", touched)],
            method_gradient_share: Some(0.0),
            log_ratio_abs: moved,
            ..idle(1.0)
        };
        for (methods, update, parts) in [
            (erc(), update(0.0, 0.0), ["methods.erc has", "exactly the one that sampled"]),
            (bapo, update(1.0, 0.1), ["methods.erc with objective.methods.bapo has", "leave the"]),
            (w_reinforce, update(0.0, 0.0), ["methods.w_reinforce has", "has changed no token"]),
        ] {
            let mut alarms = Alarms::default();
            let mut step = |updates: &[Statistics]| alarms.after_step_of_methods(&methods, updates);
            let effect = Statistics { method_gradient_share: Some(0.1), ..update.clone() };
            for round in 0..2 {
                for number in 1..9 {
                    let said = step(std::slice::from_ref(&update));
                    assert_eq!(said.is_some(), number == 5, "{round}: {said:?}");
                    let has = |part: &&str| said.as_ref().is_none_or(|said| said.contains(part));
                    assert!(parts.iter().all(has), "{said:?}");
                }
                assert_eq!(step(&[update.clone(), effect.clone()]), None);
            }
        }
        let none = |_| Alarms::default().after_step_of_methods(&Methods::default(), &[idle(0.0)]);
        assert!((0..9).all(|step| none(step).is_none()));
    }

    #[test]
    fn an_effect_in_any_update_of_a_step_starts_the_count_again() {
        let (nothing, effect) = (idle(0.0), Statistics { cov_gradient_share: 0.01, ..idle(2.0) });
        assert!(steps(Method::KlCov, &[nothing.clone(), effect.clone()]).is_empty());
        let mut alarms = Alarms::default();
        let clip_cov = covariance(Method::ClipCov);
        let mut step = |updates: &[Statistics]| alarms.after_step(&clip_cov, updates).is_some();
        for round in 0..3 {
            for i in 0..9 {
                assert_eq!(step(std::slice::from_ref(&nothing)), i == 4, "{round}");
            }
            assert!(!step(std::slice::from_ref(&effect)));
        }
    }
}
