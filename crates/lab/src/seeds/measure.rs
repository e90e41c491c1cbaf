//! What is compared of a run: one number for each course that it has recorded.

use crate::log::{RunLog, Series};
use serde::Serialize;

/// A number of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// The metric that it is taken from (docs/metrics.md).
    pub metric: String,
    /// How.
    pub taken: Taken,
}

/// How a number is taken from the course of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// The last value.
    End,
    /// The largest value.
    Best,
    /// The mean over the last tenth of the steps, for what every step measures with noise.
    LastTenth,
    /// The area under the curve over the number of steps, by the trapezoidal rule: the mean over the run.
    Mean,
}

impl Measure {
    /// What it is called: `countdown: pass@8 at the end, %`.
    pub fn title(&self) -> String {
        let name = match self.metric.strip_prefix("eval/").and_then(|rest| rest.rsplit_once('/')) {
            Some((set, name)) => format!("{set}: {name}"),
            None => self.metric.clone(),
        };
        let taken = match self.taken {
            Taken::End => "at the end",
            Taken::Best => "at its best",
            Taken::LastTenth => "over the last tenth of the steps",
            Taken::Mean => "over all steps (area / steps)",
        };
        format!("{name} {taken}{}", self.unit())
    }

    fn unit(&self) -> &'static str {
        match self.scale() {
            (s, _) if s > 1.0 => ", %",
            _ if self.metric.contains("entropy") || self.metric.ends_with("loss") => ", nats",
            _ if self.metric.contains("length") => ", tokens",
            _ => "",
        }
    }

    /// What its numbers are multiplied by to be shown, and with how many digits after the point.
    pub(super) fn scale(&self) -> (f64, usize) {
        match self.name() {
            _ if self.is_share() => (100.0, 2),
            name if name.starts_with("length") => (1.0, 1),
            _ => (1.0, 4),
        }
    }

    /// Whether its numbers lie between 0 and 1.
    pub(super) fn is_share(&self) -> bool {
        let shares = ["mean@", "pass@", "maj@", "mean_of_sets", "truncated"];
        shares.iter().any(|share| self.name().starts_with(share))
    }

    fn name(&self) -> &str {
        self.metric.rsplit('/').next().unwrap_or_default()
    }

    /// Of how many values a run's number is the best, if it is.
    pub(super) fn chosen_from(&self, log: &RunLog) -> Option<usize> {
        (self.taken == Taken::Best).then(|| log.series(&self.metric).map_or(0, |series| series.values.len()))
    }

    /// Whether it belongs in a short table: the rest are parts and checks of these.
    pub fn is_main(&self) -> bool {
        let is_part = self.metric.ends_with("_numbers") || self.metric.ends_with("/truncated");
        match self.taken {
            Taken::LastTenth => self.metric == "sft/loss",
            _ => !is_part,
        }
    }

    /// The run's number, if it has recorded the metric.
    pub fn of(&self, log: &RunLog) -> Option<f64> {
        let series = log.series(&self.metric)?;
        match self.taken {
            Taken::End => series.last().map(|(_, value)| value),
            Taken::Best => series.values.iter().copied().reduce(f64::max),
            Taken::LastTenth => last_tenth(series, log.last_step()?),
            Taken::Mean => area(series),
        }
    }
}

/// All measures that a run has, the most important first.
pub fn measures(log: &RunLog) -> Vec<Measure> {
    let mut all = Vec::new();
    let mut add = |metric: &str, taken| {
        if log.series(metric).is_some_and(|series| !series.values.is_empty()) {
            all.push(Measure { metric: metric.to_owned(), taken });
        }
    };
    add("eval/mean_of_sets", Taken::End);
    add("eval/mean_of_sets", Taken::Best);
    for set in log.evaluation_sets() {
        let of_set = |name: &str| format!("eval/{set}/{name}");
        let names = |prefix: &str| -> Vec<String> {
            let prefix = of_set(prefix);
            log.all()
                .map(|(name, _)| name)
                .filter(|name| name.starts_with(&prefix))
                .map(str::to_owned)
                .collect()
        };
        for name in names("mean@") {
            add(&name, Taken::End);
            // Of problems of one size, the end is enough.
            if !name.ends_with("_numbers") {
                add(&name, Taken::Best);
            }
        }
        // Of one response, pass@k and maj@k are mean@k again.
        for prefix in ["pass@", "maj@"] {
            let k = |name: &String| name.rsplit('@').next().and_then(|k| k.parse::<u64>().ok());
            if let Some(largest) =
                names(prefix).iter().max_by_key(|name| k(name)).filter(|name| k(name) > Some(1))
            {
                add(largest, Taken::End);
            }
        }
        for name in ["entropy", "length_mean", "truncated"] {
            add(&of_set(name), Taken::End);
        }
    }
    add("eval/loss", Taken::End);
    add("policy/entropy", Taken::LastTenth);
    add("policy/entropy", Taken::Mean);
    for name in ["reward/mean", "response/length_mean", "sft/loss"] {
        add(name, Taken::LastTenth);
    }
    all
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
    let area: f64 = points.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 0.5 * (w[0].1 + w[1].1)).sum();
    Some(area / (last - first) as f64)
}
