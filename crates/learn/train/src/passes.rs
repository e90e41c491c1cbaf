//! The passes of an update: how its sequences are cut into micro-batches, and how each micro-batch
//! goes through the model.
//!
//! A micro-batch costs one forward and one backward pass, and one more forward pass if it was scored
//! without a tape and its derivatives are not zero. Scores that the sampler knows of on-policy
//! responses, and responses that the loss is expected to leave out, save one or both without
//! changing a bit of the gradient.

use crate::learner::UpdateBatch;
use crate::ranks::TrainingRanks;
use crate::shards::shards_of;
use crate::taught::UpdateTeacher;
use isentrope_budget::{PassLimits, PassSize, PassTape};
use isentrope_kernels::{Buffer, SamplingMasks};
use isentrope_model::{
    ActivationCache, Model, Packed, QueuedScores, Scores, Sequence, Tape, TapeKind, Taught, Unit,
    units,
};
use isentrope_trace::span;
use std::ops::Range;

/// The sampler's record of a sequence that these very weights have sampled.
#[derive(Clone)]
pub struct OnPolicy<'a> {
    /// Log-probs, entropies and log-masses of the sequence's targets, to the last bit as the
    /// present weights give them; NaN for targets that were given, not sampled, whose derivatives
    /// are 0.
    pub scores: Scores,
    /// The slots of the sequence's inputs, if it is in the activation cache.
    pub slots: Option<&'a [u32]>,
}

/// One micro-batch: the sequences that go through the model at a time.
pub(crate) struct Pass<'a> {
    pub sequences: &'a [Sequence<'a>],
    /// The places of its sequences among the update's.
    pub places: Range<usize>,
    pub on_policy: &'a [Option<OnPolicy<'a>>],
    /// The micro-batch's targets, as a range of the update's.
    pub targets: Range<usize>,
    pub tokens: usize,
    /// The shard that its sequences belong to.
    pub shard: usize,
    pub strategy: PassStrategy<'a>,
    /// The update's teacher's final hidden states that predict its targets, from before its tape is
    /// made; none without a teacher.
    pub hidden: Option<Buffer>,
}

/// When a pass goes forward.
pub(crate) enum PassStrategy<'a> {
    /// No forward pass: the sequences are on-policy, and these slots of the activation cache hold
    /// their activations.
    Cached { slots: Vec<&'a [u32]> },
    /// Forward after the loss, which needs no scores because the sequences are on-policy; backward
    /// at once, while the tape is still in the processor's cache.
    OnPolicy(TapeKind),
    /// Forward before the loss; the tape waits for the backward pass.
    Forward(TapeKind),
    /// Forward before the loss without a tape, because the sequences are idle or memory is short;
    /// and again after the loss, with this tape, if derivatives are not zero.
    ScoreOnly(TapeKind),
}

/// Cuts the batch into this rank's passes, in order, each with its strategy. `has_cache` says
/// whether activations are cached.
pub(crate) fn passes<'a>(
    batch: &UpdateBatch<'a>,
    limits: &PassLimits,
    ranks: &TrainingRanks,
    model: &Model,
    has_cache: bool,
) -> Vec<Pass<'a>> {
    let UpdateBatch { sequences, idle, on_policy, .. } = *batch;
    let has_slots =
        |known: &Option<OnPolicy<'_>>| known.as_ref().is_some_and(|k| k.slots.is_some());
    let cached: Vec<bool> = on_policy.iter().map(|known| has_cache && has_slots(known)).collect();
    let limit = limits.micro_batch_tokens;
    let cuts = cut(sequences, units(sequences), idle, &cached, ranks, limit);
    let sizes: Vec<PassSize> = cuts
        .iter()
        .map(|cut| {
            let Cut { tokens, idle, .. } = *cut;
            PassSize { tokens, waits: waits(cut, on_policy), is_idle: idle }
        })
        .collect();
    let tapes = limits.tapes(&*model.backend, &model.layout, &sizes);
    let mut passes = Vec::with_capacity(cuts.len());
    for (cut, tape) in cuts.into_iter().zip(tapes) {
        let Cut { sequences: range, targets, tokens, shard, .. } = cut;
        let (sequences, on_policy) = (&sequences[range.clone()], &on_policy[range.clone()]);
        let places = range;
        let strategy = PassStrategy::of(on_policy, has_cache, tape);
        let hidden = None;
        let pass = Pass { sequences, places, on_policy, targets, tokens, shard, strategy, hidden };
        passes.push(pass);
    }
    passes
}

/// Whether a micro-batch goes forward before the loss and is expected to go backward after it.
fn waits(cut: &Cut, on_policy: &[Option<OnPolicy<'_>>]) -> bool {
    !cut.idle && on_policy[cut.sequences.clone()].iter().any(Option::is_none)
}

impl<'a> PassStrategy<'a> {
    /// The cheapest strategy with the tape that memory has room for.
    fn of(on_policy: &'a [Option<OnPolicy<'a>>], has_cache: bool, tape: PassTape) -> Self {
        let is_on_policy = on_policy.iter().all(Option::is_some);
        match tape {
            PassTape::Waiting(kind) => Self::Forward(kind),
            PassTape::Later(kind) if is_on_policy => {
                let slots = on_policy.iter().map(|known| known.as_ref()?.slots).collect();
                match slots {
                    Some(slots) if has_cache => Self::Cached { slots },
                    _ => Self::OnPolicy(kind),
                }
            }
            PassTape::Later(kind) => Self::ScoreOnly(kind),
        }
    }
}

impl Pass<'_> {
    /// Whether the sampler knows the scores, so that nothing goes forward before the loss.
    pub fn is_known(&self) -> bool {
        matches!(self.strategy, PassStrategy::Cached { .. } | PassStrategy::OnPolicy(_))
    }

    /// Bytes of the tape that waits for the backward pass; 0 if there is none.
    pub fn waiting_bytes(&self, model: &Model) -> usize {
        let PassStrategy::Forward(kind) = self.strategy else { return 0 };
        let of_token = model.layout.tape_bytes_per_token(&*model.backend, kind);
        self.tokens * of_token
    }

    /// The update's teacher in the places of its targets.
    pub fn taught<'p>(&'p self, teacher: Option<UpdateTeacher<'p>>) -> Option<Taught<'p>> {
        Some(Taught { teacher: teacher?.model, hidden: self.hidden.as_ref()? })
    }

    /// Whether its activations are in the cache.
    pub fn is_cached(&self) -> bool {
        matches!(self.strategy, PassStrategy::Cached { .. })
    }

    /// Whether a tape waits for the loss.
    pub fn keeps_tape(&self) -> bool {
        matches!(self.strategy, PassStrategy::Forward(_))
    }

    /// The batch that goes forward before the loss, and the tape that it keeps; none where the
    /// sampler knows the scores.
    pub fn before_loss(&self, masks: &SamplingMasks) -> Option<(Packed, Option<TapeKind>)> {
        match self.strategy {
            PassStrategy::Cached { .. } | PassStrategy::OnPolicy(_) => None,
            PassStrategy::Forward(kind) => Some((self.packed(masks), Some(kind))),
            PassStrategy::ScoreOnly(_) => Some((self.packed(masks), None)),
        }
    }

    /// Waits for the scores of the pass before the loss, if there was one. Returns them with the
    /// tape that waits for the backward pass.
    pub fn read(
        &self,
        model: &Model,
        result: Option<ForwardResult>,
    ) -> (Scores, Option<Tape<'static>>) {
        match result {
            None => (self.sampled(), None),
            Some(ForwardResult::Scores(scores)) => (scores.read(model), None),
            Some(ForwardResult::Tape(mut tape)) => (tape.read_scores(model), Some(*tape)),
        }
    }

    /// The batch that goes forward after the loss, with the tape that it keeps for the backward
    /// pass that follows; none if the pass has its tape, or its activations are in the cache.
    pub fn after_loss(&self, masks: &SamplingMasks) -> Option<(Packed, Option<TapeKind>)> {
        match self.strategy {
            PassStrategy::Cached { .. } | PassStrategy::Forward(_) => None,
            PassStrategy::OnPolicy(kind) | PassStrategy::ScoreOnly(kind) => {
                Some((self.packed(masks), Some(kind)))
            }
        }
    }

    /// The tape of a pass whose activations are in the cache.
    pub fn cached_tape<'c>(
        &self,
        model: &Model,
        cache: Option<&'c ActivationCache>,
        masks: &SamplingMasks,
        temperature: f32,
        taught: Option<Taught<'_>>,
    ) -> Option<Tape<'c>> {
        let PassStrategy::Cached { slots } = &self.strategy else { return None };
        let cache = cache.expect("a cached pass has a cache");
        let _span = span("forward from the cache").with("targets", self.targets.len());
        Some(model.tape_from_cache(self.packed(masks), temperature, cache, slots, taught))
    }

    /// Packs the pass's sequences. `masks` has the masks of all targets of the update.
    fn packed(&self, masks: &SamplingMasks) -> Packed {
        Packed::new(self.sequences).with_masks(masks.part(self.targets.clone()))
    }

    /// The scores of on-policy sequences.
    fn sampled(&self) -> Scores {
        let mut scores = Scores::default();
        self.on_policy.iter().flatten().for_each(|sequence| scores.extend(sequence.scores.clone()));
        scores
    }
}

/// The result of a pass before the loss, which the device may still be computing.
pub(crate) enum ForwardResult {
    Scores(QueuedScores),
    /// A tape, which has the scores too.
    Tape(Box<Tape<'static>>),
}

/// A part of an update's sequences: one micro-batch.
pub(crate) struct Cut {
    pub sequences: Range<usize>,
    pub targets: Range<usize>,
    pub tokens: usize,
    pub shard: usize,
    pub idle: bool,
}

/// This rank's micro-batches, in order. None mixes shards, idle with busy, or cached with uncached
/// sequences: an uncached sequence would take its neighbours forward as well. `idle` and `cached`
/// are `[sequences]`.
pub(crate) fn cut(
    sequences: &[Sequence<'_>],
    units: Vec<Unit>,
    idle: &[bool],
    cached: &[bool],
    ranks: &TrainingRanks,
    limit: usize,
) -> Vec<Cut> {
    let (mut kinds, mut weights, mut first) = (Vec::new(), Vec::new(), 0);
    for unit in &units {
        let range = first..first + unit.sequences;
        first = range.end;
        let all = |flags: &[bool]| flags[range.clone()].iter().all(|&flag| flag);
        let is_idle = all(idle);
        kinds.push((is_idle, all(cached)));
        weights.push(if is_idle { 0 } else { unit.tokens });
    }
    let kinds = shards_of(&weights, ranks.shards()).into_iter().zip(kinds);
    let units: Vec<_> = units.into_iter().zip(kinds).collect();
    let mut cuts = Vec::new();
    let (mut sequence, mut target) = (0, 0);
    for alike in units.chunk_by(|a, b| a.1 == b.1) {
        let (shard, (idle, _)) = alike[0].1;
        let alike: Vec<Unit> = alike.iter().map(|&(unit, _)| unit).collect();
        for Unit { sequences: count, tokens } in micro_batches(&alike, limit) {
            let range = sequence..sequence + count;
            let count: usize = sequences[range.clone()].iter().map(Sequence::target_count).sum();
            let targets = target..target + count;
            (sequence, target) = (range.end, targets.end);
            if ranks.own_shards().contains(&shard) {
                cuts.push(Cut { sequences: range, targets, tokens, shard, idle });
            }
        }
    }
    cuts
}

/// Consecutive units whose tokens together are at most `limit`, or a single larger one; returns the
/// sum of each.
pub(crate) fn micro_batches(units: &[Unit], limit: usize) -> Vec<Unit> {
    let mut batches: Vec<Unit> = Vec::new();
    for unit in units {
        match batches.last_mut() {
            Some(batch) if batch.tokens.saturating_add(unit.tokens) <= limit => {
                batch.sequences += unit.sequences;
                batch.tokens += unit.tokens;
            }
            _ => batches.push(*unit),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{cpu, model_dir};
    use std::sync::Arc;

    const NO_ROOM: PassLimits = PassLimits {
        micro_batch_tokens: 1,
        tape_bytes: 0,
        activation_slots: 0,
        by_layer: false,
        offloads_inputs: false,
        weights_in_slices: false,
    };

    #[test]
    fn each_pass_has_the_cheapest_strategy() {
        let model = Model::load(&model_dir(), Arc::new(cpu())).unwrap();
        let tokens: Vec<Vec<u32>> = (0..5).map(|first| (first..first + 9).collect()).collect();
        let sequences: Vec<Sequence<'_>> =
            tokens.iter().map(|tokens| Sequence { tokens, score_from: 4 }).collect();
        let known = |slots| Some(OnPolicy { scores: Scores::default(), slots });
        let idle = [false, false, false, true, false];
        let strategies =
            |on_policy: &[Option<OnPolicy<'_>>], cache, micro_batch_tokens, tape_bytes| {
                let limits =
                    PassLimits { micro_batch_tokens, tape_bytes, activation_slots: 8, ..NO_ROOM };
                let masks = &SamplingMasks::default();
                let (sequences, idle) = (&sequences[..], &idle[..]);
                let (temperature, teacher) = (1.0, None);
                let batch = UpdateBatch { sequences, masks, idle, on_policy, temperature, teacher };
                passes(&batch, &limits, &TrainingRanks::alone(1), &model, cache)
                    .into_iter()
                    .map(|pass| {
                        let strategy = match pass.strategy {
                            PassStrategy::Cached { slots } => format!("cached {}", slots.len()),
                            PassStrategy::OnPolicy(_) => "on-policy".into(),
                            PassStrategy::Forward(kind) => format!("forward {kind:?}"),
                            PassStrategy::ScoreOnly(_) => "score only".into(),
                        };
                        (pass.sequences.len(), strategy)
                    })
                    .collect::<Vec<_>>()
            };
        let named = |expected: &[(usize, &str)]| -> Vec<(usize, String)> {
            expected.iter().map(|&(count, strategy)| (count, strategy.to_owned())).collect()
        };
        let each = |strategies: [&str; 5]| named(&strategies.map(|strategy| (1, strategy)));
        let slots = [7; 8];
        let mixed = [known(Some(&slots[..])), known(None), None, None, None];
        let (cached, forward) = (true, "forward Activations");
        let expected = ["cached 1", "on-policy", forward, "score only", forward];
        assert_eq!(strategies(&mixed, cached, 1, usize::MAX), each(expected));
        let expected = ["on-policy", "on-policy", forward, "score only", forward];
        assert_eq!(strategies(&mixed, false, 1, usize::MAX), each(expected), "without a cache");
        // The tapes of two passes wait, of eight tokens each, beside the least one of another pass.
        let bytes = |kind| 8 * model.layout.tape_bytes_per_token(&*model.backend, kind);
        let (all, least) = (bytes(TapeKind::Activations), bytes(TapeKind::BlockInputs));
        let (none, less) = ("score only", "forward LastBlocks(1)");
        let inputs = "forward BlockInputs";
        for (room, first, second) in [
            (2 * all + least, forward, forward),
            (2 * all + least - 1, forward, less),
            (3 * least, inputs, inputs),
            (3 * least - 1, inputs, none),
            (2 * least - 1, none, none),
        ] {
            let expected = ["cached 1", "on-policy", first, "score only", second];
            assert_eq!(strategies(&mixed, cached, 1, room), each(expected));
        }
        // Whole passes are cached or known, and idle ones never join others.
        let all = [(); 5].map(|()| known(Some(&slots[..])));
        let expected = [(3, "cached 3"), (1, "cached 1"), (1, "cached 1")];
        assert_eq!(strategies(&all, cached, 100, 0), named(&expected));
        let some = [&all[..1], &[known(None)][..], &all[..3]].concat();
        let expected =
            [(1, "cached 1"), (1, "on-policy"), (1, "cached 1"), (1, "cached 1"), (1, "cached 1")];
        assert_eq!(strategies(&some, cached, 100, 0), named(&expected));
        assert_eq!(strategies(&some, false, 100, 0)[0], (3, "on-policy".to_owned()));
        let expected = [(3, forward), (1, "score only"), (1, forward)];
        let mixed = [known(None), known(None), None, None, None];
        assert_eq!(strategies(&mixed, cached, 100, usize::MAX), named(&expected));
    }

    #[test]
    fn idle_passes_wait_between_blocks_in_the_memory_that_tapes_leave() {
        let model = Model::load(&model_dir(), Arc::new(cpu())).unwrap();
        let tokens: Vec<Vec<u32>> = (0..5).map(|first| (first..first + 9).collect()).collect();
        let sequences: Vec<Sequence<'_>> =
            tokens.iter().map(|tokens| Sequence { tokens, score_from: 4 }).collect();
        let bytes = |kind| 8 * model.layout.tape_bytes_per_token(&*model.backend, kind);
        let (all, least) = (bytes(TapeKind::Activations), bytes(TapeKind::BlockInputs));
        let batch = UpdateBatch {
            sequences: &sequences,
            masks: &SamplingMasks::default(),
            idle: &[false, true, true, false, true],
            on_policy: &vec![None; 5],
            temperature: 1.0,
            teacher: None,
        };
        for (tape_bytes, waiting) in [(2 * all + least, 2 * all), (2 * least, 2 * least)] {
            let slices = PassLimits { by_layer: true, weights_in_slices: true, ..NO_ROOM };
            let limits = PassLimits { tape_bytes, ..slices };
            let passes = passes(&batch, &limits, &TrainingRanks::alone(1), &model, false);
            let tapes: usize = passes.iter().map(|pass| pass.waiting_bytes(&model)).sum();
            assert_eq!(tapes, waiting);
            let most = limits.beside(tapes).tokens_between_blocks(&model);
            let taken = tapes + model.layout.input_bytes(&*model.backend, most);
            assert!(taken <= tape_bytes && most < limits.tokens_between_blocks(&model));
        }
    }

    #[test]
    fn micro_batches_hold_what_fits() {
        for (units, limit, expected) in [
            (&[(1, 3), (1, 3), (1, 3), (1, 3)][..], 6, &[(2, 6), (2, 6)][..]),
            (&[(1, 3), (1, 3), (1, 3), (1, 3)], 7, &[(2, 6), (2, 6)]),
            (&[(2, 9), (8, 1), (1, 1), (3, 9)], 2, &[(2, 9), (9, 2), (3, 9)]),
            (&[(1, 1), (1, 2), (1, 3)], 100, &[(3, 6)]),
            (&[], 5, &[]),
        ] {
            let units: Vec<Unit> =
                units.iter().map(|&(sequences, tokens)| Unit { sequences, tokens }).collect();
            let batches = micro_batches(&units, limit);
            let found: Vec<_> =
                batches.iter().map(|batch| (batch.sequences, batch.tokens)).collect();
            assert_eq!(found, expected);
        }
    }
}
