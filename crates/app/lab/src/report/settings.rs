//! The settings in which runs differ; all settings of a single run.

use super::legend::swatch;
use super::run::PageRun;
use super::text::{short_name, shortened, words};
use crate::page;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

/// The directory of a run is no setting.
const LEFT_OUT: &str = "run.out";
/// Longest value that is shown whole, in characters.
const LONGEST: usize = 1000;

/// A setting: its key, and its value in each run.
type Row = (String, Vec<Option<String>>);

/// The settings of some runs, in the order of their recipes.
#[derive(Default)]
struct Settings {
    rows: Vec<Row>,
    /// The place of each key in the rows.
    places: HashMap<String, usize>,
}

impl Settings {
    /// Adds the settings of one of `count` runs.
    fn add(&mut self, key: &str, value: &Value, run: usize, count: usize) {
        match value {
            Value::Object(table) if !table.is_empty() => {
                for (name, value) in table {
                    let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                    self.add(&key, value, run, count);
                }
            }
            _ if key == LEFT_OUT => {}
            value => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let place = *self.places.entry(key.to_owned()).or_insert_with(|| {
                    self.rows.push((key.to_owned(), vec![None; count]));
                    self.rows.len() - 1
                });
                self.rows[place].1[run] = Some(text);
            }
        }
    }
}

/// The section.
pub(super) fn html(runs: &[PageRun]) -> String {
    let mut html = String::from("<section id=\"settings\">\n<h2>Settings</h2>\n");
    let (with, without): (Vec<_>, Vec<_>) =
        runs.iter().enumerate().partition(|(_, run)| run.data.recipe.is_some());
    if !without.is_empty() {
        let names: Vec<String> = without.iter().map(|(_, run)| run.html()).collect();
        let _ = writeln!(html, "<p>No recipe beside the log of {}.</p>", names.join(", "));
    }
    let mut settings = Settings::default();
    for (place, (_, run)) in with.iter().enumerate() {
        run.data.recipe.iter().for_each(|recipe| settings.add("", recipe, place, with.len()));
    }
    let mut rows = settings.rows;
    let all = rows.len();
    match &with[..] {
        [] => {}
        [(_, run)] => {
            let (name, table) = (run.html(), table(&with, &rows));
            let _ = writeln!(
                html,
                "<details>\n<summary>All settings of {name}</summary>\n{table}</details>"
            );
        }
        _ => {
            rows.retain(|(_, values)| values.iter().any(|value| *value != values[0]));
            let equal = all - rows.len();
            html += &if rows.is_empty() {
                format!("<p>The runs do not differ in any of {all} settings.</p>\n")
            } else {
                let table = table(&with, &rows);
                format!("{table}<p class=\"quiet\">The other {equal} settings are equal.</p>\n")
            };
        }
    }
    html + "</section>\n"
}

fn table(runs: &[(usize, &PageRun)], rows: &[Row]) -> String {
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
                value.as_ref().map_or("–".into(), |value| words(&shortened(value, LONGEST)))
            );
        }
        html += "</tr>\n";
    }
    page::table("Settings", "settings", &heads, &html)
}
