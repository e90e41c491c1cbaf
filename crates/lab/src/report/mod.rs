//! The report on runs: one web page with what happened, the law, where the entropy went, and every curve.
//!
//! A file here is a part of the page. [`charts`](mod@self::charts) declares which metrics are drawn together; `report.js`
//! draws them with plotly.js.

mod charts;
mod collapse;
mod curves;
mod law_section;
mod number;
mod overview;
mod run;
mod seeds;
mod settings;
mod summary;
mod thin;

use self::run::Run;
use crate::page::{Packed, Page, escaped, script_value};
use crate::{Error, Result};
use std::path::PathBuf;

/// Most runs on one page: more curves than this nobody tells apart.
pub const MAX_RUNS: usize = 64;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// What readers see whose browser runs no scripts.
const WITHOUT_SCRIPT: &str = "<noscript><p>The charts need JavaScript; the summary and the tables do not.</p>\
                              <style>.charts, .legend, .swatch { display: none; }</style></noscript>\n";

/// A report on one run or several.
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<Run>,
}

impl Report {
    /// Reads the runs.
    ///
    /// # Errors
    /// When there are none or more than [`MAX_RUNS`], or one cannot be read; malformed lines are named by file and line.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        if paths.is_empty() || paths.len() > MAX_RUNS {
            let runs = paths.len();
            return Err(Error::Refused(format!("a report is on 1 to {MAX_RUNS} runs, and these are {runs}")));
        }
        Ok(Self { runs: run::open(paths)? })
    }

    /// The page, in less than 5 MB.
    ///
    /// # Errors
    /// When its data cannot be packed.
    pub fn html(&self) -> Result<String> {
        let runs = &self.runs;
        let title = match &runs[..] {
            [run] => format!("Report on {}", run.label),
            runs => format!("Report on {} runs", runs.len()),
        };
        let law = law_section::LawSection::of(runs);
        let curves = curves::Curves::of(runs);
        let mut body = WITHOUT_SCRIPT.to_owned();
        body += &overview::html(runs, &law);
        body += &summary::html(runs, &law);
        body += &seeds::html(runs);
        body += &law.html(runs);
        body += &collapse::html(runs);
        body += &curves.html(runs);
        body += &settings::html(runs);
        body += &notes(runs);
        let drawn: Vec<&curves::Chart> = law.charts().iter().chain(curves.charts()).collect();
        let mut packed = Vec::new();
        if !drawn.is_empty() {
            let labels: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
            let data = script_value(&serde_json::json!({ "runs": labels, "charts": drawn }));
            let data = data.map_err(|e| Error::Refused(format!("the report's data: {e}")))?;
            packed.push(Packed::plotly());
            packed.push(Packed::new("data", data.as_bytes())?);
        }
        let script = if drawn.is_empty() { "" } else { SCRIPT };
        Ok(Page { title, style: STYLE.into(), body, packed, script: script.into() }.html())
    }
}

/// What the reader of the logs has to say, and how the page is to be read.
fn notes(runs: &[Run]) -> String {
    let mut items: Vec<String> = Vec::new();
    for run in runs {
        items.extend(run.log.notes.iter().map(|note| format!("{}: {}", run.html(), escaped(note))));
        items.push(format!(
            "{} was read from <code>{}</code>.",
            run.html(),
            escaped(&run.log.path.display().to_string())
        ));
    }
    items.push("Entropies, covariances and divergences are in nats. The names of metrics are those of this project, and \
                docs/metrics.md says what each is and what TRL and verl call it.".to_owned());
    items.push("This page is one file, and nothing in it is fetched from anywhere.".to_owned());
    let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
    format!("<section id=\"notes\">\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n")
}
