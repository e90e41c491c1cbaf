//! The measurements of a minibatch.

use crate::policy_loss::{Clipped, Term, ratio};
use crate::selection::{Covariances, Selection, count};
use Reduction::{Largest, Mean, ShareOfPicked, Sum};

/// Measurements of one optimizer minibatch. Means are over its tokens; an empty minibatch measures
/// 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Tokens of the minibatch.
    pub tokens: usize,
    /// The whole loss, all terms included.
    pub loss: f64,
    /// Share of tokens whose ratio was clipped from below, and silenced or bounded: with a negative
    /// advantage, but for the loss cispo, with any.
    pub clip_fraction_low: f64,
    /// Share of tokens whose ratio was clipped from above, likewise, with a positive advantage.
    pub clip_fraction_high: f64,
    /// Share of tokens that the dual clip bounded.
    pub dual_clip_fraction: f64,
    /// Mean of log pi_old - log pi, nats: estimates KL(pi_old || pi).
    pub kl_old: f64,
    /// Mean of |log pi - log pi_old|, nats; 0 exactly when the policy is the one that sampled.
    pub log_ratio_abs: f64,
    /// Largest ratio pi / pi_old of a token.
    pub ratio_max: f64,
    /// Mean covariance, nats.
    pub cov_mean: f64,
    /// Largest covariance, nats.
    pub cov_max: f64,
    /// 99th percentile of the covariances (linear interpolation), nats.
    pub cov_p99: f64,
    /// Mean covariance of the tokens in the top 0.02 %, 0.2 %, 2 %, 20 % and 50 % by covariance
    /// (rounded down, one token at least), nats: table 1 of arXiv:2505.22617.
    pub cov_top: [f64; 5],
    /// Tokens that the covariance method picked.
    pub cov_selected: usize,
    /// Tokens it picked from: for Clip-Cov those within the band that had a gradient, for KL-Cov
    /// all.
    pub cov_eligible: usize,
    /// How many of the picked tokens lie where, by log-prob (below its mean: low; else high) and
    /// advantage (below its mean: negative; else positive), in the order of [`QUADRANTS`].
    pub cov_quadrants: [usize; 4],
    /// KL-Cov: the share of its term in the gradient, sum |term| / (sum |term| + sum |all else|)
    /// over the derivatives by log-prob. Clip-Cov: the share taken away, sum |removed| / (sum
    /// |removed| + sum |kept|).
    pub cov_gradient_share: f64,
    /// Mean estimate of the KL divergence from the reference model, nats; absent without one.
    pub kl_reference: Option<f64>,
    /// Mean of the exact reverse KL to the teacher, nats; absent where it is no term of the loss.
    pub kl_teacher: Option<f64>,
    /// The load-balancing loss of a mixture of experts, without its weight; absent if it is off.
    pub router_balance: Option<f64>,
    /// Weight of the entropy bonus.
    pub entropy_coefficient: f64,
    /// The metric of each method that is on, the share of tokens that it touched; then the share
    /// that the entropy mask left out, and the metrics of their own that methods have.
    pub methods: Vec<(&'static str, f64)>,
    /// How much the methods changed the gradient by log-prob: sum |change| / (sum |change| + sum
    /// |gradient without them|); absent without methods.
    pub method_gradient_share: Option<f64>,
}

/// Names in metrics of the quadrants. Unlikely tokens of worse responses are the usual source of
/// large covariances; learning unlikely tokens of better responses raises entropy, and likely ones
/// lowers it.
pub const QUADRANTS: [&str; 4] = [
    "cov/quadrant_low_logprob_negative_advantage",
    "cov/quadrant_low_logprob_positive_advantage",
    "cov/quadrant_high_logprob_negative_advantage",
    "cov/quadrant_high_logprob_positive_advantage",
];

/// The fractions of [`Statistics::cov_top`].
const TOP_FRACTIONS: [f64; 5] = [2e-4, 2e-3, 2e-2, 0.2, 0.5];

/// Combines the measurements of several updates.
#[derive(Clone, Copy)]
enum Reduction {
    Mean,
    Sum,
    Largest,
    /// The sum as a share of the tokens that all updates have picked.
    ShareOfPicked,
}

impl Reduction {
    /// Combines the values of one or more updates, in order, which have picked `picked` tokens in
    /// all; nothing where the result would be a share of no tokens.
    fn combine(self, values: impl ExactSizeIterator<Item = f64>, picked: usize) -> Option<f64> {
        match self {
            Mean => Some(mean(values)),
            Sum => Some(values.sum()),
            Largest => values.reduce(larger),
            ShareOfPicked => (picked > 0).then(|| values.sum::<f64>() / picked as f64),
        }
    }
}

impl Statistics {
    /// Names and values of a step's metrics: counts are summed over the updates, largest values are
    /// the largest of all, shares are of the tokens that all updates picked, others are means over
    /// the updates. Left out are the KL without a reference, and shares where no token was picked.
    pub fn metrics(updates: &[Self]) -> Vec<(&'static str, f64)> {
        let picked = updates.iter().map(|update| update.cov_selected).sum();
        let updates: Vec<_> = updates.iter().map(Self::measurements).collect();
        let Some(first) = updates.first() else { return Vec::new() };
        let over_updates = |(i, &(name, reduction, _)): (usize, &(_, Reduction, _))| {
            Some((name, reduction.combine(updates.iter().map(|update| update[i].2), picked)?))
        };
        first.iter().enumerate().filter_map(over_updates).collect()
    }

    /// Every measurement by its name in metrics, and what several of them come to.
    fn measurements(&self) -> Vec<(&'static str, Reduction, f64)> {
        let mut all = vec![
            ("policy/loss", Mean, self.loss),
            ("policy/clip_fraction", Mean, self.clip_fraction()),
            ("policy/clip_fraction_low", Mean, self.clip_fraction_low),
            ("policy/clip_fraction_high", Mean, self.clip_fraction_high),
            ("policy/dual_clip_fraction", Mean, self.dual_clip_fraction),
            ("policy/kl_old", Mean, self.kl_old),
            ("policy/log_ratio_abs", Mean, self.log_ratio_abs),
            ("policy/ratio_max", Largest, self.ratio_max),
            ("cov/mean", Mean, self.cov_mean),
            ("cov/max", Largest, self.cov_max),
            ("cov/p99", Mean, self.cov_p99),
            ("cov/top_0.02_percent", Mean, self.cov_top[0]),
            ("cov/top_0.2_percent", Mean, self.cov_top[1]),
            ("cov/top_2_percent", Mean, self.cov_top[2]),
            ("cov/top_20_percent", Mean, self.cov_top[3]),
            ("cov/top_50_percent", Mean, self.cov_top[4]),
            ("cov/selected", Sum, self.cov_selected as f64),
            ("cov/eligible", Sum, self.cov_eligible as f64),
        ];
        let quadrants = QUADRANTS.into_iter().zip(self.cov_quadrants);
        all.extend(quadrants.map(|(name, count)| (name, ShareOfPicked, count as f64)));
        all.extend([
            ("cov/gradient_share", Mean, self.cov_gradient_share),
            ("entropy/bonus_coefficient", Mean, self.entropy_coefficient),
        ]);
        all.extend(self.router_balance.map(|loss| ("router/balance_loss", Mean, loss)));
        all.extend(self.kl_reference.map(|kl| ("kl/reference", Mean, kl)));
        all.extend(self.kl_teacher.map(|kl| ("kl/teacher", Mean, kl)));
        all.extend(self.methods.iter().map(|&(name, share)| (name, Mean, share)));
        all.extend(self.method_gradient_share.map(|share| ("method/gradient_share", Mean, share)));
        all
    }

    /// Adds a load-balancing loss, which the trainer measures, times its weight.
    pub fn add_router_balance(&mut self, coefficient: f64, loss: Option<f64>) {
        self.router_balance = loss;
        self.loss += coefficient * loss.unwrap_or(0.0);
    }

    /// Share of tokens whose ratio was clipped on either side; the dual clip is apart.
    pub fn clip_fraction(&self) -> f64 {
        self.clip_fraction_low + self.clip_fraction_high
    }

    pub(crate) fn measure_ratios(&mut self, log_ratios: &[f64], terms: &[Term]) {
        let share = |side| {
            mean(terms.iter().map(|term| if term.clipped == Some(side) { 1.0 } else { 0.0 }))
        };
        self.clip_fraction_low = share(Clipped::Low);
        self.clip_fraction_high = share(Clipped::High);
        self.dual_clip_fraction = share(Clipped::Dual);
        self.kl_old = mean(log_ratios.iter().map(|d| -d));
        self.log_ratio_abs = mean(log_ratios.iter().map(|d| d.abs()));
        self.ratio_max = log_ratios.iter().copied().reduce(larger).map_or(0.0, ratio);
    }

    pub(crate) fn measure_covariances(&mut self, scores: &Covariances, selection: &Selection) {
        let mut descending = scores.values.clone();
        descending.sort_unstable_by(|a, b| b.total_cmp(a));
        self.cov_mean = mean(scores.values.iter().copied());
        self.cov_max = descending.first().copied().unwrap_or(0.0);
        self.cov_p99 = upper_quantile(&descending, 0.01);
        self.cov_top = TOP_FRACTIONS
            .map(|fraction| mean(descending[..count(fraction, descending.len())].iter().copied()));
        self.cov_selected = selection.tokens.len();
        self.cov_eligible = selection.eligible;
        self.cov_quadrants = quadrants(scores, &selection.tokens);
    }
}

fn quadrants(scores: &Covariances, tokens: &[usize]) -> [usize; 4] {
    let mut quadrants = [0; 4];
    for &t in tokens {
        let is_low = usize::from(scores.centred_logprobs[t] < 0.0);
        let is_negative = usize::from(scores.centred_advantages[t] < 0.0);
        quadrants[3 - 2 * is_low - is_negative] += 1;
    }
    quadrants
}

/// The larger of two measurements, NaN if one of them is NaN, which `f64::max` would hide.
pub fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// part / (part + rest), 0 if there is neither.
pub(crate) fn share(part: f64, rest: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / (part + rest) }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len();
    if n == 0 { 0.0 } else { values.sum::<f64>() / n as f64 }
}

/// The value that this share of the values exceeds, interpolated linearly between neighbours; 0 of
/// none.
fn upper_quantile(descending: &[f64], share: f64) -> f64 {
    let Some(last) = descending.len().checked_sub(1) else { return 0.0 };
    let position = share * last as f64;
    let upper = position as usize;
    let lower = (upper + 1).min(last);
    descending[upper] + (descending[lower] - descending[upper]) * (position - upper as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_known_covariances() {
        // 0 to 999 in scrambled order.
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * 337 % 1000)).collect();
        let scores = Covariances {
            centred_logprobs: values.clone(),
            centred_advantages: values.clone(),
            values,
            mean_logprob: 0.0,
            mean_advantage: 0.0,
        };
        let mut statistics = Statistics::default();
        statistics.measure_covariances(&scores, &Selection::default());
        // The top 0.02 % round up to one token; then 2, 20, 200 and 500.
        assert_eq!(statistics.cov_top, [999.0, 998.5, 989.5, 899.5, 749.5]);
        assert_eq!((statistics.cov_mean, statistics.cov_max), (499.5, 999.0));
        assert!((statistics.cov_p99 - 989.01).abs() < 1e-9);
    }

    #[test]
    fn picked_tokens_are_counted_by_quadrant() {
        let scores = Covariances {
            values: vec![],
            centred_logprobs: vec![-1.0, -1.0, 1.0, 0.0, -2.0],
            centred_advantages: vec![-1.0, 1.0, -1.0, 0.0, -5.0],
            mean_logprob: 0.0,
            mean_advantage: 0.0,
        };
        assert_eq!(quadrants(&scores, &[0, 1, 3, 4]), [2, 1, 0, 1]);
        assert_eq!(quadrants(&scores, &[]), [0; 4]);
    }

    #[test]
    fn quadrants_are_shares_of_the_tokens_that_all_updates_have_picked() {
        let update = |low_negative, high_positive| Statistics {
            cov_selected: low_negative + high_positive,
            cov_quadrants: [low_negative, 0, 0, high_positive],
            ..Default::default()
        };
        let shares = |updates: &[Statistics]| -> Vec<f64> {
            let metrics = Statistics::metrics(updates).into_iter();
            metrics.filter(|(name, _)| QUADRANTS.contains(name)).map(|(_, share)| share).collect()
        };
        assert_eq!(shares(&[update(1, 0), update(0, 0), update(2, 5)]), [0.375, 0.0, 0.0, 0.625]);
        assert_eq!(shares(&[update(0, 0), update(0, 0)]), [0.0; 0], "nothing was picked");
    }

    #[test]
    fn metric_names_are_unique() {
        let update = Statistics {
            kl_reference: Some(0.5),
            kl_teacher: Some(0.25),
            cov_selected: 1,
            ..Default::default()
        };
        let metrics = Statistics::metrics(&[update]);
        let mut names: Vec<_> = metrics.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), metrics.len());
        assert!(metrics.contains(&("kl/reference", 0.5)));
    }

    #[test]
    fn updates_are_summed_by_their_counts_and_averaged_else() {
        let update = |x: f64| Statistics {
            loss: x,
            ratio_max: -x,
            cov_max: x,
            cov_selected: 3,
            cov_eligible: 7,
            ..Default::default()
        };
        let metrics = Statistics::metrics(&[update(1.0), update(-3.0), update(0.5)]);
        for (name, value) in [
            ("policy/loss", -0.5),
            ("policy/ratio_max", 3.0),
            ("cov/max", 1.0),
            ("cov/selected", 9.0),
            ("cov/eligible", 21.0),
        ] {
            assert!(metrics.contains(&(name, value)), "{name} is not {value} in {metrics:?}");
        }
        assert!(Statistics::metrics(&[]).is_empty());
        for updates in [[update(f64::NAN), update(2.0)], [update(2.0), update(f64::NAN)]] {
            for (name, value) in Statistics::metrics(&updates) {
                let is_measured = ["policy/loss", "policy/ratio_max", "cov/max"].contains(&name);
                assert_eq!(value.is_nan(), is_measured, "{name}: {value}");
            }
        }
    }

    #[test]
    fn the_largest_ratio_is_no_number_if_one_of_them_is_none() {
        let largest = |log_ratios: &[f64]| {
            let mut statistics = Statistics::default();
            statistics.measure_ratios(log_ratios, &[]);
            statistics.ratio_max
        };
        assert_eq!((largest(&[-1.0, 0.0]), largest(&[])), (1.0, 0.0));
        assert!(largest(&[-1.0, f64::NAN, 0.0]).is_nan());
    }
}
