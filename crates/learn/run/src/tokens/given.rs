//! The tokens of a response of several turns that the model was given: answers of an environment,
//! and a chat template's text around them.

use serde::{Deserialize, Serialize};
use std::iter;
use std::ops::Range;

/// Which tokens of a response were given. All others were sampled; a response of one turn has no
/// given tokens, unless an environment opened it. A file has their ranges: `[[12, 40], [55, 61]]`,
/// from 0, without the second number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GivenRanges(Vec<[usize; 2]>);

impl GivenRanges {
    /// Adds tokens before the first turn or between two turns, behind all others.
    pub fn push(&mut self, tokens: Range<usize>) {
        self.0.push([tokens.start, tokens.end]);
    }

    /// Whether all tokens were sampled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of given tokens.
    pub fn count(&self) -> usize {
        self.0.iter().map(|[from, to]| to - from).sum()
    }

    /// Whether the token at this place was given.
    pub fn contains(&self, place: usize) -> bool {
        let after = self.0.partition_point(|[from, _]| *from <= place);
        after > 0 && place < self.0[after - 1][1]
    }

    /// The places of the given tokens, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().map(|[from, to]| *from..*to)
    }

    /// Whether the response begins with given tokens, before the model's first turn.
    fn is_opened(&self) -> bool {
        self.0.first().is_some_and(|[from, _]| *from == 0)
    }

    /// The places of the sampled tokens of a response of `length` tokens, one range for each turn
    /// of the model.
    pub fn turns(&self, length: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = iter::once(0).chain(self.0.iter().map(|range| range[1]));
        let ends = self.0.iter().map(|range| range[0]).chain(iter::once(length));
        let all = starts.zip(ends).map(|(start, end)| start..end);
        all.skip(usize::from(self.is_opened()))
    }

    /// The places of the sampled tokens of a response of `length` tokens.
    pub fn sampled(&self, length: usize) -> impl Iterator<Item = usize> + '_ {
        self.turns(length).flatten()
    }

    /// Puts the values of sampled tokens, `[sampled]`, at their places in a response of `length`
    /// tokens. Given tokens have `filler`.
    pub fn spread<T: Clone>(
        &self,
        length: usize,
        values: impl IntoIterator<Item = T>,
        filler: T,
    ) -> Vec<T> {
        let mut all = vec![filler; length];
        self.sampled(length).zip(values).for_each(|(place, value)| all[place] = value);
        all
    }

    /// The place at which the last turn of the model begins.
    pub fn last_turn(&self) -> usize {
        self.0.last().map_or(0, |range| range[1])
    }

    /// Whether the ranges fit a response of `length` tokens: every turn has a sampled token. A file
    /// may have been edited.
    pub fn fits(&self, length: usize) -> bool {
        let before = (!self.is_opened()).then_some(0);
        let places: Vec<usize> =
            before.into_iter().chain(self.0.iter().flatten().copied()).chain([length]).collect();
        self.is_empty() || places.is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(ranges: &[[usize; 2]]) -> GivenRanges {
        serde_json::from_value(serde_json::json!(ranges)).unwrap()
    }

    #[test]
    fn turns_are_what_lies_between_given_tokens() {
        let none = GivenRanges::default();
        assert_eq!((none.turns(3).count(), none.sampled(3).collect()), (1, vec![0, 1, 2]));
        assert!(none.is_empty() && none.fits(0) && none.fits(3) && !none.contains(0));
        let mut some = GivenRanges::default();
        some.push(2..5);
        some.push(6..8);
        assert_eq!(some, given(&[[2, 5], [6, 8]]));
        assert_eq!(some.turns(9).collect::<Vec<_>>(), [0..2, 5..6, 8..9]);
        assert_eq!(some.sampled(9).collect::<Vec<_>>(), [0, 1, 5, 8]);
        assert_eq!((some.count(), some.last_turn()), (5, 8));
        assert_eq!(some.spread(9, [1, 2, 3, 4], 0), [1, 2, 0, 0, 0, 3, 0, 0, 4]);
        for place in 0..9 {
            assert_eq!(some.contains(place), ![0, 1, 5, 8].contains(&place), "{place}");
        }
        assert!(some.fits(9) && !some.fits(8));
        let opened = given(&[[0, 2], [4, 5]]);
        assert_eq!(opened.turns(7).collect::<Vec<_>>(), [2..4, 5..7]);
        assert_eq!(opened.ranges().collect::<Vec<_>>(), [0..2, 4..5]);
        assert_eq!(opened.spread(7, [1, 2, 3, 4], 0), [0, 0, 1, 2, 0, 3, 4]);
        assert!(opened.contains(0) && opened.fits(7) && !opened.fits(5) && !opened.fits(2));
        assert!(given(&[[0, 2]]).fits(3) && !given(&[[0, 2]]).fits(2) && !given(&[[0, 0]]).fits(2));
        for wrong in [&[[2, 2]][..], &[[3, 2]], &[[2, 4], [4, 5]], &[[4, 5], [2, 3]]] {
            assert!(!given(wrong).fits(9), "{wrong:?}");
        }
    }
}
