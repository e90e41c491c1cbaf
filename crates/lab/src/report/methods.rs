//! Means over seeds as curves: for each method, whose runs differ in nothing but the seed, one line with a band.

use super::curves::{Chart, Line, Metric, Style, rounded, swatch};
use super::number::DRAWABLE;
use super::run::Run;
use super::seeds::taken;
use super::text::{seen, words};
use super::thin::means;
use crate::log::Series;
use crate::seeds::{Mean, Members, members};
use std::fmt::Write;

/// Most points of a mean's line; of more steps, means over stretches of them are taken first.
const MOST: usize = 300;

/// The methods of runs, where one has several seeds.
pub(super) struct Methods(Vec<Members>);

impl Methods {
    /// Groups the runs; there is nothing to be drawn where no two that count are of one group.
    pub fn of(runs: &[Run]) -> Self {
        let groups = members(&taken(runs));
        let has_seeds = groups.iter().any(|group| group.counted.len() > 1);
        Self(if has_seeds { groups } else { Vec::new() })
    }

    /// The groups; none where no two runs are of one.
    pub fn groups(&self) -> &[Members] {
        &self.0
    }

    /// Whether any has several seeds.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many lines a metric has at most.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|group| group.counted.len() > 1).count()
    }

    /// What the page's script is told: the methods' names, and the method of each run.
    pub fn data(&self, runs: usize) -> Option<serde_json::Value> {
        let of = |run: usize| self.0.iter().position(|group| group.all.contains(&run));
        let names: Vec<String> = self.0.iter().map(|group| seen(&group.name)).collect();
        let of: Vec<Option<usize>> = (0..runs).map(of).collect();
        (!self.is_empty()).then(|| serde_json::json!({ "names": names, "of": of }))
    }

    /// The means of a metric in so many points at most, one line for each method with several seeds that have measured it.
    /// `range` is what its numbers can be.
    pub fn lines(&self, metric: &Metric<'_>, number: usize, range: [f64; 2], most: usize) -> Vec<Line> {
        let of = |(group, members): (usize, &Members)| {
            let series: Vec<&Series> = members.counted.iter().filter_map(|run| metric.of_run(*run)).collect();
            let [x, y, low, high] = over_seeds(&series, range, most.min(MOST))?;
            let (run, name) = (members.counted[0], metric.name().to_owned());
            let style = Style::Mean;
            Some(Line {
                run,
                group: Some(group),
                metric: number,
                name,
                style,
                x,
                y,
                low,
                high,
                ..Line::default()
            })
        };
        self.0.iter().enumerate().filter_map(of).collect()
    }

    /// The switch between means and single runs, and the methods' legend.
    pub fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut html = String::from(
            "<p class=\"quiet\">Lines are means over the seeds of each method, bands their 95\u{a0}% intervals by \
             Student\u{2019}s t: of those runs alone that have finished, at the steps that all of them have measured.</p>\n\
             <div class=\"switch on-screen\" role=\"radiogroup\" aria-label=\"what is drawn\">",
        );
        for (value, name) in [("means", "means over seeds"), ("runs", "single runs"), ("both", "both")] {
            let checked = if value == "means" { " checked" } else { "" };
            let _ = write!(
                html,
                "<label><input type=\"radio\" name=\"drawn\" value=\"{value}\" autocomplete=\"off\"{checked}> {name}</label>"
            );
        }
        html += "</div>\n<div class=\"legend methods\" role=\"group\" aria-label=\"methods\">\n";
        for (i, group) in self.0.iter().enumerate() {
            let seeds = match group.counted.len() {
                1 => "1 seed".to_owned(),
                n => format!("{n} seeds"),
            };
            let _ = writeln!(
                html,
                "<button type=\"button\" aria-pressed=\"true\" data-method=\"{i}\">{}<bdi>{}</bdi> <span \
                 class=\"quiet\">{seeds}</span></button>",
                swatch(i),
                words(&group.name)
            );
        }
        html + "</div>\n"
    }
}

/// Whether a chart has a mean over seeds.
pub(super) fn has_mean(chart: &Chart) -> bool {
    chart.lines.iter().any(|line| line.style == Style::Mean)
}

/// Steps, means and both ends of their intervals, at the steps that all series have; none of fewer than two series or without
/// such steps. Where all have the same number, or it is cut off, the interval is as wide as it can be seen: not at all. Intervals
/// are cut to what numbers can be, unless another trainer means something else by a name, whose numbers then are outside.
fn over_seeds(series: &[&Series], range: [f64; 2], most: usize) -> Option<[Vec<f64>; 4]> {
    let (first, others) = series.split_first()?;
    if others.is_empty() {
        return None;
    }
    let is_common = |step: &u64| {
        let value = |series: &&Series| series.at(*step).is_some_and(|value| value.abs() < DRAWABLE);
        series.iter().all(value)
    };
    let steps: Vec<u64> = first.steps.iter().copied().filter(is_common).collect();
    let curve = |series: &&Series| -> Vec<(f64, f64)> {
        let points: Vec<(u64, f64)> =
            steps.iter().filter_map(|step| Some((*step, series.at(*step)?))).collect();
        if points.len() > most {
            means(&points, most)
        } else {
            points.iter().map(|p| (p.0 as f64, p.1)).collect()
        }
    };
    let curves: Vec<Vec<(f64, f64)>> = series.iter().map(curve).collect();
    let [least, greatest] = range;
    let is_within = curves.iter().flatten().all(|(_, value)| (least..=greatest).contains(value));
    let mut line: [Vec<f64>; 4] = Default::default();
    for (i, (step, _)) in curves.first()?.iter().enumerate() {
        let mean = Mean::of(curves.iter().filter_map(|curve| Some(curve.get(i)?.1)).collect())?;
        let [low, high] = mean.interval.unwrap_or([mean.value; 2]);
        let cut = |end: f64| if is_within { end.clamp(least, greatest) } else { end };
        for (of, value) in line.iter_mut().zip([*step, mean.value, cut(low), cut(high)]) {
            of.push(rounded(value));
        }
    }
    (!line[0].is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::range_of;

    const SHARE: [f64; 2] = [0.0, 1.0];
    const ANY: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

    fn series(points: &[(u64, f64)]) -> Series {
        let (steps, values) = points.iter().copied().unzip();
        Series { steps, values }
    }

    #[test]
    fn means_are_at_the_steps_that_all_have() {
        let (one, two) =
            (series(&[(0, 0.2), (5, 0.4), (10, 0.5)]), series(&[(0, 0.4), (10, 0.5), (15, 0.9)]));
        let [x, y, low, high] = over_seeds(&[&one, &two], SHARE, 100).unwrap();
        assert_eq!((x, y), (vec![0.0, 10.0], vec![0.3, 0.5]));
        // Student's t of one degree: 12.706 standard errors of 0.1, cut off at 0 and 1; equal numbers have none.
        assert_eq!((low, high), (vec![0.0, 0.5], vec![1.0, 0.5]));
        let [_, _, low, high] = over_seeds(&[&one, &two], ANY, 100).unwrap();
        assert!((low[0] - (0.3 - 1.2706)).abs() < 1e-3 && (high[0] - (0.3 + 1.2706)).abs() < 1e-3);
        assert!(over_seeds(&[&one], SHARE, 100).is_none());
        assert!(over_seeds(&[&one, &series(&[(7, 0.1)])], SHARE, 100).is_none());
    }

    #[test]
    fn bands_end_where_intervals_of_tables_do() {
        let (one, two) = (series(&[(0, 0.01), (5, 0.5)]), series(&[(0, 0.03), (5, 0.5)]));
        let low = |range| over_seeds(&[&one, &two], range, 100).unwrap()[2][0];
        assert_eq!(low(range_of("eval/a/entropy")), 0.0);
        assert!(low(range_of("policy/loss")) < 0.0 && low(range_of("theory/entropy_change")) < 0.0);
        // Another trainer's loss may have a sign.
        let below = series(&[(0, -0.03), (5, 0.5)]);
        assert!(over_seeds(&[&one, &below], range_of("loss"), 100).unwrap()[2][0] < -0.01);
    }

    #[test]
    fn long_curves_are_of_stretches() {
        let long = |add: f64| series(&(0..1000).map(|step| (step, step as f64 + add)).collect::<Vec<_>>());
        let [x, y, low, _] = over_seeds(&[&long(0.0), &long(2.0)], ANY, 100).unwrap();
        assert_eq!((x.len(), x[0], y[0]), (100, 4.5, 5.5));
        assert!(low[0] < 0.0);
    }
}
