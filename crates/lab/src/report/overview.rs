//! The runs side by side: a row for each run and evaluation set.

use super::curves::swatch;
use super::law_section::{LawSection, ceiling};
use super::number::{percent, plain};
use super::run::{Run, accuracies, ends, place};
use super::text::short_name;
use crate::law::Point;
use crate::page::scrolling;
use std::fmt::Write;

/// The best accuracy, the earliest of equal ones.
pub(super) fn best(points: &[Point]) -> Option<Point> {
    points.iter().copied().reduce(|best, point| if point.accuracy > best.accuracy { point } else { best })
}

/// The table.
pub(super) fn html(runs: &[Run], law: &LawSection) -> String {
    let mut html = String::from("<section id=\"overview\">\n") + &scrolling("Runs");
    html.push_str(
        "<table class=\"runs\">\n<thead><tr><th>run</th><th>steps</th><th>on</th>\
         <th>entropy, nats</th><th>accuracy</th><th>best</th><th>predicted ceiling</th><th>tokens per response</th>\
         <th>truncated</th></tr></thead>\n<tbody>\n",
    );
    for (i, run) in runs.iter().enumerate() {
        let swatch = if runs.len() > 1 { swatch(i) } else { String::new() };
        let steps = run.log.last_step().map_or("none".into(), |step| step.to_string());
        let of_metric = |metric: &str, shown: fn(f64) -> String| {
            let series = run.log.series(metric).filter(|series| !series.values.is_empty());
            series.map_or("–".into(), |series| {
                from_to(series.values[0], series.values[series.values.len() - 1], shown)
            })
        };
        let [length, truncated] =
            [of_metric("response/length_mean", plain), of_metric("response/truncated", percent)];
        let rows = run.measured.len().max(1);
        for row in 0..rows {
            html += "<tr>";
            if row == 0 {
                let _ = write!(
                    html,
                    "<td rowspan=\"{rows}\">{swatch}{}</td><td rowspan=\"{rows}\">{steps}</td>",
                    run.html()
                );
            }
            let measured = run.measured.get(row);
            if let Some((measured, (first, last))) = measured.and_then(|m| Some((m, ends(m)?))) {
                let accuracies = accuracies(run, measured);
                let accuracy = accuracies.first().zip(accuracies.last());
                let best = best(&accuracies).map_or("–".into(), |best| {
                    format!("{} <span class=\"quiet\">step {}</span>", percent(best.accuracy), best.step)
                });
                let held = law.study(i, row).and_then(|study| study.holds());
                let ceiling = held.map_or("no law".into(), ceiling);
                let _ = write!(
                    html,
                    "<td>{}</td><td>{}</td><td>{}</td><td>{best}</td><td>{ceiling}</td>",
                    short_name(place(&measured.set)),
                    from_to(first.entropy, last.entropy, plain),
                    accuracy.map_or("–".into(), |(first, last)| from_to(
                        first.accuracy,
                        last.accuracy,
                        percent
                    )),
                );
            } else {
                html += "<td>–</td><td>–</td><td>–</td><td>–</td><td>–</td>";
            }
            if row == 0 {
                let _ = write!(
                    html,
                    "<td rowspan=\"{rows}\">{length}</td><td rowspan=\"{rows}\">{truncated}</td>"
                );
            }
            html += "</tr>\n";
        }
    }
    html + "</tbody>\n</table></div>\n</section>\n"
}

fn from_to(first: f64, last: f64, shown: fn(f64) -> String) -> String {
    format!("{} → <b>{}</b>", shown(first), shown(last))
}
