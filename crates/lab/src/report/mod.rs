//! The report on runs: one web page with what happened, the law, where the entropy went, and every curve.
//!
//! A file here is a part of the page. `charts` declares which metrics are drawn together; `report.js`
//! draws them with plotly.js.

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
mod seeds;
mod settings;
mod summary;
mod text;
mod thin;

use self::curves::{Chart, Curves};
use self::law_section::LawSection;
pub use self::run::Planned;

use self::limits::{Limits, MAX_BYTES};
use self::methods::Methods;
use self::run::Run;
use self::text::{listed, words};
use crate::page::{Packed, Page, script_value};
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

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// What readers see whose browser runs no scripts.
const WITHOUT_SCRIPT: &str = "<noscript><p>The charts need JavaScript; the summary and the tables do not.</p>\
                              <style>.charts, .legend, .swatch { display: none; }</style></noscript>\n";

/// A report on one run or several.
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<Run>,
    /// Evaluation sets of which only the curves speak.
    left_out: Vec<String>,
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
        let mut runs = run::open(paths)?;
        let left_out = run::leave_out_sets(&mut runs);
        Ok(Self { runs, left_out })
    }

    /// Adds to each recipe the settings that there were not yet when its run was begun: they were as the defaults `of` a recipe
    /// are. Without this, runs of an older program and of a newer one differ in what neither has set.
    #[must_use]
    pub fn with_defaults(mut self, of: impl Fn(&Value) -> Value) -> Self {
        for recipe in self.runs.iter_mut().filter_map(|run| run.recipe.as_mut()) {
            let defaults = of(recipe);
            complete(recipe, &defaults);
        }
        self
    }

    /// Says of each run, in the order of the runs, what is planned of it: groups are told apart by that alone.
    #[must_use]
    pub fn with_groups(mut self, planned: Vec<Planned>) -> Self {
        for (run, Planned { group, control, recipe }) in self.runs.iter_mut().zip(planned) {
            (run.group, run.control, run.recipe) = (Some(group), control, Some(recipe));
        }
        self
    }

    /// Whether it is on the one run whose directory this is: not on a file, nor on a directory above runs.
    pub fn is_of_directory(&self, path: &Path) -> bool {
        matches!(&self.runs[..], [run] if run.log.path == path && path.is_dir())
    }

    /// The page, in less than 5 MB: what would be more is drawn with fewer points.
    ///
    /// # Errors
    /// When its data cannot be packed.
    pub fn html(&self) -> Result<String> {
        let runs = &self.runs;
        let law = LawSection::of(runs);
        let before = overview::html(runs, &law) + &summary::html(runs, &law) + &seeds::html(runs);
        let after = settings::html(runs) + &self.notes();
        let methods = Methods::of(runs);
        let early = collapse::html(runs, &methods);
        let mut limits = Limits::default();
        loop {
            let law_charts = law.charts(runs, limits.evaluations);
            let curves = Curves::of(runs, &methods, limits);
            let law_section = law.html(runs, &law_charts, limits.evaluations);
            let body = [WITHOUT_SCRIPT, &before, &law_section, &early, &curves.html(runs, &methods), &after]
                .concat();
            let page = self.page(body, &methods, law_charts.iter().chain(curves.charts()).collect())?.html();
            match limits.tighter() {
                Some(tighter) if page.len() >= MAX_BYTES => limits = tighter,
                _ => return Ok(page),
            }
        }
    }

    fn page(&self, body: String, methods: &Methods, drawn: Vec<&Chart>) -> Result<Page> {
        let title = match &self.runs[..] {
            [run] => format!("Report on {}", run.label),
            runs => format!("Report on {} runs", runs.len()),
        };
        let mut packed = Vec::new();
        if !drawn.is_empty() {
            let labels: Vec<&str> = self.runs.iter().map(|run| run.label.as_str()).collect();
            let methods = methods.data(labels.len());
            let data =
                script_value(&serde_json::json!({ "runs": labels, "methods": methods, "charts": drawn }));
            let data = data.map_err(|e| Error::Refused(format!("the report's data: {e}")))?;
            packed.push(Packed::plotly());
            packed.push(Packed::new("data", data.as_bytes())?);
        }
        let script = if drawn.is_empty() { "" } else { SCRIPT };
        Ok(Page { title, style: STYLE.into(), body, packed, script: script.into() })
    }

    /// What the reader of the logs has to say, and how the page is to be read.
    fn notes(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for run in &self.runs {
            let notes = &run.log.notes;
            let said = notes.iter().take(MAX_NOTES).map(|note| format!("{}: {}", run.html(), words(note)));
            items.extend(said);
            if notes.len() > MAX_NOTES {
                items.push(format!("{}: {} more such notes.", run.html(), notes.len() - MAX_NOTES));
            }
            let path = words(&run.log.path.display().to_string());
            items.push(format!("{} was read from <code>{path}</code>.", run.html()));
        }
        if !self.left_out.is_empty() {
            items.push(format!(
                "Of {} more evaluation sets there are curves alone: {}.",
                self.left_out.len(),
                words(&listed(&self.left_out))
            ));
        }
        items.push("Entropies, covariances and divergences are in nats. The names of metrics are those of this project, and \
                    docs/reference/metrics.md says what each is and what TRL and verl call it.".to_owned());
        items.push("This page is one file, and nothing in it is fetched from anywhere.".to_owned());
        let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!("<section id=\"notes\">\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n")
    }
}
