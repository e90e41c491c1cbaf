//! How much is recorded, and what a rollout keeps for it of the groups that it drops.

use super::candidate::Candidate;
use crate::group::Group;
use isentrope_random::{Draws, Purpose};
use std::collections::BTreeMap;

/// How much of each step is recorded, and the random order in which responses are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Most tokens of responses; as many of prompts may come with them, each prompt counted once. A
    /// rollout whose responses have no more tokens is recorded whole, whatever its prompts.
    pub tokens: usize,
    /// The run's seed.
    pub seed: u64,
    /// The step.
    pub step: u64,
}

/// A response's place in the random order; no two are equal.
pub(super) type Rank = (u64, u64, u64, usize);

impl Budget {
    pub(super) fn rank(&self, group: &Group, sample: usize) -> Rank {
        let mut draws = Draws::of(self.seed, Purpose::Records, self.step, group.position);
        (draws.bits(sample as u64), group.step, group.position, sample)
    }
}

/// Responses of groups that the filter has dropped, the first in the random order: as many as could
/// be recorded if there were no others.
pub(crate) struct Dropped {
    pub(super) budget: Budget,
    pub(super) by_rank: BTreeMap<Rank, Candidate>,
    /// Tokens of these responses, and of all that were dropped.
    pub(super) tokens: (usize, usize),
}

impl Dropped {
    pub fn new(budget: Budget) -> Self {
        Self { budget, by_rank: BTreeMap::new(), tokens: (0, 0) }
    }

    /// Takes in a group that is not learnt from.
    pub fn add(&mut self, group: &Group) {
        if self.budget.tokens == 0 {
            return;
        }
        for (sample, response) in group.responses.iter().enumerate() {
            let count = response.tokens.len();
            self.tokens = (self.tokens.0 + count, self.tokens.1 + count);
            self.by_rank
                .insert(self.budget.rank(group, sample), Candidate::new(group, sample, response));
            while let Some(last) = self.by_rank.last_entry()
                && self.tokens.0 - last.get().tokens.len() >= self.budget.tokens
            {
                self.tokens.0 -= last.remove().tokens.len();
            }
        }
    }
}
