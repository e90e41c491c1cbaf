//! The numbers of a run: its ends, its changes, its law.

use super::measure::{Measure, Range, Unit, is_of_shares, metric_title};
use super::price::SetLaw;
use super::section::Section;
use crate::law::points::ROLLOUT;
use crate::law::{Form, LEAST_POINTS};
use crate::log::{RunLog, Series, of_set};
use crate::run::{EvaluatedSet, Run};
use serde_json::Value;
use std::collections::HashMap;

/// At most this many sets of a run have a law: its intervals take long.
const MOST_LAWS: usize = 24;

/// A number that is computed from one metric's values over the steps.
struct Course {
    /// The number's name in table.json and in titles.
    key: &'static str,
    title: &'static str,
    of: fn(&RunNumbers<'_>, &Series) -> Option<f64>,
}

/// The value at the run's last step; the last value if there is no recipe to say which step that
/// is.
const END: Course = Course {
    key: "end",
    title: "at the end",
    of: |run, series| run.at_end(series).map(|(_, value)| value),
};
/// The largest value.
const BEST: Course = Course {
    key: "best",
    title: "at its best",
    of: |_, series| series.largest().map(|(_, value)| value),
};
/// The mean over the last tenth of the steps, for metrics that every step measures with noise.
const LAST_TENTH: Course = Course {
    key: "last-tenth",
    title: "over the last tenth of the steps",
    of: |run, series| last_tenth(series, run.log.last_step()?),
};
/// The area under the curve over the number of steps, by the trapezoidal rule: the mean over the
/// run.
const MEAN: Course =
    Course { key: "mean", title: "over all steps (area / steps)", of: |_, series| area(series) };
/// The end less the value before the first step.
const CHANGE: Course = Course {
    key: "change",
    title: "since before the first step",
    of: |run, series| {
        let (_, last) = run.at_end(series).filter(|(step, _)| *step > 0)?;
        Some(last - series.at(0)?)
    },
};

/// A run with its numbers.
pub(super) struct RunNumbers<'a> {
    log: &'a RunLog,
    /// The run's last step; None without a recipe. Other trainers need not evaluate there.
    pub end: Option<u64>,
    /// The measures in the run's tables, the most important first.
    pub listed: Vec<Measure>,
    numbers: HashMap<Measure, f64>,
    /// The laws of the sets that are evaluated at the run's end.
    pub laws: Vec<SetLaw>,
}

impl<'a> RunNumbers<'a> {
    /// Collects a run's numbers. A run with a recipe has made all of its steps.
    pub fn of(run: &'a Run, recipe: Option<&Value>) -> Self {
        let log = &run.log;
        let end = recipe.and(log.last_step());
        let mut all =
            Self { log, end, listed: Vec::new(), numbers: HashMap::new(), laws: Vec::new() };
        all.add_courses();
        let sets = run.sets.iter().filter(|set| set.measured.set != ROLLOUT);
        sets.take(MOST_LAWS).for_each(|set| all.add_law(set));
        all
    }

    /// The run's number, if it has one.
    pub fn number(&self, measure: &Measure) -> Option<f64> {
        self.numbers.get(measure).copied()
    }

    /// Whether the metric was ever measured.
    pub fn has(&self, metric: &str) -> bool {
        self.log.series(metric).is_some()
    }

    /// Adds a number of a metric, and lists it in tables if `is_listed`, even if the metric lacks
    /// it.
    fn course(&mut self, section: Section, metric: &str, course: &Course, is_listed: bool) {
        let series = self.log.series(metric).filter(|series| !series.values.is_empty());
        let Some(series) = series else { return };
        let number = (course.of)(self, series);
        let unit =
            if course.key == CHANGE.key { Unit::of_change(metric) } else { Unit::of(metric) };
        let title = format!("{} {}{}", metric_title(metric), course.title, unit.name);
        let (metric, taken) = (metric.to_owned(), course.key.to_owned());
        let measure = Measure { metric, taken, section, title, unit };
        if is_listed {
            self.listed.push(measure.clone());
        }
        self.numbers.extend(number.map(|number| (measure, number)));
    }

    fn add_courses(&mut self) {
        let log = self.log;
        self.course(Section::Main, "eval/mean_of_sets", &END, true);
        self.course(Section::Main, "eval/mean_of_sets", &BEST, true);
        for set in log.evaluation_sets() {
            for (name, is_listed) in accuracies_of(log, set) {
                self.course(Section::Main, &name, &END, is_listed);
                // Parts by size have no best value.
                if name.contains("/mean@") && !name.ends_with("_numbers") {
                    self.course(Section::Main, &name, &BEST, true);
                }
            }
            for name in ["entropy", "length_mean", "truncated"] {
                self.course(Section::Main, &of_set(set, name), &END, true);
            }
        }
        for (name, course) in [
            ("eval/loss", &END),
            ("policy/entropy", &LAST_TENTH),
            ("policy/entropy", &MEAN),
            ("reward/mean", &LAST_TENTH),
            ("response/length_mean", &LAST_TENTH),
            ("sft/loss", &LAST_TENTH),
        ] {
            self.course(Section::Main, name, course, true);
        }
        let best = log.accuracies();
        for accuracy in log.parts().keys().filter_map(|set| best.get(set)) {
            self.course(Section::Parts, &of_set(accuracy.set, accuracy.what), &END, true);
        }
        for (name, is_listed) in accuracies(log) {
            let is_known = log.series(&name).and_then(|series| (CHANGE.of)(self, series)).is_some();
            self.course(Section::Change, &name, &CHANGE, is_listed && is_known);
        }
    }

    /// Numbers of the law R = -a exp(H) + b, as fitted to all evaluations of the run.
    fn add_law(&mut self, set: &EvaluatedSet) {
        let (accuracy, study) = (&*set.measured.accuracy, set.study());
        let end = study.points.last().filter(|point| self.end.is_none_or(|end| point.step == end));
        self.laws.extend(study.fit.zip(end).map(|(fit, end)| SetLaw {
            set: set.measured.set.clone(),
            accuracy: accuracy.to_owned(),
            a: fit.a.value,
            end: *end,
        }));
        let (holds, plain) = (study.holds(), Unit::plain(3, Range::Any));
        // A line meets two points, so that few say nothing.
        let has_points = study.points.len() >= LEAST_POINTS;
        let r_squared = |form: Form| {
            let found = study.r_squared.iter().find(|(of, _)| *of == form);
            found.filter(|_| has_points).map(|(_, r_squared)| *r_squared)
        };
        let over = r_squared(Form::Law).zip(r_squared(Form::Linear)).map(|(law, line)| law - line);
        let share = Unit::plain(3, Range::Share);
        let over_unit = Unit { is_signed: true, ..Unit::plain(3, Range::SharesApart) };
        let ceiling = match is_of_shares(accuracy) {
            true => Unit { range: Range::Any, ..Unit::of(accuracy) },
            false => plain,
        };
        let count = Unit::plain(0, Range::Any);
        let refused = if holds.is_some() { 0.0 } else { 1.0 };
        let title_of = |form: Form| format!("R^2 of {}", form.name());
        for (taken, title, unit, number) in [
            ("law-refused", "runs whose law is refused".to_owned(), count, Some(refused)),
            ("r-squared-law", title_of(Form::Law), share, r_squared(Form::Law)),
            ("r-squared-linear", title_of(Form::Linear), share, r_squared(Form::Linear)),
            (
                "r-squared-law-over-linear",
                "R^2 of the law less that of the line".to_owned(),
                over_unit,
                over,
            ),
            (
                "law-ceiling",
                "ceiling b - a".to_owned(),
                ceiling,
                holds.map(|fit| fit.ceiling.value),
            ),
            ("law-a", "a".to_owned(), plain, holds.map(|fit| fit.a.value)),
            ("law-b", "b".to_owned(), plain, holds.map(|fit| fit.b.value)),
        ] {
            let Some(number) = number else { continue };
            let title = format!("{}: {title}{}", set.measured.set, unit.name);
            let (metric, taken) = (accuracy.to_owned(), taken.to_owned());
            let measure = Measure { metric, taken, section: Section::Law, title, unit };
            self.listed.push(measure.clone());
            self.numbers.insert(measure, number);
        }
    }

    /// The last value and its step; None if the run has gone on after it, because an older value is
    /// not the end.
    fn at_end(&self, series: &Series) -> Option<(u64, f64)> {
        series.last().filter(|(step, _)| self.end.is_none_or(|end| *step == end))
    }
}

/// The accuracies of a run's sets, without parts, and whether tables show each.
fn accuracies(log: &RunLog) -> Vec<(String, bool)> {
    log.evaluation_sets().into_iter().flat_map(|set| accuracies_of(log, set)).collect()
}

/// Every mean@k of a set, then pass@k and maj@k; tables show only the largest k of these two.
fn accuracies_of(log: &RunLog, set: &str) -> Vec<(String, bool)> {
    let k = |name: &str| name.rsplit('@').next().and_then(|k| k.parse::<u64>().ok());
    let mut all = Vec::new();
    for prefix in ["mean@", "pass@", "maj@"] {
        let names = log.beginning(&of_set(set, prefix));
        // With one response, pass@k and maj@k equal mean@k.
        let largest = names.iter().copied().filter(|name| k(name) > Some(1)).max_by_key(|n| k(n));
        let is_listed = |name: &str| prefix == "mean@" || Some(name) == largest;
        all.extend(names.iter().map(|name| ((*name).to_owned(), is_listed(name))));
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
    let area: f64 =
        points.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 0.5 * (w[0].1 + w[1].1)).sum();
    Some(area / (last - first) as f64)
}
