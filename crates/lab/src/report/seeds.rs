//! What the runs say over seeds, where some differ in nothing else.

use super::run::Run;
use crate::seeds::{self, Summary, section};

/// Most cells of the table.
const MAX_CELLS: usize = 3000;

/// The runs as statistics over seeds take them.
pub(super) fn taken(runs: &[Run]) -> Vec<seeds::Run<'_>> {
    let taken = runs.iter().map(|run| seeds::Run {
        name: run.label.clone(),
        group: run.group.clone(),
        log: Some(&run.log),
        recipe: run.recipe.as_ref(),
        control: run.control.clone(),
    });
    taken.collect()
}

/// The section; nothing where no two runs are of one group.
pub(super) fn html(runs: &[Run]) -> String {
    let mut summary = Summary::of(&taken(runs));
    let most = (MAX_CELLS / summary.groups.len().max(1)).max(20);
    if summary.rows.len() > most {
        summary.notes.push(format!("{} more measures are not shown.", summary.rows.len() - most));
        summary.rows.truncate(most);
    }
    section(&summary)
}
