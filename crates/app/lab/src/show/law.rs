//! The law of runs, in words.

use crate::law::{Fit, Interval, Study};
use crate::number::{fixed, percent};
use crate::run::{EvaluatedSet, Run};
use crate::terminal::Look;

/// Sets of a run whose law is shown.
const SHOWN: usize = 8;

/// A paragraph for each set of each run.
pub fn lines(runs: &[Run], look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        let whose = if runs.len() > 1 { format!("{}, ", run.name) } else { String::new() };
        if run.sets.is_empty() && run.log.last_step().is_some() {
            lines.extend(look.heading(&format!("law {whose}unknown")));
            let why = "it takes evaluations with accuracy and entropy (eval.every in the recipe), \
                       and there are none";
            lines.extend(look.paragraph(&look.clean(why), 2));
        }
        for set in run.sets.iter().take(SHOWN) {
            lines.extend(of_set(set, &whose, look));
        }
        let others = run.sets.len().saturating_sub(SHOWN);
        if others > 0 {
            let sets = if others == 1 { "set" } else { "sets" };
            lines.extend(look.heading(&format!("law {whose}and {others} other {sets}")));
            let all = format!("isentrope law {} has them all", run.log.path.display());
            lines.extend(look.paragraph(&look.clean(&all), 2));
        }
    }
    lines
}

fn of_set(set: &EvaluatedSet, whose: &str, look: &Look) -> Vec<String> {
    let (measured, study) = (&set.measured, set.study());
    let mut lines = look.heading(&format!("law {whose}{}", measured.set));
    let count = study.points.len();
    let points = if count == 1 { "point" } else { "points" };
    let names = format!("R: {}; H: {}; {count} {points}", measured.accuracy, measured.entropy);
    let law = match study.holds() {
        Some(fit) => vec![formula(fit), ceiling(fit, study)],
        None => vec![format!("not to be relied on here: {}", study.refusals.join("; "))],
    };
    let spent = study.entropy_spent().map(|spent| match spent {
        spent if spent >= 0.0 => format!("{} of the entropy is spent", percent(spent)),
        risen => format!("the entropy has risen by {}", percent(-risen)),
    });
    let notes = study.remarks.iter().cloned().chain(spent).chain([names]);
    for text in law.into_iter().chain(notes).chain(measured.notes.iter().cloned()) {
        lines.extend(look.paragraph(&look.clean(&text), 2));
    }
    lines
}

fn formula(fit: &Fit) -> String {
    let Fit { a, b, r_squared, .. } = fit;
    let sign = if b.value < 0.0 { '-' } else { '+' };
    let (slope, offset) = (fixed(-a.value, 4), fixed(b.value.abs(), 4));
    format!("R = {slope} exp(H) {sign} {offset}, R^2 {r_squared:.3}")
}

fn ceiling(fit: &Fit, study: &Study) -> String {
    let Interval { value, low, high } = study.ceiling().map_or(fit.ceiling, |(ceiling, _)| ceiling);
    let end = |end: f64| if study.is_of_shares() { fixed(100.0 * end, 1) } else { fixed(end, 3) };
    let interval =
        if low < high { format!(" [{}, {}]", end(low), end(high)) } else { String::new() };
    let now = study.points.last().map_or(String::new(), |point| {
        format!("; now {} at H = {}", study.shown(point.accuracy), fixed(point.entropy, 3))
    });
    format!("ceiling {}{interval} where H = 0{now}", study.shown(value))
}
