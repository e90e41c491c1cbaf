//! The entropy law R = -a exp(H) + b (docs/concepts/entropy.md) over a run's evaluations so far.

use crate::run::StepRecord;
use isentrope_evaluation::Evaluation;
use isentrope_run::law::{Point, SEED, Study};
use serde::{Deserialize, Serialize};

/// The points of every evaluation set. They are part of checkpoints, so a run that goes on knows
/// them all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Laws(Vec<Law>);

/// The points of one set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Law {
    set: String,
    points: Vec<Point>,
    /// Whether the alarm that accuracy has left the law was raised.
    has_left: bool,
}

impl Laws {
    /// Adds the evaluations after a step, records the law's fit, and returns alarms. Each set's
    /// alarm is raised once in a run; a set at a further temperature has none, since another set
    /// has the same problems. Adding the same evaluations again, after a failed step, changes
    /// nothing.
    pub fn evaluated(
        &mut self,
        step: u64,
        evaluations: &[Evaluation],
        record: &mut StepRecord,
    ) -> Vec<String> {
        let mut alarms = Vec::new();
        for (Evaluation { name, is_further, .. }, point) in points(step, evaluations) {
            let law = self.of(name);
            if !is_finite(point) {
                // No fit is recorded, so that an earlier fit is not taken for this evaluation's.
                let refusals = Study::of([&law.points[..], &[point]].concat(), SEED).refusals;
                record
                    .remarks
                    .extend(refusals.first().map(|why| format!("law, {name}: none, {why}")));
                continue;
            }
            law.add(point);
            let study = law.study();
            for (metric, value) in study.metrics() {
                record.metrics.set(format!("law/{name}/{metric}"), value);
            }
            if study.points.len() > 1 {
                let again = if law.has_left && study.holds().is_some() {
                    "; accuracy is within the law again"
                } else {
                    ""
                };
                record.remarks.push(format!("law, {name}: {}{again}", study.sentence()));
            }
            if let Some(departure) = &study.departure
                && !law.has_left
            {
                law.has_left = true;
                if *is_further {
                    continue;
                }
                alarms.push(format!("{name}: {}", departure.sentence()));
            }
        }
        alarms
    }

    /// A sentence on each set that has several points, with the latest evaluations, even if they
    /// were not added yet.
    pub fn sentences(&self, step: u64, latest: &[Evaluation]) -> Vec<String> {
        let mut laws = self.clone();
        for (set, point) in points(step, latest).filter(|(_, point)| is_finite(*point)) {
            laws.of(&set.name).add(point);
        }
        let several = laws.0.iter().filter(|law| law.points.len() > 1);
        several.map(|law| format!("{}: {}", law.set, law.study().sentence())).collect()
    }

    fn of(&mut self, set: &str) -> &mut Law {
        let place = self.0.iter().position(|law| law.set == set).unwrap_or_else(|| {
            self.0.push(Law { set: set.to_owned(), points: Vec::new(), has_left: false });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

impl Law {
    /// Adds a point; it replaces an earlier point of the same step.
    fn add(&mut self, point: Point) {
        self.points.retain(|known| known.step < point.step);
        self.points.push(point);
    }

    fn study(&self) -> Study {
        Study::of(self.points.clone(), SEED)
    }
}

/// The points of the sets whose responses could be sampled and judged.
fn points(step: u64, evaluations: &[Evaluation]) -> impl Iterator<Item = (&Evaluation, Point)> {
    let point =
        move |set: &Evaluation| Some(Point { step, entropy: set.entropy?, accuracy: set.mean? });
    evaluations.iter().filter_map(move |set| Some((set, point(set)?)))
}

/// Whether a point can be kept: JSON has no NaN, and the checkpoint must be read again.
fn is_finite(point: Point) -> bool {
    point.entropy.is_finite() && point.accuracy.is_finite()
}
