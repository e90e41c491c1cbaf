//! Summaries for people: on a terminal, as Markdown, as part of a web page.

use super::{Group, Mean, Measure, Paired, Row, Summary};
use crate::page::legible;
use std::fmt::Write;

/// Columns that a name gets on a terminal.
const NAME: usize = 24;

/// A block for each of the main measures, in at most 80 columns unless a name in a note is longer.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    let baseline = summary.groups.first().map_or("", |group| &group.name);
    for row in summary.rows.iter().filter(|row| row.measure.is_main()) {
        let _ = writeln!(text, "\n  {}", row.measure.title());
        for (group, (mean, against)) in summary.groups.iter().zip(row.means.iter().zip(&row.against_first)) {
            let name = shortened(&group.name, NAME);
            let Some(mean) = mean else {
                let why = if group.runs.is_empty() { group.seeds_finished() } else { String::new() };
                let _ = writeln!(text, "{}", format!("    {name:NAME$} {:>9}  {why}", "n/a").trim_end());
                continue;
            };
            let number = number(&row.measure, mean.value);
            let _ = writeln!(text, "    {name:NAME$} {number:>9}  {}", spread(&row.measure, mean, group));
            if let Some(against) = against {
                let label = shortened(&format!("  against {baseline}"), NAME);
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

/// Two tables, of means and of differences, with the notes below.
pub fn markdown(summary: &Summary) -> String {
    let mut text = String::new();
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let heads =
        |rows: &[&Row]| rows.iter().map(|row| cell(&row.measure.title())).collect::<Vec<_>>().join(" | ");
    let mut table = |first: &str, rows: &[&Row], lines: Vec<Vec<String>>| {
        let _ = writeln!(text, "| {first} | {} |\n|---|{}", heads(rows), "---|".repeat(rows.len()));
        for line in lines {
            let _ =
                writeln!(text, "| {} |", line.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
        }
        text.push('\n');
    };
    // Pages are narrow: a table for a few measures at a time.
    for rows in summary.rows.chunks(4) {
        let rows: Vec<&Row> = rows.iter().collect();
        let line = |(i, name): (usize, &str)| {
            let of = |row: &&Row| {
                row.means[i].as_ref().map_or("n/a".into(), |mean| with_interval(&row.measure, mean, number))
            };
            let group = &summary.groups[i];
            let name = match group.unfinished.len() {
                0 => name.to_owned(),
                _ => format!("{name} ({})", group.seeds_finished()),
            };
            [vec![name], rows.iter().map(of).collect()].concat()
        };
        let names = || summary.groups.iter().map(|group| group.name.as_str()).enumerate();
        table("", &rows, names().map(line).collect());
        let line = |(i, name): (usize, &str)| {
            let of = |row: &&Row| {
                row.against_first[i].as_ref().map_or(String::new(), |against| {
                    format!(
                        "{} {}",
                        with_interval(&row.measure, &against.difference, signed),
                        p_values(against)
                    )
                })
            };
            [vec![name.to_owned()], rows.iter().map(of).collect()].concat()
        };
        let is_compared = |i: usize| rows.iter().any(|row| row.against_first[i].is_some());
        let lines: Vec<Vec<String>> = names().filter(|(i, _)| is_compared(*i)).map(line).collect();
        if !lines.is_empty() {
            table(&format!("against {}", summary.groups[0].name), &rows, lines);
        }
    }
    if !summary.rows.is_empty() {
        text += "In brackets: 95 % intervals of the mean over seeds, by Student's t.\n";
    }
    summary.notes.iter().for_each(|note| text += &format!("\n- {}\n", note.replace('\n', " ")));
    text
}

/// A section of a page: what is known of all groups, with intervals, differences and notes. Empty where no group has two
/// seeds.
pub fn section(summary: &Summary) -> String {
    let has_seeds = summary.groups.iter().any(|group| group.runs.len() > 1);
    if summary.rows.is_empty() || !has_seeds {
        return String::new();
    }
    let baseline = legible(&summary.groups[0].name);
    let mut html = String::from("<section id=\"seeds\">\n<h2>Over seeds</h2>\n");
    let _ = write!(
        html,
        "<p>Runs that differ in nothing but the seed are one group. Numbers are means over its seeds with 95\u{a0}% intervals by \
         Student's t; below them, where another group is compared with <b>{baseline}</b> over the same seeds, the \
         difference.</p>\n\
         <div class=\"wide\"><table>\n<thead><tr><th scope=\"col\"></th>"
    );
    for group in &summary.groups {
        let seeds = group.seeds_finished();
        let _ = write!(
            html,
            "<th scope=\"col\">{}<br><small class=\"quiet\">{seeds}</small></th>",
            legible(&group.name)
        );
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &summary.rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", legible(&row.measure.title()));
        for (mean, against) in row.means.iter().zip(&row.against_first) {
            let mean = mean.as_ref().map_or("n/a".into(), |mean| {
                let of = mean.runs.iter().map(|x| number(&row.measure, *x)).collect::<Vec<_>>().join(", ");
                format!("<span title=\"{of}\">{}</span>", with_interval(&row.measure, mean, number))
            });
            let against = against.as_ref().map_or(String::new(), |against| {
                let difference = with_interval(&row.measure, &against.difference, signed);
                format!("<br><small class=\"quiet\">{difference} {}</small>", p_values(against))
            });
            let _ = write!(html, "<td>{mean}{against}</td>");
        }
        html += "</tr>\n";
    }
    html += "</tbody>\n</table></div>\n";
    if !summary.notes.is_empty() {
        html += "<ul>\n";
        summary.notes.iter().for_each(|note| html += &format!("<li>{}</li>\n", legible(note)));
        html += "</ul>\n";
    }
    html + "</section>\n"
}

fn number(measure: &Measure, value: f64) -> String {
    let (scale, digits) = measure.scale();
    let value = scale * value;
    if value.abs() < 1e9 { format!("{value:.digits$}") } else { format!("{value:.2e}") }
}

fn signed(measure: &Measure, value: f64) -> String {
    let (scale, digits) = measure.scale();
    let shown = format!("{:+.digits$}", scale * value);
    // What rounds to nothing has no sign.
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

/// What the tests say, and of how many pairs.
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
