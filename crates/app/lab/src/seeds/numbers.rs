//! The numbers of a run: its ends, how its entropy was held and spent, its law, predictions from
//! its beginning.

use super::held;
use super::measure::{Measure, Range, Unit, is_of_shares, metric_title};
use super::section::{Section, part};
use crate::collapse::{GAINED, PAPER, Quantity, SPENT, TWELFTHS, growth, share, step_by};
use crate::law::points::ROLLOUT;
use crate::law::{Form, Point, Prediction};
use crate::log::{RunLog, Series, SetMetric, of_set};
use crate::run::{EvaluatedSet, Run};
use serde_json::Value;
use std::collections::HashMap;

/// Percent of a run's evaluations that its end is predicted from. The paper takes 15.
const PREFIXES: [u8; 2] = [15, 30];

/// A prefix is left out if it ends later than so many times its share of the steps.
const LATE: f64 = 1.25;

/// Sets of a run that are studied: the intervals of a law take long.
const STUDIED: usize = 24;

/// A fall in entropy by a smaller share of its first value has no shares of its own: they would be
/// noise.
const LEAST_FALL: f64 = 0.2;
/// Nor has a smaller gain in accuracy.
const LEAST_GAIN: f64 = 0.05;

/// A number that is taken from the course of one metric.
struct Course {
    /// Its name in table.json, and in titles.
    key: &'static str,
    title: &'static str,
    of: fn(&RunNumbers<'_>, &Series) -> Option<f64>,
}

/// The value at the run's last step; the last value where no recipe tells which step that is.
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
    /// The step that it has ended at; none where no recipe tells. Other trainers need not evaluate
    /// there.
    pub end: Option<u64>,
    /// The measures that its tables have, the most important first.
    pub listed: Vec<Measure>,
    numbers: HashMap<Measure, f64>,
}

impl<'a> RunNumbers<'a> {
    /// Takes in a run. A run with a recipe has made all of its steps. Accuracies are looked for at
    /// the entropies `targets` too.
    pub fn of(run: &'a Run, recipe: Option<&Value>, targets: &[f64]) -> Self {
        let log = &run.log;
        let end = recipe.and(log.last_step());
        let mut all = Self { log, end, listed: Vec::new(), numbers: HashMap::new() };
        all.add_courses();
        all.add_held(recipe);
        if !targets.is_empty() {
            all.add_equal_entropy(targets);
        }
        let sets = run.sets.iter().filter(|set| set.measured.set != ROLLOUT).take(STUDIED);
        let sets: Vec<&EvaluatedSet> = sets.collect();
        all.add_collapse(&sets);
        for set in sets {
            all.add_law(set);
            PREFIXES.iter().for_each(|percent| all.add_prediction(set, *percent));
        }
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

    /// Lists a measure, if the run has the number.
    fn add(
        &mut self,
        section: Section,
        metric: &str,
        taken: impl Into<String>,
        title: String,
        unit: Unit,
        number: Option<f64>,
    ) {
        let (metric, title) = (metric.to_owned(), title + unit.name);
        let measure = Measure { metric, taken: taken.into(), section, title, unit };
        if let Some(number) = number {
            self.listed.push(measure.clone());
            self.numbers.insert(measure, number);
        }
    }

    /// Lists a number of a metric's course, though the metric may lack it; without `is_listed` it
    /// has only the number.
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
                // Problems of one size need no best value.
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

    /// How its entropy H is held at its target H*.
    fn add_held(&mut self, recipe: Option<&Value>) {
        let ratios = held::ratios(self.log);
        let reached = held::reached(&ratios).map(|step| step as f64);
        let of_entropy = [
            (
                "tracking-error",
                "tracking error, mean |ln(H / H*)| over the last half",
                Unit::plain(3, Range::From0),
                held::tracking_error(&ratios),
            ),
            (
                "share-held",
                "steps of the last half with |ln(H / H*)| < 0.1",
                Unit::percent(Range::Share),
                held::share_held(&ratios),
            ),
            (
                "reached-at-step",
                "first step within 10 % of H*",
                Unit::plain(1, Range::From0),
                reached,
            ),
            (
                "least-after-reached",
                "least H / H* after that",
                Unit::plain(3, Range::From0),
                held::least_after(&ratios),
            ),
        ];
        for (key, title, unit, number) in of_entropy {
            let title = format!("policy/entropy: {title}");
            self.add(Section::Held, "policy/entropy", key, title, unit, number);
        }
        if let Some((metric, bounds)) = recipe.and_then(held::steered) {
            let steered = self.log.series(metric);
            let number = steered.and_then(|series| held::share_at_bound(series, bounds));
            let title = format!("{metric}: steps of the last half at its least or most");
            let unit = Unit::percent(Range::Share);
            self.add(Section::Held, metric, "share-at-bound", title, unit, number);
        }
    }

    /// Accuracies where the entropy of their set first falls to a target, and at the end.
    fn add_equal_entropy(&mut self, targets: &[f64]) {
        for (metric, is_listed) in accuracies(self.log) {
            let Some(SetMetric { set, what }) = SetMetric::of(&metric) else { continue };
            let entropies = self.log.series(&of_set(set, "entropy"));
            let (Some(entropies), Some(accuracies)) = (entropies, self.log.series(&metric)) else {
                continue;
            };
            if what.starts_with("maj@") || !is_listed {
                continue;
            }
            let point =
                |(step, accuracy)| Some(Point { step, entropy: entropies.at(step)?, accuracy });
            let points: Vec<Point> = accuracies.iter().filter_map(point).collect();
            for target in targets {
                let name = metric_title(&metric);
                let title = format!("{name} where entropy falls to {target} nats");
                let (key, unit) = (format!("at-entropy-{target}"), Unit::of(&metric));
                let number = held::accuracy_at(&points, *target);
                self.add(Section::EqualEntropy, &metric, key, title, unit, number);
            }
            let has_end = (END.of)(self, accuracies).is_some();
            self.course(Section::EqualEntropy, &metric, &END, has_end);
        }
    }

    /// Shares of the entropy's fall and of the accuracies' gain by the twelfths that the paper has.
    fn add_collapse(&mut self, sets: &[&EvaluatedSet]) {
        let (log, unit) = (self.log, Unit::percent(Range::Any));
        for (twelfths, _, _) in PAPER {
            let key = format!("share-by-{twelfths}-of-{TWELFTHS}");
            let by = part(twelfths);
            if let Some((metric, series)) = log.entropy() {
                let point = |(step, entropy)| Point { step, entropy, accuracy: 0.0 };
                let points: Vec<Point> = series.iter().map(point).collect();
                let least = points.first().map_or(0.0, |point| LEAST_FALL * point.entropy);
                let number = share_by(&points, SPENT, least, twelfths);
                let title = format!("{metric}: fall over by {by} of the run");
                self.add(Section::Collapse, metric, &*key, title, unit, number);
            }
            for set in sets {
                let accuracy = &set.measured.accuracy;
                // Shares of the whole run need its end.
                let points = self.to_the_end(set);
                let number =
                    points.and_then(|points| share_by(points, GAINED, LEAST_GAIN, twelfths));
                let title =
                    of_accuracy(accuracy, |name| format!("gain in {name} made by {by} of the run"));
                self.add(Section::Collapse, accuracy, &*key, title, unit, number);
            }
        }
    }

    /// Numbers of the law R = -a exp(H) + b, as fitted to all evaluations of the run.
    fn add_law(&mut self, set: &EvaluatedSet) {
        let (accuracy, study) = (&*set.measured.accuracy, set.study());
        let (holds, plain) = (study.holds(), Unit::plain(3, Range::Any));
        let r_squared = |form: Form| {
            let found = study.r_squared.iter().find(|(of, _)| *of == form);
            found.map(|(_, r_squared)| *r_squared)
        };
        let over = r_squared(Form::Law).zip(r_squared(Form::Linear)).map(|(law, line)| law - line);
        let share = Unit::plain(3, Range::Share);
        let mut ceiling = Unit { range: Range::Any, ..Unit::of(accuracy) };
        if !is_of_shares(accuracy) {
            ceiling = plain;
        }
        let refused = if holds.is_some() { 0.0 } else { 1.0 };
        let title_of = |form: Form| format!("R^2 of {}", form.name());
        for (key, title, unit, number) in [
            (
                "law-refused",
                "runs whose law is refused".to_owned(),
                Unit::plain(0, Range::Any),
                Some(refused),
            ),
            ("r-squared-law", title_of(Form::Law), share, r_squared(Form::Law)),
            ("r-squared-linear", title_of(Form::Linear), share, r_squared(Form::Linear)),
            (
                "r-squared-law-over-linear",
                "R^2 of the law less that of the line".to_owned(),
                Unit { is_signed: true, ..Unit::plain(3, Range::SharesApart) },
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
            let title = of_accuracy(accuracy, |_| title);
            self.add(Section::Law, accuracy, key, title, unit, number);
        }
    }

    /// Errors of forms that are fitted to the first so many percent of the evaluations, unless
    /// these are far more of the steps.
    fn add_prediction(&mut self, set: &EvaluatedSet, percent: u8) {
        let (accuracy, points) = (&*set.measured.accuracy, &set.study().points);
        let wanted = f64::from(percent) / 100.0;
        let Some(prediction) = Prediction::of(points, wanted) else { return };
        if prediction.share_of_steps(points).is_none_or(|share| share > LATE * wanted) {
            return;
        }
        let has_end = self.to_the_end(set).is_some();
        let scored = |form: Form| prediction.scored.iter().find(|scored| scored.form == form);
        let error = |form| scored(form).filter(|_| has_end).map(|scored| scored.error_at_end.abs());
        let unit = Unit::of_error(accuracy);
        let mut add = |key: String, title: String, unit, number| {
            let title = of_accuracy(accuracy, |_| title);
            self.add(Section::Prediction, accuracy, key, title, unit, number);
        };
        let [at_end, titled] = [
            format!("error-at-end-from-{percent}-percent"),
            format!("error at the end from the first {percent} %,"),
        ];
        for form in Form::ALL {
            let (key, name) = (key_of(form), form.name());
            add(format!("{at_end}-{key}"), format!("{titled} {name}"), unit, error(form));
        }
        for form in [Form::Linear, Form::Constant] {
            let over = error(Form::Law).zip(error(form)).map(|(law, other)| law - other);
            let unit = Unit { is_signed: true, range: Range::Any, ..unit };
            let title = format!("{titled} the law less {}", form.name());
            add(format!("{at_end}-law-over-{}", key_of(form)), title, unit, over);
        }
        for form in Form::ALL {
            let key = format!("rmse-from-{percent}-percent-{}", key_of(form));
            let title = format!("RMSE after the first {percent} %, {}", form.name());
            add(key, title, unit, scored(form).map(|scored| scored.rmse));
        }
    }

    /// The last value and its step; none where the run has gone on after it, since an older value
    /// is not the end.
    fn at_end(&self, series: &Series) -> Option<(u64, f64)> {
        series.last().filter(|(step, _)| self.end.is_none_or(|end| *step == end))
    }

    /// The points of a set, if the last is of the run's last step.
    fn to_the_end<'b>(&self, set: &'b EvaluatedSet) -> Option<&'b [Point]> {
        let points = &set.measured.points;
        let last = points.last()?.step;
        self.end.is_none_or(|end| end == last).then_some(points)
    }
}

/// A title of a number of a set's accuracy.
fn of_accuracy(accuracy: &str, title: impl FnOnce(&str) -> String) -> String {
    let split = accuracy.strip_prefix("eval/").and_then(|rest| rest.rsplit_once('/'));
    let (set, name) = split.unwrap_or((accuracy, "entropy"));
    format!("{set}: {}", title(name))
}

/// A form's name in table.json.
fn key_of(form: Form) -> &'static str {
    match form {
        Form::Law => "law",
        Form::Linear => "linear",
        Form::Constant => "constant",
        Form::Saturating => "saturating",
    }
}

/// The accuracies of a run's sets, parts left out, and whether tables have each.
fn accuracies(log: &RunLog) -> Vec<(String, bool)> {
    log.evaluation_sets().into_iter().flat_map(|set| accuracies_of(log, set)).collect()
}

/// Every mean@k of a set, then pass@k and maj@k, of which tables have the largest k.
fn accuracies_of(log: &RunLog, set: &str) -> Vec<(String, bool)> {
    let k = |name: &str| name.rsplit('@').next().and_then(|k| k.parse::<u64>().ok());
    let mut all = Vec::new();
    for prefix in ["mean@", "pass@", "maj@"] {
        let names = log.beginning(&of_set(set, prefix));
        // With one response, pass@k and maj@k are mean@k again.
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

/// The share of a quantity's growth by so many twelfths; none if it grew by less than `least`.
fn share_by(points: &[Point], quantity: Quantity, least: f64, twelfths: u32) -> Option<f64> {
    let grown = growth(points, quantity)?;
    // A growth that is equal but for rounding counts as equal.
    (grown >= least * (1.0 - 1e-9))
        .then(|| share(points, quantity, step_by(points, twelfths)?))
        .flatten()
}
