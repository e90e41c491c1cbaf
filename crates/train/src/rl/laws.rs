//! The entropy law while it is being made: what a run's evaluations so far say of R = -a exp(H) + b (docs/law.md).

use crate::run::StepRecord;
use isentrope_evaluation::Evaluation;
use isentrope_lab::law::{Point, Study};
use serde::{Deserialize, Serialize};

/// The points of every evaluation set. They are part of checkpoints, so a run that goes on knows them all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Laws(Vec<Law>);

/// Those of one set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Law {
    set: String,
    points: Vec<Point>,
    /// Whether it was said that accuracy has left the law.
    has_left: bool,
}

impl Laws {
    /// Takes in the evaluations after a step, records what they say of the law, and returns alarms. Each set's alarm is raised
    /// once in a run.
    pub fn evaluated(
        &mut self,
        step: u64,
        evaluations: &[Evaluation],
        seed: u64,
        record: &mut StepRecord,
    ) -> Vec<String> {
        let mut alarms = Vec::new();
        for evaluation in evaluations {
            let Evaluation { name, mean: Some(accuracy), entropy, .. } = evaluation else { continue };
            let law = self.of(name);
            // JSON has no NaN, and the checkpoint must be read again.
            if entropy.is_finite() && accuracy.is_finite() {
                law.points.push(Point { step, entropy: *entropy, accuracy: *accuracy });
            }
            let study = law.study(seed);
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
                alarms.push(format!("{name}: {}", departure.sentence()));
            }
        }
        alarms
    }

    /// What each set's points come to, where there are several.
    pub fn sentences(&self, seed: u64) -> Vec<String> {
        let told = self.0.iter().filter(|law| law.points.len() > 1);
        told.map(|law| format!("{}: {}", law.set, law.study(seed).sentence())).collect()
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
    fn study(&self, seed: u64) -> Study {
        Study::of(self.points.clone(), seed)
    }
}
