//! The report on runs: one web page with a summary in words, the law, and every curve.
//!
//! A file here is a part of the page. `charts` declares which metrics are drawn together;
//! `report.js` draws them with plotly.js.

mod change;
mod charts;
mod curves;
mod frame;
mod law_section;
mod legend;
mod lines;
mod methods;
mod number;
mod overview;
mod parts;
mod run;
mod settings;
mod summary;
mod text;
mod thin;

use self::curves::Curves;
use self::lines::Chart;
pub use self::run::RunPlan;

use self::methods::Methods;
use self::run::PageRun;
use self::text::words;
use crate::page::{Packed, Page};
use crate::seeds::{self, Summary};
use crate::{Error, Result};
use isentrope_settings::complete;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Most runs on one page. More curves could not be distinguished by eye.
pub const MAX_RUNS: usize = 64;

/// Most evaluation sets that have charts and sentences of their own.
const MAX_SETS: usize = 12;
/// Most bytes of a page, so that it can be mailed.
const MAX_BYTES: usize = 5_000_000;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The text for readers whose browser runs no scripts.
const WITHOUT_SCRIPT: &str = "<noscript><p>The charts need JavaScript; the summary and the tables \
                              do not.</p><style>.charts, .legend, .swatch { display: none; \
                              }</style></noscript>\n";

/// A report on one run or several.
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<PageRun>,
}

impl Report {
    /// Reads the runs.
    ///
    /// # Errors
    /// When there is no run, there are more than [`MAX_RUNS`], or one cannot be read; malformed
    /// lines are named by file and line.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        if paths.is_empty() || paths.len() > MAX_RUNS {
            let runs = paths.len();
            return Err(Error::Refused(format!(
                "a report is on 1 to {MAX_RUNS} runs, and these are {runs}"
            )));
        }
        Ok(Self { runs: run::open(paths)? })
    }

    /// Adds settings that did not exist when a run began; `of` returns the defaults for its recipe.
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

    /// Sets a sweep's plan for each run, in order, which then decides the groups.
    #[must_use]
    pub fn with_groups(mut self, planned: Vec<RunPlan>) -> Self {
        self.runs.iter_mut().zip(planned).for_each(|(run, planned)| run.plan(planned));
        self
    }

    /// Whether the report is on a single run and `path` is that run's directory, not a file or a
    /// directory above runs.
    pub fn is_of_directory(&self, path: &Path) -> bool {
        matches!(&self.runs[..], [run] if run.data.log.path == path && path.is_dir())
    }

    /// The page, in less than 5 MB.
    ///
    /// # Errors
    /// When it would be larger, or its data cannot be packed.
    pub fn html(&self) -> Result<String> {
        let runs = &self.runs;
        let summary = Summary::of(&run::entries(runs));
        let methods = Methods::of(&summary);
        let law_charts = law_section::charts(runs);
        let curves = Curves::of(runs, &methods);
        let body = [
            WITHOUT_SCRIPT,
            &overview::html(runs),
            &summary::html(runs),
            &seeds::section(&summary),
            &law_section::html(runs, &law_charts),
            &curves.html(runs, &methods),
            &settings::html(runs),
            &self.notes(),
        ]
        .concat();
        let drawn = law_charts.iter().chain(curves.charts()).collect();
        let page = self.page(body, &methods, drawn)?.html();
        if page.len() >= MAX_BYTES {
            let (size, runs) = (page.len() / 1_000_000, runs.len());
            return Err(Error::Refused(format!(
                "the report on {runs} runs would have {size} MB, and browsers and mail take 5: \
                 give fewer runs"
            )));
        }
        Ok(page)
    }

    fn page(&self, body: String, methods: &Methods<'_>, drawn: Vec<&Chart>) -> Result<Page> {
        let title = match &self.runs[..] {
            [run] => format!("Report on {}", run.data.name),
            runs => format!("Report on {} runs", runs.len()),
        };
        let mut packed = Vec::new();
        if !drawn.is_empty() {
            let labels: Vec<&str> = self.runs.iter().map(|run| run.data.name.as_str()).collect();
            let methods = methods.data(labels.len());
            let data = serde_json::json!({ "runs": labels, "methods": methods, "charts": drawn });
            packed.push(Packed::plotly());
            packed.push(Packed::new("data", &data)?);
        }
        let script = if drawn.is_empty() { "" } else { SCRIPT };
        Ok(Page { title, style: STYLE.into(), body, packed, script: script.into() })
    }

    /// Notes of the logs' reader, and how to read the page.
    fn notes(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for run in &self.runs {
            let notes = run.data.log.notes.iter();
            items.extend(notes.map(|note| format!("{}: {}", run.html(), words(note))));
            let path = words(&run.data.log.path.display().to_string());
            items.push(format!("{} was read from <code>{path}</code>.", run.html()));
        }
        items.push(
            "Entropies, covariances and divergences are in nats. The names of metrics are those of \
             this project, and docs/reference/metrics.md says what each is and what TRL and verl \
             call it."
                .to_owned(),
        );
        items.push(
            "Intervals of changes are 95\u{a0}%: over problems, by Student\u{2019}s t, where the \
             run has kept the responses of both evaluations, else by how much neighbouring \
             measurements differ."
                .to_owned(),
        );
        items.push("This page is one file, and nothing in it is fetched from anywhere.".to_owned());
        let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!("<section id=\"notes\">\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n")
    }
}
