//! The model with its gradient and its optimizer.
//!
//! An update of reinforcement learning is [`Learner::forward`], a loss of all scores,
//! [`Learner::backward`] and [`Learner::step`]. SFT knows the derivatives beforehand, and goes
//! forward and backward at once ([`Learner::accumulate_weighted`]).

use crate::error::{Error, Result};
use crate::layer_weights::go_forward;
use crate::optimizer::{Optimizer, UpdateCounts};
pub use crate::passes::OnPolicy;
use crate::passes::{Cut, ForwardResult, Pass, cut, passes};
use crate::ranks::TrainingRanks;
use crate::shards::ShardedGradient;
pub use crate::taught::UpdateTeacher;
use crate::weight_slice::WeightSlice;
use isentrope_budget::PassLimits;
use isentrope_evaluation::{TensorChecksum, joined_checksum, weights_checksum};
use isentrope_kernels::SamplingMasks;
use isentrope_model::checkpoint::{Tensor, WriteOptions, write_tensors};
use isentrope_model::{
    ActivationCache, Checkpoint, Derivatives, ForwardPass, Model, Packed, QueuedScores,
    RouterBalance, RouterUse, Scores, Sequence, Tape, apart, units,
};
use isentrope_trace::span;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// d(loss)/d(log-prob), d(loss)/d(entropy) and d(loss)/d(log-mass) of each target, `[targets]`.
#[derive(Default)]
pub struct Coefficients {
    /// By log-prob.
    pub d_logprobs: Vec<f32>,
    /// By entropy.
    pub d_entropies: Vec<f32>,
    /// The loss's derivatives by the log-mass that truncated sampling kept, `[targets]`; empty if
    /// nothing was truncated.
    pub d_log_masses: Vec<f32>,
    /// The loss's derivatives by the probability of each expert at each target of a mixture,
    /// `[experts]`; empty without a load-balancing loss.
    pub d_experts: Vec<f32>,
    /// The loss's derivatives by the reverse KL to the update's teacher, `[targets]`; empty without
    /// one.
    pub d_divergences: Vec<f32>,
}

impl Coefficients {
    /// The derivatives of some of the targets.
    fn part(&self, targets: Range<usize>) -> Derivatives<'_> {
        Derivatives {
            logprobs: &self.d_logprobs[targets.clone()],
            entropies: &self.d_entropies[targets.clone()],
            log_masses: self.d_log_masses.get(targets.clone()).unwrap_or_default(),
            experts: &self.d_experts,
            divergences: self.d_divergences.get(targets).unwrap_or_default(),
            taught: None,
        }
    }
}

/// The sequences of an update.
#[derive(Clone, Copy)]
pub struct UpdateBatch<'a> {
    /// Their tokens.
    pub sequences: &'a [Sequence<'a>],
    /// The tokens that truncated sampling kept at each target, `[targets]`.
    pub masks: &'a SamplingMasks,
    /// Sequences whose derivatives are expected to be zero, `[sequences]`: they weigh nothing when
    /// the others are cut into shards. A wrong expectation changes no bit. It costs time, and by
    /// layer memory beyond the plan, because tapes of all sequences that go backward exist at once.
    pub idle: &'a [bool],
    /// The sampler's scores of each sequence that these very weights sampled, `[sequences]`.
    pub on_policy: &'a [Option<OnPolicy<'a>>],
    /// Divisor of the logits.
    pub temperature: f32,
    /// The teacher, if the loss has the exact reverse KL to one.
    pub teacher: Option<UpdateTeacher<'a>>,
}

/// A batch that has gone forward, ready for [`Learner::backward`].
pub struct ForwardBatch<'a> {
    /// Log-probs, entropies and log-masses of all targets, over all ranks.
    pub scores: Scores,
    batch: UpdateBatch<'a>,
    /// This rank's passes, with the tapes that wait.
    passes: Vec<(Pass<'a>, Option<Tape<'static>>)>,
}

/// Most targets whose scores wait on the device while further passes are scored: 2 MiB.
const QUEUED_TARGETS: usize = 1 << 16;
/// Tokens of the text on which a model is tested for finite scores.
const PROBE: usize = 64;
/// Weights that are read at a time.
const READ: usize = 1 << 20;

/// A model in training.
pub struct Learner {
    /// The model. It has no weights while each rank has its slice alone, until it is made
    /// [whole](Self::make_whole).
    pub model: Model,
    /// Its optimizer.
    pub optimizer: Optimizer,
    /// The cache of activations from sampling; none if memory has no room for it.
    pub activation_cache: Option<ActivationCache>,
    /// The ranks that train together.
    pub ranks: TrainingRanks,
    weights: WeightSlice,
    gradient: ShardedGradient,
    limits: PassLimits,
    /// The checksum of the present weights, if it is known.
    checksum: Option<u64>,
}

impl Learner {
    /// Makes a learner that is ready for the first update. The gradient has no memory before that.
    pub fn new(
        model: Model,
        optimizer: Optimizer,
        limits: PassLimits,
        ranks: TrainingRanks,
    ) -> Result<Self> {
        let gradient = ShardedGradient::new(ranks.own_shards(), limits.by_layer);
        let slots = limits.activation_slots;
        let activation_cache =
            (slots > 0).then(|| ActivationCache::new(&model, slots)).transpose()?;
        let weights = WeightSlice::new(&model, &ranks);
        let checksum = None;
        Ok(Self { model, optimizer, activation_cache, ranks, weights, gradient, limits, checksum })
    }

    /// Gathers all weights, if each rank has its slice alone since an update: sampling reads them.
    /// All ranks call it together.
    ///
    /// # Errors
    /// When another rank has failed; when there is no memory.
    pub fn make_whole(&mut self) -> Result<()> {
        self.weights.make_whole(&mut self.model, &self.ranks)
    }

    /// The bits of the norm of the trained weights: equal for equal weights, and hardly ever for
    /// others. All ranks ask for it together.
    pub fn checksum(&mut self) -> Result<u64> {
        if let Some(known) = self.checksum {
            return Ok(known);
        }
        let Self { model, optimizer, ranks, weights, .. } = self;
        let norm = optimizer.norm(&*model.backend, &weights.own(model), ranks)?;
        Ok(*self.checksum.insert(norm.to_bits()))
    }

    /// Writes the trained weights, exact, together with all ranks, between two updates. `write`
    /// writes the tensors of this rank's files by these options. Returns what it returns.
    pub fn write_weights(
        &self,
        options: WriteOptions<'_>,
        write: impl FnOnce(&Model, Vec<Tensor<'_>>) -> Result<Vec<PathBuf>>,
    ) -> Result<Vec<PathBuf>> {
        let Self { model, ranks, weights, .. } = self;
        if !self.is_gathered() {
            let tensors = model.trained().tensors(&*model.backend, model.layout.trained(), "");
            return write(model, tensors);
        }
        weights.gathering(model, ranks).write(options, |tensors| write(model, tensors))
    }

    /// The [checksum](weights_checksum) of the exact weights. All ranks ask for it together.
    pub fn weights_checksum(&self) -> Result<u32> {
        let Self { model, ranks, weights, .. } = self;
        if !self.is_gathered() {
            return Ok(weights_checksum(model, model.trained())?);
        }
        let own: Vec<TensorChecksum> = weights.gathering(model, ranks).divide(|tensors| {
            Ok(tensors.into_iter().map(TensorChecksum::of).collect::<Result<_, _>>()?)
        })?;
        Ok(joined_checksum(model, ranks.gather(own)?))
    }

    /// Whether exact weights come from all ranks: a rank may have but its slice of them.
    fn is_gathered(&self) -> bool {
        let Self { model, ranks, limits, .. } = self;
        limits.weights_in_slices || ranks.split(model, &*model.backend).is_some()
    }

    /// Notes what operations see of weights in two parts: gathered weights are the same on all
    /// ranks, whatever is left of them in a rank's own memory.
    pub(crate) fn note_rounded_weights(&self) -> Result<()> {
        let Self { model, ranks, .. } = self;
        let split = ranks.split(model, &*model.backend).filter(|_| self.weights.is_whole());
        let Some(split) = split else { return Ok(()) };
        let (mut checksum, mut rounded) = (0, vec![0; READ]);
        let counts = model.layout.trained().numbers(&*model.backend);
        for (weights, count) in model.trained().buffers().iter().zip(counts) {
            for first in (0..count).step_by(READ) {
                let rounded = &mut rounded[..READ.min(count - first)];
                split.read_rounded(weights, first, rounded);
                let bytes: Vec<u8> = rounded.iter().flat_map(|bits| bits.to_le_bytes()).collect();
                checksum = crc32c::crc32c_append(checksum, &bytes);
            }
        }
        ranks.note("the weights", &checksum)
    }

    /// Log-probs and entropies of all targets under the present weights. Each rank scores a part of
    /// them.
    pub fn score(&self, sequences: &[Sequence<'_>], temperature: f32) -> Result<Scores> {
        self.score_in_passes(&self.model, self.weights.if_apart(), sequences, temperature)
    }

    /// Whether the model's scores of a short text of many different tokens are finite. Each rank
    /// computes it, and all ask for it together.
    pub fn is_finite(&self) -> Result<bool> {
        let length = PROBE.min(self.model.config.vocab_size).min(self.model.config.context());
        let tokens: Vec<u32> = (0..length as u32).collect();
        let probe = Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]);
        let score =
            |model: &Model, pass, packed: Packed| model.end_score(pass, &packed, 1.0).read(model);
        let probe = [(probe, None)].into_iter();
        let Self { model, ranks, weights, limits, .. } = self;
        let scores = go_forward(model, weights.if_apart(), ranks, limits, probe, score)?;
        let numbers = scores.iter().flat_map(|of| of.logprobs.iter().chain(&of.entropies));
        Ok(numbers.into_iter().all(|number| number.is_finite()))
    }

    /// Like [`score`](Self::score), under another model and in the same passes.
    pub fn score_with(
        &self,
        model: &Model,
        sequences: &[Sequence<'_>],
        temperature: f32,
    ) -> Result<Scores> {
        self.score_in_passes(model, None, sequences, temperature)
    }

    fn score_in_passes(
        &self,
        model: &Model,
        weights: Option<&WeightSlice>,
        sequences: &[Sequence<'_>],
        temperature: f32,
    ) -> Result<Scores> {
        let mut own = Scores::default();
        let (mut queued, mut targets) = (Vec::new(), 0);
        let cuts = self.cut(sequences).into_iter();
        let passes = cuts.map(|cut| (Packed::new(&sequences[cut.sequences]), None));
        let end = |model: &Model, pass, packed: Packed| {
            if targets + packed.target_count() > QUEUED_TARGETS {
                read_all(&mut queued, model, &mut own);
                targets = 0;
            }
            targets += packed.target_count();
            queued.push(model.end_score(pass, &packed, temperature));
        };
        go_forward(model, weights, &self.ranks, &self.limits, passes, end)?;
        read_all(&mut queued, model, &mut own);
        self.ranks.gather_scores(own)
    }

    /// The load of a mixture's experts by all targets under the present weights, over all ranks.
    pub fn router_balance(&self, sequences: &[Sequence<'_>]) -> Result<RouterBalance> {
        let mut own = RouterBalance::default();
        for Cut { sequences: range, .. } in self.cut(sequences) {
            let packed = Packed::new(&sequences[range]);
            let _span = span("router balance").with("tokens", packed.token_count());
            own.add(&self.model.router_balance(&packed));
        }
        let mut sum = RouterBalance::default();
        self.ranks.gather(vec![own])?.iter().for_each(|more| sum.add(more));
        Ok(sum)
    }

    /// The passes in which this rank scores its part of sequences.
    fn cut(&self, sequences: &[Sequence<'_>]) -> Vec<Cut> {
        let (none, limit) = (vec![false; sequences.len()], self.limits.micro_batch_tokens);
        cut(sequences, units(sequences), &none, &none, &self.ranks, limit)
    }

    /// Scores targets as [`score`](Self::score) does, with the log-masses of `masks`, and returns
    /// the slope of each target's entropy along the gradient of its log-prob too
    /// ([`Model::entropy_slopes`]).
    pub fn entropy_slopes(
        &self,
        sequences: &[Sequence<'_>],
        masks: &SamplingMasks,
        temperature: f32,
    ) -> Result<(Scores, Vec<f32>)> {
        let (mut own, mut slopes) = (Scores::default(), Vec::new());
        let cuts = self.cut(sequences).into_iter();
        let passes = cuts.map(|Cut { sequences: range, targets, .. }| {
            (Packed::new(&sequences[range]).with_masks(masks.part(targets)), None)
        });
        let end = |model: &Model, pass, packed: Packed| {
            let (scores, more) = model.end_slopes(pass, &packed, temperature);
            own.extend(scores);
            slopes.extend(more);
        };
        let Self { model, ranks, weights, limits, .. } = self;
        go_forward(model, weights.if_apart(), ranks, limits, passes, end)?;
        let [slopes] = self.ranks.gather_floats([slopes])?;
        Ok((self.ranks.gather_scores(own)?, slopes))
    }

    /// Scores a batch, and keeps the tapes that memory has room for. The scores' bits, and within a
    /// shard the gradient's, depend neither on `idle` and `on_policy` nor on the limits;
    /// `passes.rs` has the strategies.
    pub fn forward<'a>(&mut self, batch: UpdateBatch<'a>) -> Result<ForwardBatch<'a>> {
        let UpdateBatch { sequences, masks, idle, on_policy, temperature, teacher } = batch;
        assert!(sequences.len() == idle.len() && sequences.len() == on_policy.len());
        // Large, and stays: it must have its memory before the tapes.
        self.allocate_gradient()?;
        let Self { model, activation_cache, ranks, limits, weights, .. } = self;
        let mut passes = passes(&batch, limits, ranks, model, activation_cache.is_some());
        let weights = weights.if_apart();
        if let Some(teacher) = teacher {
            let waiting = passes.iter_mut().filter(|pass| pass.keeps_tape());
            teacher.teach(model, weights, ranks, limits, waiting)?;
        }
        // Passes without a tape wait between blocks in the memory that tapes leave.
        let tapes = passes.iter().map(|pass| pass.waiting_bytes(model)).sum();
        let limits = limits.beside(tapes);
        let mut waiting = passes.iter().filter(|pass| pass.keeps_tape());
        let forward = passes.iter().filter_map(|pass| pass.before_loss(masks));
        let end = |model: &Model, pass: ForwardPass, packed: Packed| match pass.keeps_tape() {
            true => {
                let taught = waiting.next().and_then(|pass| pass.taught(teacher));
                let tape = model.end_forward(pass, packed, temperature, taught);
                ForwardResult::Tape(Box::new(tape))
            }
            false => ForwardResult::Scores(model.end_score(pass, &packed, temperature)),
        };
        let mut results = go_forward(model, weights, ranks, &limits, forward, end)?.into_iter();
        // Only now the host waits for the device, which goes from pass to pass without a gap.
        let mut own = Scores::default();
        let mut with_tapes = Vec::with_capacity(passes.len());
        for pass in passes {
            let result = if pass.is_known() { None } else { results.next() };
            let (scores, tape) = pass.read(model, result);
            own.extend(scores);
            with_tapes.push((pass, tape));
        }
        Ok(ForwardBatch { scores: ranks.gather_scores(own)?, batch, passes: with_tapes })
    }

    /// Computes an update's gradient, of a loss with these derivatives, and adds it over ranks. The
    /// bits do not depend on how many passes go through a layer before any enters the one below.
    /// Returns the reverse KL at each target, in nats, over all ranks; nothing without a teacher.
    /// It is 0 at the targets of passes whose derivatives are all 0.
    ///
    /// # Panics
    /// With derivatives by the divergence and no teacher.
    pub fn backward(
        &mut self,
        forward: ForwardBatch<'_>,
        derivatives: &Coefficients,
    ) -> Result<Vec<f32>> {
        let ForwardBatch { batch, passes, .. } = forward;
        let UpdateBatch { masks, temperature, teacher, .. } = batch;
        assert!(derivatives.d_divergences.is_empty() || teacher.is_some());
        let Self { model, activation_cache, ranks, weights, gradient, limits, .. } = self;
        let weights = weights.if_apart();
        let first = passes.first().map_or(0, |(pass, ..)| pass.targets.start);
        let end = passes.last().map_or(0, |(pass, ..)| pass.targets.end);
        let mut divergences = vec![0.0; if teacher.is_some() { end - first } else { 0 }];
        let with_derivatives = passes.into_iter().filter_map(|(pass, tape)| {
            let derivatives = derivatives.part(pass.targets.clone());
            // Products with 0 change no sum.
            (!derivatives.are_zero()).then_some((pass, tape, derivatives))
        });
        let mut passes: Vec<_> = with_derivatives.collect();
        for count in limits.sets(passes.len()) {
            let mut set: Vec<_> = passes.drain(..count).collect();
            let targets: usize = set.iter().map(|(pass, ..)| pass.targets.len()).sum();
            let sequences: usize = set.iter().map(|(pass, ..)| pass.sequences.len()).sum();
            let spanned = |name| span(name).with("targets", targets).with("sequences", sequences);
            let _span = spanned("micro-batch");
            if let Some(teacher) = teacher {
                let passes = set.iter_mut().map(|(pass, ..)| pass);
                let passes = passes.filter(|pass| pass.hidden.is_none());
                teacher.teach(model, weights, ranks, limits, passes)?;
            }
            let without_tape =
                || set.iter().filter(|(pass, tape, _)| tape.is_none() && !pass.is_cached());
            let mut taught = without_tape().map(|(pass, ..)| pass.taught(teacher));
            let end = |model: &Model, pass, packed| {
                model.end_forward(pass, packed, temperature, taught.next().flatten())
            };
            let forward = without_tape().filter_map(|(pass, ..)| pass.after_loss(masks));
            let mut made = go_forward(model, weights, ranks, limits, forward, end)?.into_iter();
            let mut with_tapes = Vec::with_capacity(count);
            for (pass, tape, derivatives) in &mut set {
                let (cache, taught) = (activation_cache.as_ref(), pass.taught(teacher));
                let tape = tape
                    .take()
                    .or_else(|| pass.cached_tape(model, cache, masks, temperature, taught))
                    .or_else(|| made.next())
                    .expect("a tape for each pass");
                if taught.is_some() {
                    let targets = pass.targets.start - first..pass.targets.end - first;
                    divergences[targets].copy_from_slice(&tape.read_divergences(model));
                }
                with_tapes.push((pass.shard, tape, Derivatives { taught, ..*derivatives }));
            }
            let _span = spanned("backward");
            gradient.add(model, weights, ranks, with_tapes, passes.is_empty())?;
        }
        if teacher.is_none() {
            return Ok(divergences);
        }
        let [divergences] = ranks.gather_floats([divergences])?;
        Ok(divergences)
    }

    /// Computes an update's gradient, of a weighted sum of the targets' log-probs and entropies,
    /// adds it over ranks, and returns these. Each pass goes backward right after it went forward,
    /// since the weights are known beforehand. Sequences share no prompts here, because examples
    /// hardly ever have the same one.
    pub fn accumulate_weighted(
        &mut self,
        sequences: &[Sequence<'_>],
        temperature: f32,
        weights: &Coefficients,
    ) -> Result<Scores> {
        self.allocate_gradient()?;
        let Self { model, ranks, weights: slice, gradient, limits, .. } = self;
        let slice = slice.if_apart();
        let mut own = Scores::default();
        let none = vec![false; sequences.len()];
        let cuts = cut(sequences, apart(sequences), &none, &none, ranks, limits.micro_batch_tokens);
        let mut cuts = cuts.into_iter();
        for count in limits.sets(cuts.len()) {
            let set: Vec<Cut> = cuts.by_ref().take(count).collect();
            let tokens = set.iter().map(|cut| cut.tokens).sum();
            let _span = span("micro-batch").with("tokens", tokens).with("passes", set.len());
            let kind = limits.tape_kind_of_set(model, tokens);
            let packed = |cut: &Cut| (Packed::apart(&sequences[cut.sequences.clone()]), Some(kind));
            let end =
                |model: &Model, pass, packed| model.end_forward(pass, packed, temperature, None);
            let tapes = go_forward(model, slice, ranks, limits, set.iter().map(packed), end)?;
            let with_tape = |(Cut { targets, shard, .. }, mut tape): (Cut, Tape<'static>)| {
                own.extend(tape.read_scores(model));
                (shard, tape, weights.part(targets))
            };
            let passes = set.into_iter().zip(tapes).map(with_tape).collect();
            let _span = span("backward").with("tokens", tokens);
            gradient.add(model, slice, ranks, passes, cuts.len() == 0)?;
        }
        ranks.gather_scores(own)
    }

    /// The use of experts, over all ranks, by the tokens whose derivatives were not 0 in the passes
    /// since this was last asked; none if the model has no experts.
    pub fn take_router_use(&mut self) -> Result<Option<RouterUse>> {
        if self.model.config.experts.is_none() {
            return Ok(None);
        }
        let own = self.gradient.take_router_use();
        let mut sum = RouterUse::default();
        self.ranks.gather(vec![own])?.iter().for_each(|more| sum.add(more));
        Ok(Some(sum))
    }

    /// Most tokens in one pass.
    pub fn micro_batch_tokens(&self) -> usize {
        self.limits.micro_batch_tokens
    }

    /// Takes one micro-batch forward and, with the derivatives that `loss` makes of its scores,
    /// backward at once. It is of the first shard, and an update may have several. Returns the
    /// scores.
    pub fn accumulate(
        &mut self,
        packed: Packed,
        temperature: f32,
        loss: impl FnOnce(&Scores) -> Coefficients,
    ) -> Result<Scores> {
        let Self { model, ranks, gradient, limits, .. } = self;
        gradient.allocate(model, ranks)?;
        let targets = 0..packed.target_count();
        let _span = span("micro-batch").with("tokens", packed.token_count());
        let kind = limits.tape_kind_of_set(model, packed.token_count());
        let (scores, tape) = model.forward(packed, temperature, kind);
        let coefficients = loss(&scores);
        let derivatives = coefficients.part(targets);
        if !derivatives.are_zero() {
            gradient.add(model, None, ranks, vec![(0, tape, derivatives)], false)?;
        }
        Ok(scores)
    }

    /// The gradient, by parameter, for a look before [`step`](Self::step) uses it.
    ///
    /// # Errors
    /// When each rank has a slice of it.
    pub fn gradient(&mut self) -> Result<Vec<Tensor<'_>>> {
        let Self { model, ranks, gradient, limits, .. } = self;
        if ranks.count() > 1 || limits.by_layer {
            return Err(Error::Run("each rank has a slice of the gradient".into()));
        }
        let (_, whole) = gradient.finish(model, None, ranks)?;
        Ok(whole.tensors(&*model.backend, model.layout.trained(), ""))
    }

    /// Frees the gradient's memory, and drops the sums since the last [`step`](Self::step):
    /// sampling takes turns with updates, and may have it until the next accumulation begins from
    /// zeros.
    pub fn free_gradient(&mut self) {
        self.gradient.free();
    }

    /// Whether the gradient has memory now.
    #[cfg(test)]
    pub(crate) fn has_gradient(&self) -> bool {
        !self.gradient.is_freed()
    }

    /// Allocates the memory of a gradient that was [freed](Self::free_gradient); where ranks have
    /// slices of the weights, it is there once the model has given its own up. Accumulation would
    /// do so too; this call fails for want of memory before anything changes.
    pub fn allocate_gradient(&mut self) -> Result<()> {
        if self.limits.weights_in_slices {
            self.weights.take_apart(&mut self.model)?;
        }
        self.gradient.allocate(&self.model, &self.ranks)
    }

    /// Updates the weights from the accumulated gradient, and begins a new one. Returns the norm of
    /// the gradient.
    pub fn step(&mut self, learning_rate: f64) -> Result<f64> {
        self.checksum = None;
        let Self { model, optimizer, ranks, weights, gradient, .. } = self;
        let (slice, whole) = gradient.finish(model, weights.if_apart(), ranks)?;
        let summed = slice.elements(whole);
        let norm = optimizer.update(model, weights, &summed, ranks, learning_rate);
        gradient.reset(&*model.backend);
        norm
    }

    /// Reads this rank's moments of a checkpoint; `progress` is the number of updates behind them.
    pub fn read_moments(&mut self, checkpoint: &Checkpoint, progress: UpdateCounts) -> Result<()> {
        self.optimizer.progress = progress;
        self.optimizer.moments.read(&self.model, checkpoint)
    }

    /// Writes the moments of all ranks, together with them, each rank some of the files. Returns
    /// what this rank has written.
    pub fn write_moments(&self, dir: &Path, options: WriteOptions<'_>) -> Result<Vec<PathBuf>> {
        let moments = self.optimizer.moments.gathering(&self.model, &self.ranks);
        moments.write(options, |tensors| Ok(write_tensors(dir, tensors, options)?))
    }
}

/// Waits for queued scores, and appends them in order.
fn read_all(queued: &mut Vec<QueuedScores>, model: &Model, to: &mut Scores) {
    queued.drain(..).for_each(|scores| to.extend(scores.read(model)));
}
