//! A line for each step, for readers without a terminal.

use crate::number::{fixed, number, percent};
use crate::run::Run;
use crate::terminal::Look;

/// Metrics in a step's line, with their names there.
const STEP_METRICS: [(&str, &str); 7] = [
    ("reward/mean", "reward"),
    ("sft/loss", "loss"),
    ("policy/entropy", "entropy"),
    ("sft/entropy", "entropy"),
    ("cov/mean", "covariance"),
    ("response/length_mean", "length"),
    ("grad/norm", "gradient"),
];

/// The lines of a run's steps after a given step, or of all steps, with further metrics and, if
/// asked, the run's name before each.
pub fn news(
    run: &Run,
    after: Option<u64>,
    is_named: bool,
    metrics: &[String],
    look: &Look,
) -> Vec<String> {
    let shown: Vec<(&str, &str)> = STEP_METRICS
        .into_iter()
        .chain(metrics.iter().map(|metric| (metric.as_str(), metric.as_str())))
        .collect();
    let series = shown.iter().filter_map(|(metric, _)| run.log.series(metric));
    let evaluated = run.set_names.iter().filter_map(|set| set.series(&run.log, &set.accuracy));
    let steps = series.chain(evaluated).flat_map(|series| {
        let first = after.map_or(0, |after| series.steps.partition_point(|step| *step <= after));
        series.steps[first..].iter().copied()
    });
    let mut steps: Vec<u64> = steps.collect();
    steps.sort_unstable();
    steps.dedup();
    steps.into_iter().flat_map(|step| of_step(run, step, is_named, &shown, look)).collect()
}

fn of_step(
    run: &Run,
    step: u64,
    is_named: bool,
    shown: &[(&str, &str)],
    look: &Look,
) -> Vec<String> {
    let of = run.state.steps.map_or(String::new(), |steps| format!("/{steps}"));
    let whose = if is_named { format!("{}: ", run.name) } else { String::new() };
    let head = look.clean(&format!("{whose}step {step}{of}"));
    let cells: Vec<String> = shown
        .iter()
        .filter_map(|(metric, name)| Some((name, run.log.series(metric)?.at(step)?)))
        .map(|(name, value)| format!("{} {}", look.clean(name), number(value)))
        .collect();
    let mut lines = Vec::new();
    if !cells.is_empty() {
        lines.push(format!("{head}  {}", cells.join("  ")));
    }
    for set in &run.set_names {
        let at = |what: &str| set.series(&run.log, what).and_then(|series| series.at(step));
        let Some(accuracy) = at(&set.accuracy) else { continue };
        let name = look.clean(&format!("{} {}", set.name, set.accuracy));
        let accuracy = if set.samples().is_some() { percent(accuracy) } else { number(accuracy) };
        let mut line = format!("{head}  evaluation {name} {accuracy}");
        if let Some(entropy) = at("entropy") {
            line += &format!("  entropy {}", fixed(entropy, 4));
        }
        if let Some(length) = at("length_mean") {
            line += &format!("  length {}", fixed(length, 1));
        }
        lines.push(line);
    }
    lines
}
