//! The law R = -a exp(H) + b of each run: where it holds, what it predicts, and why not elsewhere.

use super::curves::{Chart, Line, Style, legend, rounded, swatch};
use super::number::{percent, plain};
use super::run::{Run, place};
use super::text::{seen, short_name, words};
use super::{MAX_SETS, number::DRAWABLE};
use crate::law::points::{Measured, ROLLOUT};
use crate::law::{Fit, Form, Interval, Point, SEED, Study};
use crate::page::scrolling;
use std::fmt::Write;

/// Points of a curve that is drawn.
const CURVE: usize = 60;

/// What a run's accuracies on one set say of the law.
pub(super) struct Studied {
    /// The run's number.
    pub run: usize,
    /// Which accuracies and entropies, as a number among the run's.
    pub measured: usize,
    /// The law.
    pub study: Study,
}

/// The law of all runs.
pub(super) struct LawSection {
    studied: Vec<Studied>,
    sets: Vec<String>,
}

impl LawSection {
    /// Studies the runs.
    pub fn of(runs: &[Run]) -> Self {
        let mut studied = Vec::new();
        let mut sets: Vec<String> = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            for (j, measured) in run.measured.iter().enumerate() {
                let study = Study::of(measured.points.clone(), SEED);
                studied.push(Studied { run: i, measured: j, study });
                if !sets.contains(&measured.set) {
                    sets.push(measured.set.clone());
                }
            }
        }
        Self { studied, sets }
    }

    /// What is drawn, with at most so many evaluations of a run.
    pub fn charts(&self, runs: &[Run], most: usize) -> Vec<Chart> {
        let sets = self.sets.iter().take(MAX_SETS).enumerate();
        sets.map(|(number, set)| chart(number, set, &self.studied, runs, most)).collect()
    }

    /// What the law says of a run on one of its sets.
    pub fn study(&self, run: usize, measured: usize) -> Option<&Study> {
        self.studied.iter().find(|s| (s.run, s.measured) == (run, measured)).map(|s| &s.study)
    }

    /// The section.
    pub fn html(&self, runs: &[Run], charts: &[Chart], most: usize) -> String {
        if self.studied.is_empty() {
            return String::new();
        }
        let mut html = String::from(
            "<section id=\"law\">\n<h2>Accuracy against entropy</h2>\n<p>The law <i>R</i> = −<i>a</i> exp(<i>H</i>) + <i>b</i> \
             (arXiv:2505.22617) says what accuracy <i>R</i> a policy has bought when entropy <i>H</i> is left, and where it will \
             end: at the ceiling <i>b</i> − <i>a</i>, when none is left.</p>\n",
        );
        if runs.len() > 1 {
            html += &legend(runs, "legend");
        }
        html += "<div class=\"charts few\">\n";
        for (chart, set) in charts.iter().zip(&self.sets) {
            let title = format!("On {}", seen(place(set)));
            let _ = write!(
                html,
                "<figure id=\"chart-{0}\">\n<h3>{1}</h3>\n<div class=\"plot tall\" id=\"plot-{0}\" role=\"img\" \
                 aria-label=\"Accuracy against entropy: {1}\"></div>\n<figcaption>{2}\
                 </figcaption>\n</figure>\n",
                chart.id,
                words(&title),
                self.caption(chart, most)
            );
        }
        html += "</div>\n";
        if self.sets.len() > charts.len() {
            let _ = writeln!(
                html,
                "<p class=\"quiet\">Drawn are {} of {} evaluation sets; the table has them all.</p>",
                charts.len(),
                self.sets.len()
            );
        }
        html += &self.table(runs);
        html + "</section>\n"
    }

    /// How to read a chart.
    fn caption(&self, chart: &Chart, most: usize) -> String {
        let longest = self.studied.iter().map(|studied| studied.study.points.len()).max().unwrap_or(0);
        let most = if every(longest, most) > 1 {
            format!(" Of long runs, at most {most} evaluations are drawn, evenly chosen.")
        } else {
            String::new()
        };
        Self::reading(chart).to_owned() + &most
    }

    fn reading(chart: &Chart) -> &'static str {
        let drawn = |style| chart.lines.iter().any(|line| line.style == style);
        match (drawn(Style::Band), drawn(Style::Dotted)) {
            (true, _) => {
                "Each point is an evaluation; training goes from right to left. Curve and band: the fitted law and its 95\u{a0}% \
                 interval; at 0, the ceiling that it predicts. Dotted: what the first evaluations alone predict."
            }
            (false, true) => {
                "Each point is an evaluation; training goes from right to left. Dotted: what the first evaluations alone predict."
            }
            (false, false) => {
                "Each point is an evaluation; training goes from right to left while entropy falls. No law is drawn, since none \
                 can be relied on here."
            }
        }
    }

    fn table(&self, runs: &[Run]) -> String {
        let mut html = scrolling("The law of each run");
        html.push_str(
            "<table class=\"runs\">\n<thead><tr><th>run</th><th>on</th><th><i>a</i></th><th><i>b</i></th>\
             <th>ceiling <i>b</i> − <i>a</i></th><th><i>R</i>²</th><th>evaluations</th><th>last accuracy</th>\
             <th>the beginning’s prediction of it</th></tr></thead>\n<tbody>\n",
        );
        for studied in &self.studied {
            let run = &runs[studied.run];
            let measured = &run.measured[studied.measured];
            let swatch = if runs.len() > 1 { swatch(studied.run) } else { String::new() };
            let _ = write!(
                html,
                "<tr><td>{swatch}{}</td><td>{}</td>",
                run.html(),
                short_name(place(&measured.set))
            );
            let Some(fit) = studied.study.holds() else {
                let why = words(&refusals(&studied.study));
                let _ =
                    writeln!(html, "<td colspan=\"7\" class=\"words\">No law to rely on: {why}</td></tr>");
                continue;
            };
            let last = measured.points.last().map_or(f64::NAN, |point| point.accuracy);
            let prediction = beginning(&studied.study, last);
            let _ = writeln!(
                html,
                "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{prediction}</td></tr>",
                with_interval(&fit.a, plain),
                with_interval(&fit.b, plain),
                ceiling(fit),
                plain(fit.r_squared),
                measured.points.len(),
                percent(last),
            );
        }
        html += "</tbody>\n</table></div>\n<ul class=\"quiet\">\n";
        for what in self.meant(runs) {
            let _ = writeln!(html, "<li>{what}</li>");
        }
        html + "</ul>\n"
    }

    /// Which accuracy and which entropy these are.
    fn meant(&self, runs: &[Run]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for measured in runs.iter().flat_map(|run| &run.measured) {
            let what = meant(measured);
            if !all.contains(&what) {
                all.push(what);
            }
        }
        all
    }
}

/// Which accuracy and which entropy were measured, as HTML.
fn meant(measured: &Measured) -> String {
    let (accuracy, entropy) = (short_name(&measured.accuracy), short_name(&measured.entropy));
    let mut text = format!(
        "{}: accuracy is <code>{accuracy}</code>, entropy is <code>{entropy}</code>",
        short_name(place(&measured.set))
    );
    if measured.notes.is_empty() && measured.set != ROLLOUT {
        text += ", of the same responses, at the temperature of the evaluation";
    }
    for note in &measured.notes {
        text += "; ";
        text += &words(note);
    }
    text + "."
}

/// Why the law is not to be relied on, as text.
pub(super) fn refusals(study: &Study) -> String {
    if !study.refusals.is_empty() {
        let said: Vec<&str> = study.refusals.iter().map(|reason| reason.trim_end_matches('.')).collect();
        return format!("{}.", said.join("; "));
    }
    format!("nothing can be fitted to {} evaluations.", study.points.len())
}

/// What is to be known of a law that holds, as text; empty where nothing is.
pub(super) fn remarks(study: &Study) -> String {
    study.remarks.iter().map(|remark| format!(" Note: {}.", remark.trim_end_matches('.'))).collect()
}

/// A number, and its interval where it has one.
pub(super) fn with_interval(interval: &Interval, shown: fn(f64) -> String) -> String {
    let Interval { value, low, high } = *interval;
    if low < high {
        format!("{} <span class=\"quiet\">[{}, {}]</span>", shown(value), shown(low), shown(high))
    } else {
        shown(value)
    }
}

/// The ceiling, where accuracy can be there.
pub(super) fn ceiling(fit: &Fit) -> String {
    match fit.ceiling.value {
        value if value > 1.0 => format!("above {}", percent(1.0)),
        value if value < 0.0 => format!("below {}", percent(0.0)),
        _ => with_interval(&fit.ceiling.cut(0.0, 1.0), percent),
    }
}

/// What the beginning predicts of the last accuracy, and how far every form is off over the rest, as HTML.
fn beginning(study: &Study, last: f64) -> String {
    let Some(prediction) = &study.prediction else { return "none: too few evaluations".into() };
    let mut scored = prediction.scored.iter();
    let Some(law) = scored.find(|scored| scored.form == Form::Law) else {
        return "none: no law in it".into();
    };
    let others = prediction.scored.iter().filter(|scored| scored.form != Form::Law);
    let others: Vec<String> =
        others.map(|o| format!("{}: {}", words(o.form.name()), percent(o.rmse))).collect();
    format!(
        "{} from {} evaluations up to step {}; RMSE of the rest {} <span class=\"quiet\">({})</span>",
        percent(last + law.error_at_end),
        prediction.prefix,
        prediction.until,
        percent(law.rmse),
        others.join("; ")
    )
}

/// The law as the beginning alone has it, where the whole run has one.
fn of_beginning(study: &Study) -> Option<Fit> {
    study.holds()?;
    let prefix = study.prediction.as_ref()?.prefix;
    Fit::of(&[study.points.get(..prefix)?], SEED)
}

fn chart(number: usize, set: &str, studied: &[Studied], runs: &[Run], most: usize) -> Chart {
    let mut lines = Vec::new();
    for study in studied {
        let measured = &runs[study.run].measured[study.measured];
        if measured.set == set {
            lines.extend(drawn(study, most));
        }
    }
    Chart {
        id: format!("law-{number}"),
        x: "entropy, nats",
        y: String::new(),
        share: true,
        logarithmic: false,
        together: true,
        lines,
    }
}

/// Every which of so many evaluations is drawn.
fn every(evaluations: usize, most: usize) -> usize {
    evaluations.div_ceil(most).max(1)
}

/// Points, law and predictions of one run.
fn drawn(studied: &Studied, most: usize) -> Vec<Line> {
    let is_drawable = |point: &&Point| point.entropy.abs() < DRAWABLE && point.accuracy.abs() < DRAWABLE;
    let points: Vec<&Point> = studied.study.points.iter().filter(is_drawable).collect();
    let line = |name: &str, style, x: Vec<f64>, y: Vec<f64>| Line {
        run: studied.run,
        name: name.into(),
        style,
        x: x.into_iter().map(rounded).collect(),
        y: y.into_iter().map(rounded).collect(),
        ..Line::default()
    };
    let widest = points.iter().map(|point| point.entropy).fold(0.0, f64::max);
    let entropies: Vec<f64> = (0..=CURVE).map(|i| widest * i as f64 / CURVE as f64).collect();
    let mut lines = Vec::new();
    if let Some(fit) = studied.study.holds() {
        let at: Vec<Interval> = entropies.iter().map(|entropy| fit.curve(*entropy)).collect();
        let band =
            line("95\u{a0}% interval", Style::Band, entropies.clone(), at.iter().map(|i| i.low).collect());
        lines.push(Line { high: at.iter().map(|i| rounded(i.high)).collect(), ..band });
        lines.push(line("the law", Style::Line, entropies.clone(), at.iter().map(|i| i.value).collect()));
        let c = fit.ceiling;
        lines.push(line("predicted ceiling", Style::Interval, vec![0.0; 3], vec![c.low, c.value, c.high]));
    }
    if let Some(begun) = of_beginning(&studied.study) {
        let y = entropies.iter().map(|entropy| begun.accuracy(*entropy)).collect();
        lines.push(line("predicted from the beginning", Style::Dotted, entropies, y));
    }
    let shown = points.iter().step_by(every(points.len(), most));
    let (x, y) = shown.clone().map(|point| (point.entropy, point.accuracy)).unzip();
    let text = shown.map(|point| format!("step {}", point.step)).collect();
    lines.push(Line { text, ..line("evaluations", Style::Points, x, y) });
    lines
}
