//! Decides which rank samples which unfinished responses of a rollout, when a rank has run out of
//! work.
//!
//! It is a pure function of every rank's unfinished responses, which all ranks compute alike. No
//! bit of a response depends on it.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most responses that a rank offers to others in one meeting. It may offer more in the next.
pub(super) const MOST_OFFERED: usize = 1024;
/// Most tokens of the offered responses, unless a single one has more. They are sent to all ranks,
/// with their sampling masks.
pub(super) const MOST_TOKENS: usize = 1 << 18;

/// A rank's unfinished responses: their number, and the ones that it offers to other ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    /// The number of unfinished responses.
    pub left: usize,
    /// The number of those that may move, offered or not.
    pub movable: usize,
    /// Responses that others may take over, in this order: request, sample, and tokens so far.
    pub offered: Vec<(usize, usize, usize)>,
}

impl Offer {
    /// The offer of a rank with `left` responses, of which these may move, as request, sample and
    /// tokens. Responses that have not started go first, then those with the fewest tokens, which
    /// the taker must feed again. Among equals the last to be asked for goes first, since it would
    /// start last.
    pub fn of(mut all: Vec<(usize, usize, usize)>, left: usize) -> Self {
        let movable = all.len();
        all.sort_by_key(|&(request, sample, tokens)| (tokens, Reverse((request, sample))));
        let mut sum = 0;
        let fits = all.iter().take(MOST_OFFERED).take_while(|&&(_, _, tokens)| {
            let is_first = sum == 0;
            sum += tokens;
            is_first || sum <= MOST_TOKENS
        });
        let count = fits.count();
        all.truncate(count);
        Self { left, movable, offered: all }
    }
}

/// A response that goes from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub from: usize,
    pub to: usize,
    pub request: usize,
    pub sample: usize,
    pub tokens: usize,
}

/// The moves that a meeting has agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub moves: Vec<Move>,
    /// Whether no later meeting could move anything.
    pub is_last: bool,
}

/// The burden of taking over a response; a response of a rank's own is 1. A response under way has
/// all its tokens fed again, which takes at most as long as it took to sample them. The number of
/// tokens to come is not known. As many again is a fair guess, since the lengths of late responses
/// spread widely.
fn burden(tokens: usize) -> usize {
    if tokens == 0 { 1 } else { 2 }
}

/// Shares out the unfinished responses: an idle rank takes responses from the rank with the most,
/// while that leaves the taker with no more work than the giver. So a rank keeps its only response,
/// and two that are under way.
pub(super) fn share_out(offers: &[Offer]) -> Shares {
    let mut left: Vec<usize> = offers.iter().map(|offer| offer.left).collect();
    let mut movable: Vec<usize> = offers.iter().map(|offer| offer.movable).collect();
    let has_not_started =
        |offer: &Offer| offer.offered.iter().filter(|(_, _, tokens)| *tokens == 0).count();
    let mut not_started: Vec<usize> = offers.iter().map(has_not_started).collect();
    let mut offered: Vec<_> = offers.iter().map(|offer| offer.offered.iter()).collect();
    let ranks = || 0..offers.len();
    let mut givers: BinaryHeap<_> = ranks().map(|rank| (left[rank], Reverse(rank))).collect();
    // The burden that each idle rank has taken over.
    let mut takers: BinaryHeap<_> =
        ranks().filter(|&rank| left[rank] == 0).map(|rank| Reverse((0, rank))).collect();
    let mut moves = Vec::new();
    while let (Some((has, Reverse(from))), Some(&Reverse((least, to)))) =
        (givers.pop(), takers.peek())
    {
        let Some(&(request, sample, tokens)) = offered[from].next() else { continue };
        let after = least + burden(tokens);
        if after >= has {
            continue; // nor does any other of its responses go: they are no less of a burden
        }
        moves.push(Move { from, to, request, sample, tokens });
        for count in [&mut left, &mut movable] {
            count[from] -= 1;
            count[to] += 1;
        }
        if tokens == 0 {
            not_started[from] -= 1;
            not_started[to] += 1;
        }
        givers.push((left[from], Reverse(from)));
        takers.pop();
        takers.push(Reverse((after, to)));
    }
    let could_give =
        |rank: usize| movable[rank] > 0 && left[rank] > if not_started[rank] > 0 { 1 } else { 2 };
    Shares { moves, is_last: !ranks().any(could_give) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The offers of ranks whose responses have these tokens, `[ranks][responses]`, beside
    /// `staying` ones that may not move, `[ranks]`. Each rank's responses belong to a request of
    /// its own.
    fn offers_beside(tokens: &[Vec<usize>], staying: &[usize]) -> Vec<Offer> {
        let of_rank = |(rank, all): (usize, &Vec<usize>)| {
            let movable = all.iter().enumerate().map(|(sample, &tokens)| (rank, sample, tokens));
            Offer::of(movable.collect(), all.len() + staying[rank])
        };
        tokens.iter().enumerate().map(of_rank).collect()
    }

    fn offers(tokens: &[Vec<usize>]) -> Vec<Offer> {
        offers_beside(tokens, &vec![0; tokens.len()])
    }

    fn moved(tokens: &[Vec<usize>]) -> Vec<(usize, usize, usize)> {
        share_out(&offers(tokens)).moves.iter().map(|m| (m.from, m.sample, m.to)).collect()
    }

    #[test]
    fn what_has_not_started_goes_first_then_what_is_shortest() {
        assert_eq!(moved(&[vec![9, 0, 4, 0, 7, 5], vec![]]), [(0, 3, 1), (0, 1, 1)]);
        assert_eq!(moved(&[vec![9, 0, 4, 0, 7, 5, 8], vec![]]), [(0, 3, 1), (0, 1, 1), (0, 2, 1)]);
        assert_eq!(moved(&[vec![9], vec![]]), [], "a single one stays");
        assert_eq!(moved(&[vec![0, 0], vec![]]), [(0, 1, 1)]);
        assert_eq!(moved(&[vec![9, 3], vec![]]), [], "two that are under way stay");
        assert_eq!(moved(&[vec![9, 3, 6], vec![]]), [(0, 1, 1)]);
        assert_eq!(moved(&[vec![9; 90], vec![]]).len(), 30, "a third, whose tokens are fed again");
        assert_eq!(moved(&[vec![5; 8], vec![0; 3]]), [], "all have work");
        assert_eq!(moved(&[vec![9, 9], vec![0, 5], vec![]]), [(1, 0, 2)], "what is no burden goes");
        assert_eq!(moved(&[vec![], vec![5; 4], vec![], vec![1; 3]]), [(1, 3, 0), (1, 2, 2)]);
    }

    #[test]
    fn a_rank_whose_episodes_have_begun_is_busy_and_may_give_the_others() {
        let shares = |tokens: &[Vec<usize>], staying| share_out(&offers_beside(tokens, staying));
        assert_eq!(shares(&[vec![0; 4], vec![]], &[0, 1]).moves, [], "both are busy");
        let Shares { moves, is_last } = shares(&[vec![0], vec![]], &[1, 0]);
        assert_eq!((moves.len(), is_last), (1, true), "the one that stays is left");
        assert!(shares(&[vec![], vec![]], &[9, 0]).is_last, "none may move");
    }

    #[test]
    fn what_is_offered_has_a_bound_in_tokens() {
        let offered = |tokens: &[usize]| offers(&[tokens.to_vec()])[0].offered.len();
        assert_eq!(offered(&[MOST_TOKENS / 2; 5]), 2);
        assert_eq!(offered(&[3 * MOST_TOKENS; 5]), 1, "one alone may have more");
        assert_eq!(offered(&[0, 0, 2 * MOST_TOKENS]), 3);
        let shares = share_out(&offers(&[vec![0; 5 * MOST_OFFERED], vec![]]));
        assert_eq!((shares.moves.len(), shares.is_last), (MOST_OFFERED, false));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_doubled_and_what_is_worth_it_moves(
            ranks in prop::collection::vec((
                prop_oneof![Just(vec![]), prop::collection::vec(prop_oneof![Just(0), 0usize..99], 0..40)],
                prop_oneof![Just(0), 0usize..9],
            ), 1..9),
        ) {
            let (tokens, staying): (Vec<Vec<usize>>, Vec<usize>) = ranks.into_iter().unzip();
            let offers = offers_beside(&tokens, &staying);
            let before = |rank: usize| tokens[rank].len() + staying[rank];
            let Shares { moves, is_last } = share_out(&offers);
            let mut at: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for m in &moves {
                prop_assert_eq!(m.tokens, tokens[m.from][m.sample]);
                prop_assert!(m.request == m.from && !tokens[m.from].is_empty());
                prop_assert_eq!(before(m.to), 0);
                prop_assert_eq!(at.insert((m.request, m.sample), m.to), None, "moved twice");
            }
            let mut after = staying.clone();
            for (rank, all) in tokens.iter().enumerate() {
                for sample in 0..all.len() {
                    after[at.get(&(rank, sample)).copied().unwrap_or(rank)] += 1;
                }
            }
            let all: usize = (0..after.len()).map(before).sum();
            prop_assert_eq!(after.iter().sum::<usize>(), all);
            // No rank takes over more than the slowest had before, and no further move would help.
            let mut burdens = vec![0; tokens.len()];
            moves.iter().for_each(|m| burdens[m.to] += burden(m.tokens));
            let most = (0..after.len()).map(before).max().unwrap_or(0);
            prop_assert!(burdens.iter().all(|&burden| burden == 0 || burden < most), "{burdens:?}");
            let takers = (0..after.len()).filter(|&rank| before(rank) == 0);
            let least = takers.map(|rank| burdens[rank]).min();
            let kept = |rank: usize| {
                let all = tokens[rank].iter().enumerate();
                all.filter(|(sample, _)| !at.contains_key(&(rank, *sample))).map(|(_, &tokens)| tokens).min()
            };
            for rank in 0..after.len() {
                if let (Some(least), Some(next)) = (least, kept(rank)) {
                    prop_assert!(least + burden(next) >= after[rank], "{:?}", after);
                }
            }
            // No later meeting moves anything, however much is sampled before it.
            let later = |rank: usize| {
                let here = tokens.iter().enumerate().flat_map(|(of, all)| all.iter().enumerate().map(move |(s, t)| (of, s, *t)));
                here.filter(|(of, sample, _)| at.get(&(*of, *sample)).copied().unwrap_or(*of) == rank).collect::<Vec<_>>()
            };
            let mut later: Vec<Offer> =
                (0..after.len()).map(|rank| Offer::of(later(rank), after[rank])).collect();
            later.push(Offer::default());
            prop_assert_eq!(is_last, share_out(&later).moves.is_empty());
            // A rank keeps responses with no fewer tokens than those that it gives away.
            for (rank, all) in tokens.iter().enumerate() {
                let given = moves.iter().filter(|m| m.from == rank).map(|m| m.tokens).max();
                prop_assert!(all.is_empty() || given.is_none() || after[rank] > 0);
                prop_assert!(kept(rank).is_none_or(|kept| given.is_none_or(|given| given <= kept)));
            }
        }
    }
}
