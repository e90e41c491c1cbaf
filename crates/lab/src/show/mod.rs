//! What a terminal shows of runs, as lines of text: [`page`] is everything, [`screen`] what fits a terminal, [`news`] a line per
//! step. [`ShownRun`] is what they are made of, [`Look`] what the terminal is like.

mod curves;
mod evaluations;
mod law;
mod metrics;
mod news;
mod parts;
mod responses;
mod run;
mod sets;
mod state;
mod tail;
mod text;
mod trace;

pub use news::news;
pub use run::{Laws, ShownRun, Studied};
pub use sets::EvaluationSet;
pub use state::{Condition, State};
pub use text::Look;
pub use trace::Trace;

/// Lines of a plot on a page.
const PLOT_HEIGHT: usize = 13;
/// Least and largest number of lines of a plot on a screen.
const SCREEN_PLOT: [usize; 2] = [8, 20];
/// A screen that has fewer left has no plot.
const LOWEST_PLOT: usize = 6;
/// Rows of a table of evaluations on a page, and on a screen.
const PAGE_ROWS: usize = 12;
const SCREEN_ROWS: usize = 4;
/// Responses on a screen.
const SCREEN_RESPONSES: usize = 3;

/// What is to be shown.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Metrics to plot beside the usual ones.
    pub metrics: Vec<String>,
    /// Responses of each run.
    pub responses: usize,
}

/// Everything about runs, from top to bottom.
pub fn page(runs: &[ShownRun], wanted: &Wanted, look: &Look) -> Vec<String> {
    let panels = curves::panels(runs, &wanted.metrics, look);
    let blocks = [
        heading(runs, look),
        curves::lines(&panels, curves::beside(panels.len(), look.width), PLOT_HEIGHT, look),
        evaluations::lines(runs, PAGE_ROWS, look),
        parts::lines(runs, look),
        law::lines(runs, look),
        responses::lines(runs, wanted.responses, look),
    ];
    joined(blocks)
}

/// What fits a screen of so many lines: what the runs are, the plots as large as there is room, then what else fits.
pub fn screen(runs: &[ShownRun], wanted: &Wanted, height: usize, look: &Look) -> Vec<String> {
    let mut panels = curves::panels(runs, &wanted.metrics, look);
    let mut blocks = vec![heading(runs, look)];
    // Below the plots stands what has room when they are smallest; what is left makes them larger.
    let [least, most] = SCREEN_PLOT;
    let free = height.saturating_sub(blocks[0].len() + 1);
    if free < LOWEST_PLOT {
        panels.clear();
    }
    let room = (free / (least + 1)).max(1);
    panels.truncate(room * curves::beside_in_rows(panels.len(), room, look.width));
    let beside = curves::beside_in_rows(panels.len(), room, look.width);
    let rows = panels.len().div_ceil(beside.max(1));
    let mut left = free.saturating_sub(rows * (least + 1));
    let mut below = Vec::new();
    let mut add = |lines: Vec<String>| {
        let fits = !lines.is_empty() && lines.len() < left;
        if fits {
            left -= lines.len() + 1;
            below.push(lines);
        }
        fits
    };
    add(law::lines(runs, look));
    add(evaluations::lines(runs, SCREEN_ROWS, look));
    add(parts::lines(runs, look));
    let counts = (1..=wanted.responses.min(SCREEN_RESPONSES)).rev();
    let _ = counts.into_iter().any(|count| add(responses::lines(runs, count, look)));
    if !panels.is_empty() {
        let plot = (least + left / rows).min(most).min(free);
        blocks.push(curves::lines(&panels, beside, plot, look));
    }
    blocks.extend(below);
    let mut lines = joined(blocks);
    lines.truncate(height);
    lines
}

/// The list of what runs have measured.
pub fn list_metrics(runs: &[ShownRun], look: &Look) -> Vec<String> {
    metrics::lines(runs, look)
}

/// What runs are and how far they are.
pub fn heading(runs: &[ShownRun], look: &Look) -> Vec<String> {
    runs.iter().flat_map(|run| run.heading(look)).collect()
}

/// What runs say of the law.
pub fn law(runs: &[ShownRun], look: &Look) -> Vec<String> {
    law::lines(runs, look)
}

/// Blocks of lines with an empty line between them.
fn joined(blocks: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    let mut lines = Vec::new();
    for block in blocks.into_iter().filter(|block| !block.is_empty()) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(block);
    }
    lines
}
