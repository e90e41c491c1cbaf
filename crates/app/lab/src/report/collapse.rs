//! How early entropy and gain were spent: shares by each twelfth of a run.

use super::MAX_SETS;
use super::curves::swatch;
use super::law_section::set_names;
use super::methods::Methods;
use super::number::{DRAWABLE, percent, plain};
use super::run::{PageRun, place};
use super::text::{listed, short_name, words};
use crate::collapse::{
    GAINED, PAPER, Quantity, SPENT, TWELFTHS, at, growth, is_more, share, step_by,
};
use crate::law::Point;
use crate::page::scrolling;
use crate::seeds::Members;
use std::fmt::Write;

/// The section: a table for each evaluation set.
pub(super) fn html(runs: &[PageRun], methods: &Methods) -> String {
    let has_course = |set: &&str| runs.iter().any(|run| points(run, set).is_some());
    let sets: Vec<&str> = set_names(runs).into_iter().filter(has_course).collect();
    if sets.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section id=\"collapse\">\n<h2>How early it was spent</h2>\n<p>Share of the fall in \
         entropy, \
         and of the gain in accuracy, by each twelfth of the run, of what the whole run came to; \
         between evaluations in a straight line. In the paper’s runs most of both went in the \
         first \
         twelfth: what follows costs most of the time and brings little.</p>\n",
    );
    for set in sets.iter().copied().take(MAX_SETS) {
        html += &table(runs, methods, set);
    }
    if sets.len() > MAX_SETS {
        let all = sets.len();
        let _ =
            writeln!(html, "<p class=\"quiet\">These are {MAX_SETS} of {all} evaluation sets.</p>");
    }
    html + "</section>\n"
}

/// The points of a run on a set, if there are several.
fn points<'a>(run: &'a PageRun, set: &str) -> Option<&'a [Point]> {
    let points = &run.set(set)?.measured.points;
    (points.len() > 1).then_some(points)
}

/// A column: a run, or a group over its seeds.
struct Column<'a> {
    /// Its picture and its name, as HTML.
    head: String,
    /// The places of its runs, with their points.
    runs: Vec<(usize, &'a [Point])>,
}

impl Column<'_> {
    /// The mean over runs of the share that is reached by so many twelfths; none without shares.
    fn share(&self, quantity: Quantity, twelfth: u32) -> Option<f64> {
        let of =
            |(_, points): &(usize, &[Point])| share(points, quantity, step_by(points, twelfth)?);
        let shares: Vec<f64> = self.runs.iter().filter_map(of).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

/// A column for each run, or for each group if some have several seeds.
fn columns<'a>(runs: &'a [PageRun], methods: &Methods, set: &str) -> Vec<Column<'a>> {
    let of_run = |i: usize| Some((i, points(&runs[i], set)?));
    if methods.is_empty() {
        let column = |(i, run): (usize, &PageRun)| {
            let swatch = if runs.len() == 1 { String::new() } else { swatch(i) };
            Some(Column { head: swatch + &run.html(), runs: vec![of_run(i)?] })
        };
        return runs.iter().enumerate().filter_map(column).collect();
    }
    let column = |(i, group): (usize, &Members)| {
        let runs: Vec<_> = group.counted.iter().filter_map(|run| of_run(*run)).collect();
        let seeds = match runs.len() {
            1 => "1 seed".into(),
            n => format!("mean of {n} seeds"),
        };
        let (swatch, name) = (swatch(i), words(&group.name));
        let head = format!("{swatch}<bdi>{name}</bdi><br><small class=\"quiet\">{seeds}</small>");
        (!runs.is_empty()).then_some(Column { head, runs })
    };
    methods.groups().iter().enumerate().filter_map(column).collect()
}

fn table(runs: &[PageRun], methods: &Methods, set: &str) -> String {
    let columns = columns(runs, methods, set);
    if columns.is_empty() {
        return String::new();
    }
    let name = short_name(place(set));
    let mut html = format!(
        "<h3>On {name}</h3>\n{}<table class=\"collapse\">\n<thead><tr><th></th>",
        scrolling(&format!("How early it was spent on {name}"))
    );
    // The course itself has room beside the shares of a single run.
    let alone = if runs.len() == 1 { columns[0].runs.first() } else { None };
    let span = if alone.is_some() { 5 } else { 2 };
    for Column { head, .. } in &columns {
        let _ = write!(html, "<th colspan=\"{span}\" class=\"group\">{head}</th>");
    }
    html += "<th colspan=\"2\" class=\"group\">arXiv:2505.22617</th></tr>\n<tr><th>by</th>";
    let group = if alone.is_some() { "" } else { " class=\"group\"" };
    for _ in &columns {
        if alone.is_some() {
            html += "<th class=\"group\">step</th><th>entropy, nats</th><th>accuracy</th>";
        }
        let _ = write!(html, "<th{group}>entropy spent</th><th>gain made</th>");
    }
    html += "<th class=\"group\">entropy spent</th><th>gain made</th></tr></thead>\n<tbody>\n";
    let cell = |share: Option<f64>| share.map_or("–".to_owned(), percent_of_whole);
    for twelfth in 1..=TWELFTHS {
        let paper = PAPER.iter().find(|row| row.0 == twelfth);
        let class = if paper.is_some() { " class=\"with-paper\"" } else { "" };
        let _ = write!(html, "<tr{class}><td>{twelfth}/12</td>");
        if let Some((_, points)) = alone
            && let Some(step) = step_by(points, twelfth)
        {
            let entropy = at(points, |point| point.entropy, step).map_or("–".into(), plain);
            let accuracy = at(points, GAINED, step).map_or("–".into(), percent);
            let step = match step {
                step if step < 1e15 => ((step * 10.0).round() / 10.0).to_string(),
                step => plain(step),
            };
            let _ = write!(
                html,
                "<td class=\"group\">{step}</td><td>{entropy}</td><td>{accuracy}</td>"
            );
        }
        for column in &columns {
            let [spent, gained] =
                [SPENT, GAINED].map(|quantity| cell(column.share(quantity, twelfth)));
            let _ = write!(html, "<td{group}>{spent}</td><td>{gained}</td>");
        }
        let [entropy, gain] = [paper.map(|row| row.1), paper.map(|row| row.2)]
            .map(|share| share.map_or(String::new(), percent_of_whole));
        let _ = writeln!(html, "<td class=\"group\">{entropy}</td><td>{gain}</td></tr>");
    }
    html += "</tbody>\n</table></div>\n";
    let measured: Vec<(usize, &[Point])> =
        columns.iter().flat_map(|column| column.runs.iter().copied()).collect();
    html + &if methods.is_empty() {
        measured.into_iter().map(|(i, points)| without_shares(&runs[i], points)).collect()
    } else {
        left_out(runs, &measured, set)
    }
}

/// The quantities, their names, and the verbs for one without shares.
const QUANTITIES: [(Quantity, &str, &str, &str); 2] = [
    (SPENT, "entropy", "hardly fell", "did not fall"),
    (GAINED, "accuracy", "hardly rose", "did not rise"),
];

/// Why a run has no shares.
fn without_shares(run: &PageRun, points: &[Point]) -> String {
    let mut html = String::new();
    for (quantity, name, hardly, not) in QUANTITIES {
        if growth(points, quantity).is_none() {
            let course = if is_more(points, quantity) { hardly } else { not };
            let _ = writeln!(
                html,
                "<p class=\"quiet\">{}: {name} {course} from the first evaluation to the last, so \
                 there are no shares of it.</p>",
                run.html()
            );
        }
    }
    html
}

/// The runs that the means of groups leave out, in a sentence; empty if there are none.
fn left_out(runs: &[PageRun], measured: &[(usize, &[Point])], set: &str) -> String {
    let names = |places: &[usize]| -> String {
        let names = places.iter().map(|place| runs[*place].data.name.clone());
        words(&listed(&names.collect::<Vec<_>>()))
    };
    let mut reasons = Vec::new();
    for (quantity, name, _, not) in QUANTITIES {
        let without = measured.iter().filter(|(_, points)| growth(points, quantity).is_none());
        let without: Vec<usize> = without.map(|(run, _)| *run).collect();
        if !without.is_empty() {
            reasons.push(format!("of {name}, which {not} or hardly: {}", names(&without)));
        }
    }
    let is_counted = |run: &usize| measured.iter().any(|(counted, _)| counted == run);
    let others = (0..runs.len()).filter(|run| points(&runs[*run], set).is_some());
    let others: Vec<usize> = others.filter(|run| !is_counted(run)).collect();
    if !others.is_empty() {
        let names = names(&others);
        reasons.push(format!("unfinished, or of a seed that is there already: {names}"));
    }
    if reasons.is_empty() {
        return String::new();
    }
    format!("<p class=\"quiet\">Left out of the means, {}.</p>\n", reasons.join("; "))
}

fn percent_of_whole(share: f64) -> String {
    if share.abs() >= DRAWABLE {
        return percent(share);
    }
    format!("{:.0}\u{a0}%", (100.0 * share).round() + 0.0).replace('-', "−")
}
