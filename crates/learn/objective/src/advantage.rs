//! Advantages of responses from their rewards.

use crate::catalogue::{About, FREE, Kind};
use crate::{ObjectiveSettings, qae};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How rewards become advantages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// (r - group mean) / (group standard deviation + 1e-6), its variance with n - 1
    /// (arXiv:2402.03300).
    #[default]
    Grpo,
    /// r - group mean, undivided, so that easy and hard prompts weigh the same (Dr. GRPO,
    /// arXiv:2503.20783).
    DrGrpo,
    /// r - mean of the group's other rewards (arXiv:2402.14740).
    Rloo,
    /// r, then mean 0 and variance 1, with n - 1, over the tokens of all responses
    /// (arXiv:2501.03262).
    #[serde(rename = "reinforce++")]
    ReinforcePlusPlus,
    /// r - group mean, then mean 0 and variance 1, with n - 1, over the tokens of all responses
    /// (arXiv:2501.03262).
    #[serde(rename = "reinforce++-baseline")]
    ReinforcePlusPlusBaseline,
    /// r - reward of the prompt's greedily decoded response (arXiv:2310.10505); costs one more
    /// response per prompt.
    Remax,
    /// r - group mean weighted by response length (arXiv:2505.23585).
    Opo,
    /// (r - group mean) / (group mean + 1e-6), so that harder prompts weigh more (MaxRL,
    /// arXiv:2602.02710). For rewards from 0 up: a group whose mean is not above 0 has no
    /// advantages.
    #[serde(rename = "maxrl")]
    MaxRl,
    /// (r - a quantile of the group's rewards) / (group standard deviation + 1e-6), its variance
    /// with n - 1 (QAE, arXiv:2509.22611); settings in `qae`. With rewards 0 and 1, prompts that
    /// are mostly failed learn from right responses alone, the others from wrong ones alone.
    Qae,
    /// An advantage for each token, from r and from the process rewards that a second model in
    /// training gives to tokens (arXiv:2502.01456); settings in `prime`, equations in
    /// docs/concepts/entropy.md.
    Prime,
    /// 0: rewards are measured, and nothing is learnt from them. The policy learns from the teacher
    /// of `objective.distillation` alone.
    Distill,
}

/// The outcome of a response to a prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The prompt's number: responses of the same group are compared.
    pub group: usize,
    /// Reward of the whole response.
    pub reward: f64,
    /// Tokens of the response, also of a truncated response that the loss leaves out.
    pub tokens: usize,
    /// Reward of the prompt's greedily decoded response; read only if it is the [`Baseline`].
    pub greedy_reward: f64,
}

/// The baseline that a response's reward is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Nothing of its own prompt.
    None,
    /// The other responses to its prompt.
    Group,
    /// The prompt's greedily decoded response, which must be sampled for it.
    Greedy,
}

impl Estimator {
    /// Every estimator.
    pub const ALL: [Self; 11] = [
        Self::Grpo,
        Self::DrGrpo,
        Self::Rloo,
        Self::ReinforcePlusPlus,
        Self::ReinforcePlusPlusBaseline,
        Self::Remax,
        Self::Opo,
        Self::MaxRl,
        Self::Qae,
        Self::Prime,
        Self::Distill,
    ];

    /// The estimator as the catalogue lists it.
    pub(crate) fn about(self) -> About {
        let about = |name, equation, source, setting| About {
            name,
            kind: Kind::Advantage,
            equation,
            source,
            setting,
            cost: FREE,
        };
        match self {
            Self::Grpo => about(
                "GRPO",
                "A = (r - mean r) / (std r + 1e-6) over the responses to a prompt",
                "arXiv:2402.03300",
                "objective.advantage = \"grpo\"",
            ),
            Self::DrGrpo => about(
                "Dr. GRPO",
                "A = r - mean r over the responses to a prompt",
                "arXiv:2503.20783",
                "objective.advantage = \"dr-grpo\"",
            ),
            Self::Rloo => about(
                "RLOO",
                "A = r - mean r over the other responses to the prompt",
                "arXiv:2402.14740",
                "objective.advantage = \"rloo\"",
            ),
            Self::ReinforcePlusPlus => about(
                "REINFORCE++",
                "A = (r - mean r) / std r over the tokens of all responses",
                "arXiv:2501.03262",
                "objective.advantage = \"reinforce++\"",
            ),
            Self::ReinforcePlusPlusBaseline => about(
                "REINFORCE++ with baseline",
                "A = (d - mean d) / std d over the tokens of all responses, d = r - mean r over \
                 the responses to a prompt",
                "arXiv:2501.03262",
                "objective.advantage = \"reinforce++-baseline\"",
            ),
            Self::Remax => About {
                cost: "one more response per prompt",
                ..about(
                    "ReMax",
                    "A = r - r of the prompt's greedily decoded response",
                    "arXiv:2310.10505",
                    "objective.advantage = \"remax\"",
                )
            },
            Self::Opo => about(
                "OPO",
                "A = r - sum of length r / sum of length, over the responses to a prompt",
                "arXiv:2505.23585",
                "objective.advantage = \"opo\"",
            ),
            Self::MaxRl => about(
                "MaxRL",
                "A = (r - mean r) / (mean r + 1e-6) over the responses to a prompt, 0 where mean r \
                 <= 0",
                "arXiv:2602.02710; github.com/NovaSky-AI/SkyRL",
                "objective.advantage = \"maxrl\"",
            ),
            Self::Qae => qae::ABOUT,
            Self::Prime => About {
                cost: "20 bytes per weight, three more forward passes and one backward pass",
                ..about(
                    "PRIME",
                    "A = (G - mean G) / std G over all tokens, G = outcome_weight O + \
                     process_weight (q_t + ... + q_T); O of r as by RLOO, q of beta (log pi_phi - \
                     log pi_ref) likewise; pi_phi learns from right and wrong responses",
                    "arXiv:2502.01456; docs/concepts/entropy.md",
                    "objective.advantage = \"prime\"",
                )
            },
            Self::Distill => about(
                "Distillation alone",
                "A = 0: what is learnt comes from the teacher of objective.distillation",
                "arXiv:2306.13649",
                "objective.advantage = \"distill\"",
            ),
        }
    }

    /// The baseline that this estimator needs.
    pub fn baseline(self) -> Baseline {
        match self {
            Self::Grpo
            | Self::DrGrpo
            | Self::Rloo
            | Self::ReinforcePlusPlusBaseline
            | Self::Opo
            | Self::MaxRl
            | Self::Qae
            | Self::Prime => Baseline::Group,
            Self::ReinforcePlusPlus | Self::Distill => Baseline::None,
            Self::Remax => Baseline::Greedy,
        }
    }

    /// Whether advantages depend on rewards.
    pub fn reads_rewards(self) -> bool {
        self != Self::Distill
    }

    /// A warning if this estimator is doubtful with this number of responses to each prompt.
    pub fn warning(self, responses: usize) -> Option<String> {
        (responses == 1 && self.baseline() == Baseline::Group).then(|| {
            "objective.advantage compares the responses to a prompt, and with rollout.responses = \
             1 there are none to compare: rewards count as they are, with no baseline. Sample \
             several, or use \"reinforce++\" or \"remax\"."
                .to_owned()
        })
    }
}

/// Added to a group's standard deviation, as in the reference.
const STD_EPSILON: f64 = 1e-6;
/// Added to a group's mean where it divides, as in SkyRL.
const MEAN_EPSILON: f64 = 1e-6;
/// Added to token counts and variances in whitening, as in the reference.
const WHITEN_EPSILON: f64 = 1e-8;

/// One advantage per response, `[responses]`. The reward counts once, at the response's last token,
/// and is not discounted, so the advantage is the same for all tokens of a response. For
/// [`Estimator::Prime`] this is only the reward's part, which is RLOO's;
/// [`prime_advantages`](crate::prime_advantages) computes the whole. Of the settings, `advantage`
/// and `qae` are read.
///
/// A response without others in its group has nothing to be compared with: group baselines are then
/// 0 and the divisor of GRPO and QAE 1 + 1e-6, as in the reference.
///
/// Equal rewards are their own mean to the last bit, in a group and in whitening. Responses that do
/// not differ therefore have the advantage 0 and not a rounding error, which AdamW would make as
/// large as any other gradient.
pub fn advantages(settings: &ObjectiveSettings, outcomes: &[Outcome]) -> Vec<f64> {
    let groups = groups(outcomes);
    let over_baseline = |baseline: fn(&Group) -> f64| -> Vec<f64> {
        outcomes.iter().map(|o| o.reward - baseline(&groups[&o.group])).collect()
    };
    let over_deviation = |baseline: &dyn Fn(&Group) -> f64| -> Vec<f64> {
        let advantage = |o: &Outcome| {
            let group = &groups[&o.group];
            (o.reward - baseline(group)) / (group.standard_deviation() + STD_EPSILON)
        };
        outcomes.iter().map(advantage).collect()
    };
    let lengths = || -> Vec<f64> { outcomes.iter().map(|o| o.tokens as f64).collect() };
    match settings.advantage {
        Estimator::Grpo => over_deviation(&Group::mean),
        Estimator::Qae => over_deviation(&|group| match &group.rewards[..] {
            [_] => 0.0,
            rewards => settings.qae.baseline(rewards),
        }),
        Estimator::DrGrpo => over_baseline(Group::mean),
        Estimator::Rloo | Estimator::Prime => rloo(outcomes),
        Estimator::ReinforcePlusPlus => whiten(&over_baseline(|_| 0.0), &lengths()),
        Estimator::ReinforcePlusPlusBaseline => whiten(&over_baseline(Group::mean), &lengths()),
        Estimator::Remax => outcomes.iter().map(|o| o.reward - o.greedy_reward).collect(),
        Estimator::Opo => over_baseline(Group::length_weighted_mean),
        Estimator::Distill => vec![0.0; outcomes.len()],
        Estimator::MaxRl => outcomes
            .iter()
            .map(|o| match &groups[&o.group] {
                alone if alone.rewards.len() < 2 => o.reward,
                group if group.mean() > 0.0 => {
                    (o.reward - group.mean()) / (group.mean() + MEAN_EPSILON)
                }
                _ => 0.0,
            })
            .collect(),
    }
}

/// Each reward less the mean of the others in its group, `[responses]`.
pub(crate) fn rloo(outcomes: &[Outcome]) -> Vec<f64> {
    let groups = groups(outcomes);
    let advantage = |o: &Outcome| {
        let group = &groups[&o.group];
        let k = group.rewards.len() as f64;
        if k > 1.0 { (o.reward - group.mean()) * k / (k - 1.0) } else { o.reward }
    };
    outcomes.iter().map(advantage).collect()
}

/// The responses to one prompt, in order.
#[derive(Default)]
struct Group {
    rewards: Vec<f64>,
    /// Tokens of each response.
    lengths: Vec<f64>,
}

fn groups(outcomes: &[Outcome]) -> BTreeMap<usize, Group> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for outcome in outcomes {
        let group = groups.entry(outcome.group).or_default();
        group.rewards.push(outcome.reward);
        group.lengths.push(outcome.tokens as f64);
    }
    groups
}

impl Group {
    fn mean(&self) -> f64 {
        if self.rewards.len() < 2 {
            return 0.0;
        }
        common(&self.rewards)
            .unwrap_or_else(|| self.rewards.iter().sum::<f64>() / self.rewards.len() as f64)
    }

    /// Unbiased.
    fn standard_deviation(&self) -> f64 {
        if self.rewards.len() < 2 {
            return 1.0;
        }
        let mean = self.mean();
        let squares: f64 = self.rewards.iter().map(|r| (r - mean) * (r - mean)).sum();
        (squares / (self.rewards.len() - 1) as f64).sqrt()
    }

    fn length_weighted_mean(&self) -> f64 {
        let tokens: f64 = self.lengths.iter().sum();
        if self.rewards.len() < 2 || tokens == 0.0 {
            return 0.0;
        }
        common(&self.rewards).unwrap_or_else(|| {
            self.rewards.iter().zip(&self.lengths).map(|(r, n)| r * n).sum::<f64>() / tokens
        })
    }
}

/// The value that all entries share, if there is one.
fn common(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    values.iter().all(|&value| value == first).then_some(first)
}

/// Scales values to mean 0 and unbiased variance 1 over tokens; `tokens` has the number of tokens
/// that each value stands for. Fewer than two tokens, and values that are all equal, become 0.
pub(crate) fn whiten(values: &[f64], tokens: &[f64]) -> Vec<f64> {
    let all: f64 = tokens.iter().sum();
    if all < 2.0 || common(values).is_some() {
        return vec![0.0; values.len()];
    }
    let token_mean = |value: &dyn Fn(f64) -> f64| {
        let sum: f64 = values.iter().zip(tokens).map(|(&v, n)| value(v) * n).sum();
        sum / (all + WHITEN_EPSILON)
    };
    let mean = token_mean(&|v| v);
    let variance = token_mean(&|v| (v - mean) * (v - mean)) * all / (all - 1.0);
    let scale = 1.0 / (variance + WHITEN_EPSILON).sqrt();
    values.iter().map(|v| (v - mean) * scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(group: usize, reward: f64, tokens: usize) -> Outcome {
        Outcome { group, reward, tokens, greedy_reward: 0.25 }
    }

    fn by(advantage: Estimator, outcomes: &[Outcome]) -> Vec<f64> {
        advantages(&ObjectiveSettings { advantage, ..ObjectiveSettings::default() }, outcomes)
    }

    /// The two groups of SkyRL's own test, one that fails, one with penalties, one alone.
    #[test]
    fn maxrl_divides_by_the_mean_of_the_group() {
        let rewards = [6.0, 3.0, 9.0, 12.0, 0.0, 0.0, -0.5, 0.25, 0.75];
        let groups = [0, 0, 1, 1, 2, 2, 3, 3, 4];
        let outcomes: Vec<Outcome> =
            groups.iter().zip(rewards).map(|(&group, reward)| outcome(group, reward, 3)).collect();
        let expected = [1.5 / 4.500001, -1.5 / 4.500001, -1.5 / 10.500001, 1.5 / 10.500001];
        let ours = by(Estimator::MaxRl, &outcomes);
        for (ours, expected) in ours.iter().zip(expected) {
            assert!((ours - expected).abs() < 1e-12, "{ours} {expected}");
        }
        assert_eq!(ours[4..], [0.0, 0.0, 0.0, 0.0, 0.75]);
    }

    #[test]
    fn groups_may_be_interleaved() {
        let apart =
            [outcome(0, 1.0, 2), outcome(0, 0.0, 3), outcome(7, 0.5, 4), outcome(7, 0.0, 5)];
        let mixed = [apart[0], apart[2], apart[1], apart[3]];
        for estimator in Estimator::ALL {
            let (a, b) = (by(estimator, &apart), by(estimator, &mixed));
            for (x, y) in [(a[0], b[0]), (a[1], b[2]), (a[2], b[1]), (a[3], b[3])] {
                assert!((x - y).abs() < 1e-12, "{estimator:?}");
            }
        }
    }

    #[test]
    fn equal_rewards_have_no_advantage_whatever_they_are() {
        for reward in [0.1, 0.7, 1.0 / 3.0, -1e-3, 12345.678] {
            for count in 2..20 {
                let outcomes: Vec<Outcome> =
                    (0..count).map(|i| outcome(0, reward, 1 + 3 * i)).collect();
                for estimator in Estimator::ALL.into_iter().filter(|&e| e != Estimator::Remax) {
                    let result = by(estimator, &outcomes);
                    assert!(result.iter().all(|&a| a == 0.0), "{estimator:?} {reward} {result:?}");
                }
            }
        }
    }

    #[test]
    fn a_single_response_to_compare_draws_a_warning() {
        for estimator in Estimator::ALL {
            let none = matches!(
                estimator,
                Estimator::ReinforcePlusPlus | Estimator::Remax | Estimator::Distill
            );
            assert_eq!(estimator.warning(1).is_none(), none, "{estimator:?}");
            assert_eq!(estimator.warning(2), None, "{estimator:?}");
        }
    }

    #[test]
    fn degenerate_groups_give_finite_advantages() {
        for outcomes in [
            vec![],
            vec![outcome(0, 1.0, 0)],
            vec![outcome(0, 1.0, 1)],
            vec![outcome(0, 1.0, 0), outcome(0, 0.0, 0)],
            vec![outcome(0, 1.0, 3), outcome(1, 1.0, 4)],
        ] {
            for estimator in Estimator::ALL {
                let result = by(estimator, &outcomes);
                assert_eq!(result.len(), outcomes.len());
                assert!(
                    result.iter().all(|a| a.is_finite()),
                    "{estimator:?} {outcomes:?} {result:?}"
                );
            }
        }
        let alone = [outcome(0, 0.75, 3)];
        assert_eq!(by(Estimator::Grpo, &alone), [0.75 / (1.0 + 1e-6)]);
        assert_eq!(by(Estimator::Qae, &alone), [0.75 / (1.0 + 1e-6)]);
        assert_eq!(by(Estimator::Opo, &alone), [0.75]);
        assert_eq!(by(Estimator::Remax, &alone), [0.5]);
    }
}
