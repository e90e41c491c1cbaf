//! The tree in which the sums of shards are added: pairs of neighbours, then pairs of these sums,
//! and so on. A shard or sum without a neighbour goes up unchanged. The tree follows from the
//! number of shards alone.

use crate::error::{Error, Result};

/// Sums of neighbouring shards that wait for their neighbour, while shards come one after another.
///
/// The sums are like the digits of a binary counter: for `n` shards there are as many as `n` has
/// ones.
#[derive(Debug)]
pub struct PartialSums<T> {
    /// Sums with their numbers of shards, descending.
    waiting: Vec<(usize, T)>,
}

impl<T> Default for PartialSums<T> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<T> PartialSums<T> {
    /// Adds the next shard. `add` adds its second argument, of later shards, to its first.
    pub fn push(&mut self, shard: T, mut add: impl FnMut(&mut T, T)) {
        let (mut shards, mut sum) = (1, shard);
        while let Some((_, mut left)) = self.waiting.pop_if(|(before, _)| *before == shards) {
            add(&mut left, sum);
            (shards, sum) = (2 * shards, left);
        }
        self.waiting.push((shards, sum));
    }

    /// The sum of all shards; none if there are no shards.
    pub fn finish(mut self, mut add: impl FnMut(&mut T, T)) -> Option<T> {
        let (_, mut sum) = self.waiting.pop()?;
        while let Some((_, mut left)) = self.waiting.pop() {
            add(&mut left, sum);
            sum = left;
        }
        Some(sum)
    }

    /// How many sums wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no shard has come.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The numbers of ranks that `shards` shards can be spread over, ascending: 1, or numbers by which
/// each rank's shards are a whole subtree.
pub fn allowed_ranks(shards: usize) -> Vec<usize> {
    let shards = shards.max(1);
    let mut allowed: Vec<usize> =
        (0..=shards.trailing_zeros()).rev().map(|k| shards >> k).collect();
    if allowed[0] > 1 {
        allowed.insert(0, 1);
    }
    allowed
}

/// The shards of one rank, when `shards` are spread over `ranks`.
///
/// # Errors
/// When they cannot be: the message has the numbers of ranks and of shards that can.
pub fn shards_of_rank(shards: usize, ranks: usize, rank: usize) -> Result<std::ops::Range<usize>> {
    let allowed = allowed_ranks(shards);
    if !allowed.contains(&ranks) {
        let more = listed(&[ranks, 2 * ranks, 4 * ranks, 8 * ranks], "or");
        return Err(Error::Start(match shards {
            1 => format!(
                "one shard (update.shards, sft.shards) is for one rank, not for {ranks}: a new run \
                 may have {ranks} times a power of two ({more})"
            ),
            _ => format!(
                "{shards} shards (update.shards, sft.shards) can be spread over {} ranks, not over \
                 {ranks}: start so many, or set shards to {ranks} times a power of two ({more})",
                listed(&allowed, "or"),
            ),
        }));
    }
    let each = shards / ranks;
    Ok(rank * each..(rank + 1) * each)
}

/// `1, 2 and 3`.
pub(crate) fn listed(items: &[impl ToString], last: &str) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.split_last() {
        Some((end, [_, ..])) => format!("{} {last} {end}", items[..items.len() - 1].join(", ")),
        Some((only, [])) => only.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule applied literally to texts, level by level.
    fn by_levels(shards: usize) -> Option<String> {
        let mut level: Vec<String> = (0..shards).map(|shard| shard.to_string()).collect();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| match pair {
                    [left, right] => format!("({left}+{right})"),
                    _ => pair[0].clone(),
                })
                .collect();
        }
        level.pop()
    }

    #[test]
    fn sums_that_come_one_by_one_are_added_as_the_rule_says() {
        let add = |left: &mut String, right: String| *left = format!("({left}+{right})");
        for shards in 0..=130usize {
            let mut sums = PartialSums::default();
            for shard in 0..shards {
                sums.push(shard.to_string(), add);
                assert_eq!(sums.len(), (shard + 1).count_ones() as usize);
            }
            assert_eq!(sums.finish(add), by_levels(shards), "{shards} shards");
        }
    }

    #[test]
    fn shards_are_halved_or_stay_on_one_rank() {
        assert_eq!(allowed_ranks(1), [1]);
        assert_eq!(allowed_ranks(8), [1, 2, 4, 8]);
        assert_eq!(allowed_ranks(24), [1, 3, 6, 12, 24]);
        assert_eq!(allowed_ranks(33), [1, 33]);
        assert_eq!(allowed_ranks(0), [1]);
        assert_eq!(shards_of_rank(24, 3, 1).unwrap(), 8..16);
        assert_eq!(shards_of_rank(5, 1, 0).unwrap(), 0..5);
        let refused = shards_of_rank(24, 4, 0).unwrap_err().to_string();
        assert_eq!(
            refused,
            "24 shards (update.shards, sft.shards) can be spread over 1, 3, 6, 12 or 24 ranks, \
             not over 4: start so many, or \
             set shards to 4 times a power of two (4, 8, 16 or 32)"
        );
    }
}
