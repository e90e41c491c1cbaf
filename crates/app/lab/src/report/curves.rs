//! The curves over steps: from declared charts and the runs' numbers to lines and their places on
//! the page.

use super::charts::{CHARTS, Unit};
use super::frame::{Frame, Metric};
use super::legend::legend;
use super::lines::{Chart, Line, Style};
use super::methods::Methods;
use super::parts;
use super::run::PageRun;
use super::text::{listed, short_name, shortened, words};
use super::thin::thin;
use crate::log::names::counterpart;
use crate::log::{Series, WEIGHTS};
use crate::seeds::{is_drawable, range_of, rounded, stretches};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Longest text of a menu, in characters.
const LONGEST_OPTION: usize = 60;
/// Most metrics of one run in a frame; if there are more, one is drawn at a time.
const MAX_IN_FRAME: usize = 24;
/// Most points of all curves. With their digits they mostly take less than 2 MB when packed.
const MAX_POINTS: usize = 240_000;
/// Most points of one line: more than two for each column of a wide screen.
const MAX_OF_LINE: usize = 3000;
/// A line with this many points also has means drawn, over the next number of stretches.
const NOISY: usize = 300;
const STRETCHES: usize = 100;

/// All curves of a page.
pub(super) struct Curves<'a> {
    drawn: Vec<DrawnChart<'a>>,
    /// Charts and metrics that are 0 throughout.
    zero: Vec<String>,
    is_thinned: bool,
}

/// A frame and its chart.
struct DrawnChart<'a> {
    frame: Frame<'a>,
    chart: Chart,
    /// Metrics that are not drawn, in sentences.
    remarks: Vec<String>,
}

impl<'a> Curves<'a> {
    /// The curves that the runs have.
    pub fn of(runs: &'a [PageRun], methods: &Methods<'_>) -> Self {
        let all = runs.iter().flat_map(|run| run.data.log.all());
        let names: BTreeSet<&str> =
            all.filter(|(_, s)| !s.values.is_empty()).map(|(name, _)| name).collect();
        let (mut kept, mut zero) = (Vec::new(), Vec::new());
        for mut frame in frames(runs, &names) {
            if !frame.metrics.iter().all(Metric::is_zero) {
                frame.together &= runs.len() > 1 || frame.metrics.len() <= MAX_IN_FRAME;
                let in_one_frame = runs.len() == 1 && frame.together;
                let (metrics, remarks) = worth_drawing(frame.metrics, in_one_frame);
                frame.metrics = metrics;
                kept.extend((!frame.metrics.is_empty()).then_some((frame, remarks)));
            } else if frame.together && !frame.metrics.is_empty() {
                zero.push(frame.title);
            } else {
                zero.extend(frame.metrics.into_iter().map(|metric| metric.name));
            }
        }
        // A mean over seeds has three numbers per step, for every metric.
        let metrics = || kept.iter().flat_map(|(frame, _)| &frame.metrics);
        let lines: usize =
            metrics().map(|m| m.of_runs.iter().flatten().count() + 3 * methods.len()).sum();
        let most = (MAX_POINTS / lines.max(1)).clamp(8, MAX_OF_LINE);
        let mut series = metrics().flat_map(|m| &m.of_runs).flatten();
        let is_thinned = series.any(|s| s.values.len() > most);
        let drawn = |(frame, remarks): (Frame<'a>, Vec<String>)| {
            let chart = chart(&frame, methods, most);
            DrawnChart { frame, chart, remarks }
        };
        Self { drawn: kept.into_iter().map(drawn).collect(), zero, is_thinned }
    }

    /// The charts, in the order of the page.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.drawn.iter().map(|drawn| &drawn.chart)
    }

    /// The elements for the charts, with a legend of the runs.
    pub fn html(&self, runs: &[PageRun], methods: &Methods<'_>) -> String {
        if self.drawn.is_empty() && self.zero.is_empty() {
            return String::new();
        }
        let mut html = String::from("<section id=\"curves\">\n<h2>Curves</h2>\n");
        if !self.zero.is_empty() {
            let zero = words(&listed(&self.zero));
            let _ = writeln!(html, "<p>0 in every step, and so not drawn: {zero}.</p>");
        }
        if self.drawn.is_empty() {
            return html + "</section>\n";
        }
        html += "<p class=\"quiet\"><span class=\"on-screen\"><span class=\"by-mouse\">Drag to \
                 zoom, double-click for the whole; point at a curve for its values.</span><span \
                 class=\"by-touch\">Tap a curve for its values; zooming is in the menu of each \
                 chart.</span> ";
        if runs.len() > 1 {
            html += "The names of the runs switch them on and off in all charts. ";
        }
        html += "</span>";
        if self.charts().flat_map(|chart| &chart.lines).any(|line| !line.means.is_empty()) {
            html += "Faint: the values; strong: their means over stretches of steps. ";
        }
        if self.is_thinned {
            html += "Long curves are drawn with fewer points: of each stretch of steps the least \
                     and the largest value, so that no spike is lost. ";
        }
        html += "</p>\n";
        let has_means = self.charts().any(Chart::has_mean);
        if has_means {
            html += &methods.html();
        }
        if runs.len() > 1 {
            // If there are means, the script shows the legend of the lines in view.
            html += &legend(runs, if has_means { "legend single" } else { "legend" });
        }
        html += "<div class=\"charts\">\n";
        for drawn in &self.drawn {
            html += &drawn.html(runs.len());
        }
        html + "</div>\n</section>\n"
    }
}

/// The metrics of runs by frame: declared charts, charts of parts of sets among them, then all
/// others.
fn frames<'a>(runs: &'a [PageRun], names: &BTreeSet<&str>) -> Vec<Frame<'a>> {
    let of_parts = parts::metrics(runs);
    let mut rest = names.clone();
    let mut frames = Vec::new();
    for declared in CHARTS {
        let mut metrics = Vec::new();
        for line in declared.lines {
            for metric in names.difference(&of_parts) {
                if let Some(name) = counterpart(&[*line], metric) {
                    rest.remove(metric);
                    if !is_mean_again(metric, names) {
                        metrics.push(Metric::of(runs, metric, name));
                    }
                }
            }
        }
        frames.push(Frame {
            id: declared.id.into(),
            title: declared.title.into(),
            unit: declared.unit,
            reading: declared.reading,
            together: true,
            metrics,
        });
        if declared.id == BEFORE_PARTS {
            frames.extend(parts::frames(runs));
        }
    }
    let drawn: BTreeSet<&str> =
        frames.iter().flat_map(|f| &f.metrics).map(|m| m.metric.as_str()).collect();
    rest.retain(|metric| {
        !drawn.contains(metric) && !is_mean_again(metric, names) && *metric != WEIGHTS
    });
    let others = rest.iter().map(|metric| Metric::of(runs, metric, (*metric).to_owned())).collect();
    frames.push(Frame {
        id: "others".into(),
        title: "Everything else".into(),
        unit: Unit::Named("value"),
        reading: "What the runs have measured beside the above, one metric at a time.",
        together: false,
        metrics: others,
    });
    frames
}

/// The charts of parts of sets come after this chart.
const BEFORE_PARTS: &str = "accuracy-of-several";

/// A frame's chart, whose lines have at most `most` points.
fn chart(frame: &Frame<'_>, methods: &Methods<'_>, most: usize) -> Chart {
    let (y, share) = match frame.unit {
        Unit::Share => (String::new(), true),
        Unit::Named(name) => (name.to_owned(), false),
    };
    let (mut lines, mut means) = (Vec::new(), Vec::new());
    for (number, metric) in frame.metrics.iter().enumerate() {
        for (run, series) in metric.of_runs.iter().enumerate() {
            let name = || metric.name.clone();
            lines.extend(series.map(|series| line(series, run, number, name(), most)));
        }
        let range = if share { [0.0, 1.0] } else { range_of(&metric.metric) };
        means.extend(methods.lines(metric, number, range, most));
    }
    lines.extend(means);
    Chart { id: frame.id.clone(), x: "step", y, share, together: frame.together, lines }
}

/// Whether a metric of one response repeats the mean over responses.
fn is_mean_again(metric: &str, names: &BTreeSet<&str>) -> bool {
    let Some((of_set, "pass@1" | "maj@1")) = metric.rsplit_once('/') else { return false };
    let means = format!("{of_set}/mean@");
    names.range(means.as_str()..).next().is_some_and(|name| name.starts_with(&means))
}

/// The metrics that are drawn, and sentences on the others: metrics that are 0 throughout or too
/// large, and, in a frame of one run, metrics equal to one before.
fn worth_drawing(metrics: Vec<Metric<'_>>, in_one_frame: bool) -> (Vec<Metric<'_>>, Vec<String>) {
    let (mut kept, mut remarks): (Vec<Metric<'_>>, Vec<String>) = Default::default();
    let (mut zero, mut large): (Vec<String>, Vec<String>) = Default::default();
    for metric in metrics {
        let same = kept
            .iter()
            .find(|m| in_one_frame && m.of_runs == metric.of_runs)
            .map(|m| m.name.clone());
        let (too_large, has_others) = metric.too_large();
        if too_large > 0 {
            large.push(metric.name.clone());
        }
        match same {
            _ if !has_others => {}
            _ if metric.is_zero() => zero.push(metric.name),
            Some(same) => remarks.push(format!("“{}” is the same as “{same}”.", metric.name)),
            None => kept.push(metric),
        }
    }
    if !zero.is_empty() {
        remarks.push(format!("0 in every step: {}.", listed(&zero)));
    }
    if !large.is_empty() {
        remarks.push(format!(
            "Values of 1e30 and beyond are not drawn; there are such of {}.",
            listed(&large)
        ));
    }
    (kept, remarks)
}

fn line(series: &Series, run: usize, metric: usize, name: String, most: usize) -> Line {
    let all: Vec<(u64, f64)> = series.iter().filter(|(_, value)| is_drawable(*value)).collect();
    let points = thin(&all, most);
    let style = if points.len() <= 60 { Style::Marked } else { Style::Line };
    let count = STRETCHES.min(most / 4);
    let means = if all.len() < NOISY || count < 10 { Vec::new() } else { stretches(&all, count) };
    Line {
        run,
        metric,
        name,
        style,
        x: points.iter().map(|(step, _)| *step as f64).collect(),
        y: points.iter().map(|(_, y)| rounded(*y)).collect(),
        means: means.into_iter().map(|(x, y)| (rounded(x), rounded(y))).collect(),
        ..Line::default()
    }
}

impl DrawnChart<'_> {
    fn html(&self, runs: usize) -> String {
        let Self { frame, chart, remarks } = self;
        let (id, title) = (&chart.id, words(&frame.title));
        let mut html = format!(
            "<figure id=\"chart-{id}\">\n<div class=\"head\"><h3>{title}</h3><div class=\"tools\">"
        );
        if frame.metrics.len() > 1 && (runs > 1 || !frame.together) {
            let _ = write!(
                html,
                "<select data-chart=\"{id}\" aria-label=\"metric\" autocomplete=\"off\">"
            );
            for (i, metric) in frame.metrics.iter().enumerate() {
                let name = words(&shortened(&metric.name, LONGEST_OPTION));
                let _ = write!(html, "<option value=\"{i}\">{name}</option>");
            }
            html += "</select>";
        }
        if !chart.share {
            let _ = write!(
                html,
                "<label><input type=\"checkbox\" autocomplete=\"off\" data-log=\"{id}\"> \
                 logarithmic</label>"
            );
        }
        let _ = write!(
            html,
            "</div></div>\n<div class=\"plot\" id=\"plot-{id}\" role=\"img\" \
             aria-label=\"{title}\"></div>\n<figcaption>"
        );
        html += &words(frame.reading);
        remarks.iter().for_each(|remark| html += &format!(" {}", words(remark)));
        let name = |metric: &Metric<'_>| format!("<code>{}</code>", short_name(&metric.metric));
        let names: Vec<String> = frame.metrics.iter().map(name).collect();
        let names = names.join(", ");
        html + &format!(" <span class=\"quiet\">{names}</span></figcaption>\n</figure>\n")
    }
}
