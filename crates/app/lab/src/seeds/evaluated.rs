//! The numbers of a run beyond its last values: how its entropy was held and spent, its law,
//! predictions from its beginning.

use super::held;
use super::measure::{
    Held, LawNumber, Measure, Nats, PredictionNumber, Taken, accuracies, measures,
};
use super::section::Section;
use crate::collapse::{GAINED, PAPER, Quantity, SPENT, growth, share, step_by};
use crate::law::points::ROLLOUT;
use crate::law::{Form, Point, Prediction};
use crate::log::{RunLog, SetMetric, of_set};
use crate::run::{EvaluatedSet, Run};
use serde_json::Value;

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

/// A run with its laws.
pub(super) struct Evaluated<'a> {
    log: &'a RunLog,
    recipe: Option<&'a Value>,
    /// The step that it has ended at; none where no recipe tells. Other trainers need not evaluate
    /// there.
    pub end: Option<u64>,
    sets: Vec<Predicted<'a>>,
    /// Entropies of rollouts, as points without accuracy.
    entropies: Vec<Point>,
    /// H / H* of the steps that have a target.
    ratios: Vec<(u64, f64)>,
}

/// An evaluation set of the run.
struct Predicted<'a> {
    set: &'a EvaluatedSet,
    /// The prediction of each prefix; none if the prefix is longer than its share of the steps.
    predictions: [Option<Prediction>; PREFIXES.len()],
}

impl<'a> Predicted<'a> {
    fn of(set: &'a EvaluatedSet) -> Self {
        let points = &set.study().points;
        let prediction = |percent: u8| {
            let share = f64::from(percent) / 100.0;
            let prediction = Prediction::of(points, share)?;
            let is_late = prediction.share_of_steps(points)? > LATE * share;
            (!is_late).then_some(prediction)
        };
        Self { set, predictions: PREFIXES.map(prediction) }
    }

    /// The metric that is its accuracy.
    fn accuracy(&self) -> &'a str {
        &self.set.measured.accuracy
    }
}

impl<'a> Evaluated<'a> {
    /// Takes in a run and its first evaluation sets. A run with a recipe has made all of its steps.
    pub fn of(run: &'a Run, recipe: Option<&'a Value>) -> Self {
        let log = &run.log;
        let sets = run.sets.iter().filter(|set| set.measured.set != ROLLOUT).take(STUDIED);
        let point = |(step, entropy)| Point { step, entropy, accuracy: 0.0 };
        Self {
            log,
            recipe,
            end: recipe.and(log.last_step()),
            sets: sets.map(Predicted::of).collect(),
            entropies: log
                .entropy()
                .into_iter()
                .flat_map(|(_, series)| series.iter())
                .map(point)
                .collect(),
            ratios: held::ratios(log),
        }
    }

    /// The target that its entropy has in the end, if it has one.
    pub fn target(&self) -> Option<f64> {
        self.log.series("entropy/target")?.last().map(|(_, target)| target)
    }

    /// All measures that the run has, the most important first; accuracies are looked for at these
    /// entropies too.
    pub fn measures(&self, targets: &[Nats]) -> Vec<Measure> {
        let mut all = measures(self.log, self.end);
        let mut add = |metric: &str, taken, section| {
            let measure = Measure { metric: metric.to_owned(), taken, section };
            if self.number(&measure).is_some() {
                all.push(measure);
            }
        };
        for taken in [Held::Error, Held::Share, Held::Reached, Held::Least] {
            add("policy/entropy", Taken::Held(taken), Section::Held);
        }
        if let Some((metric, _)) = self.recipe.and_then(held::steered) {
            add(metric, Taken::Held(Held::AtBound), Section::Held);
        }
        if !targets.is_empty() {
            for metric in accuracies(self.log) {
                let has_entropy = SetMetric::of(&metric).is_some_and(|SetMetric { set, what }| {
                    !what.starts_with("maj@") && self.log.series(&of_set(set, "entropy")).is_some()
                });
                if has_entropy {
                    targets.iter().for_each(|target| {
                        add(&metric, Taken::AtEntropy(*target), Section::EqualEntropy);
                    });
                    add(&metric, Taken::End, Section::EqualEntropy);
                }
            }
        }
        for (twelfths, _, _) in PAPER {
            if let Some((metric, _)) = self.log.entropy() {
                add(metric, Taken::ByTwelfth(twelfths), Section::Collapse);
            }
            for set in &self.sets {
                add(set.accuracy(), Taken::ByTwelfth(twelfths), Section::Collapse);
            }
        }
        for set in &self.sets {
            let numbers = [
                LawNumber::Refused,
                LawNumber::RSquared(Form::Law),
                LawNumber::RSquared(Form::Linear),
                LawNumber::RSquaredOverLine,
                LawNumber::Ceiling,
                LawNumber::A,
                LawNumber::B,
            ];
            for number in numbers {
                add(set.accuracy(), Taken::Law(number), Section::Law);
            }
            for percent in PREFIXES {
                let of_forms = |number: fn(Form) -> PredictionNumber| Form::ALL.map(number);
                let over = [Form::Linear, Form::Constant].map(PredictionNumber::ErrorOver);
                let numbers = of_forms(PredictionNumber::ErrorAtEnd).into_iter().chain(over);
                for number in numbers.chain(of_forms(PredictionNumber::Rmse)) {
                    add(set.accuracy(), Taken::Predicted(percent, number), Section::Prediction);
                }
            }
        }
        all
    }

    /// The run's number, if it has one.
    pub fn number(&self, measure: &Measure) -> Option<f64> {
        let studied = || self.sets.iter().find(|set| set.accuracy() == measure.metric);
        match measure.taken {
            Taken::Held(number) => self.held(number),
            Taken::AtEntropy(target) => {
                let set = SetMetric::of(&measure.metric)?.set;
                let entropies = self.log.series(&of_set(set, "entropy"))?;
                let point =
                    |(step, accuracy)| Some(Point { step, entropy: entropies.at(step)?, accuracy });
                let points: Vec<Point> =
                    self.log.series(&measure.metric)?.iter().filter_map(point).collect();
                held::accuracy_at(&points, target.value())
            }
            Taken::ByTwelfth(twelfths) => match self.log.entropy() {
                Some((metric, _)) if metric == measure.metric => {
                    let least = LEAST_FALL * self.entropies.first()?.entropy;
                    share_by(&self.entropies, SPENT, least, twelfths)
                }
                // Shares of the whole run need its end.
                _ => share_by(self.to_the_end(studied()?)?, GAINED, LEAST_GAIN, twelfths),
            },
            Taken::Law(number) => {
                let study = studied()?.set.study();
                let r_squared = |form: Form| {
                    study
                        .r_squared
                        .iter()
                        .find(|(of, _)| *of == form)
                        .map(|(_, r_squared)| *r_squared)
                };
                match number {
                    LawNumber::A => study.holds().map(|fit| fit.a.value),
                    LawNumber::B => study.holds().map(|fit| fit.b.value),
                    LawNumber::Ceiling => study.holds().map(|fit| fit.ceiling.value),
                    LawNumber::RSquared(form) => r_squared(form),
                    LawNumber::RSquaredOverLine => {
                        Some(r_squared(Form::Law)? - r_squared(Form::Linear)?)
                    }
                    LawNumber::Refused => Some(if study.holds().is_some() { 0.0 } else { 1.0 }),
                }
            }
            Taken::Predicted(percent, number) => {
                let place = PREFIXES.iter().position(|prefix| *prefix == percent)?;
                let prediction = studied()?.predictions[place].as_ref()?;
                let to_the_end = self.to_the_end(studied()?);
                let scored =
                    |form: Form| prediction.scored.iter().find(|scored| scored.form == form);
                let error = |form: Form| {
                    to_the_end.and(scored(form)).map(|scored| scored.error_at_end.abs())
                };
                match number {
                    PredictionNumber::ErrorAtEnd(form) => error(form),
                    PredictionNumber::ErrorOver(form) => Some(error(Form::Law)? - error(form)?),
                    PredictionNumber::Rmse(form) => scored(form).map(|scored| scored.rmse),
                }
            }
            Taken::End | Taken::Best | Taken::LastTenth | Taken::Mean | Taken::Change => {
                measure.of(self.log, self.end)
            }
        }
    }

    /// The points of a set, if the last is of the run's last step.
    fn to_the_end(&self, Predicted { set, .. }: &Predicted<'a>) -> Option<&'a [Point]> {
        let points = &set.measured.points;
        let last = points.last()?.step;
        self.end.is_none_or(|end| end == last).then_some(points)
    }

    /// Whether the metric was ever measured.
    pub fn has(&self, metric: &str) -> bool {
        self.log.series(metric).is_some()
    }

    fn held(&self, number: Held) -> Option<f64> {
        match number {
            Held::Error => held::tracking_error(&self.ratios),
            Held::Share => held::share_held(&self.ratios),
            Held::Reached => held::reached(&self.ratios).map(|step| step as f64),
            Held::Least => held::least_after(&self.ratios),
            Held::AtBound => {
                let (metric, bounds) = held::steered(self.recipe?)?;
                held::share_at_bound(self.log.series(metric)?, bounds)
            }
        }
    }
}

/// The share of a quantity's growth by so many twelfths; none if it grew by less than `least`.
fn share_by(points: &[Point], quantity: Quantity, least: f64, twelfths: u32) -> Option<f64> {
    let grown = growth(points, quantity)?;
    // A growth that is equal but for rounding counts as equal.
    (grown >= least * (1.0 - 1e-9))
        .then(|| share(points, quantity, step_by(points, twelfths)?))
        .flatten()
}
