//! One token with all its numbers.

use super::Kind;
use crate::tokens::TokenRecord;

/// One token of a recorded response. Log-probs and entropies are in nats; unknown numbers are NaN.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The number of its record.
    pub record: usize,
    /// The token's place in the response, from 0, and the response's number of tokens.
    pub place: (usize, usize),
    /// Its id.
    pub id: u32,
    /// The token's text, which may be empty.
    pub piece: &'a str,
    /// Its kind.
    pub kind: Kind,
    /// Log-prob when it was sampled.
    pub logprob: f64,
    /// Entropy of the distribution that the token was drawn from.
    pub entropy: f64,
    /// The change of the token's log-prob by the step.
    pub change: f64,
    /// Advantage.
    pub advantage: f64,
    /// Covariance of log-prob and advantage.
    pub covariance: f64,
    /// The token's quadrant, if it was trained on.
    pub quadrant: Option<Quadrant>,
    /// Whether Clip-Cov or KL-Cov picked it.
    pub selected: bool,
    /// Whether its ratio was clipped.
    pub clipped: bool,
}

/// The signs of a token's log-prob and advantage relative to their means over the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quadrant {
    /// An unlikely token of a worse response: the usual source of large covariances.
    UnlikelyWorse,
    /// An unlikely token of a better response: learning it raises entropy.
    UnlikelyBetter,
    /// A likely token of a worse response.
    LikelyWorse,
    /// A likely token of a better response: learning it lowers entropy.
    LikelyBetter,
}

impl Quadrant {
    /// All quadrants, in the order of tables.
    pub const ALL: [Self; 4] =
        [Self::UnlikelyWorse, Self::UnlikelyBetter, Self::LikelyWorse, Self::LikelyBetter];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnlikelyWorse => "unlikely, worse response",
            Self::UnlikelyBetter => "unlikely, better response",
            Self::LikelyWorse => "likely, worse response",
            Self::LikelyBetter => "likely, better response",
        }
    }
}

impl<'a> Token<'a> {
    /// The tokens of a record.
    pub(super) fn all(record: usize, from: &'a TokenRecord) -> impl Iterator<Item = Self> + 'a {
        let length = from.len();
        (0..length).map(move |at| {
            let logprob = f64::from(from.logprobs[at]);
            let advantage =
                from.advantages.as_ref().map_or(f64::NAN, |advantages| advantages.at(at));
            let covariance =
                from.covariances.get(at).map_or(f64::NAN, |&covariance| covariance.into());
            Self {
                record,
                place: (at, length),
                id: from.tokens[from.prompt_tokens + at],
                piece: &from.pieces[at],
                kind: Kind::of(&from.pieces[at]),
                logprob,
                entropy: from.entropies[at].into(),
                change: f64::from(from.logprobs_after[at]) - logprob,
                advantage,
                covariance,
                quadrant: quadrant(from, logprob, advantage, covariance),
                selected: from.selected.binary_search(&at).is_ok(),
                clipped: from.clipped.binary_search(&at).is_ok(),
            }
        })
    }

    /// The tenth of the response that has the token, from 0.
    pub fn tenth(&self) -> usize {
        let (at, length) = self.place;
        at * 10 / length.max(1)
    }
}

/// The quadrant by the log-prob under the policy in training. If that policy is not the sampler,
/// the signs of covariance and advantage show on which side of the mean the log-prob was.
fn quadrant(
    record: &TokenRecord,
    logprob: f64,
    advantage: f64,
    covariance: f64,
) -> Option<Quadrant> {
    let centred_advantage = advantage - record.mean_advantage?;
    let centred_logprob = match covariance * centred_advantage {
        sign if sign != 0.0 => sign,
        _ => logprob - record.mean_logprob?,
    };
    if centred_advantage.is_nan() || centred_logprob.is_nan() {
        return None;
    }
    Some(match (centred_logprob < 0.0, centred_advantage < 0.0) {
        (true, true) => Quadrant::UnlikelyWorse,
        (true, false) => Quadrant::UnlikelyBetter,
        (false, true) => Quadrant::LikelyWorse,
        (false, false) => Quadrant::LikelyBetter,
    })
}
