//! Comparing what was picked inside micro-batches with what was picked inside the whole minibatch.

use super::pick::{Method, Picked};
use super::update::Update;
use super::{Grouping, Scope};
use serde::Serialize;

/// Sums over picked tokens, from which shares and means are made.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Expected number of picked tokens.
    picked: f64,
    eligible: f64,
    batches: f64,
    arbitrary: f64,
    /// Tokens that are compared, those of the whole minibatch, and those in both; of tokens that are picked by chance, so many as
    /// are expected.
    compared: [f64; 3],
    /// Sum of covariances, by the means of the minibatch, of picked tokens.
    covariance: f64,
    /// Expected picked tokens by quadrant.
    quadrants: [f64; 4],
}

/// Shares of the picked tokens, by the means of the whole minibatch: unlikely ones have a log-prob below the mean, worse ones an
/// advantage below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quadrants {
    /// Unlikely tokens of worse responses.
    pub unlikely_worse: f64,
    /// Unlikely tokens of better responses.
    pub unlikely_better: f64,
    /// Likely tokens of worse responses.
    pub likely_worse: f64,
    /// Likely tokens of better responses.
    pub likely_better: f64,
}

/// What micro-batches of one size pick, against the whole minibatch; of [`Grouping::Mixed`] means over orders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Responses of a micro-batch; none of the whole minibatch.
    pub micro_batch: Option<usize>,
    /// How responses are dealt to micro-batches; none of the whole minibatch.
    pub grouping: Option<Grouping>,
    /// Tokens that are picked; of Clip-Cov, which draws, the expected number.
    pub picked: f64,
    /// Picked tokens for each that is picked inside the whole minibatch; none where none is.
    pub times: Option<f64>,
    /// Tokens that they are picked from: of Clip-Cov those within the band.
    pub eligible: f64,
    /// Micro-batches.
    pub micro_batches: f64,
    /// Those among them in which every covariance is 0, so that KL-Cov's choice is arbitrary.
    pub arbitrary: f64,
    /// Tokens that are picked here and inside the whole minibatch, over those that are picked in either (Jaccard); of
    /// Clip-Cov, the tokens that may be drawn. None where there are none.
    pub overlap: Option<f64>,
    /// Share of the minibatch's tokens, as in `overlap`, that are here too; none where it has none.
    pub kept: Option<f64>,
    /// Mean covariance of the picked in nats, by the means of the whole minibatch; none where none is picked.
    pub covariance: Option<f64>,
    /// Who they are; none where none is picked.
    pub quadrants: Option<Quadrants>,
}

impl Tally {
    /// Takes in what was picked of an update, and what the whole minibatch has.
    pub fn add(&mut self, update: &Update, method: Method, whole: &Picked, picked: &Picked) {
        // What may be drawn is compared where a method draws, what is picked where it does not.
        let weight = |chance: f64| if method == Method::ClipCov { 1.0 } else { chance };
        let in_whole = |place: usize| {
            let found = whole.tokens.binary_search_by_key(&place, |(place, _)| *place);
            found.map_or(0.0, |i| weight(whole.tokens[i].1))
        };
        let [mean_logprob, mean_advantage] = update.means;
        for &(place, chance) in &picked.tokens {
            let token = update.tokens[place];
            self.picked += chance;
            self.compared[0] += weight(chance);
            self.compared[2] += weight(chance).min(in_whole(place));
            self.covariance += chance * token.covariance;
            let is_likely = usize::from(token.logprob >= mean_logprob);
            self.quadrants[2 * is_likely + usize::from(token.advantage >= mean_advantage)] += chance;
        }
        self.compared[1] += whole.tokens.iter().map(|(_, chance)| weight(*chance)).sum::<f64>();
        self.eligible += picked.eligible as f64;
        self.batches += picked.batches as f64;
        self.arbitrary += picked.arbitrary as f64;
    }

    /// Takes in another's sums, divided by a number.
    pub fn take_in(&mut self, other: &Self, parts: f64) {
        self.picked += other.picked / parts;
        self.eligible += other.eligible / parts;
        self.batches += other.batches / parts;
        self.arbitrary += other.arbitrary / parts;
        self.covariance += other.covariance / parts;
        self.compared.iter_mut().zip(other.compared).for_each(|(sum, other)| *sum += other / parts);
        self.quadrants.iter_mut().zip(other.quadrants).for_each(|(sum, other)| *sum += other / parts);
    }
}

/// The comparisons, the first of which is the whole minibatch.
pub(super) fn compared(tallies: &[Tally], scopes: &[Scope]) -> Vec<Compared> {
    let whole = tallies.first().map_or(0.0, |tally| tally.picked);
    let of = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    let compared = |(tally, scope): (&Tally, &Scope)| {
        let [here, of_whole, in_both] = tally.compared;
        let share = |quadrant: usize| tally.quadrants[quadrant] / tally.picked;
        Compared {
            micro_batch: scope.map(|(size, _)| size),
            grouping: scope.map(|(_, grouping)| grouping),
            picked: tally.picked,
            times: of(tally.picked, whole),
            eligible: tally.eligible,
            micro_batches: tally.batches,
            arbitrary: tally.arbitrary,
            overlap: of(in_both, here + of_whole - in_both),
            kept: of(in_both, of_whole),
            covariance: of(tally.covariance, tally.picked),
            quadrants: (tally.picked > 0.0).then(|| Quadrants {
                unlikely_worse: share(0),
                unlikely_better: share(1),
                likely_worse: share(2),
                likely_better: share(3),
            }),
        }
    };
    tallies.iter().zip(scopes).map(compared).collect()
}
