//! The tokens that truncated sampling could have drawn.

use std::ops::Range;

/// For each of several draws, the tokens that top-k, top-p and min-p kept, so that training sees
/// the same distribution again ("keep sampling mask", DeepSeek-V3.2, arXiv:2512.02556, section
/// 3.1).
///
/// A draw without tokens had the whole vocabulary, and so had every draw beyond the last pushed
/// one. By default nothing was truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingMasks {
    /// The end of each draw's tokens, `[draws]`.
    ends: Vec<usize>,
    /// The tokens, ascending within a draw.
    tokens: Vec<u32>,
}

impl SamplingMasks {
    /// Appends a draw: its tokens in ascending order, or none for the whole vocabulary.
    pub fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.ends.push(self.tokens.len());
    }

    /// The tokens of a draw; none for the whole vocabulary.
    pub fn of(&self, draw: usize) -> &[u32] {
        let Some(&end) = self.ends.get(draw) else { return &[] };
        let first = if draw == 0 { 0 } else { self.ends[draw - 1] };
        &self.tokens[first..end]
    }

    /// The number of pushed draws.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no draw was pushed.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The first draws of each part, one part behind the other; draws that a part lacks have the
    /// whole vocabulary. Like a [`part`](Self::part), it takes no more memory than the draws need.
    pub fn concat(parts: &[(&Self, usize)]) -> Self {
        let draws =
            || parts.iter().flat_map(|&(masks, draws)| (0..draws).map(move |draw| masks.of(draw)));
        let mut all = Self {
            tokens: Vec::with_capacity(draws().map(<[u32]>::len).sum()),
            ends: Vec::with_capacity(parts.iter().map(|(_, draws)| draws).sum()),
        };
        draws().for_each(|tokens| all.push(tokens));
        all
    }

    /// The masks of some of the draws.
    #[must_use]
    pub fn part(&self, draws: Range<usize>) -> Self {
        if self.is_whole() {
            return Self::default();
        }
        let mut part = Self {
            tokens: Vec::with_capacity(draws.clone().map(|draw| self.of(draw).len()).sum()),
            ends: Vec::with_capacity(draws.len()),
        };
        draws.for_each(|draw| part.push(self.of(draw)));
        part
    }

    /// Whether every draw had the whole vocabulary.
    pub fn is_whole(&self) -> bool {
        self.tokens.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_without_tokens_had_them_all() {
        let mut masks = SamplingMasks::default();
        assert!(masks.is_whole() && masks.of(7).is_empty());
        masks.push(&[2, 5]);
        masks.push(&[]);
        masks.push(&[1]);
        assert_eq!(
            [masks.of(0), masks.of(1), masks.of(2), masks.of(3)],
            [&[2, 5][..], &[], &[1], &[]]
        );
        let part = masks.part(1..3);
        assert_eq!([part.of(0), part.of(1)], [&[][..], &[1]]);
        assert!(masks.part(1..2).is_whole());
        assert_eq!(SamplingMasks::default().part(3..9), SamplingMasks::default());
        // The memory plan counts tokens, not what vectors grow to.
        let all =
            SamplingMasks::concat(&[(&masks, 4), (&SamplingMasks::default(), 1), (&masks, 1)]);
        let expected = [&[2, 5][..], &[], &[1], &[], &[], &[2, 5]];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|draw| all.of(draw)), expected);
        assert_eq!((all.len(), all.tokens.capacity(), all.ends.capacity()), (6, 5, 6));
        assert_eq!((part.tokens.capacity(), part.ends.capacity()), (1, 2));
    }
}
