//! The runs' names with their colours.

use super::run::PageRun;
use std::fmt::Write;

/// Buttons that switch runs on and off, with a class of report.css.
pub(super) fn legend(runs: &[PageRun], class: &str) -> String {
    let mut html = format!("<div class=\"{class}\" role=\"group\" aria-label=\"runs\">\n");
    for (i, run) in runs.iter().enumerate() {
        let _ = writeln!(
            html,
            "<button type=\"button\" aria-pressed=\"true\" data-run=\"{i}\">{}{}</button>",
            swatch(i),
            run.html()
        );
    }
    html + "</div>\n"
}

/// A run's colour, dash and marker as a small picture, which the script draws.
pub(super) fn swatch(run: usize) -> String {
    format!(
        "<svg class=\"swatch\" data-run=\"{run}\" width=\"34\" height=\"12\" \
         aria-hidden=\"true\"></svg>"
    )
}
