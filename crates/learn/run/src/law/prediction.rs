//! Prediction out of sample: a fit to the beginning of a run predicts its rest.

use super::{Form, Point};
use serde::Serialize;

/// Default share of a run's points from which a prediction is made (arXiv:2505.22617 takes 15 %).
pub const PREFIX: f64 = 0.15;

/// Fewest points to predict from, and fewest to score on.
const LEAST: [usize; 2] = [3, 2];

/// The errors of forms that are fitted to a prefix, on the rest. The law and the line get the
/// entropies of the rest, the others its steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Points that the forms were fitted to.
    pub prefix: usize,
    /// The last step of these.
    pub until: u64,
    /// Points that they are scored on.
    pub rest: usize,
    /// Every form that the prefix determines, in the order of [`Form::ALL`].
    pub scored: Vec<Scored>,
}

/// One form's errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The form.
    pub form: Form,
    /// Root of the mean squared error over the rest.
    pub rmse: f64,
    /// Predicted less measured accuracy at the last point.
    pub error_at_end: f64,
}

impl Prediction {
    /// Fits the first `share` of a run's finite points (at least three) and predicts the rest. None
    /// if the rest has fewer than two.
    pub fn of(points: &[Point], share: f64) -> Option<Self> {
        let [least, left] = LEAST;
        let prefix = (libm::ceil(share * points.len() as f64) as usize).max(least);
        if prefix + left > points.len() {
            return None;
        }
        let (known, rest) = points.split_at(prefix);
        let scored = Form::ALL.into_iter().filter_map(|form| {
            let curve = form.fit(known)?;
            let last = rest.last()?;
            let rmse = (curve.squares(rest) / rest.len() as f64).sqrt();
            Some(Scored { form, rmse, error_at_end: curve.accuracy(last) - last.accuracy })
        });
        Some(Self { prefix, until: known.last()?.step, rest: rest.len(), scored: scored.collect() })
    }
}
