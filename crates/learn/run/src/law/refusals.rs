//! Reasons not to rely on the law. Its numbers are printed only if there is none.

use super::{Departure, Fit, Form, Interval, Point};
use crate::number::fixed;

/// Fewest points of a law that can be relied on.
pub const LEAST_POINTS: usize = 6;

/// Entropy moves if it spans at least this share of its largest value.
const SPAN: f64 = 0.05;

/// And entropy moves only if exp(H), in which the law is a line, spans more than this. Less is
/// noise or rounding.
const LEAST_SPAN: f64 = 1e-3;

/// Accuracies are equal if they differ by no more than this share of the largest.
const ROUNDING: f64 = 1e-11;

/// Entropy has a course if its changes from point to point are at most this share of the changes of
/// noise with the same spread.
const COURSE: f64 = 0.5;

/// If the law explains at least this share of the variance with the wrong sign, the sign counts as
/// wrong whatever the interval.
const TOGETHER: f64 = 0.25;

/// A form whose R^2 is lower by at most this fits about as well.
const AS_WELL: f64 = 0.01;

/// Reasons, each a sentence without its full stop, the most telling first. `points` are the finite
/// points of one or several runs; `lost` is the number of points that are not finite.
pub(super) fn refusals(
    runs: &[&[Point]],
    lost: usize,
    fit: Option<&Fit>,
    departure: Option<&Departure>,
) -> Vec<String> {
    let points: Vec<&Point> = runs.iter().copied().flatten().collect();
    let mut said = Vec::new();
    if lost > 0 {
        said.push(format!(
            "{lost} of {} points are not finite: the run has diverged",
            points.len() + lost
        ));
    }
    if points.len() < LEAST_POINTS {
        said.push(format!(
            "too few points: {}, and at least {LEAST_POINTS} are needed",
            points.len()
        ));
        return said;
    }
    if let Some(departure) = departure {
        said.push(departure.sentence());
    }
    let [low, high] = span(points.iter().map(|p| p.entropy));
    let still = high - low <= SPAN * high.abs().max(low.abs())
        || libm::exp(high) - libm::exp(low) <= LEAST_SPAN;
    if low == high {
        said.push(format!(
            "every entropy is {low:.4} nats, so nothing was spent that could explain accuracy"
        ));
    } else if still {
        said.push(format!(
            "entropy hardly moves, between {} and {} nats: it is held, spent, or not yet spent",
            fixed(low, 4),
            fixed(high, 4)
        ));
    } else if let Some(share) = course(runs)
        && share > COURSE
    {
        said.push(format!(
            "entropy has no course: from one point to the next it changes {:.0} % as much as noise \
             would, so it is held",
            100.0 * share
        ));
    }
    let [low, high] = span(points.iter().map(|p| p.accuracy));
    if high - low <= ROUNDING * high.abs().max(low.abs()) {
        said.push(format!("every accuracy is {low:.4}, so there is nothing to explain"));
    }
    let lowest = low;
    if let Some(fit) = fit.filter(|_| !still) {
        let Interval { value, low, high } = fit.a;
        if value <= 0.0 && (high <= 0.0 || fit.r_squared > TOGETHER) {
            said.push(format!(
                "entropy and accuracy rise and fall together (a = {value:.3}), where the law has \
                 one rise as the other falls"
            ));
        } else if low <= 0.0 {
            said.push(format!(
                "the interval of a, {low:.3} to {high:.3}, includes 0: accuracy does not follow \
                 entropy with any certainty"
            ));
        }
        let Interval { low, high, .. } = fit.ceiling;
        if said.is_empty()
            && points.iter().all(|p| p.accuracy <= 1.0)
            && low <= lowest
            && high >= 1.0
        {
            said.push(format!(
                "the ceiling may be anything: its interval, {low:.3} to {high:.3}, holds all from \
                 {lowest:.3}, the lowest accuracy that was measured, to 1"
            ));
        }
    }
    if fit.is_none() && said.is_empty() {
        said.push("its coefficients cannot be computed".to_owned());
    }
    said
}

impl Departure {
    /// The reason, without a full stop.
    pub fn sentence(&self) -> String {
        let Self { fitted_until, since, accuracy, predicted, reach } = self;
        let side = if self.is_above() { "above" } else { "below" };
        format!(
            "accuracy has left the interval of the law, {side} it since step {since}: fitted until \
             step {fitted_until}, the law predicts {predicted:.3} ± {reach:.3} where {accuracy:.3} \
             is measured"
        )
    }
}

/// Remarks on a law that is not refused.
pub(super) fn remarks(points: &[&Point], fit: &Fit) -> Vec<String> {
    let mut said = Vec::new();
    let [lowest, reached] = span(points.iter().map(|p| p.accuracy));
    let ceiling = fit.ceiling;
    if ceiling.value > 1.0 && reached <= 1.0 {
        said.push(format!(
            "the predicted ceiling, {:.3}, is above 1, so the law must bend before it",
            ceiling.value
        ));
    }
    if ceiling.value < reached {
        said.push(format!(
            "the predicted ceiling, {:.3}, is below {reached:.3}, the highest accuracy that was \
             measured",
            ceiling.value
        ));
    }
    let (width, spanned) = (ceiling.high - ceiling.low, reached - lowest);
    if width > spanned {
        said.push(format!(
            "the ceiling's interval is {width:.3} wide, wider than all that accuracy has gone \
             through, {spanned:.3}: it says little"
        ));
    }
    said
}

/// Other forms that fit about as well as the law, and the final accuracy each predicts.
pub(super) fn rivals(points: &[Point], fit: &Fit, r_squared: &[(Form, f64)]) -> Vec<String> {
    let rivals =
        r_squared.iter().filter(|(form, r)| *form != Form::Law && *r >= fit.r_squared - AS_WELL);
    let said = rivals.filter_map(|(form, r)| {
        let end = form.end(points)?;
        let place = if *form == Form::Linear { "at H = 0" } else { "after all steps" };
        Some(format!(
            "{} does as well, R^2 {r:.3}, so the run does not tell the two apart; by it accuracy \
             {place} is {end:.3}",
            form.name()
        ))
    });
    said.collect()
}

/// A remark on several runs that are fitted as one: how far their ceilings differ, each fitted
/// alone.
pub(super) fn between(runs: &[&[Point]]) -> String {
    let long = runs.iter().filter(|run| run.len() > 2);
    let ceilings: Vec<f64> =
        long.filter_map(|run| Some(Form::Law.fit(run)?.at_no_entropy())).collect();
    let [low, high] = span(ceilings.iter().copied());
    let alone = match ceilings.len() {
        0 => "none of them can be fitted alone".to_owned(),
        n => format!(
            "ceilings of the {n} of {} that can be fitted alone are {low:.3} to {high:.3}",
            runs.len()
        ),
    };
    format!("the intervals are as if the runs had one law, and leave out how runs differ; {alone}")
}

fn span(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)])
}

/// Half the mean square of changes from point to point over the variance, which is 1 for noise (von
/// Neumann 1941) and near 0 for a course; the least of all runs.
fn course(runs: &[&[Point]]) -> Option<f64> {
    let of = |run: &&[Point]| {
        let n = run.len() as f64;
        let mean = run.iter().map(|p| p.entropy).sum::<f64>() / n;
        let variance =
            run.iter().map(|p| (p.entropy - mean) * (p.entropy - mean)).sum::<f64>() / (n - 1.0);
        let changes: f64 = run.windows(2).map(|p| p[1].entropy - p[0].entropy).map(|d| d * d).sum();
        (run.len() > 2 && variance > 0.0).then(|| changes / (n - 1.0) / 2.0 / variance)
    };
    runs.iter().filter_map(of).min_by(f64::total_cmp)
}
