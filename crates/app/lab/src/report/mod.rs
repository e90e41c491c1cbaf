//! The report on runs: one web page with a summary in words, the law, and every curve.
//!
//! A file here is a part of the page. `charts` declares which metrics are drawn together;
//! `report.js` draws them with plotly.js.

mod charts;
mod collapse;
mod curves;
mod law_section;
mod limits;
mod methods;
mod number;
mod overview;
mod parts;
mod run;
mod settings;
mod summary;
mod text;
mod thin;

use self::curves::{Chart, Curves};
pub use self::run::Planned;

use self::limits::{Limits, MAX_BYTES};
use self::methods::Methods;
use self::run::PageRun;
use self::text::{listed, words};
use crate::page::{Packed, Page, script_value};
use crate::seeds::{self, Summary};
use crate::{Error, Result};
use isentrope_settings::complete;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Most runs on one page: more curves than this nobody tells apart.
pub const MAX_RUNS: usize = 64;

/// Most evaluation sets that have charts, sentences and shares by twelfth of their own.
const MAX_SETS: usize = 12;
/// Most notes of a log that are shown.
const MAX_NOTES: usize = 50;
/// Most cells of the tables over seeds.
const MAX_CELLS: usize = 3000;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The text for readers whose browser runs no scripts.
const WITHOUT_SCRIPT: &str = "<noscript><p>The charts need JavaScript; the summary and the tables \
                              do not.</p>\
                              <style>.charts, .legend, .swatch { display: none; \
                              }</style></noscript>\n";

/// A report on one run or several.
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<PageRun>,
    /// Evaluation sets of which only the curves speak.
    left_out: Vec<String>,
}

impl Report {
    /// Reads the runs.
    ///
    /// # Errors
    /// When there are none or more than [`MAX_RUNS`], or one cannot be read; malformed lines are
    /// named by file and line.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        if paths.is_empty() || paths.len() > MAX_RUNS {
            let runs = paths.len();
            return Err(Error::Refused(format!(
                "a report is on 1 to {MAX_RUNS} runs, and these are {runs}"
            )));
        }
        let (runs, left_out) = run::open(paths)?;
        Ok(Self { runs, left_out })
    }

    /// Adds settings that did not exist yet when a run began, with the defaults `of` its recipe.
    /// Without this, runs of an older and a newer program would differ in settings that neither
    /// sets.
    #[must_use]
    pub fn with_defaults(mut self, of: impl Fn(&Value) -> Value) -> Self {
        for recipe in self.runs.iter_mut().filter_map(|run| run.data.recipe.as_mut()) {
            let defaults = of(recipe);
            complete(recipe, &defaults);
        }
        self
    }

    /// Takes over a sweep's plan of each run, in order: it alone decides the groups.
    #[must_use]
    pub fn with_groups(mut self, planned: Vec<Planned>) -> Self {
        self.runs.iter_mut().zip(planned).for_each(|(run, planned)| run.plan(planned));
        self
    }

    /// Whether it is on the one run whose directory this is: not on a file, nor on a directory
    /// above runs.
    pub fn is_of_directory(&self, path: &Path) -> bool {
        matches!(&self.runs[..], [run] if run.data.log.path == path && path.is_dir())
    }

    /// The page, in less than 5 MB: a larger one is drawn with fewer points.
    ///
    /// # Errors
    /// When its data cannot be packed.
    pub fn html(&self) -> Result<String> {
        let runs = &self.runs;
        let before = overview::html(runs) + &summary::html(runs) + &over_seeds(runs);
        let after = settings::html(runs) + &self.notes();
        let methods = Methods::of(runs);
        let early = collapse::html(runs, &methods);
        let mut limits = Limits::default();
        loop {
            let law_charts = law_section::charts(runs, limits.evaluations);
            let curves = Curves::of(runs, &methods, limits);
            let law_section = law_section::html(runs, &law_charts, limits.evaluations);
            let body = [
                WITHOUT_SCRIPT,
                &before,
                &law_section,
                &early,
                &curves.html(runs, &methods),
                &after,
            ]
            .concat();
            let page = self
                .page(body, &methods, law_charts.iter().chain(curves.charts()).collect())?
                .html();
            match limits.tighter() {
                Some(tighter) if page.len() >= MAX_BYTES => limits = tighter,
                _ => return Ok(page),
            }
        }
    }

    fn page(&self, body: String, methods: &Methods, drawn: Vec<&Chart>) -> Result<Page> {
        let title = match &self.runs[..] {
            [run] => format!("Report on {}", run.data.name),
            runs => format!("Report on {} runs", runs.len()),
        };
        let mut packed = Vec::new();
        if !drawn.is_empty() {
            let labels: Vec<&str> = self.runs.iter().map(|run| run.data.name.as_str()).collect();
            let methods = methods.data(labels.len());
            let data = script_value(
                &serde_json::json!({ "runs": labels, "methods": methods, "charts": drawn }),
            );
            let data = data.map_err(|e| Error::Refused(format!("the report's data: {e}")))?;
            packed.push(Packed::plotly());
            packed.push(Packed::new("data", data.as_bytes())?);
        }
        let script = if drawn.is_empty() { "" } else { SCRIPT };
        Ok(Page { title, style: STYLE.into(), body, packed, script: script.into() })
    }

    /// Notes of the logs' reader, and how to read the page.
    fn notes(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for run in &self.runs {
            let notes = &run.data.log.notes;
            let said =
                notes.iter().take(MAX_NOTES).map(|note| format!("{}: {}", run.html(), words(note)));
            items.extend(said);
            if notes.len() > MAX_NOTES {
                items.push(format!("{}: {} more such notes.", run.html(), notes.len() - MAX_NOTES));
            }
            let path = words(&run.data.log.path.display().to_string());
            items.push(format!("{} was read from <code>{path}</code>.", run.html()));
        }
        if !self.left_out.is_empty() {
            items.push(format!(
                "Of {} more evaluation sets there are curves alone: {}.",
                self.left_out.len(),
                words(&listed(&self.left_out))
            ));
        }
        items.push(
            "Entropies, covariances and divergences are in nats. The names of metrics are \
                    those of this project, and \
                    docs/reference/metrics.md says what each is and what TRL and verl call it."
                .to_owned(),
        );
        items.push("This page is one file, and nothing in it is fetched from anywhere.".to_owned());
        let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!("<section id=\"notes\">\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n")
    }
}

/// The section on groups of runs that differ in nothing but their seed; empty without such groups.
fn over_seeds(runs: &[PageRun]) -> String {
    let mut summary = Summary::of(&run::entries(runs));
    let most = (MAX_CELLS / summary.groups.len().max(1)).max(20);
    if summary.rows.len() > most {
        let more = summary.rows.len() - most;
        summary.notes.push(format!("{more} more measures are not shown."));
        summary.rows.truncate(most);
    }
    seeds::section(&summary)
}
