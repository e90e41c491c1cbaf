//! The law R = -a exp(H) + b of each run: its numbers, its prediction, or the reasons against it.

use super::MAX_SETS;
use super::legend::{legend, swatch};
use super::lines::{Chart, Line, Style};
use super::number::{Scale, percent, plain};
use super::run::{PageRun, place};
use super::text::{seen, short_name, words};
use crate::law::points::{ROLLOUT, SetPoints};
use crate::law::{Fit, Form, Interval, Point, SEED, Study};
use crate::page::{self, heads};
use crate::run::EvaluatedSet;
use crate::seeds::{is_drawable, rounded};
use std::fmt::Write;

/// Number of points of a drawn curve.
const CURVE: usize = 60;
/// Most evaluations of a run that are drawn.
const MAX_EVALUATIONS: usize = 400;

/// The sets of all runs, each with the index of its run.
fn sets(runs: &[PageRun]) -> impl Iterator<Item = (usize, &EvaluatedSet)> {
    runs.iter().enumerate().flat_map(|(i, run)| run.sets().map(move |set| (i, set)))
}

/// The names of all sets, in the order in which runs have them.
fn set_names(runs: &[PageRun]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, set) in sets(runs) {
        if !names.contains(&set.measured.set.as_str()) {
            names.push(&set.measured.set);
        }
    }
    names
}

/// A chart for each of the first sets.
pub(super) fn charts(runs: &[PageRun]) -> Vec<Chart> {
    let chart = |(number, name): (usize, &str)| {
        let of_set: Vec<_> = sets(runs).filter(|(_, set)| set.measured.set == name).collect();
        let share = of_set.iter().all(|(run, set)| runs[*run].has_shares(&set.measured.accuracy));
        Chart {
            id: format!("law-{number}"),
            x: "entropy, nats",
            y: if share { String::new() } else { "score".into() },
            share,
            together: true,
            lines: of_set.into_iter().flat_map(|(run, set)| lines(run, set.study())).collect(),
        }
    };
    set_names(runs).into_iter().take(MAX_SETS).enumerate().map(chart).collect()
}

/// The section: the charts and a table of all runs and sets.
pub(super) fn html(runs: &[PageRun], charts: &[Chart]) -> String {
    let names = set_names(runs);
    if names.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section id=\"law\">\n<h2>Accuracy against entropy</h2>\n<p>The law <i>R</i> = −<i>a</i> \
         exp(<i>H</i>) + <i>b</i> (arXiv:2505.22617) says what accuracy <i>R</i> a policy has \
         bought when entropy <i>H</i> is left, and where it will end: at the ceiling <i>b</i> − \
         <i>a</i>, when none is left.</p>\n",
    );
    if runs.len() > 1 {
        html += &legend(runs, "legend");
    }
    html += "<div class=\"charts few\">\n";
    let longest = sets(runs).map(|(_, set)| set.study().points.len()).max().unwrap_or(0);
    let thinned = if every(longest) > 1 {
        format!(" Of long runs, at most {MAX_EVALUATIONS} evaluations are drawn, evenly chosen.")
    } else {
        String::new()
    };
    for (chart, set) in charts.iter().zip(&names) {
        let title = words(&format!("On {}", seen(place(set))));
        let _ = write!(
            html,
            "<figure id=\"chart-{0}\">\n<h3>{title}</h3>\n<div class=\"plot tall\" id=\"plot-{0}\" \
             role=\"img\" aria-label=\"Accuracy against entropy: \
             {title}\"></div>\n<figcaption>{1}{thinned}</figcaption>\n</figure>\n",
            chart.id,
            reading(chart)
        );
    }
    html += "</div>\n";
    if names.len() > charts.len() {
        let (drawn, all) = (charts.len(), names.len());
        let _ = writeln!(
            html,
            "<p class=\"quiet\">Drawn are {drawn} of {all} evaluation sets; the table has them \
             all.</p>"
        );
    }
    html + &table(runs) + "</section>\n"
}

/// How to read a chart.
fn reading(chart: &Chart) -> &'static str {
    let drawn = |style| chart.lines.iter().any(|line| line.style == style);
    match (drawn(Style::Band), drawn(Style::Dotted)) {
        (true, _) => {
            "Each point is an evaluation; training goes from right to left. Curve and band: the \
             fitted law and its 95\u{a0}% interval; at 0, the ceiling that it predicts. Dotted: \
             what the first evaluations alone predict."
        }
        (false, true) => {
            "Each point is an evaluation; training goes from right to left. Dotted: what the first \
             evaluations alone predict."
        }
        (false, false) => {
            "Each point is an evaluation; training goes from right to left while entropy falls. No \
             law is drawn, since none can be relied on here."
        }
    }
}

fn table(runs: &[PageRun]) -> String {
    let heads = heads(&[
        "run",
        "on",
        "<i>a</i>",
        "<i>b</i>",
        "ceiling <i>b</i> − <i>a</i>",
        "<i>R</i>²",
        "evaluations",
        "last accuracy",
        "the beginning’s prediction of it",
    ]);
    let mut html = String::new();
    let mut names: Vec<String> = Vec::new();
    for (i, set) in sets(runs) {
        let (measured, study) = (&set.measured, set.study());
        let swatch = if runs.len() > 1 { swatch(i) } else { String::new() };
        let (run, on) = (runs[i].html(), short_name(place(&measured.set)));
        let _ = write!(html, "<tr><td>{swatch}{run}</td><td>{on}</td>");
        let name = names_of(measured);
        if !names.contains(&name) {
            names.push(name);
        }
        let Some(fit) = study.holds() else {
            let why = words(&refusals(study));
            let _ = writeln!(
                html,
                "<td colspan=\"7\" class=\"words\">No law to rely on: {why}</td></tr>"
            );
            continue;
        };
        let last = measured.points.last().map_or(f64::NAN, |point| point.accuracy);
        let scale = runs[i].scale(&measured.accuracy);
        let cells = [
            with_interval(&fit.a, plain),
            with_interval(&fit.b, plain),
            ceiling(study, scale).unwrap_or_default(),
            plain(fit.r_squared),
            measured.points.len().to_string(),
            (scale.value)(last),
        ];
        html += &cells.map(|cell| format!("<td>{cell}</td>")).concat();
        let _ = writeln!(html, "<td class=\"words\">{}</td></tr>", beginning(study, last, scale));
    }
    let names: String = names.iter().map(|name| format!("<li>{name}</li>\n")).collect();
    let table = page::table("The law of each run", "runs", &heads, &html);
    format!("{table}<ul class=\"quiet\">\n{names}</ul>\n")
}

/// The metrics of accuracy and entropy, as HTML.
fn names_of(measured: &SetPoints) -> String {
    let (accuracy, entropy) = (short_name(&measured.accuracy), short_name(&measured.entropy));
    let place = short_name(place(&measured.set));
    let mut text =
        format!("{place}: accuracy is <code>{accuracy}</code>, entropy is <code>{entropy}</code>");
    if measured.notes.is_empty() && measured.set != ROLLOUT {
        text += ", of the same responses, at the temperature of the evaluation";
    }
    measured.notes.iter().for_each(|note| text += &format!("; {}", words(note)));
    text + "."
}

/// Reasons not to rely on the law, as text.
pub(super) fn refusals(study: &Study) -> String {
    let reasons = study.refusals.iter().map(|reason| reason.trim_end_matches('.'));
    reasons.collect::<Vec<_>>().join("; ") + "."
}

/// Remarks on a law that holds, as text; empty without any.
pub(super) fn remarks(study: &Study) -> String {
    let remark = |remark: &String| format!(" Note: {}.", remark.trim_end_matches('.'));
    study.remarks.iter().map(remark).collect()
}

/// A number, and its interval if it has one.
fn with_interval(interval: &Interval, shown: fn(f64) -> String) -> String {
    let Interval { value, low, high } = *interval;
    if low >= high {
        return shown(value);
    }
    format!("{} <span class=\"quiet\">[{}, {}]</span>", shown(value), shown(low), shown(high))
}

/// The ceiling of a law that holds, if accuracy can reach it.
pub(super) fn ceiling(study: &Study, scale: &Scale) -> Option<String> {
    let (ceiling, _) = study.ceiling()?;
    Some(match ceiling.value {
        value if study.is_of_shares() && value > 1.0 => format!("above {}", percent(1.0)),
        value if study.is_of_shares() && value < 0.0 => format!("below {}", percent(0.0)),
        _ => with_interval(&ceiling, scale.value),
    })
}

/// The beginning's prediction of the last accuracy, and the error of every form over the rest, as
/// HTML.
fn beginning(study: &Study, last: f64, scale: &Scale) -> String {
    let Some(prediction) = &study.prediction else { return "none: too few evaluations".into() };
    let mut scored = prediction.scored.iter();
    let Some(law) = scored.find(|scored| scored.form == Form::Law) else {
        return "none: no law in it".into();
    };
    let others = prediction.scored.iter().filter(|scored| scored.form != Form::Law);
    let others = others.map(|o| format!("{}: {}", words(o.form.name()), (scale.value)(o.rmse)));
    format!(
        "{} from {} evaluations up to step {}; RMSE of the rest {} <span \
         class=\"quiet\">({})</span>",
        (scale.value)(last + law.error_at_end),
        prediction.prefix,
        prediction.until,
        (scale.value)(law.rmse),
        others.collect::<Vec<_>>().join("; ")
    )
}

/// The law fitted to the beginning alone, if the whole run has a law.
fn of_beginning(study: &Study) -> Option<Fit> {
    study.holds()?;
    let prefix = study.prediction.as_ref()?.prefix;
    Fit::of(&[study.points.get(..prefix)?], SEED)
}

/// The interval of drawn evaluations: every how many one is drawn.
fn every(evaluations: usize) -> usize {
    evaluations.div_ceil(MAX_EVALUATIONS).max(1)
}

/// Points, law and predictions of one run.
fn lines(run: usize, study: &Study) -> Vec<Line> {
    let is_drawn = |p: &&Point| is_drawable(p.entropy) && is_drawable(p.accuracy);
    let points: Vec<&Point> = study.points.iter().filter(is_drawn).collect();
    let line = |name: &str, style, x: Vec<f64>, y: Vec<f64>| Line {
        run,
        name: name.into(),
        style,
        x: x.into_iter().map(rounded).collect(),
        y: y.into_iter().map(rounded).collect(),
        ..Line::default()
    };
    let widest = points.iter().map(|point| point.entropy).fold(0.0, f64::max);
    let entropies: Vec<f64> = (0..=CURVE).map(|i| widest * i as f64 / CURVE as f64).collect();
    let mut lines = Vec::new();
    if let Some(fit) = study.holds() {
        let at: Vec<Interval> = entropies.iter().map(|entropy| fit.curve(*entropy)).collect();
        let [low, value] = [|i: &Interval| i.low, |i: &Interval| i.value]
            .map(|end| at.iter().map(end).collect::<Vec<f64>>());
        let band = line("95\u{a0}% interval", Style::Band, entropies.clone(), low);
        lines.push(Line { high: at.iter().map(|i| rounded(i.high)).collect(), ..band });
        lines.push(line("the law", Style::Line, entropies.clone(), value));
        let c = fit.ceiling;
        let ends = vec![c.low, c.value, c.high];
        lines.push(line("predicted ceiling", Style::Interval, vec![0.0; 3], ends));
    }
    if let Some(fit) = of_beginning(study) {
        let y = entropies.iter().map(|entropy| fit.accuracy(*entropy)).collect();
        lines.push(line("predicted from the beginning", Style::Dotted, entropies, y));
    }
    let shown = points.iter().step_by(every(points.len()));
    let (x, y) = shown.clone().map(|point| (point.entropy, point.accuracy)).unzip();
    let text = shown.map(|point| format!("step {}", point.step)).collect();
    lines.push(Line { text, ..line("evaluations", Style::Points, x, y) });
    lines
}
