//! Summaries for people: on a terminal, as Markdown, as part of a web page.

use super::{Against, Group, Mean, Measure, Paired, Row, Section, Summary};
use crate::page::{legible, scrolling, with_code};
use std::fmt::Write;

/// Columns that a name gets on a terminal.
const NAME: usize = 24;

/// A block for each of the main measures, in at most 80 columns unless a name in a note is longer.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    let baseline = summary.groups.first().map_or("", |group| &group.name);
    for row in summary.rows.iter().filter(|row| row.measure.is_main()) {
        let _ = writeln!(text, "\n  {}", row.measure.title());
        let of_groups = summary.groups.iter().zip(row.means.iter().zip(&row.against));
        for (place, (group, (mean, against))) in of_groups.enumerate() {
            let name = shortened(&group.name, NAME);
            let Some(mean) = mean else {
                let why =
                    if group.runs.is_empty() { group.seeds_finished() } else { String::new() };
                let _ = writeln!(
                    text,
                    "{}",
                    format!("    {name:NAME$} {:>9}  {why}", "n/a").trim_end()
                );
                continue;
            };
            let number = number(&row.measure, mean.value);
            let _ = writeln!(
                text,
                "    {name:NAME$} {number:>9}  {}",
                spread(&row.measure, mean, group)
            );
            if let Some(against) = against {
                let label = shortened(&format!("  against {}", against.group), NAME);
                let against = &against.test;
                let difference = signed(&row.measure, against.difference.value);
                let interval = between(&row.measure, &against.difference, signed);
                let (beside, below) = match against.difference.runs.len() {
                    1 => (tests(against), None),
                    // All in one line would be wider than a terminal.
                    _ => (format!("{interval}  {}", pairs(against)), Some(tests(against))),
                };
                let _ = writeln!(text, "    {label:NAME$} {difference:>9}  {beside}");
                if let Some(line) = below {
                    let _ = writeln!(text, "    {:NAME$} {:9}  {line}", "", "");
                }
            }
            if let Some(Some(ratio)) = row.ratio_to_first.get(place) {
                let label = shortened(&format!("  times {baseline}"), NAME);
                let (value, interval) = (times(ratio.value), ratio_between(ratio));
                let _ = writeln!(
                    text,
                    "{}",
                    format!("    {label:NAME$} {value:>9}  {interval}").trim_end()
                );
            }
        }
    }
    if !summary.rows.is_empty() {
        text += "\n  in brackets: 95 % intervals of the mean over seeds, by Student's t\n";
    }
    for note in &summary.notes {
        let _ = writeln!(text, "{}", wrapped(note, 78));
    }
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
        // Pages are narrow: a table for a few measures at a time.
        rows.chunks(4).for_each(|rows| text += &tables(summary, rows));
        if section == Section::Main {
            text += &ratios(summary, &rows);
        }
    }
    if !summary.rows.is_empty() {
        text += "In brackets: 95 % intervals of the mean over seeds, by Student's t.\n";
    }
    summary.notes.iter().for_each(|note| text += &format!("\n- {}\n", note.replace('\n', " ")));
    text
}

/// A Markdown table; its cells are escaped.
fn table(first: &str, heads: &[String], lines: &[Vec<String>]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('\n', " ");
    let row = |cells: &[String]| cells.iter().map(cell).collect::<Vec<_>>().join(" | ");
    let mut text = format!("| {first} | {} |\n|---|{}\n", row(heads), "---|".repeat(heads.len()));
    lines.iter().for_each(|line| text += &format!("| {} |\n", row(line)));
    text + "\n"
}

fn titles(rows: &[&Row]) -> Vec<String> {
    rows.iter().map(|row| row.measure.title()).collect()
}

/// A few measures of all groups: their means, and the differences.
fn tables(summary: &Summary, rows: &[&Row]) -> String {
    let of_group = |(i, group): (usize, &Group)| {
        let of = |row: &&Row| {
            row.means[i].as_ref().map_or("n/a".into(), |mean| said(&row.measure, mean, group))
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

/// A group's name, and how it differs from the one that it is compared with; none where no row
/// compares them.
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

/// Entropies as multiples of the first group's.
fn ratios(summary: &Summary, rows: &[&Row]) -> String {
    let rows: Vec<&Row> =
        rows.iter().copied().filter(|row| row.ratio_to_first.iter().any(Option::is_some)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let line = |(i, group): (usize, &Group)| {
        let of = |row: &&Row| {
            row.ratio_to_first[i].as_ref().map_or(String::new(), |ratio| {
                format!("{} {}", times(ratio.value), ratio_between(ratio)).trim_end().to_owned()
            })
        };
        let cells: Vec<String> = rows.iter().map(of).collect();
        cells
            .iter()
            .any(|cell| !cell.is_empty())
            .then(|| [vec![group.name.clone()], cells].concat())
    };
    let lines: Vec<Vec<String>> = summary.groups.iter().enumerate().filter_map(line).collect();
    let first = format!("as a multiple of {}, over the same seeds", summary.groups[0].name);
    table(
        &first.replace('|', "\\|"),
        &titles(&rows).iter().map(|t| t.replace(", nats", "")).collect::<Vec<_>>(),
        &lines,
    )
}

/// A ratio.
fn times(ratio: f64) -> String {
    if (0.01..1e6).contains(&ratio) { format!("{ratio:.2}") } else { format!("{ratio:.1e}") }
}

fn ratio_between(ratio: &Mean) -> String {
    match ratio.interval {
        Some([low, high]) => format!("[{}, {}]", times(low), times(high)),
        None if ratio.has_no_spread() => "no spread".into(),
        None => String::new(),
    }
}

/// A mean with its interval, and of how many seeds where some have no such number; of a count, the
/// count.
fn said(measure: &Measure, mean: &Mean, group: &Group) -> String {
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
         seeds with 95\u{a0}% intervals by \
         Student's t; below them stands how the group differs from another over the same seeds, \
         and from which.</p>"
    );
    for part in Section::ALL {
        let rows: Vec<&Row> =
            summary.rows.iter().filter(|row| row.measure.section == part).collect();
        if rows.is_empty() {
            continue;
        }
        // Above the box that scrolls: no reading is cut off by it.
        if let Some((heading, reading)) = part.heading() {
            let (heading, reading) = (legible(heading), with_code(&reading));
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
    let baseline = legible(&summary.groups[0].name);
    let mut html =
        format!("{}<table class=\"seeds\">\n<thead><tr><th scope=\"col\"></th>", scrolling(label));
    for group in &summary.groups {
        let seeds = group.seeds_finished();
        let _ = write!(
            html,
            "<th scope=\"col\">{}<br><small class=\"quiet\">{seeds}</small></th>",
            legible(&group.name)
        );
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", legible(&row.measure.title()));
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
                    said(&row.measure, mean, &summary.groups[place])
                )
            });
            let against = against.as_ref().map_or(String::new(), |against| {
                let difference = with_interval(&row.measure, &against.test.difference, signed);
                let (control, p) = (legible(&against.group), p_values(&against.test));
                format!("<br><small class=\"quiet\">{difference} against {control}, {p}</small>")
            });
            let ratio = row.ratio_to_first.get(place).and_then(Option::as_ref).map_or(
                String::new(),
                |ratio| {
                    let shown = format!("{} {}", times(ratio.value), ratio_between(ratio));
                    format!(
                        "<br><small class=\"quiet\">{} times that of {baseline}</small>",
                        shown.trim_end()
                    )
                },
            );
            let _ = write!(html, "<td>{mean}{against}{ratio}</td>");
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

fn number(measure: &Measure, value: f64) -> String {
    if measure.is_difference() {
        return signed(measure, value);
    }
    let (scale, digits) = measure.scale();
    let value = scale * value;
    if value.abs() < 1e9 { format!("{value:.digits$}") } else { format!("{value:.2e}") }
}

fn signed(measure: &Measure, value: f64) -> String {
    let (scale, digits) = measure.scale();
    let shown = format!("{:+.digits$}", scale * value);
    // A number that rounds to nothing has no sign.
    if shown.contains(|c: char| c.is_ascii_digit() && c != '0') {
        shown
    } else {
        shown.replace(['+', '-'], "")
    }
}

/// The interval, and how many seeds of the group it comes from.
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

/// The p-values of both tests, and the number of pairs.
fn p_values(test: &Paired) -> String {
    match test.difference.runs.len() {
        1 => tests(test),
        _ => format!("{}, {}", tests(test), pairs(test)),
    }
}

fn pairs(test: &Paired) -> String {
    match test.difference.runs.len() {
        1 => "1 pair".into(),
        n => format!("{n} pairs"),
    }
}

fn tests(test: &Paired) -> String {
    let p = |p: f64| if p < 0.0005 { "< 0.001".to_owned() } else { format!("{p:.3}") };
    match (test.p, test.p_exact) {
        (Some(t), Some(exact)) => format!("p {}, exact {}", p(t), p(exact)),
        (Some(t), None) => format!("p {}", p(t)),
        (None, Some(exact)) if test.difference.has_no_spread() => format!("exact {}", p(exact)),
        (None, _) if test.difference.has_no_spread() => "no test".into(),
        (None, _) => "1 pair, so no test".into(),
    }
}

/// The name in so many characters: of a longer one, the middle is left out.
fn shortened(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let (first, last) = (most / 2, most - most / 2 - 1);
    let ends = name.chars().skip(count - last);
    name.chars().take(first).chain(['…']).chain(ends).collect()
}

/// A note in lines of so many columns, indented.
fn wrapped(note: &str, width: usize) -> String {
    let mut lines = vec![String::from(" ")];
    for word in note.split_whitespace() {
        let line = lines.len() - 1;
        if lines[line].chars().count() + 1 + word.chars().count() > width && lines[line].len() > 4 {
            lines.push(format!("    {word}"));
        } else {
            lines[line] += &format!(" {word}");
        }
    }
    lines.join("\n")
}
