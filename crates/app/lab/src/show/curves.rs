//! Metrics of runs as plots.

use crate::log::Series;
use crate::number::number;
use crate::run::{Run, SetName};
use crate::terminal::{GAP, Look, Paint, shown_width, wrapped};
use crate::text_plot::{Curve, TextPlot};

/// Least columns of a plot: if several stand side by side, and if there is no room below.
const NARROW: usize = 48;
const NARROWEST: usize = 34;
/// Most points per column that are drawn one by one. Beyond it a noisy curve would be a solid band,
/// so means are drawn.
const DENSEST: usize = 4;
/// Most plots side by side.
const MOST_BESIDE: usize = 4;
/// Points further apart than this many times the usual distance are not joined.
const GAP_FACTOR: u64 = 5;

/// Curves of one quantity.
pub(super) struct Panel {
    title: String,
    curves: Vec<Curve>,
}

/// The plots of runs: first the metrics asked for, then the usual: entropy, accuracy, reward,
/// distance from a teacher, loss, length.
pub(super) fn panels(runs: &[Run], metrics: &[String], look: &Look) -> Vec<Panel> {
    let asked = metrics.iter().map(|metric| of_metrics(runs, look.clean(metric), &[metric], look));
    let usual = [
        entropies(runs, look),
        accuracies(runs, look),
        of_metrics(runs, "mean reward".into(), &["reward/mean"], look),
        of_metrics(
            runs,
            "estimated KL to the teacher, nats per token".into(),
            &["kl/teacher"],
            look,
        ),
        losses(runs, look),
        of_metrics(runs, "response length, tokens".into(), &["response/length_mean"], look),
    ];
    asked
        .chain(usual)
        .filter(|panel| panel.curves.iter().any(|curve| !curve.points.is_empty()))
        .collect()
}

/// Plots in rows of `beside`, each `height` lines high.
pub(super) fn lines(panels: &[Panel], beside: usize, height: usize, look: &Look) -> Vec<String> {
    let width = look.width.saturating_sub(GAP * (beside - 1)) / beside;
    let blocks: Vec<Vec<String>> =
        panels.iter().map(|panel| panel.block(width, height, look)).collect();
    let mut lines = Vec::new();
    for row in blocks.chunks(beside) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(look.beside(row));
    }
    lines
}

/// The number of plots side by side: as many as fit, with rows as full as possible.
pub(super) fn beside(panels: usize, width: usize) -> usize {
    let most = ((width + GAP) / (NARROW + GAP)).clamp(1, MOST_BESIDE);
    let rows = panels.div_ceil(most).max(1);
    panels.div_ceil(rows).max(1)
}

/// Like [`beside`], but all plots should fit into `rows` rows.
pub(super) fn beside_in_rows(panels: usize, rows: usize, width: usize) -> usize {
    let most = ((width + GAP) / (NARROWEST + GAP)).clamp(1, MOST_BESIDE);
    beside(panels, width).max(panels.div_ceil(rows.max(1))).min(most).max(1)
}

impl Panel {
    fn block(&self, width: usize, height: usize, look: &Look) -> Vec<String> {
        let (curves, remark) = self.thinned(width);
        let plot = TextPlot { x: "step", y: "", curves };
        let [wide, high] =
            [width, height.saturating_sub(1)].map(|size| u16::try_from(size).unwrap_or(u16::MAX));
        let mut lines = plot.lines(wide, high, look.colors);
        let title = format!("{}{remark}", self.title);
        lines.insert(0, look.paint(Paint::Heading, &wrapped(&title, width).swap_remove(0)));
        // Padding to the full width keeps plots side by side in columns.
        if let Some(first) = lines.first_mut() {
            let space = width.saturating_sub(shown_width(first));
            first.push_str(&" ".repeat(space));
        }
        lines
    }

    /// The curves for `width` columns, and a remark. If there are too many points, each column has
    /// their mean.
    fn thinned(&self, width: usize) -> (Vec<Curve>, String) {
        let densest = self.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
        if densest <= DENSEST * width {
            return (self.curves.clone(), String::new());
        }
        let xs = || self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
        let (first, last) =
            (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let steps = libm::ceil((last - first) / width as f64).max(1.0);
        let mean = |chunk: &[(f64, f64)]| {
            let count = chunk.len() as f64;
            (
                chunk.iter().map(|p| p.0).sum::<f64>() / count,
                chunk.iter().map(|p| p.1).sum::<f64>() / count,
            )
        };
        let column =
            |point: &(f64, f64)| (libm::floor((point.0 - first) / steps), point.1.is_nan());
        let thin = |curve: &Curve| {
            let points = curve.points.chunk_by(|a, b| column(a) == column(b)).map(mean).collect();
            Curve { points, ..curve.clone() }
        };
        (self.curves.iter().map(thin).collect(), format!(" (means over {} steps)", number(steps)))
    }
}

/// The first of several metrics that a run has, for all runs.
fn of_metrics<S: AsRef<str>>(runs: &[Run], title: String, metrics: &[S], look: &Look) -> Panel {
    let curves = runs.iter().filter_map(|run| {
        let series = metrics.iter().find_map(|metric| run.log.series(metric.as_ref()))?;
        let name = if runs.len() > 1 { look.clean(&run.name) } else { String::new() };
        Some(curve(name, series))
    });
    Panel { title, curves: curves.collect() }
}

/// Names of curves of sets: the run's, if there are several, then the set's.
fn named(runs: &[Run], run: &Run, set: &str, look: &Look) -> String {
    if runs.len() > 1 { look.clean(&format!("{} {set}", run.name)) } else { look.clean(set) }
}

/// Rollouts' entropies. A run that is shown alone or has no rollouts has the entropies of its
/// evaluations too.
fn entropies(runs: &[Run], look: &Look) -> Panel {
    let mut curves = Vec::new();
    let mut is_supervised = false;
    for run in runs {
        let rollout = run.log.entropy().map(|(_, series)| series);
        is_supervised |= rollout.is_none() && run.log.series("sft/entropy").is_some();
        let own = rollout.or_else(|| run.log.series("sft/entropy"));
        if let Some(series) = own {
            let what = if rollout.is_some() { "rollouts" } else { "training examples" };
            curves.push(curve(
                if runs.len() > 1 { look.clean(&run.name) } else { what.into() },
                series,
            ));
        }
        if runs.len() == 1 || own.is_none() {
            for set in &run.set_names {
                if let Some(series) = set.series(&run.log, "entropy") {
                    curves.push(curve(
                        named(runs, run, &format!("evaluation of {}", set.name), look),
                        series,
                    ));
                }
            }
        }
    }
    let of = match (runs.len(), is_supervised) {
        (1, _) => "",
        (_, true) => " of training examples",
        (_, false) => " of rollouts",
    };
    Panel { title: format!("entropy{of}, nats per token"), curves }
}

/// Accuracy on every set.
fn accuracies(runs: &[Run], look: &Look) -> Panel {
    let of_set = |run| {
        move |set: &SetName| {
            let run: &Run = run;
            let name = named(runs, run, &format!("{}, {}", set.name, set.accuracy), look);
            Some(curve(name, set.series(&run.log, &set.accuracy)?))
        }
    };
    let curves = runs
        .iter()
        .flat_map(|run| run.set_names.iter().filter_map(of_set(run)).collect::<Vec<_>>());
    Panel { title: "accuracy of evaluations".into(), curves: curves.collect() }
}

/// Losses of supervised fine-tuning, on training and on held-out examples.
fn losses(runs: &[Run], look: &Look) -> Panel {
    let mut curves = Vec::new();
    for run in runs {
        for (metric, what) in [("sft/loss", "training"), ("eval/loss", "held-out")] {
            curves.extend(
                run.log.series(metric).map(|series| curve(named(runs, run, what, look), series)),
            );
        }
    }
    Panel { title: "cross-entropy, nats per token".into(), curves }
}

/// A series as a curve, with a gap where measurements are missing.
fn curve(name: String, series: &Series) -> Curve {
    let mut distances: Vec<u64> = series.steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = distances.len() / 2;
    let usual = if distances.is_empty() { 1 } else { *distances.select_nth_unstable(middle).1 };
    let mut points = Vec::with_capacity(series.steps.len());
    let mut before = None;
    for (step, value) in series.iter() {
        if before.is_some_and(|before| step - before > GAP_FACTOR.saturating_mul(usual)) {
            points.push((step as f64, f64::NAN));
        }
        points.push((step as f64, value));
        before = Some(step);
    }
    Curve { name, points, scattered: false }
}
