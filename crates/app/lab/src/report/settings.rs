//! The settings in which runs differ; all settings of a single run.

use super::curves::swatch;
use super::run::PageRun;
use super::text::{short_name, shortened, words};
use crate::page;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The directory of a run is no setting.
const LEFT_OUT: &str = "run.out";
/// Longest value that is shown whole, in characters.
const LONGEST: usize = 1000;

/// A setting: its key, and its value in each run.
type Row<'a> = (&'a String, Vec<Option<&'a String>>);

/// Each setting by its dotted key, in the order of the recipe.
fn flat(key: &str, value: &Value, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(table) if !table.is_empty() => {
            for (name, value) in table {
                flat(
                    &if key.is_empty() { name.clone() } else { format!("{key}.{name}") },
                    value,
                    all,
                );
            }
        }
        Value::String(text) => all.push((key.to_owned(), text.clone())),
        value => all.push((key.to_owned(), value.to_string())),
    }
}

/// The section.
pub(super) fn html(runs: &[PageRun]) -> String {
    let mut html = String::from("<section id=\"settings\">\n<h2>Settings</h2>\n");
    let with: Vec<(usize, &PageRun)> =
        runs.iter().enumerate().filter(|(_, run)| run.data.recipe.is_some()).collect();
    let without: Vec<String> =
        runs.iter().filter(|run| run.data.recipe.is_none()).map(PageRun::html).collect();
    if !without.is_empty() {
        let _ = writeln!(html, "<p>No recipe beside the log of {}.</p>", without.join(", "));
    }
    let flats: Vec<Vec<(String, String)>> = with
        .iter()
        .map(|(_, run)| {
            let mut all = Vec::new();
            flat("", run.data.recipe.as_ref().unwrap_or(&Value::Null), &mut all);
            all.retain(|(key, _)| key != LEFT_OUT);
            all
        })
        .collect();
    let (mut keys, mut known): (Vec<&String>, HashSet<&String>) = Default::default();
    for (key, _) in flats.iter().flatten() {
        if known.insert(key) {
            keys.push(key);
        }
    }
    let flats: Vec<HashMap<&String, &String>> =
        flats.iter().map(|all| all.iter().map(|(key, value)| (key, value)).collect()).collect();
    let rows: Vec<Row<'_>> = keys
        .into_iter()
        .map(|key| (key, flats.iter().map(|all| all.get(key).copied()).collect()))
        .collect();
    match (with.len(), rows.len()) {
        (0, _) => {}
        (1, _) => {
            html += "<details>\n<summary>All settings of ";
            html += &with[0].1.html();
            html += "</summary>\n";
            html += &table(&with, &rows);
            html += "</details>\n";
        }
        (_, all) => {
            let differing: Vec<_> = rows
                .into_iter()
                .filter(|(_, values)| values.iter().any(|v| *v != values[0]))
                .collect();
            let equal = all - differing.len();
            if differing.is_empty() {
                let _ = writeln!(html, "<p>The runs do not differ in any of {all} settings.</p>");
            } else {
                html += &table(&with, &differing);
                let _ =
                    writeln!(html, "<p class=\"quiet\">The other {equal} settings are equal.</p>");
            }
        }
    }
    html + "</section>\n"
}

fn table(runs: &[(usize, &PageRun)], rows: &[Row<'_>]) -> String {
    let mut heads = String::from("<th>key</th>");
    for (i, run) in runs {
        let swatch = if runs.len() > 1 { swatch(*i) } else { String::new() };
        let _ = write!(heads, "<th>{swatch}{}</th>", run.html());
    }
    let mut html = String::new();
    for (key, values) in rows {
        let _ = write!(html, "<tr><td><code>{}</code></td>", short_name(key));
        for value in values {
            let _ = write!(
                html,
                "<td>{}</td>",
                value.map_or("–".into(), |value| words(&shortened(value, LONGEST)))
            );
        }
        html += "</tr>\n";
    }
    page::table("Settings", "settings", &heads, &html)
}
