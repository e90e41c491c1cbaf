//! Which numbers of all parameters belong to which rank.
//!
//! The parameters stand one after another. They may be cut only between blocks of [`BLOCK`]
//! numbers, and each parameter begins a block of its own, as in the gradient's norm: the sum of a
//! block is then one rank's.

use std::ops::Range;

/// Numbers of a block.
pub const BLOCK: usize = 4096;

/// The division of all parameters' numbers into one slice per rank.
///
/// With `2^a` times an odd number `m` of ranks, the range of all blocks is halved `a` times: the
/// lowest bit of a rank chooses its half, the next bit the half of that, and so on. The rest is cut
/// into `m` parts. So a rank exchanges most with the rank next to it, which is on the same node.
#[derive(Clone, Debug)]
pub struct Slices {
    /// The first block and the first number of each parameter; the last pair is the end.
    starts: Vec<(usize, usize)>,
    ranks: usize,
}

impl Slices {
    /// The slices of parameters that have `lengths` numbers.
    pub fn new(lengths: impl IntoIterator<Item = usize>, ranks: usize) -> Self {
        assert!(ranks > 0);
        let (mut block, mut number) = (0, 0);
        let mut starts = vec![(0, 0)];
        for length in lengths {
            (block, number) = (block + length.div_ceil(BLOCK), number + length);
            starts.push((block, number));
        }
        Self { starts, ranks }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.end().1
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.end().0
    }

    /// How many numbers each parameter has.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.starts.windows(2).map(|ends| ends[1].1 - ends[0].1)
    }

    /// The blocks of each parameter.
    pub fn blocks_of_parameters(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|ends| ends[0].0..ends[1].0)
    }

    /// The numbers of a rank's slice.
    pub fn of_rank(&self, rank: usize) -> Range<usize> {
        self.numbers_of(self.blocks_of_rank(rank))
    }

    /// The blocks of a rank's slice.
    pub fn blocks_of_rank(&self, rank: usize) -> Range<usize> {
        let halved = self.halved(rank, self.halvings());
        part(&halved, self.groups(), rank >> self.halvings())
    }

    /// The parts of parameters in a range of all numbers: the parameter, and the range within it.
    pub fn by_parameter(
        &self,
        numbers: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.starts.windows(2).enumerate().filter_map(move |(parameter, ends)| {
            let (start, end) = (ends[0].1.max(numbers.start), ends[1].1.min(numbers.end));
            (start < end).then(|| (parameter, start - ends[0].1..end - ends[0].1))
        })
    }

    /// The number of times the range of blocks is halved.
    pub(crate) fn halvings(&self) -> u32 {
        self.ranks.trailing_zeros()
    }

    /// The number of parts that the range is cut into after the halvings.
    pub(crate) fn groups(&self) -> usize {
        self.ranks >> self.halvings()
    }

    /// The blocks that a rank still adds after `halvings` halvings.
    pub(crate) fn halved(&self, rank: usize, halvings: u32) -> Range<usize> {
        (0..halvings).fold(0..self.blocks(), |blocks, bit| part(&blocks, 2, rank >> bit & 1))
    }

    /// The numbers of blocks.
    pub(crate) fn numbers_of(&self, blocks: Range<usize>) -> Range<usize> {
        self.first_number(blocks.start)..self.first_number(blocks.end)
    }

    fn first_number(&self, block: usize) -> usize {
        // The last parameter that begins at the block or before it: those before it without numbers
        // begin there too.
        let after = self.starts.partition_point(|(first, _)| *first <= block);
        let (first, number) = self.starts[after - 1];
        number + (block - first) * BLOCK
    }

    fn end(&self) -> (usize, usize) {
        self.starts[self.starts.len() - 1]
    }
}

/// One of several parts of a range, as even as can be.
pub(crate) fn part(range: &Range<usize>, parts: usize, index: usize) -> Range<usize> {
    let cut =
        |index: usize| range.start + (range.len() as u128 * index as u128 / parts as u128) as usize;
    cut(index)..cut(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_cover_everything_and_cut_no_block(
            lengths in prop::collection::vec(0usize..20_000, 0..8), ranks in 1usize..40,
        ) {
            let slices = Slices::new(lengths.clone(), ranks);
            prop_assert_eq!(slices.numbers(), lengths.iter().sum::<usize>());
            let mut cuts = vec![0];
            for &length in &lengths {
                let start = cuts[cuts.len() - 1];
                cuts.extend((0..length.div_ceil(BLOCK)).map(|block| start + length.min((block + 1) * BLOCK)));
            }
            let mut next = 0;
            let (mut fewest, mut most) = (usize::MAX, 0);
            let mut in_order: Vec<usize> = (0..ranks).collect();
            in_order.sort_by_key(|&rank| (slices.blocks_of_rank(rank).start, slices.blocks_of_rank(rank).end));
            for rank in in_order {
                let numbers = slices.of_rank(rank);
                prop_assert_eq!(numbers.start, next);
                prop_assert!(cuts.contains(&numbers.end));
                next = numbers.end;
                let blocks = slices.blocks_of_rank(rank).len();
                (fewest, most) = (fewest.min(blocks), most.max(blocks));
                let parts: usize = slices.by_parameter(numbers.clone()).map(|(parameter, range)| {
                    assert!(range.end <= lengths[parameter]);
                    range.len()
                }).sum();
                prop_assert_eq!(parts, numbers.len());
            }
            prop_assert_eq!(next, slices.numbers());
            prop_assert!(most - fewest <= 1 + slices.halvings() as usize, "{fewest} to {most} blocks");
        }
    }
}
