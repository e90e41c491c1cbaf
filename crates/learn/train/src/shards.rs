//! The shards of an update: parts of its sequences whose gradients are computed apart, and added in
//! a fixed order.
//!
//! The weights depend on the number of shards, which the recipe sets, but not on which rank
//! computes which shard (docs/concepts/numerics.md, rule 6).

use crate::error::{Error, Result};
use crate::gradient_slice::GradientSlice;
use crate::layer_weights::{FIRST_BLOCK, LayerWeights};
use crate::ranks::TrainingRanks;
use crate::slice_exchange::SliceExchange;
use crate::weight_slice::WeightSlice;
use isentrope_budget::memory::waiting_sums;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{
    BackwardPass, Derivatives, Error as ModelError, Gradient, Model, Parameters, RouterUse, Tape,
};
use std::ops::Range;
use std::thread;

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
/// The last passes of an update also add it over the ranks, one group of parameters after another:
/// a group whose gradient is complete on this rank travels while the passes go through the next.
///
/// Its memory is allocated by the first accumulation, and kept until it is freed. By layer, that
/// memory is this rank's slice of the gradient, and of the rest one group of parameters at a time
/// (ZeRO stage 2, arXiv:1910.02054).
pub(crate) struct ShardedGradient {
    memory: Option<Memory>,
    /// This rank's.
    shards: Range<usize>,
    by_layer: bool,
}

struct Memory {
    sums: Sums,
    slice: GradientSlice,
    /// Whether the last passes of the update have been added.
    is_complete: bool,
}

/// The sums that wait, like the digits of a binary counter: sum k is of 2^k shards. Each group of
/// parameters is counted by itself, because passes need not leave the model's layers at one time.
struct Sums {
    /// The gradient of each group's current shard; at the end, of all shards.
    gradient: Gradient,
    waiting: Vec<Parameters>,
    groups: Vec<Group>,
    shards: Range<usize>,
    by_layer: bool,
    /// The group whose gradient was added over ranks last, and still has its memory.
    vacated: Option<usize>,
    /// The group that passes have left last: the sums that waited there still have their memory.
    left: Option<usize>,
}

/// Parameters whose gradients are complete together.
struct Group {
    parameters: Range<usize>,
    /// How many shards have been added.
    added: usize,
}

impl ShardedGradient {
    /// A gradient of zero, without memory.
    pub fn new(shards: Range<usize>, by_layer: bool) -> Self {
        Self { memory: None, shards, by_layer }
    }

    /// Allocates the memory if it was freed; it is zero then.
    pub fn allocate(&mut self, model: &Model, ranks: &TrainingRanks) -> Result<()> {
        self.memory(model, ranks).map(drop)
    }

    fn memory(&mut self, model: &Model, ranks: &TrainingRanks) -> Result<&mut Memory> {
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => {
                let sums = Sums::new(model, self.shards.clone(), self.by_layer);
                let slice = match self.by_layer {
                    true => GradientSlice::apart(model, ranks)?,
                    false => GradientSlice::in_place(model, ranks),
                };
                Memory { sums: sums.map_err(no_room("the gradient"))?, slice, is_complete: false }
            }
        };
        Ok(self.memory.insert(memory))
    }

    /// Takes passes backward together, each with its shard, in order, and adds their gradients.
    ///
    /// `are_last` says that the update has no more passes. All ranks say so at the same time, with
    /// or without passes, and exchange groups until then and nothing else. By layer an update's
    /// passes all go together. `weights` is where the weights are, if the model has none.
    pub fn add(
        &mut self,
        model: &Model,
        weights: Option<&WeightSlice>,
        ranks: &TrainingRanks,
        passes: Vec<(usize, Tape<'_>, Derivatives<'_>)>,
        are_last: bool,
    ) -> Result<()> {
        let Memory { sums, slice, is_complete } = self.memory(model, ranks)?;
        assert!(!*is_complete, "the update's last passes have been added");
        assert!(are_last || !sums.by_layer, "by layer all passes of an update go together");
        *is_complete = are_last;
        if !are_last || (ranks.count() == 1 && !sums.by_layer) {
            return sums.go_back(LayerWeights::of(model, None), passes, None);
        }
        // Passes alone read weights.
        let weights = match weights {
            Some(slice) if ranks.any(!passes.is_empty())? => Some(slice),
            _ => None,
        };
        thread::scope(|scope| {
            let backend = &*model.backend;
            let exchange = SliceExchange::start(scope, backend, ranks, Some(slice), weights)?;
            sums.go_back(LayerWeights::of(model, weights), passes, Some(exchange))
        })
    }

    /// Ends the accumulation, with no more passes if the last ones have not been added. Returns
    /// this rank's slice of the gradient over all ranks, and the gradient in which it may be.
    pub fn finish(
        &mut self,
        model: &Model,
        weights: Option<&WeightSlice>,
        ranks: &TrainingRanks,
    ) -> Result<(&GradientSlice, &Parameters)> {
        if !self.memory(model, ranks)?.is_complete {
            self.add(model, weights, ranks, Vec::new(), true)?;
        }
        let Memory { sums, slice, .. } = self.memory(model, ranks)?;
        Ok((slice, sums.finish(model)))
    }

    /// The use of experts by the tokens that this rank has accumulated gradients of, since this was
    /// last asked.
    pub fn take_router_use(&mut self) -> RouterUse {
        let memory = self.memory.as_mut();
        memory.map(|memory| memory.sums.gradient.take_router_use()).unwrap_or_default()
    }

    /// Back to zero, keeping the memory.
    pub fn reset(&mut self, backend: &dyn Backend) {
        let Some(Memory { sums, is_complete, .. }) = &mut self.memory else { return };
        *is_complete = false;
        sums.groups.iter_mut().for_each(|group| group.added = 0);
        // By layer the slice is overwritten, and nothing else has memory.
        if !sums.by_layer {
            sums.gradient.reset(backend);
        }
    }

    /// Whether it has no memory now.
    #[cfg(test)]
    pub fn is_freed(&self) -> bool {
        self.memory.is_none()
    }

    /// Frees the gradient's memory for the phases between updates. The next accumulation takes
    /// memory again and begins at zero.
    pub fn free(&mut self) {
        self.memory = None;
    }
}

/// The error if memory that others have between its uses cannot be allocated. The plan counts it,
/// so another process has taken it.
pub(crate) fn no_room(what: &'static str) -> impl Fn(ModelError) -> Error {
    move |error| {
        let ModelError::Memory(refused) = error else { return error.into() };
        Error::Run(format!(
            "there is no memory for {what}, where sampling and updates take turns: {refused}; \
             something else has taken what was planned for it: end that, or go on with a smaller \
             memory.budget_gib"
        ))
    }
}

impl Sums {
    fn new(model: &Model, shards: Range<usize>, by_layer: bool) -> Result<Self, ModelError> {
        let (b, list) = (&*model.backend, model.layout.trained());
        let waiting = (0..waiting_sums(shards.len())).map(|_| Parameters::without_memory(b, list));
        let group = |parameters| Group { parameters, added: 0 };
        let mut sums = Self {
            gradient: Gradient::without_memory(model)?,
            waiting: waiting.collect(),
            groups: list.groups().into_iter().map(group).collect(),
            shards,
            by_layer,
            vacated: None,
            left: None,
        };
        if !by_layer {
            (0..sums.groups.len()).try_for_each(|group| sums.allocate(model, group))?;
        }
        Ok(sums)
    }

    /// Takes passes backward, each with its shard, in order: all of them go through a layer before
    /// any enters the one below. A gradient is one chain over the passes, however many go together.
    ///
    /// With an exchange these are the last passes of an update. As soon as the gradient of a group
    /// of parameters is complete on this rank, the ranks add theirs, while the passes go through
    /// the next block. By layer the group has memory from the first pass that adds to its gradient
    /// until then.
    fn go_back(
        &mut self,
        mut weights: LayerWeights<'_>,
        passes: Vec<(usize, Tape<'_>, Derivatives<'_>)>,
        mut exchange: Option<SliceExchange<'_>>,
    ) -> Result<()> {
        let (embedding, head, exchange) = (0, self.groups.len() - 1, &mut exchange);
        let is_shared = weights.model().layout.head_trains_embedding();
        for group in weights.of_head() {
            weights.bring(group, exchange)?;
        }
        let model = weights.model();
        self.enter(model, head)?;
        if is_shared {
            self.enter(model, embedding)?;
        }
        let begin = |(shard, tape, derivatives)| {
            (shard, model.begin_backward(tape, derivatives, self.of_head(model, shard)))
        };
        let mut passes: Vec<(usize, BackwardPass<'_>)> = passes.into_iter().map(begin).collect();
        weights.of_head().into_iter().for_each(|group| weights.leave(group));
        self.leave(weights.model(), head, exchange)?;
        let blocks = weights.model().layout.block_count();
        weights.bring(FIRST_BLOCK + blocks - 1, exchange)?;
        for group in (FIRST_BLOCK..FIRST_BLOCK + blocks).rev() {
            self.enter(weights.model(), group)?;
            if group > FIRST_BLOCK {
                weights.ask(group - 1, exchange)?;
            }
            let model = weights.model();
            for (shard, pass) in &mut passes {
                model.backward_block(pass, self.of_group(model, group, *shard));
            }
            weights.leave(group);
            self.leave(weights.model(), group, exchange)?;
            weights.arrive(exchange)?;
        }
        let model = weights.model();
        if !is_shared {
            self.enter(model, embedding)?;
        }
        for (shard, pass) in passes {
            model.end_backward(pass, self.of_group(model, embedding, shard));
        }
        self.leave(model, embedding, exchange)?;
        match exchange {
            Some(exchange) => self.end(model, exchange),
            None => Ok(()),
        }
    }

    /// By layer, gives a group's gradient memory, where it can be that of earlier groups. It is
    /// zero.
    fn enter(&mut self, model: &Model, group: usize) -> Result<()> {
        if !self.by_layer {
            return Ok(());
        }
        let (b, list) = (&*model.backend, model.layout.trained());
        let to = &self.groups[group].parameters;
        let give = |set: &mut Parameters, from: Option<usize>| {
            let from = from.map(|from| self.groups[from].parameters.clone());
            set.succeed(b, list, Role::Gradient, from, to.clone())
        };
        let waiting = self.waiting.iter_mut().try_for_each(|set| give(set, self.left));
        waiting
            .and_then(|()| give(self.gradient.parameters_mut(), self.vacated))
            .map_err(no_room("the gradient"))?;
        self.gradient.reset_part(b, to.clone());
        (self.left, self.vacated) = (None, None);
        Ok(())
    }

    fn allocate(&mut self, model: &Model, group: usize) -> Result<(), ModelError> {
        let (b, list) = (&*model.backend, model.layout.trained());
        let parameters = &self.groups[group].parameters;
        for set in self.waiting.iter_mut().chain([self.gradient.parameters_mut()]) {
            set.allocate(b, list, Role::Gradient, parameters.clone())?;
        }
        Ok(())
    }

    /// Begins to add a group's gradient of all shards over ranks, if there is an exchange. Waits
    /// for the group before, whose memory by layer is for the next one.
    fn leave(
        &mut self,
        model: &Model,
        group: usize,
        exchange: &mut Option<SliceExchange<'_>>,
    ) -> Result<()> {
        let Some(exchange) = exchange else { return Ok(()) };
        self.finish_group(model, group);
        self.take_back(exchange)?;
        let parameters = self.groups[group].parameters.clone();
        let gradient = self.gradient.parameters_mut();
        exchange.begin(group, gradient.take(&*model.backend, parameters));
        self.left = Some(group);
        // The head and the embedding may be the largest groups, so neither has memory beside a
        // block's.
        if self.by_layer && (group == self.groups.len() - 1 || group == FIRST_BLOCK) {
            drop(exchange.end()?);
        }
        Ok(())
    }

    /// Waits for the group that is added over ranks, and takes its memory back.
    fn take_back(&mut self, exchange: &mut SliceExchange<'_>) -> Result<()> {
        if let Some((group, buffers)) = exchange.end()? {
            let first = self.groups[group].parameters.start;
            self.gradient.parameters_mut().put_back(first, buffers);
            self.vacated = Some(group);
        }
        Ok(())
    }

    /// Waits for the last group. By layer, frees all memory of groups.
    fn end(&mut self, model: &Model, exchange: &mut SliceExchange<'_>) -> Result<()> {
        self.take_back(exchange)?;
        if self.by_layer {
            let all = 0..model.layout.trained().len();
            for set in self.waiting.iter_mut().chain([self.gradient.parameters_mut()]) {
                set.take(&*model.backend, all.clone());
            }
            self.gradient.free_embedded(model);
        }
        (self.left, self.vacated) = (None, None);
        Ok(())
    }

    /// The gradient that a shard accumulates in on its way back through the head.
    fn of_head(&mut self, model: &Model, shard: usize) -> &mut Gradient {
        if model.layout.head_trains_embedding() {
            self.of_group(model, 0, shard);
        }
        self.of_group(model, self.groups.len() - 1, shard)
    }

    /// The gradient that a shard accumulates in on its way through the layers of a group. Shards
    /// come in order; shards passed over are zeros.
    fn of_group(&mut self, model: &Model, group: usize, shard: usize) -> &mut Gradient {
        assert!(self.shards.contains(&shard), "another rank's shard");
        let before = shard - self.shards.start;
        assert!(self.groups[group].added <= before, "a shard that has been added already");
        while self.groups[group].added < before {
            self.end_shard(model, group);
        }
        &mut self.gradient
    }

    fn finish(&mut self, model: &Model) -> &Parameters {
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
    use crate::test_support::{cpu, model_dir};
    use isentrope_kernels::CpuBuffer;
    use isentrope_model::{Packed, Sequence, TapeKind};
    use isentrope_ranks::threads::worlds;
    use isentrope_ranks::{Message, Settings, Watch};
    use isentrope_trace::{Event, span};
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

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

    /// Rank 0 goes backward through two passes, together if by layer. Rank 1 comes to the exchange
    /// of each block once rank 0 has computed in the block below, and not at all from the exchange
    /// `lost` on, when it says why. Returns rank 0's result.
    fn on_two_ranks(by_layer: bool, lost: usize) -> Result<()> {
        let (watch, tell) = (Watch { silent: None, ..Watch::default() }, Arc::new(|_: Message| ()));
        let settings = Settings { threads: 1, program: "a test".into(), watch, tell };
        let (worlds, _) = worlds(2, &settings).unwrap();
        let worlds: Vec<_> = worlds.into_iter().map(Arc::new).collect();
        let [own, other] = [0, 1].map(|rank| TrainingRanks::new(worlds[rank].clone(), 2).unwrap());
        let model = Model::load(&model_dir(), Arc::new(cpu())).unwrap();
        let blocks = model.layout.block_count();
        // The passes that go last, and those that have gone before.
        let (last, before) = if by_layer { (2, 0) } else { (1, 1) };
        assert!(blocks > 1, "a block is exchanged while another is computed");
        isentrope_trace::begin(1 << 20);
        thread::scope(|scope| {
            let (model, own) = (&model, &own);
            let computes = scope.spawn(move || {
                drop(span("this rank computes"));
                let pass = |_| {
                    let packed = Packed::new(&[Sequence { tokens: &[1, 2, 3], score_from: 1 }]);
                    let (_, tape) = model.forward(packed, 1.0, TapeKind::Activations);
                    let (logprobs, entropies) = (&[0.1, 0.2], &[0.0; 2]);
                    let derivatives = Derivatives::of(logprobs, entropies);
                    (0, tape, derivatives)
                };
                let mut gradient = ShardedGradient::new(0..1, by_layer);
                for _ in 0..before {
                    gradient.add(model, None, own, vec![pass(0)], false)?;
                }
                gradient.add(model, None, own, (0..last).map(pass).collect(), true)
            });
            let has_computed = |count: usize| {
                let events = isentrope_trace::events();
                let own = events.iter().find(|event| event.name == "this rank computes");
                let is_own = |event: &&Event| own.is_some_and(|own| own.thread == event.thread);
                let in_blocks = events.iter().filter(|event| event.name == "MLP backward");
                in_blocks.filter(is_own).count() >= count
            };
            let (begun, backend) = (Instant::now(), &*model.backend);
            for (exchange, (parameters, slices)) in
                other.slices(model).groups().collect::<Vec<_>>().into_iter().rev().enumerate()
            {
                // The head is exchanged first, by layer alone. No block is below the last.
                let has_block_below = (usize::from(by_layer)..blocks).contains(&exchange);
                let above = before * blocks + last * exchange.min(blocks);
                let is_late = || begun.elapsed() > Duration::from_secs(60);
                while !has_computed(above + usize::from(has_block_below)) && !is_late() {
                    thread::sleep(Duration::from_millis(10));
                }
                if is_late() || exchange == lost {
                    worlds[1].fail(if is_late() { "no layer is computed" } else { "a full disk" });
                    break;
                }
                let list = model.layout.trained();
                let mut zeros = Parameters::zeros(backend, list, Role::Gradient).unwrap();
                other.sum_gradients(backend, &mut zeros.buffers_mut()[parameters], &slices)?;
            }
            let result = computes.join().unwrap();
            isentrope_trace::end();
            result
        })
    }

    #[test]
    fn a_layer_is_added_over_ranks_while_the_next_is_computed() {
        for by_layer in [true, false] {
            on_two_ranks(by_layer, usize::MAX).unwrap();
            let lost = on_two_ranks(by_layer, 1).unwrap_err().to_string();
            assert!(lost.contains("rank 1") && lost.contains("a full disk"), "{lost}");
        }
    }

    #[test]
    fn an_update_by_layer_leaves_no_group_memory() {
        let tied = model_dir();
        for dir in [tied.clone(), tied.with_file_name("qwen3-untied")] {
            let model = Model::load(&dir, Arc::new(cpu())).unwrap();
            let ranks = TrainingRanks::alone(1);
            let mut gradient = ShardedGradient::new(0..1, true);
            for _ in 0..2 {
                let packed = Packed::new(&[Sequence { tokens: &[1, 2, 3, 4], score_from: 1 }]);
                let (_, tape) = model.forward(packed, 1.0, TapeKind::Activations);
                let (logprobs, entropies) = (&[0.1, 0.2, 0.3], &[0.0; 3]);
                let derivatives = Derivatives::of(logprobs, entropies);
                gradient.add(&model, None, &ranks, vec![(0, tape, derivatives)], true).unwrap();
                let Memory { sums, .. } = gradient.memory.as_mut().unwrap();
                let sets = sums.waiting.iter().chain([&*sums.gradient.parameters_mut()]);
                let held: Vec<usize> = sets
                    .flat_map(Parameters::buffers)
                    .map(|buffer| buffer.of::<CpuBuffer>().len())
                    .collect();
                assert!(!held.is_empty() && held.iter().all(|&len| len == 0), "{held:?}");
                gradient.reset(&*model.backend);
            }
        }
    }
}
