//! Means over seeds as curves: for each method, whose runs differ in the seed alone, one line with
//! a band.

use super::frame::Metric;
use super::legend::swatch;
use super::lines::{Line, Style};
use super::text::{seen, words};
use crate::log::Series;
use crate::seeds::{Group, MOST, MeanCurve, Summary};
use std::fmt::Write;

/// The methods of runs, if one has several seeds.
pub(super) struct Methods<'a>(&'a [Group]);

impl<'a> Methods<'a> {
    /// The groups of a summary; empty unless a group has two runs that count.
    pub fn of(Summary { groups, .. }: &'a Summary) -> Self {
        let has_seeds = groups.iter().any(|group| group.counted.len() > 1);
        Self(if has_seeds { groups } else { &[] })
    }

    /// Most lines of a metric.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|group| group.counted.len() > 1).count()
    }

    /// Data for the page's script: the methods' names, and the method of each run.
    pub fn data(&self, runs: usize) -> Option<serde_json::Value> {
        let of = |run: usize| self.0.iter().position(|group| group.all.contains(&run));
        let names: Vec<String> = self.0.iter().map(|group| seen(&group.name)).collect();
        let of: Vec<Option<usize>> = (0..runs).map(of).collect();
        (!self.0.is_empty()).then(|| serde_json::json!({ "names": names, "of": of }))
    }

    /// The mean curves of a metric, with at most `most` points: one line for each method with
    /// several seeds. `range` bounds the metric's numbers.
    pub fn lines(
        &self,
        metric: &Metric<'_>,
        number: usize,
        range: [f64; 2],
        most: usize,
    ) -> Vec<Line> {
        let of = |(group, members): (usize, &Group)| {
            let series: Vec<&Series> =
                members.counted.iter().filter_map(|run| metric.of_runs[*run]).collect();
            let MeanCurve { steps, mean, low, high } =
                MeanCurve::of(&series, range, most.min(MOST))?;
            Some(Line {
                run: members.counted[0],
                group: Some(group),
                metric: number,
                name: metric.name.clone(),
                style: Style::Mean,
                x: steps,
                y: mean,
                low,
                high,
                ..Line::default()
            })
        };
        self.0.iter().enumerate().filter_map(of).collect()
    }

    /// The switch between means and single runs, and the methods' legend.
    pub fn html(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut html = String::from(
            "<p class=\"quiet\">Lines are means over the seeds of each method, bands their \
             95\u{a0}% intervals by \
             Student\u{2019}s t: of those runs alone that have finished, at the steps that all of \
             them have measured.</p>\n\
             <div class=\"switch on-screen\" role=\"radiogroup\" aria-label=\"what is drawn\">",
        );
        for (value, name) in
            [("means", "means over seeds"), ("runs", "single runs"), ("both", "both")]
        {
            let checked = if value == "means" { " checked" } else { "" };
            let _ = write!(
                html,
                "<label><input type=\"radio\" name=\"drawn\" value=\"{value}\" \
                 autocomplete=\"off\"{checked}> {name}</label>"
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
                "<button type=\"button\" aria-pressed=\"true\" data-method=\"{i}\">{}<bdi>{}</bdi> \
                 <span class=\"quiet\">{seeds}</span></button>",
                swatch(i),
                words(&group.name)
            );
        }
        html + "</div>\n"
    }
}
