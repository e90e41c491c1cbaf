//! The tables to which rows belong, each with a heading and an explanation.

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
    /// The law.
    Law,
    /// The price of kept entropy.
    Price,
}

impl Section {
    /// All, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Main, Self::Parts, Self::Change, Self::Law, Self::Price];

    /// The section's heading and an explanation for the reader; none for the main section.
    pub fn heading(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Main => None,
            Self::Parts => {
                Some(("Parts of the sets", "Of the problems of one source or size each."))
            }
            Self::Change => Some((
                "Since before the first step",
                "The end less the evaluation before the first step, of each run, then the mean \
                 over seeds.",
            )),
            Self::Law => Some((
                "The law R = -a exp(H) + b",
                "Fitted to the evaluations of each run, then the mean over seeds. a, b and the \
                 ceiling b - a are of the runs where the law holds, a selection; `isentrope law \
                 RUN` says why it is refused elsewhere. That the law explains more than a line \
                 would be seen in the difference of their R^2.",
            )),
            Self::Price => Some((
                "The price of kept entropy",
                "If accuracy is paid for with entropy, a run that ends with more entropy than its \
                 control's run of the same seed must have less accuracy: by the law of the \
                 control's run, a (exp(H) - exp(H of the control)), its price. It pays the \
                 control's last accuracy less its own.",
            )),
        }
    }
}
