//! Whole sequences packed end to end, without padding, for training and scoring.

use crate::block::Rows;
use crate::rope_table::Table;
use isentrope_kernels::{Backend, PAGE, Run};

/// A sequence whose tokens from `score_from` on are to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// All tokens.
    pub tokens: &'a [u32],
    /// Index of the first token that is a target; the token before it is the first that predicts. 0 is taken
    /// as 1: nothing predicts the first token.
    pub score_from: usize,
}

impl Sequence<'_> {
    /// How many of its tokens are scored.
    pub fn target_count(&self) -> usize {
        self.tokens.len().saturating_sub(self.first_target())
    }

    fn first_target(&self) -> usize {
        self.score_from.max(1)
    }
}

/// Most tokens of sequences that share the computation of their prompt. A bound of its own, not the micro-batch's: what is
/// shared must follow from the sequences alone, since it decides in which order a gradient is summed.
pub const SHARING_TOKENS: usize = 1024;

/// Consecutive sequences that go through the model together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// How many sequences.
    pub sequences: usize,
    /// Tokens that go through the model: a prompt that all share counts once.
    pub tokens: usize,
}

/// The units of consecutive sequences: those that have the same tokens before their first target, as the responses to one
/// prompt do, as long as they come to at most [`SHARING_TOKENS`].
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

/// Each sequence as a unit of its own.
pub fn apart(sequences: &[Sequence<'_>]) -> Vec<Unit> {
    let inputs = |s: &Sequence<'_>| if s.target_count() == 0 { 0 } else { s.tokens.len() - 1 };
    sequences.iter().map(|sequence| Unit { sequences: 1, tokens: inputs(sequence) }).collect()
}

/// Sequences of one micro-batch, in whole [`units`]. Results come one per target, in order of sequences and of tokens in
/// them. A batch without targets is allowed: it has no results and adds nothing to a gradient.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// Inputs: every token of each sequence but its last, where a prompt that a unit shares stands once, before what
    /// follows it in each of the unit's sequences.
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    /// Rows as attention sees them: those of a shared prompt, then those of each sequence that continues it.
    pub(crate) runs: Vec<Run>,
    /// For each of `runs`, the sequence whose tokens it has; of those that share a prompt, the first.
    owners: Vec<usize>,
    /// Rows as the cache takes them: all `runs`, and what of a shared prompt stands on a page with a sequence's own rows.
    pub(crate) stored: Vec<Run>,
    /// Numbers of pages, for a cache that holds this batch alone.
    pub(crate) table: Vec<u32>,
    /// Pages of that cache.
    pub(crate) pages: usize,
    /// Rows that predict a target.
    pub(crate) rows: Vec<u32>,
    pub(crate) targets: Vec<u32>,
}

impl Packed {
    /// Packs sequences; those of a [unit](units) share their prompt. One without targets takes no room.
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
                    let run = packed.push_run(first, &sequence.tokens[..sequence.tokens.len() - 1], None);
                    packed.push_targets(sequence, run.row + sequence.first_target() - 1..run.row + run.len);
                }
                unit @ [one, ..] => {
                    let prompt = packed.push_run(first, &one.tokens[..one.first_target()], None);
                    for (owner, sequence) in (first..).zip(unit) {
                        let own = &sequence.tokens[prompt.len..sequence.tokens.len() - 1];
                        let run = packed.push_run(owner, own, Some(&prompt));
                        let last_of_prompt = prompt.row + prompt.len - 1;
                        packed.push_targets(
                            sequence,
                            std::iter::once(last_of_prompt).chain(run.row..run.row + run.len),
                        );
                    }
                }
                [] => {}
            }
            first += count;
        }
        packed
    }

    /// Tokens that go through the model.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Targets, and so results.
    pub fn target_count(&self) -> usize {
        self.targets.len()
    }

    /// The rows, for the blocks.
    pub(crate) fn rows_with<'a, B: Backend>(&'a self, rope: &'a Table<B>) -> Rows<'a, B> {
        let Self { positions, runs, stored, table, .. } = self;
        Rows { positions, runs, stored, table, rope }
    }

    /// What belongs to each row, of what belongs to each input of each sequence.
    pub(crate) fn rows_of<T: Copy>(&self, of_inputs: &[&[T]]) -> Vec<T> {
        let of_run = |(run, &owner): (&Run, &usize)| &of_inputs[owner][run.position..run.position + run.len];
        self.runs.iter().zip(&self.owners).flat_map(of_run).copied().collect()
    }

    /// Appends rows of `owner`, that start a sequence or continue a `prompt`.
    fn push_run(&mut self, owner: usize, tokens: &[u32], prompt: Option<&Run>) -> Run {
        let row = self.tokens.len();
        let position = prompt.map_or(0, |prompt| prompt.len);
        let first = self.table.len();
        if let Some(prompt) = prompt {
            // Pages that the prompt fills are shared.
            let full = prompt.pages.start..prompt.pages.start + prompt.len / PAGE;
            self.table.extend_from_within(full);
        }
        let shared = self.table.len() - first;
        let own = (position + tokens.len()).div_ceil(PAGE) - shared;
        self.table.extend((self.pages..self.pages + own).map(|page| page as u32));
        self.pages += own;
        let run = Run { row, len: tokens.len(), position, pages: first..self.table.len() };
        if let Some(prompt) = prompt {
            let (position, len) = (shared * PAGE, prompt.len - shared * PAGE);
            if len > 0 && run.len > 0 {
                self.stored.push(Run { row: prompt.row + position, len, position, pages: run.pages.clone() });
            }
        }
        if run.len > 0 {
            self.tokens.extend_from_slice(tokens);
            self.positions.extend((position..position + tokens.len()).map(|p| p as u32));
            self.stored.push(run.clone());
            self.runs.push(run.clone());
            self.owners.push(owner);
        }
        run
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
        assert_eq!(packed.positions, [0, 1, 2, 2, 3, 0, 1]);
        assert_eq!(packed.rows, [1, 2, 1, 3, 4, 1, 6]);
        assert_eq!(packed.targets, [3, 4, 5, 6, 7, 8, 8]);
        let inputs: [&[char]; 4] = [&['a', 'b', 'c'], &['?', '?', 'd', 'e'], &[], &['f', 'g']];
        assert_eq!(packed.rows_of(&inputs), ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
        // The response of one token has no rows of its own.
        assert_eq!(
            packed.runs.iter().map(|r| (r.row, r.len, r.position)).collect::<Vec<_>>(),
            [(0, 2, 0), (2, 1, 2), (3, 2, 2), (5, 2, 0)]
        );
    }

    #[test]
    fn pages_that_a_prompt_fills_are_shared() {
        let long: Vec<u32> = (0..40).collect();
        let other: Vec<u32> = (0..39).chain([7, 8]).collect();
        let (units, packed) = of(&[(&long, 36), (&other, 36)]);
        assert_eq!(units, [Unit { sequences: 2, tokens: 36 + 3 + 4 }]);
        let pages: Vec<&[u32]> = packed.runs.iter().map(|r| &packed.table[r.pages.clone()]).collect();
        assert_eq!((pages, packed.pages), (vec![&[0, 1, 2][..], &[0, 1, 3], &[0, 1, 4]], 5));
        let stored: Vec<_> = packed.stored.iter().map(|r| (r.row, r.len, r.position)).collect();
        assert_eq!(stored, [(0, 36, 0), (32, 4, 32), (36, 3, 36), (32, 4, 32), (39, 4, 36)]);
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
