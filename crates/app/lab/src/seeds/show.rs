//! Summaries for people: on a terminal, as Markdown, as part of a web page.

use super::measure::Unit;
use super::{Against, Group, Mean, Measure, Paired, Row, Section, Summary};
use crate::page::{self, legible, with_code};
use std::fmt::Write;

/// Columns that a name gets on a terminal.
const NAME: usize = 24;

/// A block for each of the main measures, whose lines may be broken between words.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for row in summary.rows.iter().filter(|row| row.measure.is_main()) {
        let measure = &row.measure;
        let _ = writeln!(text, "\n  {}", measure.title);
        for (place, group) in summary.groups.iter().enumerate() {
            let (number, of) = match &row.means[place] {
                Some(mean) => (number(measure, mean.value), spread(measure, mean, group)),
                None if group.runs.is_empty() => ("n/a".to_owned(), group.seeds_finished()),
                None => ("n/a".to_owned(), String::new()),
            };
            let line = format!("    {:NAME$} {number:>9}  {of}", group.name);
            let _ = writeln!(text, "{}", line.trim_end());
            if let Some(Against { group, test }) = &row.against[place] {
                let difference = with_interval(measure, &test.difference, signed);
                let _ = writeln!(text, "      against {group}: {difference}, {}", p_values(test));
            }
        }
    }
    if !summary.rows.is_empty() {
        text += "\n  in brackets: 95 % intervals of the mean over seeds, by Student's t\n";
    }
    summary.notes.iter().for_each(|note| text += &format!("  {}\n", note.replace('\n', " ")));
    text
}

/// Tables of means and of differences, by section, with the notes below.
pub fn markdown(summary: &Summary) -> String {
    let mut text = String::new();
    for section in Section::ALL {
        let rows: Vec<&Row> =
            summary.rows.iter().filter(|row| row.measure.section == section).collect();
        if let Some((heading, reading)) = section.heading().filter(|_| !rows.is_empty()) {
            let _ = writeln!(text, "## {heading}\n\n{reading}\n");
        }
        // Pages are narrow, so each table has a few measures.
        rows.chunks(4).for_each(|rows| text += &tables(summary, rows));
    }
    if !summary.rows.is_empty() {
        text += "In brackets: 95 % intervals of the mean over seeds, by Student's t.\n";
    }
    summary.notes.iter().for_each(|note| text += &format!("\n- {}\n", note.replace('\n', " ")));
    text
}

/// A Markdown table; its cells are escaped.
pub(super) fn table(first: &str, heads: &[String], lines: &[Vec<String>]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('\n', " ");
    let row = |cells: &[String]| cells.iter().map(cell).collect::<Vec<_>>().join(" | ");
    let mut text = format!("| {first} | {} |\n|---|{}\n", row(heads), "---|".repeat(heads.len()));
    lines.iter().for_each(|line| text += &format!("| {} |\n", row(line)));
    text + "\n"
}

fn titles(rows: &[&Row]) -> Vec<String> {
    rows.iter().map(|row| row.measure.title.clone()).collect()
}

/// A few measures of all groups: their means, and the differences.
fn tables(summary: &Summary, rows: &[&Row]) -> String {
    let of_group = |(i, group): (usize, &Group)| {
        let of = |row: &&Row| {
            row.means[i].as_ref().map_or("n/a".into(), |mean| described(&row.measure, mean, group))
        };
        let name = match group.unfinished.len() {
            0 => group.name.clone(),
            _ => format!("{} ({})", group.name, group.seeds_finished()),
        };
        [vec![name], rows.iter().map(of).collect()].concat()
    };
    let means: Vec<Vec<String>> = summary.groups.iter().enumerate().map(of_group).collect();
    let mut text = table("", &titles(rows), &means);
    let lines: Vec<Vec<String>> =
        (0..summary.groups.len()).flat_map(|i| differences(summary, rows, i)).collect();
    if !lines.is_empty() {
        text += &table("difference", &titles(rows), &lines);
    }
    text
}

/// A group's name, and its differences from its control; none if no row compares them.
fn differences(summary: &Summary, rows: &[&Row], group: usize) -> Option<Vec<String>> {
    let control = &rows.iter().find_map(|row| row.against[group].as_ref())?.group;
    let of = |row: &&Row| {
        row.against[group].as_ref().map_or(String::new(), |Against { test, .. }| {
            format!("{} {}", with_interval(&row.measure, &test.difference, signed), p_values(test))
        })
    };
    let name = format!("{} against {control}", summary.groups[group].name);
    Some([vec![name], rows.iter().map(of).collect()].concat())
}

/// A mean with its interval, and the number of seeds if some lack the number; for a count, the
/// count alone.
fn described(measure: &Measure, mean: &Mean, group: &Group) -> String {
    if measure.is_count() {
        return format!("{:.0} of {}", mean.runs.iter().sum::<f64>(), mean.runs.len());
    }
    let seeds = match (mean.runs.len(), group.runs.len()) {
        (known, all) if known == all => String::new(),
        (1, _) => " (1 seed)".into(),
        (known, _) => format!(" ({known} seeds)"),
    };
    with_interval(measure, mean, number) + &seeds
}

/// The section of a page: means with intervals, differences, notes. Empty if no group has two
/// seeds.
pub fn section(summary: &Summary) -> String {
    let has_seeds = summary.groups.iter().any(|group| group.runs.len() > 1);
    if summary.rows.is_empty() || !has_seeds {
        return String::new();
    }
    let mut html = String::from("<section id=\"seeds\">\n<h2>Over seeds</h2>\n");
    let _ = writeln!(
        html,
        "<p>Runs that differ in nothing but the seed are one group. Numbers are means over its \
         seeds with 95\u{a0}% intervals by Student's t; below them stands how the group differs \
         from another over the same seeds, and from which.</p>"
    );
    for part in Section::ALL {
        let rows: Vec<&Row> =
            summary.rows.iter().filter(|row| row.measure.section == part).collect();
        if rows.is_empty() {
            continue;
        }
        // The explanation stands above the scrolling box, so that the box does not cut it off.
        if let Some((heading, reading)) = part.heading() {
            let (heading, reading) = (legible(heading), with_code(reading));
            let _ = writeln!(html, "<h3>{heading}</h3>\n<p class=\"quiet\">{reading}</p>");
        }
        let label =
            part.heading().map_or("Means over seeds".to_owned(), |(heading, _)| legible(heading));
        html += &table_of_page(summary, &rows, &label);
    }
    if !summary.notes.is_empty() {
        html += "<ul>\n";
        summary.notes.iter().for_each(|note| html += &format!("<li>{}</li>\n", with_code(note)));
        html += "</ul>\n";
    }
    html + "</section>\n"
}

/// A table of a page: a column for each group.
fn table_of_page(summary: &Summary, rows: &[&Row], label: &str) -> String {
    let mut heads = String::from("<th scope=\"col\"></th>");
    for group in &summary.groups {
        let seeds = group.seeds_finished();
        let _ = write!(
            heads,
            "<th scope=\"col\">{}<br><small class=\"quiet\">{seeds}</small></th>",
            legible(&group.name)
        );
    }
    let mut html = String::new();
    for row in rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", legible(&row.measure.title));
        for (place, (mean, against)) in row.means.iter().zip(&row.against).enumerate() {
            let mean = mean.as_ref().map_or("n/a".into(), |mean| {
                let of = mean
                    .runs
                    .iter()
                    .map(|x| number(&row.measure, *x))
                    .collect::<Vec<_>>()
                    .join(", ");
                format!(
                    "<span title=\"{of}\">{}</span>",
                    described(&row.measure, mean, &summary.groups[place])
                )
            });
            let against = against.as_ref().map_or(String::new(), |against| {
                let difference = with_interval(&row.measure, &against.test.difference, signed);
                let (control, p) = (legible(&against.group), p_values(&against.test));
                format!("<br><small class=\"quiet\">{difference} against {control}, {p}</small>")
            });
            let _ = write!(html, "<td>{mean}{against}</td>");
        }
        html += "</tr>\n";
    }
    page::table(label, "seeds", &heads, &html)
}

fn number(measure: &Measure, value: f64) -> String {
    if measure.unit.is_signed {
        return signed(measure, value);
    }
    let Unit { scale, digits, .. } = measure.unit;
    let value = f64::from(scale) * value;
    if value.abs() < 1e9 { format!("{value:.digits$}") } else { format!("{value:.2e}") }
}

pub(super) fn signed(measure: &Measure, value: f64) -> String {
    let Unit { scale, digits, .. } = measure.unit;
    let shown = format!("{:+.digits$}", f64::from(scale) * value);
    // A number that rounds to 0 has no sign.
    if shown.contains(|c: char| c.is_ascii_digit() && c != '0') {
        shown
    } else {
        shown.replace(['+', '-'], "")
    }
}

/// The interval, and the number of the group's seeds behind it.
fn spread(measure: &Measure, mean: &Mean, group: &Group) -> String {
    let seeds = match mean.runs.len() {
        all if all == group.runs.len() => group.seeds_finished(),
        n => format!("{n} of {} seeds", group.runs.len() + group.unfinished.len()),
    };
    match mean.runs.len() {
        1 => format!("{seeds}, so no interval"),
        _ => format!("{}  {seeds}", between(measure, mean, number)),
    }
}

fn between(measure: &Measure, mean: &Mean, shown: fn(&Measure, f64) -> String) -> String {
    match mean.interval {
        Some([low, high]) => format!("[{}, {}]", shown(measure, low), shown(measure, high)),
        None if mean.has_no_spread() => "no spread".into(),
        None => String::new(),
    }
}

fn with_interval(measure: &Measure, mean: &Mean, shown: fn(&Measure, f64) -> String) -> String {
    [shown(measure, mean.value), between(measure, mean, shown)].join(" ").trim().to_owned()
}

pub(super) fn p_value(p: f64) -> String {
    if p < 0.0005 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// The p-values of both tests, and the number of pairs.
fn p_values(test: &Paired) -> String {
    let tests = match (test.p, test.p_exact) {
        (Some(t), Some(exact)) => format!("p {}, exact {}", p_value(t), p_value(exact)),
        (Some(t), None) => format!("p {}", p_value(t)),
        (None, Some(exact)) if test.difference.has_no_spread() => {
            format!("exact {}", p_value(exact))
        }
        (None, _) if test.difference.has_no_spread() => "no test".into(),
        (None, _) => return "1 pair, so no test".into(),
    };
    format!("{tests}, {} pairs", test.difference.runs.len())
}
