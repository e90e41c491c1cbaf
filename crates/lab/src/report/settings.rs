//! The settings in which runs differ; of a single run, all of them.

use super::curves::swatch;
use super::run::Run;
use crate::page::escaped;
use serde_json::Value;
use std::fmt::Write;

/// Where a run is kept is no setting of it.
const LEFT_OUT: &str = "run.out";

/// Each setting by its dotted key, in the order of the recipe.
fn flat(key: &str, value: &Value, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(table) if !table.is_empty() => {
            for (name, value) in table {
                flat(&if key.is_empty() { name.clone() } else { format!("{key}.{name}") }, value, all);
            }
        }
        Value::String(text) => all.push((key.to_owned(), text.clone())),
        value => all.push((key.to_owned(), value.to_string())),
    }
}

/// The section.
pub(super) fn html(runs: &[Run]) -> String {
    let mut html = String::from("<section id=\"settings\">\n<h2>Settings</h2>\n");
    let with: Vec<(usize, &Run)> = runs.iter().enumerate().filter(|(_, run)| run.recipe.is_some()).collect();
    let without: Vec<String> = runs.iter().filter(|run| run.recipe.is_none()).map(Run::html).collect();
    if !without.is_empty() {
        let _ = writeln!(html, "<p>No recipe beside the log of {}.</p>", without.join(", "));
    }
    let flats: Vec<Vec<(String, String)>> = with
        .iter()
        .map(|(_, run)| {
            let mut all = Vec::new();
            flat("", run.recipe.as_ref().unwrap_or(&Value::Null), &mut all);
            all.retain(|(key, _)| key != LEFT_OUT);
            all
        })
        .collect();
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in flats.iter().flatten() {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let value = |all: &[(String, String)], key: &String| {
        all.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let rows: Vec<(&String, Vec<Option<String>>)> =
        keys.into_iter().map(|key| (key, flats.iter().map(|all| value(all, key)).collect())).collect();
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
            let differing: Vec<_> =
                rows.into_iter().filter(|(_, values)| values.iter().any(|v| *v != values[0])).collect();
            let equal = all - differing.len();
            if differing.is_empty() {
                let _ = writeln!(html, "<p>The runs do not differ in any of {all} settings.</p>");
            } else {
                html += &table(&with, &differing);
                let _ = writeln!(html, "<p class=\"quiet\">The other {equal} settings are equal.</p>");
            }
        }
    }
    html + "</section>\n"
}

fn table(runs: &[(usize, &Run)], rows: &[(&String, Vec<Option<String>>)]) -> String {
    let mut html = String::from("<div class=\"wide\"><table class=\"settings\">\n<thead><tr><th>key</th>");
    for (i, run) in runs {
        let swatch = if runs.len() > 1 { swatch(*i) } else { String::new() };
        let _ = write!(html, "<th>{swatch}{}</th>", run.html());
    }
    html += "</tr></thead>\n<tbody>\n";
    for (key, values) in rows {
        let _ = write!(html, "<tr><td><code>{}</code></td>", escaped(key));
        for value in values {
            let _ = write!(html, "<td>{}</td>", value.as_deref().map_or("–".into(), escaped));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}
