//! Runs on a terminal, as lines of text: [`page`] is everything, [`screen`] what fits a terminal.
//! [`Look`] describes the terminal.

mod curves;
mod evaluations;
mod heading;
mod law;
mod metrics;
mod responses;
mod tail;
mod trace;

pub use crate::terminal::{Look, duration};
pub use law::lines as law;
pub use metrics::lines as list_metrics;
pub use trace::Trace;

/// Lines of a plot on a page.
const PLOT_HEIGHT: usize = 13;
/// Least and largest number of lines of a plot on a screen.
const SCREEN_PLOT: [usize; 2] = [8, 20];
/// A screen with fewer lines left has no plot.
const LOWEST_PLOT: usize = 6;
/// Rows of a table of evaluations on a page, and on a screen.
const PAGE_ROWS: usize = 12;
const SCREEN_ROWS: usize = 4;
/// Responses on a screen.
const SCREEN_RESPONSES: usize = 3;

use crate::run::Run;

/// Additions to the usual.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// Metrics to plot besides the usual ones.
    pub metrics: Vec<String>,
    /// Responses of each run.
    pub responses: usize,
}

/// Everything about runs, from top to bottom.
pub fn page(runs: &[Run], options: &PageOptions, look: &Look) -> Vec<String> {
    let panels = curves::panels(runs, &options.metrics, look);
    let blocks = [
        heading(runs, look),
        curves::lines(&panels, curves::beside(panels.len(), look.width), PLOT_HEIGHT, look),
        evaluations::lines(runs, PAGE_ROWS, look),
        law::lines(runs, look),
        responses::lines(runs, options.responses, look),
    ];
    joined(blocks)
}

/// As much as fits a screen of `height` lines: the heads of the runs, plots as large as possible,
/// then the other blocks that fit.
pub fn screen(runs: &[Run], options: &PageOptions, height: usize, look: &Look) -> Vec<String> {
    let mut panels = curves::panels(runs, &options.metrics, look);
    let mut blocks = vec![heading(runs, look)];
    // Blocks below the plots get the room that the smallest plots leave. Room that they do not need
    // enlarges the plots.
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
    let counts = (1..=options.responses.min(SCREEN_RESPONSES)).rev();
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

/// The heads of runs: state, settings, warnings.
pub fn heading(runs: &[Run], look: &Look) -> Vec<String> {
    runs.iter().flat_map(|run| heading::lines(run, look)).collect()
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
