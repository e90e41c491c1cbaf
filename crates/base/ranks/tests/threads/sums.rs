//! The sum of all shards has the same bits for any number of ranks: the bits of the tree, added
//! number by number.

use super::{on_ranks, patient};
use isentrope_ranks::{
    BLOCK, HostFloats, Parameter, PartialSums, Slices, Wanted, World, allowed_ranks, shards_of_rank,
};
use proptest::prelude::*;

/// Numbers of wide range, so that another order of additions gives other bits: of a shard, by
/// parameter.
fn shard(index: usize, lengths: &[usize]) -> Vec<Vec<f32>> {
    let number = |parameter: usize, at: usize| {
        let mut hash = (index as u64) << 40 | (parameter as u64) << 32 | at as u64;
        for _ in 0..2 {
            hash = (hash ^ hash >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let sign = if hash & 1 == 0 { 1.0 } else { -1.0 };
        let exponent = (hash >> 1 & 15) as i32 - 8;
        sign * (1.0 + (hash >> 41) as f32 / (1u32 << 23) as f32) * 2f32.powi(exponent)
    };
    lengths
        .iter()
        .enumerate()
        .map(|(parameter, &n)| (0..n).map(|at| number(parameter, at)).collect())
        .collect()
}

/// The tree, level by level: a number without a neighbour goes up unchanged.
fn scalar_sum(mut level: Vec<f32>) -> f32 {
    while level.len() > 1 {
        let sum = |pair: &[f32]| if let [left, right] = pair { left + right } else { pair[0] };
        level = level.chunks(2).map(sum).collect();
    }
    level[0]
}

fn expected(shards: usize, lengths: &[usize]) -> Vec<Vec<u32>> {
    let shards: Vec<_> = (0..shards).map(|index| shard(index, lengths)).collect();
    let sum = |parameter: usize, at: usize| {
        scalar_sum(shards.iter().map(|shard| shard[parameter][at]).collect()).to_bits()
    };
    lengths
        .iter()
        .enumerate()
        .map(|(parameter, &n)| (0..n).map(|at| sum(parameter, at)).collect())
        .collect()
}

fn add(left: &mut [Vec<f32>], right: Vec<Vec<f32>>) {
    let numbers = left.iter_mut().flatten().zip(right.into_iter().flatten());
    numbers.for_each(|(left, right)| *left += right);
}

fn bits(parameters: &[Vec<f32>]) -> Vec<Vec<u32>> {
    parameters.iter().map(|parameter| parameter.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Groups of two parameters.
fn slices(lengths: &[usize], ranks: usize) -> Slices {
    Slices::new(lengths.chunks(2).map(|group| group.iter().copied()), ranks)
}

fn floats(parameters: &mut [Vec<f32>]) -> HostFloats<&mut [f32]> {
    HostFloats::new(parameters.iter_mut().map(Vec::as_mut_slice))
}

/// A rank's numbers after the sum in its slice, and after sharing.
fn summed(world: &World, shards: usize, lengths: &[usize]) -> (Vec<u32>, Vec<Vec<u32>>) {
    let slices = slices(lengths, world.size());
    let mut sums = PartialSums::default();
    for index in shards_of_rank(shards, world.size(), world.rank()).unwrap() {
        sums.push(shard(index, lengths), |left, right| add(left, right));
    }
    let mut gradient = sums.finish(|left, right| add(left, right)).unwrap();
    let mut by_group = gradient.clone();
    world.sum(&mut floats(&mut gradient), &slices).unwrap();
    for (parameters, group) in slices.groups() {
        world.sum(&mut floats(&mut by_group[parameters]), &group).unwrap();
    }
    let slice = slices.of_rank(world.rank());
    let own = |gradient: &[Vec<f32>]| -> Vec<u32> {
        let parts = slices.by_parameter(&slice);
        parts.flat_map(|(of, range)| bits(&[gradient[of][range].to_vec()]).concat()).collect()
    };
    let sum = own(&gradient);
    assert!(sum == own(&by_group), "group after group");
    // A rank's numbers in the others' slices must not matter.
    for parameters in [&mut gradient, &mut by_group] {
        let all = parameters.iter_mut().flatten().enumerate();
        let others = all.filter(|(at, _)| !slice.iter().any(|own| own.contains(at)));
        others.for_each(|(_, number)| *number = f32::NAN);
    }
    world.share(&mut floats(&mut gradient), &slices).unwrap();
    for (parameters, group) in slices.groups() {
        world.share(&mut floats(&mut by_group[parameters]), &group).unwrap();
    }
    assert!(bits(&gradient) == bits(&by_group), "group after group");
    (sum, bits(&gradient))
}

fn holds(shards: usize, ranks: usize, lengths: &[usize], expected: &[Vec<u32>]) {
    let flat = expected.concat();
    let slices = slices(lengths, ranks);
    let of_ranks = on_ranks(ranks, &patient(), |world, _| summed(&world, shards, lengths));
    for (rank, (own, all)) in of_ranks.into_iter().enumerate() {
        let slice = slices.of_rank(rank).into_iter().flat_map(|numbers| &flat[numbers]).copied();
        assert!(own == slice.collect::<Vec<_>>(), "{shards} shards, rank {rank} of {ranks}: slice");
        assert!(all == expected, "{shards} shards, rank {rank} of {ranks}: all");
    }
}

#[test]
#[ignore = "deep: hundreds of worlds of ranks"]
fn every_number_of_shards_on_every_allowed_number_of_ranks() {
    let lengths = [3 * BLOCK + 17, 0, 1, 2 * BLOCK, 40];
    for shards in 1..=33 {
        let expected = expected(shards, &lengths);
        for ranks in allowed_ranks(shards) {
            holds(shards, ranks, &lengths, &expected);
        }
    }
}

#[test]
#[ignore = "deep: moves many megabytes in small pieces"]
fn many_pieces_each_way() {
    let lengths = [1_700_001, 33, 900_000];
    for shards in [4, 6] {
        let expected = expected(shards, &lengths);
        for ranks in allowed_ranks(shards) {
            holds(shards, ranks, &lengths, &expected);
        }
    }
}

#[test]
fn more_ranks_than_blocks() {
    for ranks in [8, 12] {
        holds(ranks, ranks, &[5], &expected(ranks, &[5]));
        holds(ranks, ranks, &[], &[]);
    }
}

/// Numbers of two bytes.
struct Halves(Vec<u16>);

impl Parameter for &mut Halves {
    type Number = u16;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn read(&self, first: usize, numbers: &mut [u16]) {
        numbers.copy_from_slice(&self.0[first..][..numbers.len()]);
    }

    fn write(&mut self, first: usize, numbers: &[u16]) {
        self.0[first..][..numbers.len()].copy_from_slice(numbers);
    }
}

#[test]
fn halves_are_shared_in_half_of_the_bytes() {
    let lengths = [1_700_001, 0, 33, 2 * BLOCK + 5];
    let number = |parameter: usize, at: usize| (31 * at + 7 * parameter) as u16 | 1;
    for ranks in [1, 2, 3, 6, 8] {
        on_ranks(ranks, &patient(), |world, _| {
            let slices = slices(&lengths, ranks);
            let mut all = lengths.map(|length| Halves(vec![0; length]));
            for (parameter, own) in slices.by_parameter(&slices.of_rank(world.rank())) {
                own.for_each(|at| all[parameter].0[at] = number(parameter, at));
            }
            let before = world.traffic().sent_bytes;
            world.share(&mut HostFloats::new(all.iter_mut()), &slices).unwrap();
            let sent = world.traffic().sent_bytes - before;
            for (parameter, halves) in all.iter().enumerate() {
                let mut numbers = halves.0.iter().enumerate();
                assert!(numbers.all(|(at, &half)| half == number(parameter, at)), "{ranks} ranks");
            }
            // A rank sends no more than all but its own part, with little around it.
            let least = 2 * slices.numbers() * (ranks - 1) / ranks;
            assert!(sent as usize <= least + least / 20 + 4096, "{sent} of {least}");
        });
    }
}

#[test]
fn each_rank_gets_what_it_wants_out_of_the_slices_of_all() {
    let lengths = [3 * BLOCK + 17, 0, 2 * BLOCK, 40, 5 * BLOCK];
    let numbers = |set: usize, parameter: usize| {
        (0..lengths[parameter]).map(move |at| (at + 10 * parameter + 100_000 * set) as f32)
    };
    for ranks in [1, 2, 3, 6] {
        let slices = slices(&lengths, ranks);
        // The last of several ranks wants nothing.
        let wanted = |rank: usize| {
            let (set, parameter) = (rank % 2, 2 * rank % lengths.len());
            let start = lengths[..parameter].iter().sum();
            let numbers = start..start + lengths[parameter];
            (rank == 0 || rank + 1 < ranks).then_some((parameter, Wanted { set, numbers }))
        };
        let all: Vec<_> = (0..ranks).map(|rank| wanted(rank).map(|(_, wanted)| wanted)).collect();
        on_ranks(ranks, &patient(), |world, _| {
            let own = slices.of_rank(world.rank());
            let mut sets: Vec<Vec<f32>> = Vec::new();
            for set in 0..2 {
                sets.extend(lengths.map(|length| vec![f32::NAN; length]));
                for (parameter, part) in slices.by_parameter(&own) {
                    let to = sets[set * lengths.len() + parameter][part.clone()].iter_mut();
                    to.zip(numbers(set, parameter).skip(part.start)).for_each(|(to, x)| *to = x);
                }
            }
            world.deliver(&mut floats(&mut sets), &slices, &all).unwrap();
            if let Some((parameter, Wanted { set, .. })) = wanted(world.rank()) {
                let got = &sets[set * lengths.len() + parameter];
                assert!(got.iter().copied().eq(numbers(set, parameter)), "{ranks} ranks");
            }
        });
    }
}

#[test]
fn zeros_keep_their_signs() {
    // -0 + -0 = -0, and -0 + 0 = 0: a shard that was left out because it is empty would show.
    for (last, sum) in [(-0.0f32, -0.0f32), (0.0, 0.0)] {
        let sums = on_ranks(4, &patient(), |world, _| {
            let mut number = [if world.rank() == 3 { last } else { -0.0 }];
            let slices = Slices::new([[1]], 4);
            world.sum(&mut HostFloats::new([&mut number[..]]), &slices).unwrap();
            world.share(&mut HostFloats::new([&mut number[..]]), &slices).unwrap();
            number[0].to_bits()
        });
        assert_eq!(sums, [sum.to_bits(); 4]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_parameters(
        lengths in prop::collection::vec(0usize..3 * BLOCK, 0..6),
        shards in 1usize..20,
        which in any::<prop::sample::Index>(),
    ) {
        let allowed = allowed_ranks(shards);
        holds(shards, allowed[which.index(allowed.len())], &lengths, &expected(shards, &lengths));
    }
}
