//! All that is computed of the law from points.

use super::prediction::PREFIX;
use super::refusals::{between, refusals, remarks, rivals};
use super::{Departure, Fit, Form, Interval, Point, Prediction};
use crate::number::{fixed, percent};
use crate::student::interval_of_change;
use serde::Serialize;

/// A study of points: the law, or why it does not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The finite points in the order of steps, one run after the other.
    pub points: Vec<Point>,
    /// The law, if its coefficients can be computed.
    pub fit: Option<Fit>,
    /// Reasons not to rely on the law here, as sentences without full stops; empty if it holds.
    pub refusals: Vec<String>,
    /// Remarks on a law that holds, as sentences without full stops.
    pub remarks: Vec<String>,
    /// Share of the accuracies' variance that each form explains, if it can be fitted to all points
    /// of one run.
    pub r_squared: Vec<(Form, f64)>,
    /// The prediction of a run's rest from its beginning.
    pub prediction: Option<Prediction>,
    /// The departure of accuracy from the law, for one run.
    pub departure: Option<Departure>,
    /// Whether the points come from several runs.
    #[serde(skip)]
    is_of_several: bool,
}

impl Study {
    /// Studies points of one run in the order of steps. Bootstrap draws depend on `seed` and the
    /// number of points alone.
    pub fn of(points: Vec<Point>, seed: u64) -> Self {
        Self::with_prefix(points, PREFIX, seed)
    }

    /// The study with a prediction from another share of the points.
    pub fn with_prefix(points: Vec<Point>, prefix: f64, seed: u64) -> Self {
        let lost = points.iter().filter(|p| !p.is_finite()).count();
        let points: Vec<Point> = points.into_iter().filter(Point::is_finite).collect();
        let departure = Departure::of(&points);
        let forms = Form::ALL.into_iter();
        let r_squared: Vec<(Form, f64)> =
            forms.filter_map(|form| Some((form, form.r_squared(&points)?))).collect();
        let mut study = Self::common(&[&points], lost, departure, seed);
        if let Some(fit) = study.holds() {
            let said = rivals(&points, fit, &r_squared);
            study.remarks.extend(said);
        }
        Self { r_squared, prediction: Prediction::of(&points, prefix), ..study }
    }

    /// Studies the points of several runs as one law, each in the order of its steps; only points
    /// within a run are neighbours.
    pub fn together(runs: &[&[Point]], seed: u64) -> Self {
        let finite: Vec<Vec<Point>> =
            runs.iter().map(|run| run.iter().copied().filter(Point::is_finite).collect()).collect();
        let lost = runs.iter().copied().flatten().filter(|p| !p.is_finite()).count();
        let runs: Vec<&[Point]> = finite.iter().map(Vec::as_slice).collect();
        let mut study = Self::common(&runs, lost, None, seed);
        study.is_of_several = runs.len() > 1;
        if study.holds().is_some() && study.is_of_several {
            study.remarks.push(between(&runs));
        }
        study
    }

    fn common(runs: &[&[Point]], lost: usize, departure: Option<Departure>, seed: u64) -> Self {
        let fit = Fit::of(runs, seed);
        let refusals = refusals(runs, lost, fit.as_ref(), departure.as_ref());
        let all: Vec<&Point> = runs.iter().copied().flatten().collect();
        let remarks = fit.as_ref().filter(|_| refusals.is_empty()).map(|fit| remarks(&all, fit));
        Self {
            points: all.into_iter().copied().collect(),
            fit,
            refusals,
            remarks: remarks.unwrap_or_default(),
            r_squared: Vec::new(),
            prediction: None,
            departure,
            is_of_several: false,
        }
    }

    /// The law, if it holds.
    pub fn holds(&self) -> Option<&Fit> {
        self.fit.as_ref().filter(|_| self.refusals.is_empty())
    }

    /// The predicted ceiling, with its interval clamped to 0 to 1 if accuracies and ceiling are
    /// shares, and whether anything was clamped.
    pub fn ceiling(&self) -> Option<(Interval, bool)> {
        let ceiling = self.holds()?.ceiling;
        let is_of_shares = self.is_of_shares() && (0.0..=1.0).contains(&ceiling.value);
        let cut = if is_of_shares { ceiling.cut(0.0, 1.0) } else { ceiling };
        Some((cut, cut != ceiling))
    }

    /// Whether all accuracies can be shares of responses; mean scores may not be.
    pub fn is_of_shares(&self) -> bool {
        self.points.iter().all(|p| (0.0..=1.0).contains(&p.accuracy))
    }

    /// An accuracy as text: a share in percent, a score as a number.
    pub fn shown(&self, accuracy: f64) -> String {
        if self.is_of_shares() { percent(accuracy) } else { fixed(accuracy, 3) }
    }

    /// The numbers of docs/reference/metrics.md below `law/<set>/`. The last number always exists,
    /// the others if the law holds.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut metrics = Vec::new();
        if let Some(Fit { a, b, ceiling, r_squared, .. }) = self.holds() {
            metrics.extend([
                ("a", a.value),
                ("b", b.value),
                ("ceiling", ceiling.value),
                ("ceiling_low", ceiling.low),
                ("ceiling_high", ceiling.high),
                ("r_squared", *r_squared),
            ]);
        }
        metrics.extend(self.spent().map(|spent| ("entropy_spent", spent)));
        metrics
    }

    /// The law in a line, or why it is refused, and the entropy spent.
    pub fn sentence(&self) -> String {
        let left =
            self.departure.as_ref().filter(|left| self.refusals.first() == Some(&left.sentence()));
        let law = match (self.holds().zip(self.ceiling()), self.refusals.first()) {
            (Some((Fit { r_squared, .. }, (Interval { value, low, high }, _))), _) => {
                let is_possible = !self.is_of_shares() || (0.0..=1.0).contains(&value);
                let beyond = if is_possible { "" } else { " (no share can be that)" };
                let [value, low, high] = [value, low, high].map(|end| self.shown(end));
                format!(
                    "ceiling {value}{beyond}, 95 % interval {low} to {high}, R^2 {r_squared:.3}"
                )
            }
            (None, Some(why)) => left.map_or_else(
                || format!("none, {why}"),
                |left| format!("none since step {}: accuracy has left it", left.since),
            ),
            (None, None) => "none".to_owned(),
        };
        match self.entropy_spent() {
            Some(spent) if spent >= 0.0 => {
                format!("{law}; {:.0} % of the entropy is spent", 100.0 * spent)
            }
            Some(spent) => format!("{law}; the entropy has risen by {:.0} %", -100.0 * spent),
            None => law,
        }
    }

    /// The share of the first point's entropy that is spent at the last: 1 - H / H0. None if the
    /// difference may be chance, if there was no entropy, and for several runs together.
    pub fn entropy_spent(&self) -> Option<f64> {
        let entropies: Vec<f64> = self.points.iter().map(|point| point.entropy).collect();
        let [low, high] = interval_of_change(&entropies)?;
        self.spent().filter(|_| low > 0.0 || high < 0.0)
    }

    /// The spent share without regard to chance; 0 for a single point, with which the metric
    /// begins.
    fn spent(&self) -> Option<f64> {
        if self.is_of_several {
            return None;
        }
        let (first, last) = (self.points.first()?, self.points.last()?);
        (first.entropy > 0.0).then(|| 1.0 - last.entropy / first.entropy)
    }
}
