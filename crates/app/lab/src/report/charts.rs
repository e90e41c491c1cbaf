//! The charts and their metrics. A chart is on the page if a run has one of its metrics.

use crate::log::names::Pair;

/// The unit of a chart's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A share from 0 to 1, shown as a percentage.
    Share,
    /// Anything else, by its name.
    Named(&'static str),
}

/// Metrics of one unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChartSpec {
    /// The chart's anchor in the page's address.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// How to read the chart, as a sentence.
    pub reading: &'static str,
    /// Metrics and their names in legends. `<set>` and `<k>`, a whole number, stand for the same text
    /// in both.
    pub lines: &'static [Pair],
}

const NATS: Unit = Unit::Named("nats");
const TOKENS: Unit = Unit::Named("tokens");

/// All charts, in the order of the page.
pub(super) const CHARTS: &[ChartSpec] = &[
    ChartSpec {
        id: "entropy",
        title: "Entropy while sampling",
        unit: NATS,
        reading: "What exploration is left. Where the curve has come down to the floor, the policy \
                  gives nearly the same answers again and again, and little more will be learnt.",
        lines: &[
            ("policy/entropy", "all responses"),
            ("policy/entropy_filtered", "groups trained on"),
            ("policy/entropy_token_mean", "all responses, mean over tokens"),
            ("policy/entropy_token_mean_filtered", "trained on, mean over tokens"),
            ("entropy/target", "target"),
            ("sft/entropy", "examples"),
        ],
    },
    ChartSpec {
        id: "entropy-of-turns",
        title: "Entropy of turns",
        unit: NATS,
        reading: "Mean over the tokens that the model sampled in its first, second, ... turn, over \
                  the responses that have such a turn.",
        lines: &[("policy/entropy_turn_<k>", "turn <k>")],
    },
    ChartSpec {
        id: "eval-entropy",
        title: "Entropy in evaluations",
        unit: NATS,
        reading: "The same on problems that are not trained on, at the temperature of the \
                  evaluation.",
        lines: &[
            ("eval/<set>/entropy", "<set>"),
            (
                "eval/<set>/entropy_initial_states",
                "<set>, in the states from before the first step",
            ),
        ],
    },
    ChartSpec {
        id: "accuracy",
        title: "Accuracy in evaluations",
        unit: Unit::Share,
        reading: "Mean over problems of the share of correct responses. What was bought with the \
                  entropy.",
        lines: &[
            ("eval/<set>/mean@<k>", "<set> mean@<k>"),
            ("eval/mean_of_sets", "mean of the sets"),
        ],
    },
    ChartSpec {
        id: "accuracy-of-several",
        title: "Accuracy of several responses",
        unit: Unit::Share,
        reading: "pass@k: one of k responses is correct. maj@k: the most frequent answer is. Where \
                  mean@k rises and pass@k does not, the policy has only become surer of what it \
                  could do before.",
        lines: &[
            ("eval/<set>/pass@<k>", "<set> pass@<k>"),
            ("eval/<set>/maj@<k>", "<set> maj@<k>"),
        ],
    },
    ChartSpec {
        id: "reward",
        title: "Reward",
        unit: Unit::Named("reward"),
        reading: "Of the responses sampled for training. It follows the difficulty of each step's \
                  prompts, so it jumps more than the accuracy of evaluations.",
        lines: &[
            ("reward/mean", "reward"),
            ("reward/score", "score, without penalty"),
            ("reward/part_<k>", "part <k>"),
            ("eval/<set>/score", "score on <set>"),
        ],
    },
    ChartSpec {
        id: "signal",
        title: "Prompts without a signal",
        unit: Unit::Share,
        reading: "Prompts whose responses are all right or all wrong say nothing about which is \
                  better. When these two come to most prompts, the step learns from few.",
        lines: &[
            ("reward/solved_all", "solved by all responses"),
            ("reward/solved_none", "solved by none"),
        ],
    },
    ChartSpec {
        id: "verdicts",
        title: "Verdicts",
        unit: Unit::Share,
        reading: "What became of the sampled responses.",
        lines: &[
            ("verdict/correct", "correct"),
            ("verdict/wrong", "wrong"),
            ("verdict/unparseable", "without an answer"),
            ("verdict/timed_out", "timed out"),
            ("verdict/fault", "could not be judged"),
        ],
    },
    ChartSpec {
        id: "length",
        title: "Length of responses",
        unit: TOKENS,
        reading: "A length that creeps up to the limit while accuracy stands still is a warning.",
        lines: &[
            ("response/length_mean", "mean"),
            ("response/length_max", "longest"),
            ("eval/<set>/length_mean", "mean on <set>"),
        ],
    },
    ChartSpec {
        id: "truncated",
        title: "Truncated responses",
        unit: Unit::Share,
        reading: "Cut off at the longest length. They seldom hold an answer.",
        lines: &[
            ("response/truncated", "while sampling"),
            ("response/out_of_turns", "of these, at the last turn"),
            ("eval/<set>/truncated", "on <set>"),
        ],
    },
    ChartSpec {
        id: "covariance",
        title: "Distribution of the covariance",
        unit: NATS,
        reading: "Covariance of log-prob and advantage by token: the mean says how fast entropy \
                  falls. A few tokens of the upper end drive most of it (the paper's table 1), and \
                  these are what Clip-Cov and KL-Cov hold back.",
        lines: &[
            ("cov/p99", "99th percentile"),
            ("cov/max", "largest"),
            ("cov/top_0.02_percent", "mean of the top 0.02\u{a0}%"),
            ("cov/top_0.2_percent", "mean of the top 0.2\u{a0}%"),
            ("cov/top_2_percent", "mean of the top 2\u{a0}%"),
            ("cov/top_20_percent", "mean of the top 20\u{a0}%"),
            ("cov/top_50_percent", "mean of the top 50\u{a0}%"),
        ],
    },
    ChartSpec {
        id: "covariance-mean",
        title: "Mean covariance",
        unit: NATS,
        reading: "Above 0, likely tokens are rewarded more than unlikely ones, and entropy falls.",
        lines: &[("cov/mean", "mean over tokens")],
    },
    ChartSpec {
        id: "picked",
        title: "Tokens that the covariance method picked",
        unit: TOKENS,
        reading: "Per step, of how many it could pick from.",
        lines: &[("cov/selected", "picked"), ("cov/eligible", "to pick from")],
    },
    ChartSpec {
        id: "quadrants",
        title: "Who was picked",
        unit: Unit::Share,
        reading: "Shares of the picked tokens: unlikely or likely under the policy, in worse or \
                  better responses.",
        lines: &[
            ("cov/quadrant_low_logprob_negative_advantage", "unlikely, worse"),
            ("cov/quadrant_low_logprob_positive_advantage", "unlikely, better"),
            ("cov/quadrant_high_logprob_negative_advantage", "likely, worse"),
            ("cov/quadrant_high_logprob_positive_advantage", "likely, better"),
        ],
    },
    ChartSpec {
        id: "gradient-share",
        title: "Share of the covariance term in the gradient",
        unit: Unit::Share,
        reading: "How much the method weighs; for Clip-Cov, how much it takes away.",
        lines: &[("cov/gradient_share", "share")],
    },
    ChartSpec {
        id: "clip",
        title: "Clipped tokens",
        unit: Unit::Share,
        reading: "Tokens whose gradient the clipping of the ratio takes. Above some percent, the \
                  updates of a rollout go further than it supports.",
        lines: &[
            ("policy/clip_fraction", "all"),
            ("policy/clip_fraction_low", "ratio too low"),
            ("policy/clip_fraction_high", "ratio too high"),
            ("policy/dual_clip_fraction", "dual clip"),
        ],
    },
    ChartSpec {
        id: "kl",
        title: "KL divergence",
        unit: NATS,
        reading: "How far the updates of a step move the policy from the one that sampled, and \
                  training from the reference model. The first is an estimate from the sampled \
                  tokens alone, which may be below 0.",
        lines: &[
            ("policy/kl_old", "KL from the sampling policy, an estimate"),
            ("policy/log_ratio_abs", "mean |log ratio|"),
            ("kl/reference", "KL from the reference model"),
        ],
    },
    ChartSpec {
        id: "gradient",
        title: "Gradient norm",
        unit: Unit::Named("norm"),
        reading: "Before clipping. Spikes that come more often or grow announce a run that breaks.",
        lines: &[("grad/norm", "mean of the updates"), ("grad/norm_max", "largest of the updates")],
    },
    ChartSpec {
        id: "loss",
        title: "Loss",
        unit: Unit::Named("loss"),
        reading: "In reinforcement learning it says little of progress; cross-entropy of \
                  fine-tuning does.",
        lines: &[
            ("policy/loss", "policy"),
            ("sft/loss", "examples"),
            ("eval/loss", "held-out examples"),
        ],
    },
    ChartSpec {
        id: "throughput",
        title: "Throughput",
        unit: Unit::Named("tokens per second"),
        reading: "Sampling, and passing forward and backward. Sampling that slows down as lengths \
                  stay is worth a look at the machine.",
        lines: &[
            ("throughput/rollout_tokens_per_s", "sampling"),
            ("throughput/update_tokens_per_s", "update"),
        ],
    },
    ChartSpec {
        id: "time",
        title: "Time of a step",
        unit: Unit::Named("seconds"),
        reading: "Where the time goes; evaluations are in the steps that have them.",
        lines: &[
            ("time/step_s", "whole step"),
            ("time/rollout_s", "sampling and judging"),
            ("time/verify_s", "of this, waiting for verdicts"),
            ("time/reference_s", "reference model"),
            ("time/update_s", "passes"),
            ("time/objective_s", "of this, the objective"),
            ("time/optimizer_s", "optimizer"),
            ("time/data_s", "data"),
            ("time/eval_s", "evaluation"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_metric_is_declared_twice_and_no_place_either() {
        let mut ids: Vec<&str> = CHARTS.iter().map(|chart| chart.id).collect();
        let mut metrics: Vec<&str> =
            CHARTS.iter().flat_map(|chart| chart.lines).map(|line| line.0).collect();
        for names in [&mut ids, &mut metrics] {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}
