//! The tables that rows belong to, each with its heading and how it is to be read.

use crate::collapse::{PAPER, TWELFTHS};
use serde::Serialize;

/// The tables that rows belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// The effect of a method.
    Main,
    /// Parts of evaluation sets.
    Parts,
    /// Changes since before the first step.
    Change,
    /// Entropies that are held at a target.
    Held,
    /// Accuracies at the entropy that others hold.
    EqualEntropy,
    /// How early entropy and gain were spent.
    Collapse,
    /// The law.
    Law,
    /// Predictions of the end from the beginning.
    Prediction,
}

impl Section {
    /// All, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Main,
        Self::Parts,
        Self::Change,
        Self::Held,
        Self::EqualEntropy,
        Self::Collapse,
        Self::Law,
        Self::Prediction,
    ];

    /// Its heading, and how it is to be read; the main one has none.
    pub fn heading(self) -> Option<(&'static str, String)> {
        let (heading, reading) = match self {
            Self::Main => return None,
            Self::Parts => ("Parts of the sets", "Of the problems of one source or size each."),
            Self::Change => (
                "Since before the first step",
                "The end less the evaluation before the first step, of each run, then the mean \
                 over seeds.",
            ),
            Self::Held => (
                "Entropy held at a target",
                "H is the entropy of each step's rollout, H* its target in that step.",
            ),
            Self::EqualEntropy => (
                "At equal entropy",
                "The accuracy of each run where the entropy of the set's evaluations first falls \
                 to a target that some runs hold, in a straight line between evaluations; n/a \
                 where it never does. What a run that holds the target has come to stands beside \
                 it, at the end. The target is one of rollouts: evaluations at another temperature \
                 have another entropy.",
            ),
            Self::Collapse => return Some(("How early it was spent", of_collapse())),
            Self::Law => (
                "The law R = -a exp(H) + b",
                "Fitted to the evaluations of each run, then the mean over seeds. a, b and the \
                 ceiling b - a are of the runs where the law holds, a selection; `isentrope law \
                 RUN` says why it is refused elsewhere. That the law explains more than a line \
                 would be seen in the difference of their R^2.",
            ),
            Self::Prediction => (
                "Predictions of the end",
                "Each form is fitted to the first evaluations of each run, and told the entropy or \
                 the step of the last: how far its accuracy is off there, whatever the direction; \
                 RMSE is over all that comes after. Below 0, the error of the law less that of \
                 another form speaks for the law. Runs of so few evaluations that the first ones \
                 are a much larger share of the steps are left out.",
            ),
        };
        Some((heading, reading.to_owned()))
    }
}

fn of_collapse() -> String {
    let paper = PAPER.map(|(twelfths, spent, gained)| {
        let by = part(twelfths);
        format!("by {by}: {:.0} % and {:.0} %", 100.0 * spent, 100.0 * gained)
    });
    let paper = paper.join(", ");
    format!(
        "Of the whole fall in the rollouts' entropy, and of the whole gain in accuracy from the \
         first evaluation to the last. In the paper (arXiv:2505.22617, figure 1) {paper}. Runs \
         whose entropy fell by less than 20 %, or whose accuracy rose by less than 5 points, are \
         left out."
    )
}

/// So many twelfths as a fraction.
pub(super) fn part(twelfths: u32) -> String {
    match TWELFTHS % twelfths.max(1) {
        0 => format!("1/{}", TWELFTHS / twelfths.max(1)),
        _ => format!("{twelfths}/{TWELFTHS}"),
    }
}
