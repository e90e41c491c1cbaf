//! The shards of an update: parts of its sequences whose gradients are computed apart, and added in
//! a fixed order.
//!
//! The weights depend on the number of shards, which the recipe sets, but not on which rank
//! computes which shard (docs/concepts/numerics.md, rule 6).

use crate::error::{Error, Result};
use isentrope_budget::memory::waiting_sums;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{
    BackwardPass, Derivatives, Error as ModelError, Gradient, Model, Parameters, RouterUse, Tape,
};
use std::ops::Range;

/// The shard of each unit of sequences, ascending. A unit weighs as much as it has tokens that the
/// loss may reach.
///
/// With c the weight of the units before it and C that of all, a unit belongs to shard `min(floor(c
/// S / C), S - 1)` of S; to shard 0 if C is 0.
pub(crate) fn shards_of(weights: &[usize], shards: usize) -> Vec<usize> {
    let total: u128 = weights.iter().map(|&weight| weight as u128).sum();
    let mut before = 0u128;
    let mut shard_of = |&weight: &usize| {
        let shard = (before * shards as u128).checked_div(total).unwrap_or(0);
        before += weight as u128;
        (shard as usize).min(shards - 1)
    };
    weights.iter().map(&mut shard_of).collect()
}

/// This rank's part of an update's gradient, shard by shard: the gradients of neighbours are added,
/// 0 + 1, 2 + 3 and so on, then these sums in the same way; one without a neighbour is carried up
/// unchanged.
///
/// Its memory is allocated by the first accumulation, and kept until it is freed.
pub(crate) struct ShardedGradient {
    sums: Option<Sums>,
    /// This rank's.
    shards: Range<usize>,
}

/// The sums that wait, like the digits of a binary counter: sum k is of 2^k shards. Each group of
/// parameters is counted by itself, because passes need not leave the model's layers at one time.
pub(crate) struct Sums {
    /// The gradient of each group's current shard; at the end, of all shards.
    gradient: Gradient,
    waiting: Vec<Parameters>,
    groups: Vec<Group>,
    shards: Range<usize>,
}

/// Parameters whose gradients are complete together.
struct Group {
    parameters: Range<usize>,
    /// How many shards have been added.
    added: usize,
}

impl ShardedGradient {
    /// A gradient of zero, without memory.
    pub fn new(shards: Range<usize>) -> Self {
        Self { sums: None, shards }
    }

    /// The sums. If their memory was freed, it is allocated and zero.
    pub fn sums(&mut self, model: &Model) -> Result<&mut Sums> {
        let sums = match self.sums.take() {
            Some(sums) => sums,
            None => Sums::zeros(model, self.shards.clone()).map_err(no_room)?,
        };
        Ok(self.sums.insert(sums))
    }

    /// Ends the accumulation: the gradient of all shards of this rank.
    pub fn finish(&mut self, model: &Model) -> Result<&mut Parameters> {
        Ok(self.sums(model)?.finish(model))
    }

    /// The use of experts by the tokens that this rank has accumulated gradients of, since this was
    /// last asked.
    pub fn take_router_use(&mut self) -> RouterUse {
        self.sums.as_mut().map(|sums| sums.gradient.take_router_use()).unwrap_or_default()
    }

    /// Back to zero, keeping the memory.
    pub fn reset(&mut self, backend: &dyn Backend) {
        if let Some(sums) = &mut self.sums {
            sums.gradient.reset(backend);
            sums.groups.iter_mut().for_each(|group| group.added = 0);
        }
    }

    /// Whether it has no memory now.
    #[cfg(test)]
    pub fn is_freed(&self) -> bool {
        self.sums.is_none()
    }

    /// Frees the gradient's memory for the phases between updates. The next accumulation takes
    /// memory again and begins at zero.
    pub fn free(&mut self) {
        self.sums = None;
    }
}

/// The error if the gradient's memory cannot be allocated. The plan counts it, so another process
/// has taken it.
fn no_room(error: ModelError) -> Error {
    let ModelError::Memory(refused) = error else { return error.into() };
    Error::Run(format!(
        "there is no memory for the gradient, which takes turns with sampling: {refused}; \
         something else has taken what was planned for it: end that, or go on with a smaller \
         memory.budget_gib"
    ))
}

impl Sums {
    fn zeros(model: &Model, shards: Range<usize>) -> Result<Self, ModelError> {
        let zeros = |_| Parameters::zeros(&*model.backend, model.layout.trained(), Role::Gradient);
        let waiting = (0..waiting_sums(shards.len())).map(zeros).collect::<Result<_, _>>()?;
        let group = |parameters| Group { parameters, added: 0 };
        let groups = model.layout.trained().groups().into_iter().map(group).collect();
        Ok(Self { gradient: Gradient::zeros(model)?, waiting, groups, shards })
    }

    /// Takes passes backward, each with its shard, in order: all of them go through a layer before
    /// any enters the one below. A gradient is one chain over the passes, however many go together.
    pub fn accumulate(&mut self, model: &Model, passes: Vec<(usize, Tape<'_>, Derivatives<'_>)>) {
        let begin = |(shard, tape, derivatives)| {
            (shard, model.begin_backward(tape, derivatives, self.of_head(model, shard)))
        };
        let mut passes: Vec<(usize, BackwardPass<'_>)> = passes.into_iter().map(begin).collect();
        for block in (0..model.layout.block_count()).rev() {
            for (shard, pass) in &mut passes {
                model.backward_block(pass, self.of_block(model, block, *shard));
            }
        }
        for (shard, pass) in passes {
            model.end_backward(pass, self.of_embedding(model, shard));
        }
    }

    /// The gradient that a shard accumulates in on its way back through the head. For each part of
    /// the model shards come in order; shards passed over are zeros.
    fn of_head(&mut self, model: &Model, shard: usize) -> &mut Gradient {
        if model.layout.is_tied() {
            self.of_group(model, 0, shard);
        }
        self.of_group(model, self.groups.len() - 1, shard)
    }

    /// As [`of_head`](Self::of_head), for a block.
    fn of_block(&mut self, model: &Model, block: usize, shard: usize) -> &mut Gradient {
        self.of_group(model, 1 + block, shard)
    }

    /// As [`of_head`](Self::of_head), for the embedding.
    fn of_embedding(&mut self, model: &Model, shard: usize) -> &mut Gradient {
        self.of_group(model, 0, shard)
    }

    fn of_group(&mut self, model: &Model, group: usize, shard: usize) -> &mut Gradient {
        assert!(self.shards.contains(&shard), "another rank's shard");
        let before = shard - self.shards.start;
        assert!(self.groups[group].added <= before, "a shard that has been added already");
        while self.groups[group].added < before {
            self.end_shard(model, group);
        }
        &mut self.gradient
    }

    fn finish(&mut self, model: &Model) -> &mut Parameters {
        for group in 0..self.groups.len() {
            self.finish_group(model, group);
        }
        self.gradient.parameters_mut()
    }

    fn finish_group(&mut self, model: &Model, group: usize) {
        let last = self.shards.len() - 1;
        if self.groups[group].added > last {
            return;
        }
        self.of_group(model, group, self.shards.end - 1);
        let Group { parameters, added } = &mut self.groups[group];
        // The waiting sums are of shards before those in the sum.
        let sum = self.gradient.finish_part(model, parameters.clone());
        let digits = self.waiting.iter().enumerate().filter(|(digit, _)| last >> digit & 1 == 1);
        digits.for_each(|(_, waiting)| sum.add(&*model.backend, waiting, parameters.clone()));
        *added = self.shards.len();
    }

    /// Adds a group's current shard to the binary counter, and begins the next.
    fn end_shard(&mut self, model: &Model, group: usize) {
        let backend = &*model.backend;
        let Group { parameters, added } = &mut self.groups[group];
        let carries = added.trailing_ones() as usize;
        let (carried, free) = self.waiting.split_at_mut(carries);
        let sum = &mut free[0];
        sum.swap(self.gradient.finish_part(model, parameters.clone()), parameters.clone());
        carried.iter().for_each(|waiting| sum.add(backend, waiting, parameters.clone()));
        self.gradient.reset_part(backend, parameters.clone());
        *added += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_are_consecutive_and_even(weights in prop::collection::vec(0usize..1000, 0..200), shards in 1usize..40) {
            let of = shards_of(&weights, shards);
            prop_assert_eq!(of.len(), weights.len());
            prop_assert!(of.is_sorted() && of.iter().all(|&shard| shard < shards));
            let (total, largest) = (weights.iter().sum::<usize>(), weights.iter().max().copied().unwrap_or(0));
            for shard in 0..shards {
                let own = weights.iter().zip(&of).filter(|&(_, &of)| of == shard).map(|(weight, _)| weight);
                // Even to one unit.
                prop_assert!(own.sum::<usize>() <= total.div_ceil(shards) + largest);
            }
        }

        #[test]
        fn halves_of_shards_are_shards(weights in prop::collection::vec(0usize..1000, 0..200), shards in 1usize..20) {
            let halves: Vec<usize> = shards_of(&weights, 2 * shards).iter().map(|half| half / 2).collect();
            prop_assert_eq!(halves, shards_of(&weights, shards));
        }
    }

    #[test]
    fn units_go_where_their_first_token_does() {
        assert_eq!(shards_of(&[1; 6], 1), [0; 6]);
        assert_eq!(shards_of(&[1; 6], 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(shards_of(&[5, 1, 2, 2], 2), [0, 1, 1, 1]);
        assert_eq!(
            shards_of(&[0, 0, 4, 0], 4),
            [0, 0, 0, 3],
            "what weighs nothing after all others is in the last"
        );
        assert_eq!(shards_of(&[0, 0], 4), [0, 0]);
        assert_eq!(shards_of(&[usize::MAX, usize::MAX], 2), [0, 1]);
        assert!(shards_of(&[], 3).is_empty());
    }
}
