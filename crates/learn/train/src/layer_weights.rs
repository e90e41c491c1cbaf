//! The weights that passes read on their way through the layers. A model has all of them, or each
//! rank has its slice alone and gathers one group of parameters after another, a block while the
//! passes go through the one before.

use crate::error::Result;
use crate::ranks::TrainingRanks;
use crate::slice_exchange::SliceExchange;
use crate::weight_slice::WeightSlice;
use isentrope_budget::PassLimits;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{ForwardPass, Model, Packed, ParameterList, Parameters, TapeKind};
use isentrope_trace::span;
use std::iter::{self, Peekable};
use std::sync::Arc;
use std::thread;

/// The group of the first block: the embedding's is before it, the head's behind the last block's.
pub(crate) const FIRST_BLOCK: usize = 1;

/// A model with the weights of the groups that passes are in.
pub(crate) enum LayerWeights<'a> {
    /// With all of them.
    Whole(&'a Model),
    /// With those that have been asked for, have come, and have not been left.
    InTurn {
        model: Box<Model>,
        /// The group that was left last, whose memory is for the next one.
        left: Option<usize>,
    },
}

impl<'a> LayerWeights<'a> {
    /// Reads a model's weights, or gathers `slice` if the model has none.
    pub fn of(model: &'a Model, slice: Option<&WeightSlice>) -> Self {
        match slice {
            None => Self::Whole(model),
            Some(_) => Self::InTurn { model: Box::new(model.without_weights()), left: None },
        }
    }

    pub fn model(&self) -> &Model {
        match self {
            Self::Whole(model) => model,
            Self::InTurn { model, .. } => model,
        }
    }

    /// Begins to gather a group, the only one on its way.
    pub fn ask(&mut self, group: usize, exchange: &mut Option<SliceExchange<'_>>) -> Result<()> {
        let Self::InTurn { model, left } = self else { return Ok(()) };
        let (list, weights, backend) = parts(model);
        let groups = list.groups();
        let to = groups[group].clone();
        let from = left.take().map(|left| groups[left].clone());
        weights.succeed(backend, list, Role::Frozen, from, to.clone())?;
        let buffers = weights.take(backend, to);
        exchange.as_mut().expect("an exchange gathers").begin_gathering(group, buffers);
        Ok(())
    }

    /// Waits for the group that was asked for, if there is one.
    pub fn arrive(&mut self, exchange: &mut Option<SliceExchange<'_>>) -> Result<()> {
        let (Self::InTurn { model, .. }, Some(exchange)) = (self, exchange) else { return Ok(()) };
        if let Some((group, buffers)) = exchange.gathered()? {
            let first = model.layout.trained().groups()[group].start;
            model.trained_mut().put_back(first, buffers);
        }
        Ok(())
    }

    /// Gathers a group, and waits for it.
    pub fn bring(&mut self, group: usize, exchange: &mut Option<SliceExchange<'_>>) -> Result<()> {
        self.ask(group, exchange)?;
        self.arrive(exchange)
    }

    /// All passes have left a group.
    pub fn leave(&mut self, group: usize) {
        let Self::InTurn { model, left } = self else { return };
        if let Some(before) = left.replace(group) {
            let (list, weights, backend) = parts(model);
            weights.take(backend, list.groups()[before].clone());
        }
    }

    /// The groups that the head reads.
    pub fn of_head(&self) -> Vec<usize> {
        let layout = &self.model().layout;
        let head = FIRST_BLOCK + layout.block_count();
        if layout.head_trains_embedding() { vec![head, 0] } else { vec![head] }
    }
}

/// The parameters of a model that gathers its weights, these weights, and the device.
fn parts(model: &mut Model) -> (&ParameterList, &mut Parameters, &dyn Backend) {
    let Model { layout, weights, backend, .. } = model;
    let weights = Arc::get_mut(weights).expect("gathered weights are not shared");
    (layout.trained(), weights, &**backend)
}

/// A batch that goes forward, and the tape that it keeps, if any.
type Entering = (Packed, Option<TapeKind>);

/// Takes passes forward, and ends each by `end`. If `slice` is where the weights are, passes go
/// through a layer together before any enters the next: all that keep tapes, and of the others as
/// many as `limits` have room for. All ranks come together, with or without passes.
///
/// # Errors
/// When another rank has failed, or there is no memory for layers.
pub(crate) fn go_forward<T>(
    model: &Model,
    slice: Option<&WeightSlice>,
    ranks: &TrainingRanks,
    limits: &PassLimits,
    passes: impl Iterator<Item = Entering>,
    mut end: impl FnMut(&Model, ForwardPass, Packed) -> T,
) -> Result<Vec<T>> {
    let named = |keep: Option<TapeKind>| if keep.is_some() { "forward" } else { "score" };
    let Some(slice) = slice else {
        let alone = |(packed, keep): Entering| {
            let _span = span(named(keep)).with("tokens", packed.token_count());
            let pass = model.through_blocks(&packed, keep);
            end(model, pass, packed)
        };
        return Ok(passes.map(alone).collect());
    };
    let (mut passes, mut ended) = (passes.peekable(), Vec::new());
    loop {
        let set = next_set(&mut passes, limits.tokens_between_blocks(model));
        if !ranks.any(!set.is_empty())? {
            return Ok(ended);
        }
        ended.extend(go_together(model, slice, ranks, set, &mut end)?);
    }
}

/// The next passes, of which those without tapes have at most `most` tokens together, or are one.
fn next_set(passes: &mut Peekable<impl Iterator<Item = Entering>>, most: usize) -> Vec<Entering> {
    let mut tokens = 0;
    let mut fits = |(packed, keep): &Entering| {
        let before = tokens;
        tokens += if keep.is_none() { packed.token_count() } else { 0 };
        before == 0 || tokens <= most
    };
    iter::from_fn(|| passes.next_if(&mut fits)).collect()
}

fn go_together<T>(
    model: &Model,
    slice: &WeightSlice,
    ranks: &TrainingRanks,
    passes: Vec<Entering>,
    end: &mut impl FnMut(&Model, ForwardPass, Packed) -> T,
) -> Result<Vec<T>> {
    let tokens = passes.iter().map(|(packed, _)| packed.token_count()).sum();
    let _span = span("forward by layer").with("tokens", tokens).with("passes", passes.len());
    thread::scope(|scope| {
        let backend = &*model.backend;
        let exchange = SliceExchange::start(scope, backend, ranks, None, Some(slice))?;
        let (mut weights, exchange) = (LayerWeights::of(model, Some(slice)), &mut Some(exchange));
        let (embedding, blocks) = (0, model.layout.block_count());
        weights.bring(embedding, exchange)?;
        let enter = |(packed, keep)| (weights.model().enter(&packed, keep), packed);
        let mut passes: Vec<(ForwardPass, Packed)> = passes.into_iter().map(enter).collect();
        weights.leave(embedding);
        weights.bring(FIRST_BLOCK, exchange)?;
        for block in 0..blocks {
            let group = FIRST_BLOCK + block;
            if block + 1 < blocks {
                weights.ask(group + 1, exchange)?;
            }
            for (pass, _) in &mut passes {
                weights.model().forward_block(pass);
            }
            weights.leave(group);
            weights.arrive(exchange)?;
        }
        for group in weights.of_head() {
            weights.bring(group, exchange)?;
        }
        Ok(passes.into_iter().map(|(pass, packed)| end(weights.model(), pass, packed)).collect())
    })
}
