//! What runs say of the law, in words.

use super::run::{ShownRun, Studied};
use super::text::{Look, percent};
use crate::law::{Fit, Interval, Study};

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

fn of_study(of: &Studied, whose: &str, look: &Look) -> Vec<String> {
    let Studied { measured, study } = of;
    let mut lines = look.heading(&format!("law {whose}{}", measured.set));
    let count = study.points.len();
    let meant = format!(
        "R: {}; H: {}; {count} point{}",
        measured.accuracy,
        measured.entropy,
        if count == 1 { "" } else { "s" }
    );
    let said = match study.holds() {
        Some(fit) => vec![formula(fit), ceiling(fit, study)],
        None if study.refusals.is_empty() => vec!["none: its coefficients cannot be computed".to_owned()],
        None => vec![format!("not to be relied on here: {}", study.refusals.join("; "))],
    };
    let spent = study.entropy_spent().map(|spent| match spent {
        spent if spent >= 0.0 => format!("{} of the entropy is spent", percent(spent)),
        risen => format!("the entropy has risen by {}", percent(-risen)),
    });
    let notes =
        study.remarks.iter().cloned().chain(spent).chain([meant]).chain(measured.notes.iter().cloned());
    for text in said.into_iter().chain(notes) {
        lines.extend(look.paragraph(&look.clean(&text), 2));
    }
    lines
}

fn formula(fit: &Fit) -> String {
    let Fit { a, b, r_squared, .. } = fit;
    let sign = if b.value < 0.0 { '-' } else { '+' };
    format!("R = {:.4} exp(H) {sign} {:.4}, R^2 {r_squared:.3}", -a.value, b.value.abs())
}

fn ceiling(fit: &Fit, study: &Study) -> String {
    let Interval { value, low, high } = study.ceiling().map_or(fit.ceiling, |(ceiling, _)| ceiling);
    let interval =
        if low < high { format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high) } else { String::new() };
    let now = study.points.last();
    let now = now.map(|point| format!("; now {} at H = {:.3}", percent(point.accuracy), point.entropy));
    format!("ceiling {}{interval} where H = 0{}", percent(value), now.unwrap_or_default())
}
