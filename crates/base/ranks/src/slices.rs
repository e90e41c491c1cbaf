//! Which numbers of all parameters belong to which rank.
//!
//! The parameters stand one after another, in groups such as the decoder's blocks. Each group is
//! cut over all ranks, so that it can be exchanged alone. A cut is between blocks of [`BLOCK`]
//! numbers, and each parameter begins a block of its own, as in the gradient's norm: the sum of a
//! block is then one rank's.

use std::ops::Range;

/// Numbers of a block.
pub const BLOCK: usize = 4096;

/// The division of all parameters' numbers into one slice per rank, with a part in each group.
///
/// With `2^a` times an odd number `m` of ranks, the range of a group's blocks is halved `a` times:
/// the lowest bit of a rank chooses its half, the next bit the half of that, and so on. The rest is
/// cut into `m` parts. So a rank exchanges most with the rank next to it, which is on the same
/// node. The slices of all groups up to any one differ by a block at most.
#[derive(Clone, Debug)]
pub struct Slices {
    /// The first block and the first number of each parameter; the last pair is the end.
    starts: Vec<(usize, usize)>,
    /// The first parameter of each group; the last is the end.
    groups: Vec<usize>,
    /// Blocks of the groups before the first.
    before: usize,
    ranks: usize,
}

impl Slices {
    /// The slices of groups of parameters that have these numbers of numbers.
    pub fn new(groups: impl IntoIterator<Item: IntoIterator<Item = usize>>, ranks: usize) -> Self {
        assert!(ranks > 0);
        let (mut block, mut number) = (0, 0);
        let (mut starts, mut firsts) = (vec![(0, 0)], vec![0]);
        for lengths in groups {
            for length in lengths {
                (block, number) = (block + length.div_ceil(BLOCK), number + length);
                starts.push((block, number));
            }
            firsts.push(starts.len() - 1);
        }
        Self { starts, groups: firsts, before: 0, ranks }
    }

    /// Each group: its range of parameters, and its slices, whose numbers and blocks begin at 0.
    pub fn groups(&self) -> impl Iterator<Item = (Range<usize>, Self)> {
        self.groups.windows(2).map(|ends| {
            let (block, number) = self.starts[ends[0]];
            let starts = self.starts[ends[0]..=ends[1]].iter();
            let group = Self {
                starts: starts.map(|start| (start.0 - block, start.1 - number)).collect(),
                groups: vec![0, ends[1] - ends[0]],
                before: self.before + block,
                ranks: self.ranks,
            };
            (ends[0]..ends[1], group)
        })
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.starts[self.starts.len() - 1].1
    }

    /// How many numbers each parameter has.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.starts.windows(2).map(|ends| ends[1].1 - ends[0].1)
    }

    /// The blocks of each parameter.
    pub fn blocks_of_parameters(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|ends| ends[0].0..ends[1].0)
    }

    /// The numbers of a rank's slice: a range of each group in which it has any.
    pub fn of_rank(&self, rank: usize) -> Vec<Range<usize>> {
        self.numbers_of(self.blocks_of_rank(rank))
    }

    /// The blocks of a rank's slice, as [`of_rank`](Self::of_rank).
    pub fn blocks_of_rank(&self, rank: usize) -> Vec<Range<usize>> {
        let part = |share: Share| share.part(self.parts(), rank >> self.halvings());
        ranges(self.halve(rank, self.halvings()).map(part))
    }

    /// The parts of parameters in ranges of all numbers: the parameter, and the range within it.
    pub fn by_parameter(
        &self,
        numbers: &[Range<usize>],
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        numbers.iter().flat_map(|numbers| {
            let first = self.parameter_of(|start| start.1, numbers.start);
            let reached = self.starts.windows(2).enumerate().skip(first);
            reached.take_while(|(_, ends)| ends[0].1 < numbers.end).filter_map(
                |(parameter, ends)| {
                    let (start, end) = (ends[0].1.max(numbers.start), ends[1].1.min(numbers.end));
                    (start < end).then(|| (parameter, start - ends[0].1..end - ends[0].1))
                },
            )
        })
    }

    /// The number of times the range of a group's blocks is halved.
    pub(crate) fn halvings(&self) -> u32 {
        self.ranks.trailing_zeros()
    }

    /// The number of parts that a range is cut into after the halvings.
    pub(crate) fn parts(&self) -> usize {
        self.ranks >> self.halvings()
    }

    /// The numbers that a rank still adds after `halvings` halvings.
    pub(crate) fn halved(&self, rank: usize, halvings: u32) -> Vec<Range<usize>> {
        self.numbers_of(ranges(self.halve(rank, halvings)))
    }

    /// A rank's share of each group after `halvings` halvings.
    fn halve(&self, rank: usize, halvings: u32) -> impl Iterator<Item = Share> {
        self.groups.windows(2).map(move |ends| {
            let [start, end] = [ends[0], ends[1]].map(|parameter| self.starts[parameter].0);
            let group = Share { start, before: self.before + start, with: self.before + end };
            (0..halvings).fold(group, |share, bit| share.part(2, rank >> bit & 1))
        })
    }

    /// The numbers of blocks.
    fn numbers_of(&self, blocks: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let first = |block| self.first_number(block);
        blocks.into_iter().map(|blocks| first(blocks.start)..first(blocks.end)).collect()
    }

    fn first_number(&self, block: usize) -> usize {
        let parameter = self.parameter_of(|start| start.0, block);
        let (first, number) = self.starts[parameter];
        number + (block - first) * BLOCK
    }

    /// The last parameter that begins at a place or before it, by its block or by its number.
    fn parameter_of(&self, start: impl Fn(&(usize, usize)) -> usize, place: usize) -> usize {
        self.starts.partition_point(|of| start(of) <= place) - 1
    }
}

/// A share of a group's blocks.
#[derive(Clone, Copy)]
struct Share {
    /// Its first block.
    start: usize,
    /// The blocks in this share of all groups before.
    before: usize,
    /// The blocks in this share of all groups before and of this one.
    with: usize,
}

impl Share {
    /// One of several parts. What a part has of all groups up to any one follows from what the
    /// whole has: all parts have the quotient, and the last ones take the remainder.
    fn part(self, parts: usize, index: usize) -> Self {
        let first = |blocks: usize, index: usize| {
            index * (blocks / parts) + (index + blocks % parts).saturating_sub(parts)
        };
        let of = |blocks| first(blocks, index + 1) - first(blocks, index);
        let start = self.start + first(self.with, index) - first(self.before, index);
        Self { start, before: of(self.before), with: of(self.with) }
    }
}

/// The blocks of shares that have any.
fn ranges(shares: impl Iterator<Item = Share>) -> Vec<Range<usize>> {
    let blocks = shares.map(|share| share.start..share.start + share.with - share.before);
    blocks.filter(|blocks| !blocks.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_cover_everything_and_cut_no_block(
            groups in prop::collection::vec(prop::collection::vec(0usize..20_000, 0..4), 0..8),
            ranks in 1usize..40,
        ) {
            let slices = Slices::new(groups.clone(), ranks);
            let lengths = groups.concat();
            prop_assert_eq!(slices.numbers(), lengths.iter().sum::<usize>());
            prop_assert!(slices.lengths().eq(lengths.clone()));
            let (mut cuts, mut end) = (vec![0], 0);
            for &length in &lengths {
                let blocks = 1..=length.div_ceil(BLOCK);
                cuts.extend(blocks.map(|block| end + length.min(block * BLOCK)));
                end += length;
            }
            let mut all: Vec<_> = (0..ranks).flat_map(|rank| slices.of_rank(rank)).collect();
            all.sort_by_key(|numbers| numbers.start);
            let mut next = 0;
            for numbers in all {
                prop_assert_eq!(numbers.start, next);
                prop_assert!(cuts.contains(&numbers.end));
                next = numbers.end;
            }
            prop_assert_eq!(next, slices.numbers());
            for rank in 0..ranks {
                let numbers = slices.of_rank(rank);
                let mut parts = slices.by_parameter(&numbers);
                prop_assert!(parts.all(|(parameter, range)| range.end <= lengths[parameter]));
                let counted: usize = slices.by_parameter(&numbers).map(|part| part.1.len()).sum();
                prop_assert_eq!(counted, numbers.iter().map(Range::len).sum::<usize>());
            }
        }

        #[test]
        fn slices_have_an_even_part_in_each_group(
            groups in prop::collection::vec(prop::collection::vec(0usize..20_000, 0..4), 0..8),
            ranks in 1usize..40,
        ) {
            let slices = Slices::new(groups.clone(), ranks);
            // A group alone is cut as among the others.
            let mut by_group = vec![Vec::new(); ranks];
            let (mut blocks, mut parameter) = (vec![0; ranks], 0);
            for ((parameters, group), lengths) in slices.groups().zip(&groups) {
                prop_assert_eq!(&parameters, &(parameter..parameter + lengths.len()));
                parameter = parameters.end;
                prop_assert!(group.lengths().eq(lengths.iter().copied()));
                for rank in 0..ranks {
                    let own = group.of_rank(rank);
                    let parts = group.by_parameter(&own);
                    by_group[rank].extend(parts.map(|(of, range)| (parameters.start + of, range)));
                    let own = group.blocks_of_rank(rank);
                    blocks[rank] += own.iter().map(Range::len).sum::<usize>();
                }
                prop_assert!(blocks.iter().max().unwrap() - blocks.iter().min().unwrap() <= 1);
            }
            for (rank, by_group) in by_group.into_iter().enumerate() {
                let whole = slices.by_parameter(&slices.of_rank(rank)).collect::<Vec<_>>();
                prop_assert_eq!(whole, by_group);
                let whole: usize = slices.blocks_of_rank(rank).iter().map(Range::len).sum();
                prop_assert_eq!(whole, blocks[rank]);
            }
        }
    }
}
