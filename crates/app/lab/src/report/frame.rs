//! Metrics that share a place on the page.

use super::charts::Unit;
use super::run::PageRun;
use super::text::seen;
use crate::log::Series;
use crate::seeds::is_drawable;

/// Metrics in one frame.
pub(super) struct Frame<'a> {
    /// The chart's anchor in the page's address.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The unit of its values.
    pub unit: Unit,
    /// How to read the chart, as a sentence.
    pub reading: &'static str,
    /// Whether all lines of one run may be drawn at once.
    pub together: bool,
    /// Its metrics.
    pub metrics: Vec<Metric<'a>>,
}

/// A metric of one run or several.
pub(super) struct Metric<'a> {
    /// Its name in logs.
    pub metric: String,
    /// Its name in legends.
    pub name: String,
    /// By run.
    pub of_runs: Vec<Option<&'a Series>>,
}

impl<'a> Metric<'a> {
    /// A metric with its name in logs, and in legends.
    pub fn of(runs: &'a [PageRun], metric: &str, name: String) -> Self {
        let series = |run: &'a PageRun| {
            run.data.log.series(metric).filter(|series| !series.values.is_empty())
        };
        Self {
            metric: metric.to_owned(),
            name: seen(&name),
            of_runs: runs.iter().map(series).collect(),
        }
    }

    /// Whether all its values are 0.
    pub fn is_zero(&self) -> bool {
        self.of_runs.iter().flatten().all(|series| series.values.iter().all(|value| *value == 0.0))
    }

    /// The number of the metric's values that are too large to draw, and whether it has others.
    pub fn too_large(&self) -> (usize, bool) {
        let all = self.of_runs.iter().flatten().flat_map(|series| &series.values);
        let (mut large, mut has_others) = (0, false);
        for value in all {
            if is_drawable(*value) { has_others = true } else { large += 1 }
        }
        (large, has_others)
    }
}
