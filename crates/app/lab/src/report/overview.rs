//! The overview table: a row for each run and evaluation set.

use super::law_section::ceiling;
use super::legend::swatch;
use super::number::{percent, plain};
use super::run::{PageRun, place};
use super::text::short_name;
use crate::log::Series;
use crate::page::{self, heads};
use crate::run::EvaluatedSet;
use std::fmt::Write;

/// The table.
pub(super) fn html(runs: &[PageRun]) -> String {
    let heads = heads(&[
        "run",
        "steps",
        "on",
        "entropy, nats",
        "accuracy",
        "best",
        "predicted ceiling",
        "tokens per response",
        "truncated",
    ]);
    let mut html = String::new();
    for (i, run) in runs.iter().enumerate() {
        let swatch = if runs.len() > 1 { swatch(i) } else { String::new() };
        let log = &run.data.log;
        let steps = log.last_step().map_or("none".into(), |step| step.to_string());
        let of_metric = |metric: &str, shown: fn(f64) -> String| {
            let ends = log.series(metric).and_then(|series| series.first().zip(series.last()));
            ends.map_or("–".into(), |(first, last)| from_to(first, last, shown))
        };
        let length = of_metric("response/length_mean", plain);
        let truncated = of_metric("response/truncated", percent);
        let sets: Vec<String> = run.sets().map(|set| cells(run, set)).collect();
        let rows = sets.len().max(1);
        for row in 0..rows {
            html += "<tr>";
            if row == 0 {
                let name = run.html();
                let _ = write!(
                    html,
                    "<td rowspan=\"{rows}\">{swatch}{name}</td><td rowspan=\"{rows}\">{steps}</td>"
                );
            }
            let none = "<td>–</td><td>–</td><td>–</td><td>–</td><td>–</td>";
            html += sets.get(row).map_or(none, String::as_str);
            if row == 0 {
                let _ = write!(
                    html,
                    "<td rowspan=\"{rows}\">{length}</td><td rowspan=\"{rows}\">{truncated}</td>"
                );
            }
            html += "</tr>\n";
        }
    }
    let table = page::table("Runs", "runs", &heads, &html);
    format!("<section id=\"overview\">\n{table}</section>\n")
}

/// The cells of a set: its name, entropy, accuracy, best accuracy and ceiling.
fn cells(run: &PageRun, set: &EvaluatedSet) -> String {
    let name = short_name(place(&set.measured.set));
    let entropy = set.ends().map(|(first, last)| {
        from_to((first.step, first.entropy), (last.step, last.entropy), plain)
    });
    // An accuracy without an entropy is no point of the law, and counts here all the same.
    let accuracies = run.data.log.series(&set.measured.accuracy);
    let scale = run.scale(&set.measured.accuracy);
    let accuracy = accuracies
        .and_then(|series| series.first().zip(series.last()))
        .map(|(first, last)| from_to(first, last, scale.value));
    let best = accuracies.and_then(Series::largest).map(|(step, best)| {
        format!("{} <span class=\"quiet\">step {step}</span>", (scale.value)(best))
    });
    let ceiling = ceiling(set.study(), scale).unwrap_or("no law".into());
    let [entropy, accuracy, best] =
        [entropy, accuracy, best].map(|cell| cell.unwrap_or("–".into()));
    format!("<td>{name}</td><td>{entropy}</td><td>{accuracy}</td><td>{best}</td><td>{ceiling}</td>")
}

/// The first and the last of some measurements, each with its step; only one if there is one.
pub(super) fn from_to(
    (first, old): (u64, f64),
    (last, new): (u64, f64),
    shown: fn(f64) -> String,
) -> String {
    let new = format!("<b>{}</b>", shown(new));
    if first == last { new } else { format!("{} → {new}", shown(old)) }
}
