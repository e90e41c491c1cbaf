//! A turn of an episode in a form that another process can replay it from.
//!
//! An environment's state ends with its process. A process that goes on with an episode asks the
//! environment the same turns again, and takes their tokens over as long as its messages are the
//! same. Its new reward and metrics replace the earlier ones: no token depends on them.

use crate::episode_queue::EpisodeOutcome;
use crate::partial_response::PartialResponse;
use crate::respond::ResponseId;
use crate::sampling::Sampling;
use crate::sequence::{Completion, FinishReason};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Episodes that another process has begun: the turns of each, in order.
pub type BegunEpisodes = HashMap<ResponseId, Vec<PlayedTurn>>;

/// A turn of the model that has ended, with the environment's answer before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayedTurn {
    /// CRC-32C of all tokens of the response before this turn's.
    after: u32,
    /// The turn's tokens, behind those that the model was given before it.
    part: PartialResponse,
    /// The turn's text without special tokens, up to a stop string.
    text: String,
    /// Whether it ended at the greatest length, so that the environment is not asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    /// The environment's reward before the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reward: Option<f64>,
    /// The environment's metrics before the turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, f64>,
}

/// A turn's place in its episode: CRC-32C of all tokens of the response before the turn, and of
/// those up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLink {
    after: u32,
    through: u32,
}

impl TurnLink {
    /// The recorded turns that make up one episode, in order, as indices of `links`, which are in
    /// the order of writing. Turns behind a missing one are left out.
    pub fn chain(links: Vec<Self>) -> Vec<usize> {
        let mut left: Vec<(usize, Self)> = links.into_iter().enumerate().collect();
        let (mut chain, mut after) = (Vec::new(), 0);
        // Where an environment has not repeated itself, the later of two turns counts.
        while let Some(at) = left.iter().rposition(|(_, link)| link.after == after) {
            let (index, link) = left.remove(at);
            after = link.through;
            chain.push(index);
        }
        chain
    }
}

impl PlayedTurn {
    /// The last turn of a response, which has just ended. `outcome` is its episode's before it.
    pub(crate) fn last_of(completion: &Completion, outcome: &EpisodeOutcome) -> Self {
        let from = completion.given.ranges().last().map_or(0, |given| given.start);
        Self {
            after: checksum(0, &completion.tokens[..from]),
            part: PartialResponse::from_token(completion, from),
            text: completion.text.clone().unwrap_or_default(),
            cut: completion.finish_reason == FinishReason::Length,
            reward: outcome.reward,
            metrics: outcome.metrics.clone(),
        }
    }

    /// The turn's place in its episode.
    pub fn link(&self) -> TurnLink {
        TurnLink { after: self.after, through: checksum(self.after, &self.part.tokens) }
    }

    /// Puts the recorded turns of one episode in order. `recorded` is in the order of writing.
    /// Turns that a model with this vocabulary cannot have sampled, and turns behind a missing one,
    /// are left out: a file may have been edited. `room` is what can follow the prompt in the
    /// model's context, in tokens.
    pub fn in_order(
        recorded: Vec<Self>,
        vocabulary: usize,
        sampling: &Sampling,
        room: usize,
    ) -> Vec<Self> {
        let chain = TurnLink::chain(recorded.iter().map(Self::link).collect());
        let mut recorded: Vec<Option<Self>> = recorded.into_iter().map(Some).collect();
        let (mut turns, mut left) = (Vec::new(), room.min(sampling.max_tokens));
        for turn in chain.into_iter().filter_map(|at| recorded[at].take()) {
            if !turn.part.is_turn(vocabulary, sampling, left) {
                break;
            }
            left -= turn.part.tokens.len();
            turns.push(turn);
        }
        turns
    }

    /// The number of tokens that the model sampled in the turn.
    pub fn sampled_tokens(&self) -> usize {
        self.sampled().len()
    }

    pub(crate) fn sampled(&self) -> &[u32] {
        &self.part.tokens[self.part.given.last_turn()..]
    }

    /// Whether the model was given these tokens before the turn.
    pub(crate) fn follows(&self, given: &[u32]) -> bool {
        self.part.tokens[..self.part.given.last_turn()] == *given
    }

    /// Whether the episode had come to this reward and these metrics before the turn.
    pub(crate) fn has_outcome(&self, outcome: &EpisodeOutcome) -> bool {
        self.reward == outcome.reward && self.metrics == outcome.metrics
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the environment is not asked what follows.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }
}

/// The turns of an episode that a replay has taken over.
#[derive(Default)]
pub(crate) struct Replay {
    pub response: PartialResponse,
    pub turns: usize,
    /// Whether the environment has given another reward or other metrics than before.
    pub outcome_differs: bool,
    /// The last turn's text.
    pub text: String,
}

impl Replay {
    /// Takes over a turn, before which the environment has given this outcome now.
    pub fn take(&mut self, turn: &PlayedTurn, outcome: &EpisodeOutcome) {
        self.outcome_differs |= !turn.has_outcome(outcome);
        self.response.append(&turn.part);
        self.turns += 1;
        self.text.clone_from(&turn.text);
    }
}

/// Goes on with a CRC-32C, which begins at 0.
fn checksum(before: u32, tokens: &[u32]) -> u32 {
    tokens.iter().fold(before, |sum, token| crc32c::crc32c_append(sum, &token.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_run::tokens::GivenRanges;

    /// A response of three turns: 3 tokens, 2 of which the first is given, 2 likewise.
    fn turns() -> Vec<PlayedTurn> {
        let (tokens, numbers) = ([3, 4, 9, 5, 9, 6, 9], [-0.5; 7]);
        let completion = |count: usize| {
            let mut given = GivenRanges::default();
            [3..4, 5..6].into_iter().filter(|range| range.end < count).for_each(|r| given.push(r));
            let (logprobs, entropies) = (numbers[..count].to_vec(), numbers[..count].to_vec());
            let tokens = tokens[..count].to_vec();
            let part = PartialResponse { tokens, logprobs, entropies, given, ..Default::default() };
            part.into_completion("turn".into(), FinishReason::Stop, 100)
        };
        [3, 5, 7].map(|to| PlayedTurn::last_of(&completion(to), &Default::default())).to_vec()
    }

    #[test]
    fn a_turn_follows_its_own_messages_and_has_its_own_outcome() {
        let turn = &turns()[1];
        assert!(turn.follows(&[5]) && !turn.follows(&[6]) && !turn.follows(&[]));
        let outcome = EpisodeOutcome::default();
        assert!(turn.has_outcome(&outcome));
        assert!(!turn.has_outcome(&EpisodeOutcome { reward: Some(0.0), ..outcome.clone() }));
        let metrics = BTreeMap::from([("tries".to_owned(), 1.0)]);
        assert!(!turn.has_outcome(&EpisodeOutcome { metrics, ..outcome }));
    }

    #[test]
    fn turns_come_back_in_order_and_what_cannot_be_is_left_out() {
        let sampling = Sampling { max_tokens: 9, records_kept: false, ..Sampling::default() };
        let in_order =
            |turns: &[PlayedTurn]| PlayedTurn::in_order(turns.to_vec(), 10, &sampling, 9);
        let turns = turns();
        assert_eq!(
            turns.iter().map(PlayedTurn::sampled).collect::<Vec<_>>(),
            [&[3, 4, 9][..], &[9], &[9]]
        );
        let [first, second, third] = &turns[..] else { panic!() };
        let of = |turns: &[&PlayedTurn]| turns.iter().map(|&turn| turn.clone()).collect::<Vec<_>>();
        assert_eq!(in_order(&of(&[third, first, second])), turns);
        assert_eq!(in_order(&of(&[third, first])), turns[..1], "one is missing");
        assert_eq!(in_order(&of(&[second, third])), []);
        // The environment has answered otherwise in a later process.
        let mut other = second.clone();
        other.part.tokens[0] = 7;
        assert_eq!(in_order(&of(&[first, second, third, &other])), of(&[first, &other]));
        // No sampler has left these.
        assert_eq!(PlayedTurn::in_order(turns.clone(), 9, &sampling, 9), []);
        let short = Sampling { max_tokens: 6, ..sampling.clone() };
        assert_eq!(PlayedTurn::in_order(turns.clone(), 10, &short, 9), turns[..2]);
        // The context ends in the second turn.
        assert_eq!(PlayedTurn::in_order(turns.clone(), 10, &sampling, 4), turns[..1]);
        let damaged: [fn(&mut PartialResponse); 4] = [
            |part| part.logprobs.clear(),
            |part| part.sampling_logprobs.push(0.0),
            |part| part.given.push(1..2),
            |part| part.tokens.clear(),
        ];
        for damage in damaged {
            let mut second = second.clone();
            damage(&mut second.part);
            assert_eq!(in_order(&of(&[first, &second, third])), turns[..1]);
        }
    }
}
