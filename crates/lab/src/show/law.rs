//! What runs say of the law, in words.

use super::run::ShownRun;
use super::sets::SetStudy;
use super::text::{Look, percent};
use crate::law::{Fit, Interval};

/// Evaluations that two coefficients can be fitted to with something left over.
const FEWEST: usize = 3;

/// A paragraph for each set of each run.
pub(super) fn lines(runs: &[ShownRun], look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        let whose = if runs.len() > 1 { format!("{}, ", run.name) } else { String::new() };
        if run.studies.is_empty() && run.log.last_step().is_some() {
            lines.extend(look.heading(&format!("law {whose}unknown")));
            let why = "it takes evaluations with accuracy and entropy (eval.every in the recipe), and there are none";
            lines.extend(look.paragraph(&look.clean(why), 2));
        }
        for study in &run.studies {
            lines.extend(of_study(study, &whose, look));
        }
    }
    lines
}

fn of_study(of: &SetStudy, whose: &str, look: &Look) -> Vec<String> {
    let SetStudy { set, accuracy, entropy, study } = of;
    let mut lines = look.heading(&format!("law {whose}{set}"));
    let count = study.points.len();
    let meant = format!(
        "R: {accuracy} of {set}; H: {entropy}; {count} evaluation{}",
        if count == 1 { "" } else { "s" }
    );
    let said = match study.holds() {
        Some(fit) => vec![formula(fit), ceiling(fit, of)],
        None if !study.refusals.is_empty() => {
            let mut said = vec!["not to be relied on here:".to_owned()];
            said.extend(study.refusals.iter().cloned());
            said
        }
        None if count < FEWEST => vec![format!("unknown: it takes {FEWEST} evaluations at least")],
        None => vec!["unknown: entropy or accuracy is the same in all evaluations".to_owned()],
    };
    for text in said.iter().chain([&meant]) {
        lines.extend(look.paragraph(&look.clean(text), 2));
    }
    lines
}

fn formula(fit: &Fit) -> String {
    let Fit { a, b, r_squared, .. } = fit;
    let sign = if b.value < 0.0 { '-' } else { '+' };
    format!("R = {:.4} exp(H) {sign} {:.4}, R^2 {r_squared:.3}", -a.value, b.value.abs())
}

fn ceiling(fit: &Fit, of: &SetStudy) -> String {
    let Interval { value, low, high } = fit.ceiling;
    let interval =
        if low < high { format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high) } else { String::new() };
    let now = of.study.points.last();
    let now = now.map(|point| format!("; now {} at H = {:.3}", percent(point.accuracy), point.entropy));
    format!("ceiling {}{interval} where H = 0{}", percent(value), now.unwrap_or_default())
}
