//! Studies as text: numbers, or reasons for their absence, and a plot.

use super::{RunStudy, Together};
use crate::messages::{PLAIN_WIDTH, counted, wrapped};
use crate::standard_output::{allows_colors, width};
use crate::visible::visible;
use isentrope_lab::law::{Form, Interval, Study};
use isentrope_lab::text_plot::{Curve, TextPlot};
use std::fmt::Write;
use std::io::{IsTerminal, stdout};

/// Columns of the narrowest and the widest plot.
const PLOT: [usize; 2] = [40, 100];
/// Rows of a plot.
const ROWS: u16 = 18;
/// Points of a drawn curve.
const FINENESS: u32 = 200;

/// The text of the whole study.
pub(super) fn text(studied: &[RunStudy], together: &[Together<'_>]) -> String {
    let is_terminal = stdout().is_terminal();
    let page = Page { columns: width().unwrap_or(PLAIN_WIDTH).max(PLOT[0]), is_terminal };
    let mut parts = Vec::new();
    for RunStudy { run, measured, study } in studied {
        let name =
            if *run == measured.set { run.clone() } else { format!("{run}, {}", measured.set) };
        let mut text = page.line(0, &name);
        text += &page.line(
            2,
            &format!("accuracy R is {}, entropy H is {}", measured.accuracy, measured.entropy),
        );
        for note in &measured.notes {
            text += &page.line(2, &format!("note: {note}"));
        }
        text += &page.study(study, &[(&name, study)]);
        parts.push(text);
    }
    for Together { members, study } in together {
        let names: Vec<&str> = members.iter().map(|one| one.run.as_str()).collect();
        let mut text = page.line(0, &format!("together: {}", names.join(", ")));
        let measured = &members[0].measured;
        text += &page.line(
            2,
            &format!("accuracy R is {}, entropy H is {}", measured.accuracy, measured.entropy),
        );
        for one in members.iter().filter(|one| one.study.holds().is_none()) {
            let why = one.study.refusals.first().map(|why| format!(": {why}")).unwrap_or_default();
            text += &page.line(2, &format!("note: alone, {} has no law{why}", one.run));
        }
        let each: Vec<(&str, &Study)> =
            members.iter().map(|one| (one.run.as_str(), &one.study)).collect();
        text += &page.study(study, &each);
        parts.push(text);
    }
    parts.join("\n")
}

/// The width and the kind of the output.
struct Page {
    columns: usize,
    is_terminal: bool,
}

impl Page {
    /// A sentence, in as many lines as it needs.
    fn line(&self, indent: usize, text: &str) -> String {
        let line = format!("{:indent$}{text}", "");
        let line = if self.is_terminal { visible(&line).into_owned() } else { line };
        wrapped(&line, self.columns) + "\n"
    }

    /// A study's numbers and its plot, with the points of each of its runs.
    fn study(&self, study: &Study, runs: &[(&str, &Study)]) -> String {
        let mut text = String::from("\n");
        if runs.len() == 1 {
            text += &course(study);
        }
        match study.holds() {
            Some(fit) => {
                let _ = writeln!(text, "  {:27}{:>8}  95 % interval", "R = -a exp(H) + b", "");
                let (ceiling, is_cut) = study.ceiling().unwrap_or((fit.ceiling, false));
                for (name, Interval { value, low, high }) in [("a", fit.a), ("b", fit.b)] {
                    let _ = writeln!(text, "    {name:25}{value:>8.3}  {low:.3} to {high:.3}");
                }
                let Interval { value, low, high } = ceiling;
                let [value, low, high] = [value, low, high].map(|end| study.shown(end));
                let cut = if is_cut { ", cut to what a share can be" } else { "" };
                let _ = writeln!(
                    text,
                    "    {:25}{value:>8}  {low} to {high}{cut}",
                    "ceiling at H = 0, b - a"
                );
                let _ = writeln!(text, "    {:25}{:>8.3}", "R^2", fit.r_squared);
            }
            None => {
                text += "  no law is given, since\n";
                for reason in &study.refusals {
                    text += &self.line(4, &format!("- {reason}"));
                }
            }
        }
        for remark in &study.remarks {
            text += &self.line(2, &format!("note: {remark}"));
        }
        text += &self.prediction(study);
        let lines = self.plot(study, runs);
        if !lines.is_empty() {
            text += "\n";
            text += &lines.into_iter().map(|line| format!("  {line}\n")).collect::<String>();
        }
        text
    }

    /// Every form's errors on the rest of the run, and on all of it.
    fn prediction(&self, study: &Study) -> String {
        let Some(prediction) = &study.prediction else { return String::new() };
        let mut text = format!(
            "\n  the first {} (to step {}) predict the other {}\n",
            counted(prediction.prefix, "point"),
            prediction.until,
            prediction.rest
        );
        let _ =
            writeln!(text, "    {:23}{:>7}{:>14}{:>12}", "", "RMSE", "error at end", "R^2 of all");
        let dash = || "-".to_owned();
        for form in Form::ALL {
            let all = study.r_squared.iter().find(|(of, _)| *of == form);
            let all = all.map_or_else(dash, |(_, value)| format!("{value:.3}"));
            let scored = prediction.scored.iter().find(|scored| scored.form == form);
            let rmse = scored.map_or_else(dash, |scored| format!("{:.3}", scored.rmse));
            let error = scored.map_or_else(dash, |scored| format!("{:+.3}", scored.error_at_end));
            let _ = writeln!(text, "    {:23}{rmse:>7}{error:>14}{all:>12}", form.name());
        }
        text += &self.line(
            4,
            "error at end: predicted less measured. The law and the line are told the entropies \
             of the rest, c - d exp its steps \
             alone, the last value nothing",
        );
        if prediction.scored.len() < Form::ALL.len() {
            text += &self.line(4, "-: not determined by so few points");
        }
        if study.holds().is_none() {
            text += &self.line(
                4,
                "The law is scored as a form beside the others; it is not given here, as said \
                 above",
            );
        }
        text
    }

    fn plot(&self, study: &Study, runs: &[(&str, &Study)]) -> Vec<String> {
        let mut curves: Vec<Curve> = Vec::new();
        let highest = study.points.iter().map(|p| p.entropy).fold(0.0, f64::max);
        if let Some(fit) = study.holds() {
            let at = |i: u32| highest * f64::from(i) / f64::from(FINENESS);
            let points = (0..=FINENESS).map(|i| (at(i), fit.accuracy(at(i)))).collect();
            curves.push(Curve { name: "law".into(), points, scattered: false });
        }
        for (name, run) in runs {
            let name =
                if runs.len() == 1 { "measured".to_owned() } else { visible(name).into_owned() };
            let points = run.points.iter().map(|p| (p.entropy, p.accuracy)).collect();
            curves.push(Curve { name, points, scattered: true });
        }
        let plot = TextPlot { x: "H, nats", y: "R", curves };
        let columns = (self.columns - 2).clamp(PLOT[0] - 2, PLOT[1]);
        plot.lines(columns as u16, ROWS, self.is_terminal && allows_colors())
    }
}

/// Entropy and accuracy at the first and the last point.
fn course(study: &Study) -> String {
    let (Some(first), Some(last)) = (study.points.first(), study.points.last()) else {
        return String::from("  no points yet\n\n");
    };
    if study.points.len() == 1 {
        return format!(
            "  1 point, step {}\n    entropy   {:.3} nats\n    accuracy  {}\n\n",
            first.step,
            first.entropy,
            study.shown(first.accuracy)
        );
    }
    let spent = match study.entropy_spent() {
        Some(spent) if spent >= 0.0 => format!(", {:.1} % spent", 100.0 * spent),
        Some(spent) => format!(", risen by {:.1} %", -100.0 * spent),
        None => String::new(),
    };
    format!(
        "  {}, steps {} to {}\n    entropy   {:.3} -> {:.3} nats{spent}\n    accuracy  {} -> {}\n\n",
        counted(study.points.len(), "point"),
        first.step,
        last.step,
        first.entropy,
        last.entropy,
        study.shown(first.accuracy),
        study.shown(last.accuracy)
    )
}
