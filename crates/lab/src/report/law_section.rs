//! The law R = -a exp(H) + b of each run: where it holds, what it predicts, and why not elsewhere.

use super::curves::{Chart, Line, Style, legend, rounded, swatch};
use super::number::{percent, plain};
use super::points::{Measured, ROLLOUT};
use super::run::{Run, place};
use crate::law::{Fit, Interval, Point, Study};
use crate::page::escaped;
use std::fmt::Write;

/// Draws of the bootstrap are the same in every report.
const SEED: u64 = 0;
/// The beginning of a run that a prediction is made from, as a share of its steps; the paper's.
const PREFIX: f64 = 0.15;
/// Fewest points that a prediction is made from.
const PREFIX_POINTS: usize = 4;
/// Most evaluations of a run that are drawn.
const MAX_DRAWN: usize = 400;
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
    prediction: Option<Prediction>,
}

/// What the beginning of a run predicts of its end.
struct Prediction {
    fit: Fit,
    points: usize,
    until: u64,
    /// At the last point's entropy.
    accuracy: f64,
    /// Of the points that were not fitted to.
    rmse: f64,
}

/// The law of all runs.
pub(super) struct LawSection {
    studied: Vec<Studied>,
    charts: Vec<Chart>,
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
                studied.push(Studied { run: i, measured: j, study, prediction: predicted(&measured.points) });
                if !sets.contains(&measured.set) {
                    sets.push(measured.set.clone());
                }
            }
        }
        let charts =
            sets.iter().enumerate().map(|(number, set)| chart(number, set, &studied, runs)).collect();
        Self { studied, charts, sets }
    }

    /// What is drawn.
    pub fn charts(&self) -> &[Chart] {
        &self.charts
    }

    /// What the law says of a run on one of its sets.
    pub fn study(&self, run: usize, measured: usize) -> Option<&Study> {
        self.studied.iter().find(|s| (s.run, s.measured) == (run, measured)).map(|s| &s.study)
    }

    /// The section.
    pub fn html(&self, runs: &[Run]) -> String {
        if self.studied.is_empty() {
            return String::new();
        }
        let mut html = String::from(
            "<section id=\"law\">\n<h2>Accuracy against entropy</h2>\n<p>The law <i>R</i> = −<i>a</i> exp(<i>H</i>) + <i>b</i> \
             (arXiv:2505.22617) says what accuracy <i>R</i> a policy has bought when entropy <i>H</i> is left, and where it will \
             end: at the ceiling <i>b</i> − <i>a</i>, when none is left.</p>\n",
        );
        if runs.len() > 1 {
            html += &legend(runs);
        }
        html += "<div class=\"charts few\">\n";
        for (chart, set) in self.charts.iter().zip(&self.sets) {
            let title = format!("On {}", place(set));
            let _ = write!(
                html,
                "<figure id=\"chart-{0}\">\n<h3>{1}</h3>\n<div class=\"plot tall\" id=\"plot-{0}\"></div>\n<figcaption>{2}\
                 </figcaption>\n</figure>\n",
                chart.id,
                escaped(&title),
                self.caption(chart)
            );
        }
        html += "</div>\n";
        html += &self.table(runs);
        html + "</section>\n"
    }

    /// How to read a chart.
    fn caption(&self, chart: &Chart) -> String {
        let most = self.studied.iter().map(|studied| studied.study.points.len()).max().unwrap_or(0);
        let most = if every(most) > 1 {
            format!(" Of long runs, at most {MAX_DRAWN} evaluations are drawn, evenly chosen.")
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
        let mut html = String::from(
            "<div class=\"wide\"><table class=\"runs\">\n<thead><tr><th>run</th><th>on</th><th><i>a</i></th><th><i>b</i></th>\
             <th>ceiling <i>b</i> − <i>a</i></th><th><i>R</i>²</th><th>evaluations</th><th>last accuracy</th>\
             <th>the beginning’s prediction of it</th></tr></thead>\n<tbody>\n",
        );
        for studied in &self.studied {
            let run = &runs[studied.run];
            let measured = &run.measured[studied.measured];
            let swatch = if runs.len() > 1 { swatch(studied.run) } else { String::new() };
            let _ =
                write!(html, "<tr><td>{swatch}{}</td><td>{}</td>", run.html(), escaped(place(&measured.set)));
            let Some(fit) = studied.study.holds() else {
                let why = escaped(&refusals(&studied.study));
                let _ =
                    writeln!(html, "<td colspan=\"7\" class=\"words\">No law to rely on: {why}</td></tr>");
                continue;
            };
            let last = measured.points.last().map_or(f64::NAN, |point| point.accuracy);
            let prediction = match &studied.prediction {
                Some(p) => format!(
                    "{} from {} evaluations up to step {} (RMSE of the rest {})",
                    percent(p.accuracy),
                    p.points,
                    p.until,
                    percent(p.rmse)
                ),
                None => "none: too few, or no law in them".into(),
            };
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
    let (accuracy, entropy) = (escaped(&measured.accuracy), escaped(&measured.entropy));
    let mut text = format!(
        "{}: accuracy is <code>{accuracy}</code>, entropy is <code>{entropy}</code>",
        escaped(place(&measured.set))
    );
    if measured.notes.is_empty() && measured.set != ROLLOUT {
        text += ", of the same responses, at the temperature of the evaluation";
    }
    for note in &measured.notes {
        text += "; ";
        text += &escaped(note);
    }
    text + "."
}

/// Why the law is not to be relied on, as text.
pub(super) fn refusals(study: &Study) -> String {
    if !study.refusals.is_empty() {
        let said: Vec<&str> = study.refusals.iter().map(|reason| reason.trim_end_matches('.')).collect();
        return format!("{}.", said.join("; "));
    }
    match study.points.len() {
        1 => "there is one evaluation, and a line through it could go anywhere.".into(),
        n => format!("of {n} evaluations, accuracy or entropy is the same throughout, or they are too few."),
    }
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
        _ => with_interval(&fit.ceiling, percent),
    }
}

/// What the beginning predicts of the end, if it has a law.
fn predicted(points: &[Point]) -> Option<Prediction> {
    let (first, last) = (points.first()?, points.last()?);
    let until = first.step as f64 + PREFIX * (last.step - first.step) as f64;
    let within = points.iter().take_while(|point| point.step as f64 <= until).count().max(PREFIX_POINTS);
    let (begun, rest) = points.split_at_checked(within).filter(|(_, rest)| rest.len() >= PREFIX_POINTS)?;
    let fit = *Study::of(begun.to_vec(), SEED).holds()?;
    let squares: f64 = rest.iter().map(|p| (fit.accuracy(p.entropy) - p.accuracy).powi(2)).sum();
    Some(Prediction {
        fit,
        points: within,
        until: begun.last()?.step,
        accuracy: fit.accuracy(last.entropy),
        rmse: (squares / rest.len() as f64).sqrt(),
    })
}

/// The interval of R at an entropy. R = b - a exp(H) is linear in a and b, so that its spread follows from theirs and from
/// that of b - a, which holds their correlation.
fn interval_at(fit: &Fit, entropy: f64) -> Interval {
    let x = libm::exp(entropy);
    let half = |a: f64, b: f64, ceiling: f64| {
        (b * b + x * x * a * a - x * (a * a + b * b - ceiling * ceiling)).max(0.0).sqrt()
    };
    let (a, b, c) = (&fit.a, &fit.b, &fit.ceiling);
    let value = fit.accuracy(entropy);
    Interval {
        value,
        low: value - half(a.high - a.value, b.value - b.low, c.value - c.low),
        high: value + half(a.value - a.low, b.high - b.value, c.high - c.value),
    }
}

fn chart(number: usize, set: &str, studied: &[Studied], runs: &[Run]) -> Chart {
    let mut lines = Vec::new();
    for study in studied {
        let measured = &runs[study.run].measured[study.measured];
        if measured.set == set {
            lines.extend(drawn(study));
        }
    }
    Chart {
        id: format!("law-{number}"),
        x: "entropy, nats",
        y: String::new(),
        share: true,
        together: true,
        lines,
    }
}

/// Every which of so many evaluations is drawn.
fn every(evaluations: usize) -> usize {
    evaluations.div_ceil(MAX_DRAWN).max(1)
}

/// Points, law and predictions of one run.
fn drawn(studied: &Studied) -> Vec<Line> {
    let points = &studied.study.points;
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
        let at: Vec<Interval> = entropies.iter().map(|entropy| interval_at(fit, *entropy)).collect();
        let band =
            line("95\u{a0}% interval", Style::Band, entropies.clone(), at.iter().map(|i| i.low).collect());
        lines.push(Line { high: at.iter().map(|i| rounded(i.high)).collect(), ..band });
        lines.push(line("the law", Style::Line, entropies.clone(), at.iter().map(|i| i.value).collect()));
        let c = fit.ceiling;
        lines.push(line("predicted ceiling", Style::Interval, vec![0.0; 3], vec![c.low, c.value, c.high]));
    }
    if let Some(prediction) = &studied.prediction {
        let y = entropies.iter().map(|entropy| prediction.fit.accuracy(*entropy)).collect();
        lines.push(line("predicted from the beginning", Style::Dotted, entropies, y));
    }
    let shown = points.iter().step_by(every(points.len()));
    let (x, y) = shown.clone().map(|point| (point.entropy, point.accuracy)).unzip();
    let text = shown.map(|point| format!("step {}", point.step)).collect();
    lines.push(Line { text, ..line("evaluations", Style::Points, x, y) });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_is_the_interval_of_the_ceiling_where_no_entropy_is_left() {
        let around = |value: f64, half: f64| Interval { value, low: value - half, high: value + half };
        let fit =
            Fit { a: around(0.2, 0.03), b: around(0.7, 0.05), ceiling: around(0.5, 0.025), r_squared: 0.9 };
        let at = |entropy: f64| interval_at(&fit, entropy);
        assert!((at(0.0).low - 0.475).abs() < 1e-12 && (at(0.0).high - 0.525).abs() < 1e-12);
        // Var R = Var b + x^2 Var a - 2 x Cov, and Cov from Var(b - a) = Var b + Var a - 2 Cov.
        let (x, covariance) = (libm::exp(1.0), (0.03f64.powi(2) + 0.05f64.powi(2) - 0.025f64.powi(2)) / 2.0);
        let half = (0.05f64.powi(2) + x * x * 0.03f64.powi(2) - 2.0 * x * covariance).sqrt();
        assert!((at(1.0).high - (0.7 - 0.2 * x) - half).abs() < 1e-12);
    }

    #[test]
    fn a_planted_law_is_predicted_from_its_beginning() {
        let points: Vec<Point> = (0..40)
            .map(|i| {
                let entropy = 1.5 * libm::exp(-f64::from(i) / 12.0);
                Point { step: 4 * u64::from(i as u32), entropy, accuracy: 0.6 - 0.1 * libm::exp(entropy) }
            })
            .collect();
        // Whether so few points without noise are a law is for the law to say.
        if let Some(prediction) = predicted(&points) {
            assert_eq!((prediction.points, prediction.until), (6, 20));
            assert!((prediction.accuracy - points[39].accuracy).abs() < 1e-9 && prediction.rmse < 1e-9);
        }
        assert!(predicted(&points[..5]).is_none() && predicted(&[]).is_none());
    }
}
