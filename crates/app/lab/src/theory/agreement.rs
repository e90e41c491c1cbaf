//! Measures how well the theory predicts the entropy of a run, from the `theory/*` metrics of its
//! log.

use crate::log::{RunLog, Series};
use crate::{Error, Result};
use serde::Serialize;

/// A number that should predict the change of entropy in a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Its name.
    pub name: &'static str,
    /// The metric that has the prediction.
    pub metric: &'static str,
    /// The factor of the metric: -1 for a covariance, by which the entropy falls.
    pub sign: f64,
    /// The metric of the predicted change, averaged in the same way.
    pub change: &'static str,
}

/// Fewest steps for which a correlation means something.
const FEWEST: usize = 3;

/// Share of a sum of squares that may be rounding.
const ROUNDING: f64 = 1e-24;

const OF_RESPONSES: &str = "theory/entropy_change";
const OF_TOKENS: &str = "theory/entropy_change_token_mean";

/// The predictions that a tracked run measures.
const PREDICTIONS: [Prediction; 4] = [
    Prediction {
        name: "-Cov(log pi, pi A) in groups",
        metric: "theory/group_covariance",
        sign: -1.0,
        change: OF_RESPONSES,
    },
    Prediction {
        name: "-Cov(log pi, A) over tokens",
        metric: "theory/token_covariance",
        sign: -1.0,
        change: OF_TOKENS,
    },
    Prediction {
        name: "-Cov(log pi, pi A) over tokens",
        metric: "theory/token_covariance_pi",
        sign: -1.0,
        change: OF_TOKENS,
    },
    Prediction {
        name: "exact, token by token",
        metric: "theory/exact",
        sign: 1.0,
        change: OF_TOKENS,
    },
];

/// The null of each change.
const UNVARYING: [(&str, &str); 2] =
    [("the same at each step", OF_RESPONSES), ("the same at each step, tokens", OF_TOKENS)];

/// The agreement of predictions p with measured changes c over the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Steps where both were measured.
    pub steps: usize,
    /// Pearson's correlation; none if either never varies, or with fewer than three steps, because
    /// any two correlate.
    pub correlation: Option<f64>,
    /// The correlation's 95 % interval by Fisher's z, as if steps were independent; none for fewer
    /// than four steps.
    pub correlation_interval: Option<[f64; 2]>,
    /// Share of the steps with the same sign of both, among steps with neither 0; none if there are
    /// no such steps.
    pub same_sign: Option<f64>,
    /// k of the nearest c = k p, without a constant, as the theory has none: sum of p c over sum of
    /// p p; none if all p are 0.
    pub slope: Option<f64>,
    /// Share of the sum of c c that k p accounts for. The sum is about 0, not about the mean, so a
    /// constant accounts for much of it too: compare [`TheoryOfRun::unvarying`]. None without a
    /// slope, without changes, or with fewer than three steps.
    pub explained: Option<f64>,
}

/// The theory's predictions on a run, compared with its entropy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TheoryOfRun {
    /// The run's name.
    pub run: String,
    /// Steps that were tracked.
    pub steps: usize,
    /// The total change of entropy over the steps, in nats, mean over responses. Each step measures
    /// its own responses, so this need not be the difference between the last and the first
    /// entropy.
    pub entropy_change: f64,
    /// In the order of the metrics.
    pub predictions: Vec<(Prediction, Agreement)>,
    /// The null hypothesis for both averages: the same change at every step.
    pub unvarying: Vec<(&'static str, Agreement)>,
}

impl Agreement {
    /// The agreement of (prediction, change) pairs.
    pub fn of(pairs: &[[f64; 2]]) -> Self {
        let count = pairs.len() as f64;
        let mean = |i: usize| pairs.iter().map(|pair| pair[i]).sum::<f64>() / count;
        let means = [mean(0), mean(1)];
        let centred = |i: usize, j: usize| {
            pairs.iter().map(|p| (p[i] - means[i]) * (p[j] - means[j])).sum::<f64>()
        };
        let product = |i: usize, j: usize| pairs.iter().map(|pair| pair[i] * pair[j]).sum::<f64>();
        let varying = |sum: f64| (sum > 0.0).then_some(sum);
        // A constant leaves nothing but rounding.
        let varies = |i: usize| centred(i, i) > ROUNDING * product(i, i);
        let enough = pairs.len() >= FEWEST;
        let signed: Vec<bool> = pairs
            .iter()
            .filter(|pair| pair.iter().all(|x| *x != 0.0))
            .map(|[p, c]| (*p > 0.0) == (*c > 0.0))
            .collect();
        let slope = varying(product(0, 0)).map(|squares| product(0, 1) / squares);
        let left = |k: f64| pairs.iter().map(|[p, c]| (c - k * p) * (c - k * p)).sum::<f64>();
        let correlation = varying(centred(0, 0) * centred(1, 1))
            .filter(|_| enough && varies(0) && varies(1))
            .map(|squares| (centred(0, 1) / squares.sqrt()).clamp(-1.0, 1.0));
        Self {
            steps: pairs.len(),
            correlation,
            correlation_interval: correlation.filter(|_| pairs.len() > FEWEST).map(|r| {
                let half = 1.96 / (count - 3.0).sqrt();
                [-half, half].map(|away| libm::tanh(libm::atanh(r) + away))
            }),
            same_sign: (!signed.is_empty())
                .then(|| signed.iter().filter(|same| **same).count() as f64 / signed.len() as f64),
            slope,
            explained: slope
                .zip(varying(product(1, 1)))
                .filter(|_| enough)
                .map(|(k, all)| 1.0 - left(k) / all),
        }
    }
}

impl TheoryOfRun {
    /// The theory of a run; none if it has not tracked it.
    pub fn of(log: &RunLog) -> Option<Self> {
        let changes = log.series(OF_RESPONSES).filter(|series| !series.steps.is_empty())?;
        let predictions = PREDICTIONS.iter().filter_map(|prediction| {
            let (predicted, change) =
                (log.series(prediction.metric)?, log.series(prediction.change)?);
            let pairs: Vec<[f64; 2]> = predicted
                .iter()
                .filter_map(|(step, value)| Some([prediction.sign * value, change.at(step)?]))
                .collect();
            Some((*prediction, Agreement::of(&pairs)))
        });
        Some(Self {
            run: log.name.clone(),
            steps: changes.steps.len(),
            entropy_change: changes.values.iter().sum(),
            predictions: predictions.collect(),
            unvarying: UNVARYING
                .iter()
                .filter_map(|(name, of)| Some((*name, unvarying(log.series(of)?))))
                .collect(),
        })
    }

    /// Like [`of`](Self::of), for a log that must have it.
    ///
    /// # Errors
    /// Says how a run comes to have it.
    pub fn require(log: &RunLog) -> Result<Self> {
        Self::of(log).ok_or_else(|| {
            Error::Refused(format!(
                "{}: the run has not measured theory/entropy_change at any step; train with --set \
                 lab.track_theory=true",
                log.path.display()
            ))
        })
    }
}

/// The mean change as the prediction of every step.
fn unvarying(changes: &Series) -> Agreement {
    let mean = changes.values.iter().sum::<f64>() / changes.values.len() as f64;
    let pairs: Vec<[f64; 2]> = changes.values.iter().map(|change| [mean, *change]).collect();
    Agreement::of(&pairs)
}
