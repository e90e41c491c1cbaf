//! `isentrope law`: what accuracy costs in entropy, and where a run will end.

mod table;

use crate::messages;
use crate::standard_output::{draw, print};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use isentrope_lab::law::points::{ROLLOUT, SetPoints, of_metrics, of_rollout};
use isentrope_lab::law::{Form, Point, SEED, Study};
use isentrope_lab::log::{Origin, RunLog, labels};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Fit the entropy law R = -a exp(H) + b to runs, and predict where they end
///
/// Accuracy R is bought with entropy H (arXiv:2505.22617). For every evaluation set of every run:
/// a, b and the ceiling b - a with 95 % intervals, what the beginning of the run predicts of its
/// rest beside forms that fit as easily, and a plot. Where the law does not hold, the reasons stand
/// instead of its numbers. Runs whose accuracy and entropy have the same names are fitted together
/// as well. docs/concepts/entropy.md explains all of it.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope law runs/quickstart
  isentrope law runs/grpo runs/kl-cov --prefix 0.3
  isentrope law history.csv --entropy actor/entropy --accuracy val/acc
  isentrope law runs/grpo --json | jq '.runs[].law.ceiling'")]
pub struct Law {
    /// Run directories, directories of several, logs of TRL and verl, or tables with a column of
    /// steps
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The metric, or the column of a table, that is entropy, in nats
    #[arg(long, value_name = "KEY")]
    entropy: Option<String>,
    /// The metric, or the column of a table, that is accuracy, such as eval/test/pass@8
    #[arg(long, value_name = "KEY")]
    accuracy: Option<String>,
    /// Only this evaluation set of each RUN, or this part of one, such as test/sum; rollout stands
    /// for what was sampled for training [default: every set, without parts]
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Share of a run's points that its rest is predicted from, at least three points
    #[arg(long, value_name = "SHARE", default_value_t = 0.15, value_parser = share)]
    prefix: f64,
    /// Prints one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Seed of the bootstrap's random numbers; train, show and report use the default
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,
}

/// A share of a whole.
fn share(text: &str) -> Result<f64> {
    let value = text.parse().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| anyhow!("must be between 0 and 1, such as 0.15"))
}

/// One series of points, and its study.
struct RunStudy {
    run: String,
    measured: SetPoints,
    study: Study,
}

/// Several that are the same quantities.
struct Together<'a> {
    members: Vec<&'a RunStudy>,
    study: Study,
}

impl Law {
    pub fn run(self) -> Result<()> {
        let mut studied = Vec::new();
        let mut logs: Vec<(RunLog, bool)> = Vec::new(); // and whether its path has no other
        for path in &self.runs {
            let of_path = RunLog::open_all(path)?;
            let is_alone = of_path.len() == 1;
            logs.extend(of_path.into_iter().map(|log| (log, is_alone)));
        }
        let names = labels(&logs.iter().map(|(log, _)| log).collect::<Vec<_>>());
        let mut without_points = Vec::new();
        for ((log, is_alone), name) in logs.iter().zip(names) {
            log.notes.iter().for_each(|note| messages::note(note));
            match self.measured(log) {
                Ok(all) => {
                    studied
                        .extend(all.into_iter().map(|measured| self.study(name.clone(), measured)));
                }
                Err(why) if *is_alone => return Err(why),
                // A directory may hold a run that has just begun and has no points; it is skipped
                // with a note.
                Err(why) => without_points.push(why),
            }
        }
        match without_points.first() {
            Some(why) if studied.is_empty() => {
                bail!("none of the {} runs has points; the first: {why}", logs.len())
            }
            _ => without_points.iter().for_each(|why| messages::note(&format!("left out: {why}"))),
        }
        let together = self.together(&studied);
        if self.json {
            return print(&format!("{:#}\n", self.report(&studied, &together)));
        }
        draw(&table::text(&studied, &together)) // its texts are escaped, its plot has colours
    }

    /// The metrics of a run that the flags select.
    fn measured(&self, log: &RunLog) -> Result<Vec<SetPoints>> {
        let path = log.path.display();
        let all = match self.set.as_deref() {
            Some(ROLLOUT) if self.accuracy.is_none() && self.entropy.is_none() => {
                of_rollout(log).into_iter().collect()
            }
            _ => of_metrics(log, self.accuracy.as_deref(), self.entropy.as_deref())?,
        };
        if all.is_empty() {
            let remedy = match log.origin {
                Origin::Unknown => {
                    "; if it has them under names of its own, say which with --entropy and \
                     --accuracy"
                }
                _ => "",
            };
            bail!(
                "{path}: no step has both an accuracy and an entropy yet, in evaluations or in \
                 rollouts{remedy}"
            );
        }
        let Some(set) = &self.set else {
            // By default parts are left out, because a part would have a law besides its set's.
            let is_meant =
                |measured: &SetPoints| self.accuracy.is_some() || measured.part_of.is_none();
            return Ok(all.into_iter().filter(is_meant).collect());
        };
        let names = all.iter().map(|measured| measured.set.clone()).filter(|set| set != ROLLOUT);
        let names: Vec<String> = names.chain([ROLLOUT.to_owned()]).collect();
        let chosen: Vec<SetPoints> =
            all.into_iter().filter(|measured| measured.set == *set).collect();
        if chosen.is_empty() {
            bail!("{path}: --set {set}: there is no such set; there is: {}", names.join(", "));
        }
        Ok(chosen)
    }

    fn study(&self, run: String, measured: SetPoints) -> RunStudy {
        let study = Study::with_prefix(measured.points.clone(), self.prefix, self.seed);
        RunStudy { run, measured, study }
    }

    /// Studies of several runs together, if they have equal names for accuracy and entropy. A run
    /// with the same points as another, such as a copy, counts once.
    fn together<'a>(&self, studied: &'a [RunStudy]) -> Vec<Together<'a>> {
        let mut groups: Vec<Vec<&RunStudy>> = Vec::new();
        for one in studied {
            let names =
                |one: &RunStudy| (one.measured.accuracy.clone(), one.measured.entropy.clone());
            let Some(group) = groups.iter_mut().find(|group| names(group[0]) == names(one)) else {
                groups.push(vec![one]);
                continue;
            };
            match group.iter().find(|other| other.measured.points == one.measured.points) {
                Some(other) => messages::note(&format!(
                    "{} and {} have the same points ({}), which count once where runs are fitted \
                     together",
                    other.run, one.run, one.measured.accuracy
                )),
                None => group.push(one),
            }
        }
        groups
            .into_iter()
            .filter(|group| group.len() > 1)
            .map(|members| {
                let points: Vec<&[Point]> =
                    members.iter().map(|one| one.measured.points.as_slice()).collect();
                Together { study: Study::together(&points, self.seed), members }
            })
            .collect()
    }

    fn report(&self, studied: &[RunStudy], together: &[Together<'_>]) -> Value {
        let runs: Vec<Value> = studied
            .iter()
            .map(|RunStudy { run, measured, study }| {
                let mut object = json!({ "run": run, "measured": measured });
                merge(&mut object, law(study));
                object
            })
            .collect();
        let together: Vec<Value> = together
            .iter()
            .map(|Together { members, study }| {
                let names: Vec<&str> = members.iter().map(|one| one.run.as_str()).collect();
                let SetPoints { accuracy, entropy, .. } = &members[0].measured;
                let mut object = json!({ "runs": names, "accuracy": accuracy, "entropy": entropy });
                merge(&mut object, law(study));
                object
            })
            .collect();
        json!({ "seed": self.seed, "prefix": self.prefix, "runs": runs, "together": together })
    }
}

/// A study as JSON: `law` is null if the law does not hold.
fn law(study: &Study) -> Value {
    let r_squared: Map<String, Value> =
        study.r_squared.iter().map(|(form, value)| (key(*form), json!(value))).collect();
    json!({
        "law": study.holds(),
        "refusals": study.refusals,
        "remarks": study.remarks,
        "entropy_spent": study.entropy_spent(),
        "r_squared": r_squared,
        "prediction": study.prediction,
        "departure": study.departure,
        "points": study.points,
    })
}

fn key(form: Form) -> String {
    json!(form).as_str().unwrap_or_default().to_owned()
}

fn merge(object: &mut Value, other: Value) {
    if let (Value::Object(object), Value::Object(other)) = (object, other) {
        object.extend(other);
    }
}
