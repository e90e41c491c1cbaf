//! Measures of a run: one number for each course that it has recorded.

use super::section::Section;
use crate::law::Form;
use crate::log::{RunLog, Series, SetMetric, of_set};
use serde::Serialize;
use std::collections::HashSet;

/// A number of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Measure {
    /// The metric that it is taken from (docs/reference/metrics.md); numbers of the law have the
    /// accuracy of their set.
    pub metric: String,
    /// How.
    pub taken: Taken,
    /// Its table.
    pub section: Section,
}

/// How a number is taken from the course of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Taken {
    /// The value at the run's last step; the last value where no recipe tells which step that is.
    End,
    /// The largest value.
    Best,
    /// The mean over the last tenth of the steps, for metrics that every step measures with noise.
    LastTenth,
    /// The area under the curve over the number of steps, by the trapezoidal rule: the mean over
    /// the run.
    Mean,
    /// The end less the value before the first step.
    Change,
    /// How an entropy is held at its target.
    Held(Held),
    /// An accuracy where the entropy of its set first falls to this.
    AtEntropy(Nats),
    /// The share of an entropy's fall, or of an accuracy's gain, by so many twelfths of the run.
    ByTwelfth(u32),
    /// A number of the law R = -a exp(H) + b, as fitted to all evaluations of the run.
    Law(LawNumber),
    /// Errors of forms that are fitted to the first so many percent of the evaluations.
    Predicted(u8, PredictionNumber),
}

/// How an entropy H is held at its target H*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// Mean |ln(H / H*)| over the last half of the run.
    Error,
    /// Share of the steps there at which it is below 0.1.
    Share,
    /// The first step at which H is within 10 % of H*.
    Reached,
    /// The least of H / H* from there on.
    Least,
    /// Share of the last half's steps at which the steered metric is at a bound.
    AtBound,
}

/// An entropy in nats, to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nats(u64);

impl Nats {
    /// None if it is not above 0.
    pub fn of(entropy: f64) -> Option<Self> {
        let rounded: f64 = format!("{entropy:.2e}").parse().ok()?;
        (rounded.is_finite() && rounded > 0.0).then(|| Self(rounded.to_bits()))
    }

    /// In nats.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// A number of a prediction of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredictionNumber {
    /// How far a form is off at the last evaluation, whatever the direction.
    ErrorAtEnd(Form),
    /// How much farther the law is off there than another form.
    ErrorOver(Form),
    /// Root of the mean squared error of a form over the rest.
    Rmse(Form),
}

/// A number of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LawNumber {
    /// a, of runs where the law holds.
    A,
    /// b, likewise.
    B,
    /// b - a, likewise.
    Ceiling,
    /// Share of the accuracies' variance that a form explains, whether the law holds or not.
    RSquared(Form),
    /// How much more of it the law explains than the line in H.
    RSquaredOverLine,
    /// 1 of a run whose law is refused, 0 of the others.
    Refused,
}

impl Measure {
    /// The factor of shown numbers, and their digits after the point.
    pub(super) fn scale(&self) -> (f64, usize) {
        match self.taken {
            Taken::ByTwelfth(_) | Taken::Held(Held::Share | Held::AtBound) => return (100.0, 1),
            Taken::Held(Held::Reached) => return (1.0, 1),
            Taken::Held(Held::Error | Held::Least) => return (1.0, 3),
            Taken::Law(LawNumber::Ceiling) | Taken::Predicted(..) | Taken::Change
                if self.is_of_shares() =>
            {
                return (100.0, 2);
            }
            Taken::Law(LawNumber::Refused) => return (1.0, 0),
            Taken::Law(_) => return (1.0, 3),
            _ => {}
        }
        match self.name() {
            _ if self.is_of_shares() => (100.0, 2),
            name if name.starts_with("length") => (1.0, 1),
            _ => (1.0, 4),
        }
    }

    /// The least and the greatest that its numbers, and so their mean, can be; infinite if there is
    /// no bound.
    pub(super) fn range(&self) -> [f64; 2] {
        const ANY: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];
        const FROM_0: [f64; 2] = [0.0, f64::INFINITY];
        const SHARE: [f64; 2] = [0.0, 1.0];
        const SHARES_APART: [f64; 2] = [-1.0, 1.0];
        match self.taken {
            Taken::Held(Held::Share | Held::AtBound) | Taken::Law(LawNumber::RSquared(_)) => SHARE,
            Taken::Law(LawNumber::RSquaredOverLine) => SHARES_APART,
            Taken::Change if self.is_of_shares() => SHARES_APART,
            Taken::Held(Held::Error | Held::Reached | Held::Least) => FROM_0,
            Taken::Predicted(_, PredictionNumber::ErrorAtEnd(_) | PredictionNumber::Rmse(_)) => {
                FROM_0
            }
            // Entropy may have fallen further by a twelfth than it has in the end.
            Taken::Change | Taken::ByTwelfth(_) | Taken::Law(_) | Taken::Predicted(..) => ANY,
            Taken::End | Taken::Best | Taken::LastTenth | Taken::Mean | Taken::AtEntropy(_) => {
                match self.name() {
                    _ if self.is_of_shares() => SHARE,
                    // A policy's loss and the theory's changes have a sign.
                    _ if ["policy/loss", "theory/"]
                        .iter()
                        .any(|of| self.metric.starts_with(of)) =>
                    {
                        ANY
                    }
                    name if ["entropy", "length", "loss"].iter().any(|of| name.starts_with(of)) => {
                        FROM_0
                    }
                    _ => ANY,
                }
            }
        }
    }

    /// Whether a number of a run is a difference already, which is shown with its sign.
    pub(super) fn is_difference(&self) -> bool {
        let is_over = matches!(self.taken, Taken::Predicted(_, PredictionNumber::ErrorOver(_)));
        is_over || matches!(self.taken, Taken::Change | Taken::Law(LawNumber::RSquaredOverLine))
    }

    /// Whether each run's number is one of a count.
    pub(super) fn is_count(&self) -> bool {
        self.taken == Taken::Law(LawNumber::Refused)
    }

    /// Whether groups are compared by it with a test: it is for the main effects, which all runs
    /// have. It is not for best values, numbers of only some runs, parts, and checks.
    pub(super) fn is_compared(&self) -> bool {
        match self.section {
            Section::Main => self.taken != Taken::Best,
            Section::Held => !matches!(self.taken, Taken::Held(Held::Reached | Held::Least)),
            _ => false,
        }
    }

    /// Whether its numbers are compared as ratios too, of all metrics that there are: above 0, and
    /// spread evenly on a logarithmic scale, as entropies of sets at their first temperature are.
    pub(super) fn has_ratio(&self, all: &HashSet<&str>) -> bool {
        let is_entropy = self.taken == Taken::End && self.section == Section::Main;
        let set =
            SetMetric::of(&self.metric).filter(|metric| is_entropy && metric.what == "entropy");
        // The set `test` is `test_t0.6` at a further temperature.
        let first = |set: &str| {
            let (set, temperature) = set.rsplit_once("_t")?;
            temperature.parse::<f64>().ok()?;
            Some(of_set(set, "entropy"))
        };
        set.is_some_and(|metric| first(metric.set).is_none_or(|first| !all.contains(&*first)))
    }

    fn is_of_shares(&self) -> bool {
        let shares = ["mean@", "pass@", "maj@", "mean_of_sets", "truncated"];
        shares.iter().any(|share| self.name().starts_with(share))
    }

    fn name(&self) -> &str {
        self.metric.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it belongs in a short table: the rest are parts and checks of these.
    pub fn is_main(&self) -> bool {
        let is_part = self.metric.ends_with("_numbers") || self.metric.ends_with("/truncated");
        match self.taken {
            _ if self.section != Section::Main => false,
            Taken::LastTenth => self.metric == "sft/loss",
            _ => !is_part,
        }
    }

    /// The run's number, if it has recorded the metric; none of measures that take more than one
    /// metric. `end` is the run's last step, if known.
    pub(super) fn of(&self, log: &RunLog, end: Option<u64>) -> Option<f64> {
        let series = log.series(&self.metric)?;
        match self.taken {
            Taken::End => at_end(series, end).map(|(_, value)| value),
            Taken::Best => series.values.iter().copied().reduce(f64::max),
            Taken::LastTenth => last_tenth(series, log.last_step()?),
            Taken::Mean => area(series),
            Taken::Change => {
                let (_, last) = at_end(series, end).filter(|(step, _)| *step > 0)?;
                Some(last - series.at(0)?)
            }
            Taken::Held(_)
            | Taken::AtEntropy(_)
            | Taken::ByTwelfth(_)
            | Taken::Law(_)
            | Taken::Predicted(..) => None,
        }
    }
}

/// The least and the greatest that a metric's numbers can be; infinite if there is no bound.
pub(crate) fn range_of(metric: &str) -> [f64; 2] {
    Measure { metric: metric.to_owned(), taken: Taken::End, section: Section::Main }.range()
}

/// The accuracies of a run's sets, parts left out: every mean@k, then pass@k and maj@k of the
/// largest k.
pub(super) fn accuracies(log: &RunLog) -> Vec<String> {
    log.evaluation_sets().into_iter().flat_map(|set| accuracies_of(log, set)).collect()
}

fn accuracies_of(log: &RunLog, set: &str) -> Vec<String> {
    let names = |prefix: &str| -> Vec<String> {
        log.beginning(&of_set(set, prefix)).into_iter().map(str::to_owned).collect()
    };
    let k = |name: &String| name.rsplit('@').next().and_then(|k| k.parse::<u64>().ok());
    // With one response, pass@k and maj@k are mean@k again.
    let largest =
        |prefix: &&str| names(prefix).into_iter().filter(|name| k(name) > Some(1)).max_by_key(k);
    names("mean@").into_iter().chain(["pass@", "maj@"].iter().filter_map(largest)).collect()
}

/// All measures that a run has as the course of one metric, the most important first. `end` is as
/// in [`Measure::of`].
pub(super) fn measures(log: &RunLog, end: Option<u64>) -> Vec<Measure> {
    let mut all = Vec::new();
    let mut add = |metric: &str, taken| {
        if log.series(metric).is_some_and(|series| !series.values.is_empty()) {
            all.push(Measure { metric: metric.to_owned(), taken, section: Section::Main });
        }
    };
    add("eval/mean_of_sets", Taken::End);
    add("eval/mean_of_sets", Taken::Best);
    for set in log.evaluation_sets() {
        for name in accuracies_of(log, set) {
            add(&name, Taken::End);
            // Problems of one size need no best value.
            if name.contains("/mean@") && !name.ends_with("_numbers") {
                add(&name, Taken::Best);
            }
        }
        for name in ["entropy", "length_mean", "truncated"] {
            add(&of_set(set, name), Taken::End);
        }
    }
    add("eval/loss", Taken::End);
    add("policy/entropy", Taken::LastTenth);
    add("policy/entropy", Taken::Mean);
    for name in ["reward/mean", "response/length_mean", "sft/loss"] {
        add(name, Taken::LastTenth);
    }
    let parts = log.parts();
    let best = log.accuracies();
    let of_parts = parts.keys().filter_map(|set| best.get(set));
    all.extend(of_parts.map(|accuracy| Measure {
        metric: of_set(accuracy.set, accuracy.what),
        taken: Taken::End,
        section: Section::Parts,
    }));
    let changes = accuracies(log).into_iter().map(|metric| Measure {
        metric,
        taken: Taken::Change,
        section: Section::Change,
    });
    all.extend(changes.filter(|change| change.of(log, end).is_some()));
    all
}

/// The last value and its step; none where the run has gone on after it, since an older value is
/// not the end.
fn at_end(series: &Series, end: Option<u64>) -> Option<(u64, f64)> {
    series.last().filter(|(step, _)| end.is_none_or(|end| *step == end))
}

fn last_tenth(series: &Series, last: u64) -> Option<f64> {
    let first = last - last / 10;
    let values: Vec<f64> =
        series.iter().filter(|(step, _)| *step > first || *step == last).map(|(_, v)| v).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn area(series: &Series) -> Option<f64> {
    let (first, last) = (series.steps.first()?, series.steps.last()?);
    if first == last {
        return series.values.first().copied();
    }
    let points: Vec<(u64, f64)> = series.iter().collect();
    let area: f64 =
        points.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 0.5 * (w[0].1 + w[1].1)).sum();
    Some(area / (last - first) as f64)
}
