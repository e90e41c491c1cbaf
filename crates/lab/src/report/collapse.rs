//! How early entropy and gain were spent: shares by each twelfth of a run.

use super::MAX_SETS;
use super::curves::swatch;
use super::number::{DRAWABLE, percent, plain};
use super::run::{Run, place};
use super::text::short_name;
use crate::law::Point;
use crate::law::points::Measured;
use std::fmt::Write;

/// The paper's shares of entropy and gain, by twelfth: means of 11 models over 2400 updates (arXiv:2505.22617, section 2).
const PAPER: [(u32, f64, f64); 2] = [(1, 0.73, 0.76), (4, 0.94, 0.93)];
/// A change that is smaller than this share of where it began is none.
const LEAST_CHANGE: f64 = 0.02;
const TWELFTHS: u32 = 12;

/// One of the two quantities of a point.
type Quantity = fn(&Point) -> f64;

/// Entropy that was given up, as a quantity that grows.
pub(super) const SPENT: Quantity = |point| -point.entropy;
/// Accuracy that was gained.
pub(super) const GAINED: Quantity = |point| point.accuracy;

/// A quantity at a step between the first and the last point, in a straight line between points.
fn at(points: &[Point], quantity: Quantity, step: f64) -> Option<f64> {
    let after = points.partition_point(|point| (point.step as f64) < step);
    let Some(next) = points.get(after) else { return points.last().map(quantity) };
    let Some(before) = after.checked_sub(1).map(|i| &points[i]) else { return Some(quantity(next)) };
    let part = (step - before.step as f64) / (next.step - before.step) as f64;
    Some(quantity(before) + part * (quantity(next) - quantity(before)))
}

/// How much a quantity grew from the first to the last point; none where it did not.
pub(super) fn growth(points: &[Point], quantity: Quantity) -> Option<f64> {
    let (first, last) = (quantity(points.first()?), quantity(points.last()?));
    let grown = last - first;
    (grown > LEAST_CHANGE * first.abs().max(f64::MIN_POSITIVE)).then_some(grown)
}

/// Whether a quantity is more at the end than at the beginning, however little.
pub(super) fn is_more(points: &[Point], quantity: Quantity) -> bool {
    points.first().zip(points.last()).is_some_and(|(first, last)| quantity(last) > quantity(first))
}

/// The share of its growth that is reached at a step.
fn share(points: &[Point], quantity: Quantity, step: f64) -> Option<f64> {
    let grown = growth(points, quantity)?;
    Some((at(points, quantity, step)? - quantity(points.first()?)) / grown)
}

/// The first step at which half of the growth is reached.
pub(super) fn half_way(points: &[Point], quantity: Quantity) -> Option<f64> {
    let middle = quantity(points.first()?) + growth(points, quantity)? / 2.0;
    let pair = points.windows(2).find(|pair| quantity(&pair[1]) >= middle)?;
    let (before, after) = (quantity(&pair[0]), quantity(&pair[1]));
    let part = if after > before { ((middle - before) / (after - before)).clamp(0.0, 1.0) } else { 0.0 };
    Some(pair[0].step as f64 + part * (pair[1].step - pair[0].step) as f64)
}

/// The section: a table for each evaluation set.
pub(super) fn html(runs: &[Run]) -> String {
    let mut sets: Vec<&str> = Vec::new();
    for measured in runs.iter().flat_map(|run| &run.measured).filter(|m| m.points.len() > 1) {
        if !sets.contains(&measured.set.as_str()) {
            sets.push(&measured.set);
        }
    }
    if sets.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section id=\"collapse\">\n<h2>How early it was spent</h2>\n<p>Share of the fall in entropy, and of the gain in \
         accuracy, by each twelfth of the run, of what the whole run came to; between evaluations in a straight line. In the \
         paper’s runs most of both went in the first twelfth: what follows costs most of the time and brings little.</p>\n",
    );
    for set in sets.iter().copied().take(MAX_SETS) {
        let of_set = |(i, run): (usize, &'_ Run)| -> Option<(usize, Measured)> {
            run.measured.iter().find(|m| m.set == set && m.points.len() > 1).map(|m| (i, m.clone()))
        };
        let columns: Vec<(usize, Measured)> = runs.iter().enumerate().filter_map(of_set).collect();
        html += &table(runs, &columns);
    }
    if sets.len() > MAX_SETS {
        let _ =
            writeln!(html, "<p class=\"quiet\">These are {MAX_SETS} of {} evaluation sets.</p>", sets.len());
    }
    html + "</section>\n"
}

fn table(runs: &[Run], columns: &[(usize, Measured)]) -> String {
    let mut html = String::new();
    let Some((_, any)) = columns.first() else { return html };
    let _ = write!(
        html,
        "<h3>On {}</h3>\n<div class=\"wide\"><table class=\"collapse\">\n<thead><tr><th></th>",
        short_name(place(&any.set))
    );
    let is_alone = runs.len() == 1;
    for (i, _) in columns {
        let (swatch, span) = if is_alone { (String::new(), 5) } else { (swatch(*i), 2) };
        let _ = write!(html, "<th colspan=\"{span}\" class=\"group\">{swatch}{}</th>", runs[*i].html());
    }
    html += "<th colspan=\"2\" class=\"group\">arXiv:2505.22617</th></tr>\n<tr><th>by</th>";
    for _ in columns {
        if is_alone {
            html += "<th class=\"group\">step</th><th>entropy, nats</th><th>accuracy</th>";
        }
        let group = if is_alone { "" } else { " class=\"group\"" };
        let _ = write!(html, "<th{group}>entropy spent</th><th>gain made</th>");
    }
    html += "<th class=\"group\">entropy spent</th><th>gain made</th></tr></thead>\n<tbody>\n";
    let cell = |share: Option<f64>| share.map_or("–".to_owned(), percent_of_whole);
    for twelfth in 1..=TWELFTHS {
        let paper = PAPER.iter().find(|row| row.0 == twelfth);
        let class = if paper.is_some() { " class=\"with-paper\"" } else { "" };
        let _ = write!(html, "<tr{class}><td>{twelfth}/12</td>");
        for (_, Measured { points, .. }) in columns {
            let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
            let step = first.step as f64
                + (last.step - first.step) as f64 * f64::from(twelfth) / f64::from(TWELFTHS);
            if is_alone {
                let entropy = at(points, |point| point.entropy, step).map_or("–".into(), plain);
                let accuracy = at(points, GAINED, step).map_or("–".into(), percent);
                let _ = write!(
                    html,
                    "<td class=\"group\">{}</td><td>{entropy}</td><td>{accuracy}</td>",
                    if step < 1e15 { ((step * 10.0).round() / 10.0).to_string() } else { plain(step) }
                );
            }
            let group = if is_alone { "" } else { " class=\"group\"" };
            let _ = write!(
                html,
                "<td{group}>{}</td><td>{}</td>",
                cell(share(points, SPENT, step)),
                cell(share(points, GAINED, step))
            );
        }
        let [entropy, gain] = [paper.map(|row| row.1), paper.map(|row| row.2)]
            .map(|share| share.map_or(String::new(), percent_of_whole));
        let _ = writeln!(html, "<td class=\"group\">{entropy}</td><td>{gain}</td></tr>");
    }
    html += "</tbody>\n</table></div>\n";
    for (i, Measured { points, .. }) in columns {
        let quantities = [
            (SPENT, "entropy", "hardly fell", "did not fall"),
            (GAINED, "accuracy", "hardly rose", "did not rise"),
        ];
        for (quantity, name, hardly, not) in quantities {
            if growth(points, quantity).is_none() {
                let what = format!("{name} {}", if is_more(points, quantity) { hardly } else { not });
                let _ = writeln!(
                    html,
                    "<p class=\"quiet\">{}: {what} from the first evaluation to the last, so there are no \
                                        shares of it.</p>",
                    runs[*i].html()
                );
            }
        }
    }
    html
}

fn percent_of_whole(share: f64) -> String {
    if share.abs() >= DRAWABLE {
        return percent(share);
    }
    format!("{:.0}\u{a0}%", (100.0 * share).round() + 0.0).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(u64, f64, f64)]) -> Vec<Point> {
        values.iter().map(|&(step, entropy, accuracy)| Point { step, entropy, accuracy }).collect()
    }

    #[test]
    fn shares_are_of_the_whole_change_and_between_points_in_a_line() {
        let points = points(&[(0, 2.0, 0.1), (10, 1.0, 0.3), (40, 0.0, 0.5)]);
        let of = |quantity, step| share(&points, quantity, step).unwrap();
        assert!((of(SPENT, 5.0) - 0.25).abs() < 1e-12 && (of(SPENT, 25.0) - 0.75).abs() < 1e-12);
        assert!((of(GAINED, 10.0) - 0.5).abs() < 1e-12 && of(GAINED, 40.0) == 1.0 && of(GAINED, 99.0) == 1.0);
        assert_eq!(half_way(&points, SPENT), Some(10.0));
    }

    #[test]
    fn what_did_not_fall_or_rise_has_no_shares() {
        let points = points(&[(0, 1.0, 0.5), (10, 1.001, 0.2)]);
        assert!(share(&points, SPENT, 5.0).is_none() && share(&points, GAINED, 5.0).is_none());
        assert_eq!(
            (half_way(&points, SPENT), half_way(&[], SPENT), growth(&points[..1], GAINED)),
            (None, None, None)
        );
    }
}
