//! Whole sequences packed end to end, without padding, for training and scoring.

use isentrope_kernels::{HostBatch, Run, SamplingMasks};
use std::sync::Arc;

/// A sequence whose tokens from `score_from` on are to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// All tokens.
    pub tokens: &'a [u32],
    /// Index of the first token that is a target; the token before it is the first that predicts. 0
    /// is taken as 1: nothing predicts the first token.
    pub score_from: usize,
}

impl Sequence<'_> {
    /// The number of scored tokens.
    pub fn target_count(&self) -> usize {
        self.tokens.len().saturating_sub(self.first_target())
    }

    fn first_target(&self) -> usize {
        self.score_from.max(1)
    }
}

/// Most tokens of sequences that share the computation of their prompt. It does not depend on the
/// micro-batch: sharing decides the order of a gradient's sums, so it must depend on the sequences
/// alone.
pub const SHARING_TOKENS: usize = 1024;

/// Consecutive sequences that go through the model together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// How many sequences.
    pub sequences: usize,
    /// Tokens that go through the model: a prompt that all share counts once.
    pub tokens: usize,
}

/// Divides sequences into units. Consecutive sequences with the same tokens before their first
/// target, such as the responses to one prompt, are a unit of at most [`SHARING_TOKENS`].
pub fn units(sequences: &[Sequence<'_>]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut prompt: Option<&[u32]> = None;
    for sequence in sequences {
        let (from, inputs) = (sequence.first_target(), sequence.tokens.len().saturating_sub(1));
        if sequence.target_count() == 0 {
            units.push(Unit { sequences: 1, tokens: 0 });
            prompt = None;
            continue;
        }
        let own = &sequence.tokens[..from];
        match units.last_mut() {
            Some(unit) if prompt == Some(own) && unit.tokens + inputs - from <= SHARING_TOKENS => {
                unit.sequences += 1;
                unit.tokens += inputs - from;
            }
            _ => units.push(Unit { sequences: 1, tokens: inputs }),
        }
        prompt = Some(own);
    }
    units
}

/// Most tokens of [`units`] of `sequences` sequences that share up to `shared` tokens before their
/// first target and have up to `own` inputs each from there on.
pub fn most_tokens_of_units(sequences: usize, shared: usize, own: usize) -> usize {
    let beside = SHARING_TOKENS.saturating_sub(shared).checked_div(own);
    // Inputs without tokens of their own are all in one unit, if their prompt is short enough.
    let all = if shared <= SHARING_TOKENS { sequences } else { 1 };
    let in_unit = beside.unwrap_or(all).max(1);
    let prompts = sequences.div_ceil(in_unit).saturating_mul(shared);
    sequences.saturating_mul(own).saturating_add(prompts)
}

/// Each sequence as a unit of its own.
pub fn apart(sequences: &[Sequence<'_>]) -> Vec<Unit> {
    let inputs = |s: &Sequence<'_>| if s.target_count() == 0 { 0 } else { s.tokens.len() - 1 };
    sequences.iter().map(|sequence| Unit { sequences: 1, tokens: inputs(sequence) }).collect()
}

/// Sequences of one micro-batch, in whole [`units`]. Results come one per target, in order of
/// sequences and of tokens in them. A batch without targets is allowed: it has no results and adds
/// nothing to a gradient.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// Inputs: every token of each sequence but its last. A unit's shared prompt stands once,
    /// before the rest of each of its sequences.
    pub(crate) tokens: Vec<u32>,
    /// The division of `tokens` into stretches. A shared prompt is one stretch, and so is the rest
    /// of each of its sequences; any other sequence is one stretch.
    stretches: Vec<Stretch>,
    /// Rows that predict a target.
    pub(crate) rows: Vec<u32>,
    pub(crate) targets: Vec<u32>,
    /// The tokens that could have been drawn in the place of each target.
    pub(crate) masks: Arc<SamplingMasks>,
}

/// Consecutive rows that are consecutive positions of one sequence; at least one.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The first row.
    row: usize,
    len: usize,
    /// Position of the first row.
    position: usize,
    /// The sequence with these tokens, or the first of several that share them as their prompt.
    owner: usize,
    /// The stretch that this one continues, if it does not begin a sequence.
    prompt: Option<usize>,
}

impl Packed {
    /// Packs sequences; the sequences of a [unit](units) share their prompt. A sequence without
    /// targets has no rows.
    pub fn new(sequences: &[Sequence<'_>]) -> Self {
        Self::in_units(sequences, &units(sequences))
    }

    /// Packs sequences, [each by itself](apart).
    pub fn apart(sequences: &[Sequence<'_>]) -> Self {
        Self::in_units(sequences, &apart(sequences))
    }

    fn in_units(sequences: &[Sequence<'_>], units: &[Unit]) -> Self {
        let mut packed = Self::default();
        let mut first = 0;
        for &Unit { sequences: count, .. } in units {
            match &sequences[first..first + count] {
                [sequence] if sequence.target_count() == 0 => {}
                [sequence] => {
                    let rows =
                        packed.push(first, 0, &sequence.tokens[..sequence.tokens.len() - 1], None);
                    packed
                        .push_targets(sequence, rows.start + sequence.first_target() - 1..rows.end);
                }
                unit @ [one, ..] => {
                    let prompt = packed.stretches.len();
                    let position = one.first_target();
                    let last_of_prompt =
                        packed.push(first, 0, &one.tokens[..position], None).end - 1;
                    for (owner, sequence) in (first..).zip(unit) {
                        let own = &sequence.tokens[position..sequence.tokens.len() - 1];
                        let rows = packed.push(owner, position, own, Some(prompt));
                        packed.push_targets(sequence, std::iter::once(last_of_prompt).chain(rows));
                    }
                }
                [] => {}
            }
            first += count;
        }
        packed
    }

    /// Packs inputs whose every token predicts targets of its own, which need not be the tokens
    /// that follow. `targets` has, for each sequence, as many targets of each of its tokens as of
    /// any other: `[tokens, targets of a token]`.
    ///
    /// # Panics
    /// When a sequence's targets are not a multiple of its tokens.
    pub fn predicting(sequences: &[(&[u32], &[u32])]) -> Self {
        let mut packed = Self::default();
        for (owner, (tokens, targets)) in sequences.iter().enumerate() {
            let rows = packed.push(owner, 0, tokens, None);
            let of_each = targets.len().checked_div(tokens.len()).unwrap_or(0);
            assert_eq!(targets.len(), of_each * tokens.len(), "targets of each token");
            packed.rows.extend(rows.flat_map(|row| std::iter::repeat_n(row as u32, of_each)));
            packed.targets.extend_from_slice(targets);
        }
        packed
    }

    /// The sequences with masks, one per target: the tokens that truncated sampling could have
    /// drawn in its place.
    #[must_use]
    pub fn with_masks(self, masks: SamplingMasks) -> Self {
        Self { masks: Arc::new(masks), ..self }
    }

    /// Tokens that go through the model.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Number of targets; scoring returns one result for each.
    pub fn target_count(&self) -> usize {
        self.targets.len()
    }

    /// A value for each row, from the values of each sequence's inputs.
    pub(crate) fn rows_of<T: Copy>(&self, of_inputs: &[&[T]]) -> Vec<T> {
        let of_stretch = |s: &Stretch| &of_inputs[s.owner][s.position..s.position + s.len];
        self.stretches.iter().flat_map(of_stretch).copied().collect()
    }

    /// The rows as a batch with a cache of their own, in pages of `page` positions; and the number
    /// of the cache's pages.
    pub(crate) fn on_pages(&self, page: usize) -> (HostBatch, usize) {
        let mut batch = HostBatch { tokens: self.tokens.clone(), ..HostBatch::default() };
        let mut taken = 0;
        for &Stretch { row, len, position, prompt, .. } in &self.stretches {
            let first = batch.pages.len();
            let prompt = prompt.map(|prompt| batch.runs[prompt].clone());
            // Pages that the prompt fills are shared.
            let shared = prompt.as_ref().map_or(0, |prompt| prompt.len / page);
            if let Some(prompt) = &prompt {
                batch.pages.extend_from_within(prompt.pages.start..prompt.pages.start + shared);
            }
            let own = (position + len).div_ceil(page) - shared;
            batch.pages.extend((taken..taken + own).map(|page| page as u32));
            taken += own;
            let pages = first..batch.pages.len();
            // Rows on a page that is not full are copied, before the sequence's own rows.
            let position_of_copy = shared * page;
            if let Some(prompt) = prompt.filter(|prompt| prompt.len > position_of_copy) {
                let (row, len) = (prompt.row + position_of_copy, prompt.len - position_of_copy);
                batch.copied.push(Run {
                    row,
                    len,
                    position: position_of_copy,
                    pages: pages.clone(),
                });
            }
            batch.runs.push(Run { row, len, position, pages });
        }
        (batch, taken)
    }

    /// Appends rows of `owner` from a position on, which start a sequence or continue a prompt;
    /// returns them.
    fn push(
        &mut self,
        owner: usize,
        position: usize,
        tokens: &[u32],
        prompt: Option<usize>,
    ) -> std::ops::Range<usize> {
        let (row, len) = (self.tokens.len(), tokens.len());
        if len > 0 {
            self.tokens.extend_from_slice(tokens);
            self.stretches.push(Stretch { row, len, position, owner, prompt });
        }
        row..row + len
    }

    /// Appends a sequence's targets, and the rows that predict them.
    fn push_targets(&mut self, sequence: &Sequence<'_>, rows: impl Iterator<Item = usize>) {
        self.rows.extend(rows.map(|row| row as u32));
        self.targets.extend_from_slice(&sequence.tokens[sequence.first_target()..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sequences: &[(&[u32], usize)]) -> (Vec<Unit>, Packed) {
        let sequences: Vec<Sequence<'_>> =
            sequences.iter().map(|&(tokens, score_from)| Sequence { tokens, score_from }).collect();
        (units(&sequences), Packed::new(&sequences))
    }

    #[test]
    fn a_prompt_stands_once() {
        let (units, packed) =
            of(&[(&[1, 2, 3, 4], 2), (&[1, 2, 5, 6, 7], 2), (&[1, 2, 8], 2), (&[2, 2, 8], 2)]);
        assert_eq!(units, [Unit { sequences: 3, tokens: 5 }, Unit { sequences: 1, tokens: 2 }]);
        assert_eq!(packed.tokens, [1, 2, 3, 5, 6, 2, 2]);
        assert_eq!(packed.rows, [1, 2, 1, 3, 4, 1, 6]);
        assert_eq!(packed.targets, [3, 4, 5, 6, 7, 8, 8]);
        let inputs: [&[char]; 4] = [&['a', 'b', 'c'], &['?', '?', 'd', 'e'], &[], &['f', 'g']];
        assert_eq!(packed.rows_of(&inputs), ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
        // The response of one token has no rows of its own.
        assert_eq!(
            packed
                .on_pages(16)
                .0
                .runs
                .iter()
                .map(|r| (r.row, r.len, r.position))
                .collect::<Vec<_>>(),
            [(0, 2, 0), (2, 1, 2), (3, 2, 2), (5, 2, 0)]
        );
    }

    #[test]
    fn targets_of_their_own_need_not_follow() {
        let packed =
            Packed::predicting(&[(&[1, 2], &[2, 9]), (&[4, 5], &[7, 8, 0, 1]), (&[], &[])]);
        assert_eq!(packed.tokens, [1, 2, 4, 5]);
        assert_eq!(packed.rows, [0, 1, 2, 2, 3, 3]);
        assert_eq!(packed.targets, [2, 9, 7, 8, 0, 1]);
        // Targets that follow make the same batch as a sequence scored from its second token on.
        let next = Packed::predicting(&[(&[1, 2, 3], &[2, 3, 4])]);
        let sequence = Packed::new(&[Sequence { tokens: &[1, 2, 3, 4], score_from: 1 }]);
        assert_eq!((next.tokens, next.rows), (sequence.tokens, sequence.rows));
    }

    #[test]
    fn pages_that_a_prompt_fills_are_shared() {
        let long: Vec<u32> = (0..40).collect();
        let other: Vec<u32> = (0..39).chain([7, 8]).collect();
        let (units, packed) = of(&[(&long, 36), (&other, 36)]);
        assert_eq!(units, [Unit { sequences: 2, tokens: 36 + 3 + 4 }]);
        let (batch, taken) = packed.on_pages(16);
        let pages_of = |runs: &[Run]| -> Vec<Vec<u32>> {
            runs.iter().map(|run| batch.pages[run.pages.clone()].to_vec()).collect()
        };
        assert_eq!(
            (pages_of(&batch.runs), taken),
            (vec![vec![0, 1, 2], vec![0, 1, 3], vec![0, 1, 4]], 5)
        );
        let places =
            |runs: &[Run]| runs.iter().map(|r| (r.row, r.len, r.position)).collect::<Vec<_>>();
        assert_eq!(places(&batch.runs), [(0, 36, 0), (36, 3, 36), (39, 4, 36)]);
        assert_eq!(places(&batch.copied), [(32, 4, 32), (32, 4, 32)]);
        assert_eq!(pages_of(&batch.copied), pages_of(&batch.runs)[1..]);
        // On larger pages there is nothing to share.
        let (batch, taken) = packed.on_pages(64);
        assert_eq!((places(&batch.copied), taken), (vec![(0, 36, 0), (0, 36, 0)], 3));
    }

    #[test]
    fn units_have_at_most_the_tokens_of_the_longest_sequences() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..300 {
            let (count, shared, own) = (1 + random(9), 1 + random(1200), random(700));
            let most = most_tokens_of_units(count, shared, own);
            let mut tokens = |prompt: usize, exact: bool| {
                let lengths: Vec<usize> = (0..count)
                    .map(|_| prompt + 1 + if exact { own } else { random(own + 1) })
                    .collect();
                let text = vec![7; prompt + own + 1];
                let of = |length: &usize| Sequence { tokens: &text[..*length], score_from: prompt };
                let sequences: Vec<_> = lengths.iter().map(of).collect();
                units(&sequences).iter().map(|unit| unit.tokens).sum::<usize>()
            };
            assert_eq!(tokens(shared, true), most, "{count} {shared} {own}");
            assert!(tokens(shared, false) <= most);
            assert!(tokens(1 + shared / 2, false) <= most);
        }
    }

    #[test]
    fn sequences_without_targets_and_long_ones_stand_alone() {
        let long = vec![3; SHARING_TOKENS];
        let (units, packed) =
            of(&[(&[1, 2], 2), (&[1, 2], 1), (&[], 0), (&[1, 5], 0), (&long, 9), (&long, 9)]);
        assert_eq!(units.iter().map(|u| u.tokens).collect::<Vec<_>>(), [0, 1, 0, 1, 1023, 1023]);
        assert!(units.iter().all(|unit| unit.sequences == 1));
        let two = [Sequence { tokens: &[1, 2, 3], score_from: 1 }; 2];
        assert_eq!(apart(&two), [Unit { sequences: 1, tokens: 2 }; 2]);
        assert_eq!(Packed::apart(&two).tokens, [1, 2, 1, 2]);
        assert_eq!(packed.token_count(), 2 * SHARING_TOKENS);
    }
}
