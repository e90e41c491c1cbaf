//! Notices when a covariance setting or a method does nothing for steps on end.

use crate::{Covariance, Method, ObjectiveSettings, Statistics, entropy_mask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::mem::take;

/// Rollout steps in a row without effect before an alarm.
const PATIENCE: u32 = 5;

/// Watches whether the covariance method, the entropy mask and the other methods have an effect.
/// Part of a run's saved state, so that a resumed run gives the same alarms.
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
    /// Rollout steps in a row without effect of each method that is on, by its setting.
    #[serde(default)]
    idle_methods: BTreeMap<String, u32>,
}

/// A method that is on, as the alarm sees it.
struct Watched {
    setting: String,
    /// The metric that says which share of the tokens it touched.
    metric: &'static str,
    is_idle_on_policy: bool,
    /// Whether `method/gradient_share` is about it.
    is_in_gradient_share: bool,
}

impl Watched {
    fn all(settings: &ObjectiveSettings) -> Vec<Self> {
        let mask = settings.entropy_mask_fraction.map(|_| Self {
            setting: "objective.entropy_mask_fraction".into(),
            metric: entropy_mask::METRIC,
            is_idle_on_policy: false,
            is_in_gradient_share: false,
        });
        let methods = settings.methods.active().into_iter().map(|active| Self {
            setting: format!("objective.methods.{}", active.key),
            metric: active.metric,
            is_idle_on_policy: active.is_idle_on_policy,
            is_in_gradient_share: true,
        });
        mask.into_iter().chain(methods).collect()
    }

    /// Whether it touched a token.
    fn touches(&self, update: &Statistics) -> bool {
        update.methods.iter().any(|(metric, share)| *metric == self.metric && *share > 0.0)
    }

    /// The likely cause of its being without effect in these updates, and the remedy.
    fn cause(&self, updates: &[Statistics]) -> &'static str {
        let stays = updates.len() < 2 && updates.iter().all(|u| u.log_ratio_abs <= 0.0);
        if !self.is_in_gradient_share {
            "it has left out no token: all entropies are at or above its quantile, where equal \
             ones are all kept. Lower the fraction."
        } else if self.is_idle_on_policy && stays {
            "the policy was exactly the one that sampled in every update. Use more than one update \
             per rollout."
        } else if updates.iter().any(|update| self.touches(update)) {
            "no token that it changes had a gradient that depends on it. Check that rewards differ \
             within groups (cov/max), and that ratios leave the clip range (policy/ratio_max)."
        } else {
            "it has changed no token: every advantage, weight and clip range stayed. Make it \
             stronger, or check that rewards differ within groups (cov/max)."
        }
    }

    /// Whether it touched a token, and methods changed the gradient.
    fn acts(&self, update: &Statistics) -> bool {
        let changes = !self.is_in_gradient_share || update.method_gradient_share > Some(0.0);
        changes && self.touches(update)
    }
}

impl Alarms {
    /// As [`after_step`](Self::after_step), of each method that is on, and of the entropy mask.
    pub fn after_step_of_methods(
        &mut self,
        settings: &ObjectiveSettings,
        updates: &[Statistics],
    ) -> Option<String> {
        let before = take(&mut self.idle_methods);
        let mut idle: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for method in Watched::all(settings) {
            let acts = updates.iter().any(|update| method.acts(update));
            let steps = before.get(&method.setting).map_or(0, |steps| *steps);
            let steps = if acts { 0 } else { steps.saturating_add(1) };
            self.idle_methods.insert(method.setting.clone(), steps);
            if steps == PATIENCE {
                idle.entry(method.cause(updates)).or_default().push(method.setting);
            }
        }
        let sentence = |(cause, settings): (&str, Vec<String>)| {
            format!(
                "{} has had no effect for {PATIENCE} rollout steps in a row: {cause}",
                settings.join(" with ")
            )
        };
        let sentences: Vec<String> = idle.into_iter().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Takes in the statistics of all updates of a rollout step, and returns a sentence with cause
    /// and remedy when the covariance method has been without effect for five such steps in a row:
    /// once, until it has an effect again.
    pub fn after_step(&mut self, settings: &Covariance, updates: &[Statistics]) -> Option<String> {
        if settings.method == Method::None || updates.iter().any(|s| s.cov_gradient_share > 0.0) {
            *self = Self { idle_methods: take(&mut self.idle_methods), ..Self::default() };
            return None;
        }
        for statistics in updates.iter().filter(|s| s.tokens > 0) {
            self.selected |= statistics.cov_selected > 0;
            self.moved |= statistics.log_ratio_abs > 0.0;
            self.largest =
                Some(self.largest.map_or(statistics.cov_max, |l| l.max(statistics.cov_max)));
        }
        self.idle_steps = self.idle_steps.saturating_add(1);
        (self.idle_steps == PATIENCE).then(|| self.message(settings, updates.len()))
    }

    /// The sentence for a step of this many updates.
    fn message(&self, settings: &Covariance, updates: usize) -> String {
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
            // With several updates a policy that stays had no signal to learn from.
            (Method::KlCov, Some(_)) if !self.moved && updates < 2 => {
                "the policy was exactly the one that sampled in every update, where the penalty \
                 has no gradient. Use more than one update per rollout, or \
                 objective.covariance.method = \"clip-cov\"."
                    .to_owned()
            }
            _ => "no token was picked, or the picked ones had no gradient to change: their \
                  advantages or log-ratios are 0. Check that rewards differ within groups \
                  (cov/max), and raise objective.covariance.fraction or take another \
                  objective.covariance.pick."
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
            (Method::KlCov, vec![same.clone()], ["one update per rollout", ""]),
            (Method::KlCov, vec![same.clone(), same], ["no gradient", "rewards differ within"]),
            (Method::KlCov, vec![moved], ["no gradient to change", ""]),
        ] {
            let [(5, told)] = &steps(method, &updates)[..] else { panic!("one is due") };
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
        assert!(steps(Method::None, &[idle(0.0)]).is_empty());
    }

    /// The settings with these methods.
    fn with(methods: &str) -> ObjectiveSettings {
        let methods = serde_json::from_str(methods).unwrap();
        ObjectiveSettings { methods, ..ObjectiveSettings::default() }
    }

    /// An update whose methods touched these shares of the tokens.
    fn touched(methods: &[(&'static str, f64)], gradient_share: f64, moved: f64) -> Statistics {
        Statistics {
            methods: methods.to_vec(),
            method_gradient_share: Some(gradient_share),
            log_ratio_abs: moved,
            ..idle(1.0)
        }
    }

    #[test]
    fn methods_without_effect_are_told_of_once_with_the_likely_cause() {
        let (erc, bapo) = ("method/erc", "method/bapo");
        let both = r#"{ "erc": {}, "bapo": {} }"#;
        let w_reinforce = [("method/w_reinforce", 0.0)];
        for (methods, update, parts) in [
            (
                r#"{ "erc": {} }"#,
                touched(&[(erc, 0.0)], 0.0, 0.0),
                ["methods.erc has", "exactly the one that sampled"],
            ),
            (
                both,
                touched(&[(erc, 1.0), (bapo, 0.5)], 0.0, 0.1),
                ["methods.erc with objective.methods.bapo has", "leave the"],
            ),
            // Each has its own cause.
            (
                both,
                touched(&[(erc, 1.0), (bapo, 0.0)], 0.0, 0.1),
                [
                    "methods.erc has had no effect for 5 rollout steps in a row: no token",
                    "methods.bapo has had no effect for 5 rollout steps in a row: it has",
                ],
            ),
            (
                r#"{ "w_reinforce": {} }"#,
                touched(&w_reinforce, 0.0, 0.0),
                ["methods.w_reinforce has", "has changed no token"],
            ),
            // Beside one that acts.
            (
                both,
                touched(&[(erc, 0.1), (bapo, 0.0)], 0.1, 0.1),
                ["objective.methods.bapo has had", "has changed no token"],
            ),
        ] {
            let settings = with(methods);
            let mut alarms = Alarms::default();
            let mut step = |updates: &[Statistics]| {
                alarms = serde_json::from_str(&serde_json::to_string(&alarms).unwrap()).unwrap();
                alarms.after_step_of_methods(&settings, updates)
            };
            let all = update.methods.iter().map(|(metric, _)| (*metric, 0.5)).collect::<Vec<_>>();
            let effect = touched(&all, 0.1, 0.1);
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
        let none = ObjectiveSettings::default();
        let mut alarms = Alarms::default();
        assert!((0..9).all(|_| alarms.after_step_of_methods(&none, &[idle(0.0)]).is_none()));
    }

    #[test]
    fn a_policy_that_stays_in_several_updates_has_no_signal() {
        let still = touched(&[("method/erc", 0.0)], 0.0, 0.0);
        let mut alarms = Alarms::default();
        let mut step = || {
            alarms.after_step_of_methods(&with(r#"{ "erc": {} }"#), &[still.clone(), still.clone()])
        };
        let said = (0..5).find_map(|_| step()).unwrap();
        assert!(said.contains("rewards differ within groups"), "{said}");
        assert!(!said.contains("more than one update"), "{said}");
    }

    #[test]
    fn an_entropy_mask_that_leaves_out_no_token_is_told_of() {
        let settings =
            ObjectiveSettings { entropy_mask_fraction: Some(0.9), ..with(r#"{ "erc": {} }"#) };
        let update =
            |masked| touched(&[("method/erc", 0.1), (entropy_mask::METRIC, masked)], 0.1, 0.1);
        let on_policy = touched(&[("method/erc", 0.0), (entropy_mask::METRIC, 0.0)], 0.0, 0.0);
        let mut alarms = Alarms::default();
        let told: Vec<String> = (0..9)
            .filter_map(|_| {
                alarms.after_step_of_methods(&settings, std::slice::from_ref(&on_policy))
            })
            .collect();
        let parts =
            ["in a row: it has left out no token", "methods.erc has", "more than one update"];
        assert!(told.len() == 1 && parts.iter().all(|part| told[0].contains(part)), "{told:?}");
        for (masked, is_told) in [(0.0, true), (0.1, false)] {
            let mut alarms = Alarms::default();
            let told: Vec<String> = (0..9)
                .filter_map(|_| alarms.after_step_of_methods(&settings, &[update(masked)]))
                .collect();
            assert_eq!(told.len(), usize::from(is_told), "{told:?}");
            let setting = "objective.entropy_mask_fraction has had no effect";
            assert!(told.iter().all(|told| told.starts_with(setting)), "{told:?}");
        }
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
