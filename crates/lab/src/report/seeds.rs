//! What the runs say over seeds, where some differ in nothing else.

use super::run::Run;
use crate::seeds::{self, Summary, section};

/// The section; nothing where no two runs are of one group.
pub(super) fn html(runs: &[Run]) -> String {
    let taken: Vec<seeds::Run<'_>> = runs
        .iter()
        .map(|run| seeds::Run {
            name: run.label.clone(),
            group: None,
            log: Some(&run.log),
            recipe: run.recipe.as_ref(),
        })
        .collect();
    section(&Summary::of(&taken))
}
