//! The passes of an update: how its sequences are cut into micro-batches, and which way each goes through the model.
//!
//! A pass costs a forward and a backward pass at most. What the sampler knows of on-policy responses, and what the loss is
//! expected to leave out, saves one or both of them without changing a bit of the gradient.

use isentrope_kernels::Backend;
use isentrope_model::{Keep, Layout, Model, Packed, Recording, Scores, Sequence, Tape, Unit, units};
use std::ops::Range;

/// What bounds a pass. The gradient's bits do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLimits {
    /// Most tokens in one pass, more only where a single unit of sequences is larger.
    pub micro_batch_tokens: usize,
    /// Bytes for the tapes of all passes: what forward passes keep for the backward passes.
    pub tape_bytes: usize,
    /// Tokens whose activations can be cached from sampling to the update.
    pub activation_slots: usize,
}

impl PassLimits {
    /// What the tapes of forward passes over so many tokens can keep, if anything.
    fn keep(&self, layout: &Layout, tokens: usize) -> Option<Keep> {
        [Keep::Activations, Keep::BlockInputs]
            .into_iter()
            .find(|&keep| tokens.saturating_mul(layout.tape_bytes_per_token(keep)) <= self.tape_bytes)
    }

    /// What the tape keeps of a single pass that goes backward right after it went forward.
    pub(crate) fn keep_one(&self, layout: &Layout, tokens: usize) -> Keep {
        self.keep(layout, tokens).unwrap_or(Keep::BlockInputs)
    }
}

/// What the sampler knows of a sequence that the model in training has sampled, with its weights as they are.
#[derive(Clone)]
pub struct OnPolicy<'a> {
    /// Log-probs and entropies of its targets: the model's own, to the last bit.
    pub scores: Scores,
    /// The slots of its inputs in the activation cache, if it is there.
    pub slots: Option<&'a [u32]>,
}

/// The sequences of an update, with what is known of each before any goes through the model.
#[derive(Clone, Copy)]
pub(crate) struct Minibatch<'a> {
    pub sequences: &'a [Sequence<'a>],
    /// Whether the loss is expected to leave a sequence out, `[sequences]`.
    pub idle: &'a [bool],
    /// `[sequences]`.
    pub on_policy: &'a [Option<OnPolicy<'a>>],
}

/// One micro-batch: what goes through the model at a time.
pub(crate) struct Pass<'a, B: Backend> {
    pub sequences: &'a [Sequence<'a>],
    pub on_policy: &'a [Option<OnPolicy<'a>>],
    /// Which targets of the minibatch are its own.
    pub targets: Range<usize>,
    pub way: Way<'a, B>,
}

/// The way of a pass through the model.
pub(crate) enum Way<'a, B: Backend> {
    /// On-policy, and its activations are cached since sampling: it never goes forward.
    Cached { cache: &'a Recording<B>, slots: Vec<&'a [u32]> },
    /// On-policy: it goes forward after the loss, and backward while its tape is still in the processor's cache.
    OnPolicy,
    /// It goes forward before the loss, and its tape waits for the backward pass.
    Forward(Keep),
    /// It goes forward before the loss without a tape, since it is idle or the memory is short, and again after the loss if
    /// that says something about it after all.
    ScoreOnly,
}

/// Cuts the minibatch into passes in order, each idle as a whole or not at all, and decides the way of each.
pub(crate) fn passes<'a, B: Backend>(
    minibatch: Minibatch<'a>,
    limits: &PassLimits,
    layout: &Layout,
    cache: Option<&'a Recording<B>>,
) -> Vec<Pass<'a, B>> {
    let Minibatch { sequences, on_policy, .. } = minibatch;
    let cuts = cut(minibatch, limits.micro_batch_tokens);
    let is_on_policy = |cut: &Cut| on_policy[cut.sequences.clone()].iter().all(Option::is_some);
    // Their tapes exist at the same time.
    let waiting = cuts.iter().filter(|cut| !cut.idle && !is_on_policy(cut));
    let keep = limits.keep(layout, waiting.map(|cut| cut.tokens).sum());
    let pass = |cut: Cut| {
        let way = match keep {
            _ if is_on_policy(&cut) => Way::on_policy(&on_policy[cut.sequences.clone()], cache),
            Some(keep) if !cut.idle => Way::Forward(keep),
            _ => Way::ScoreOnly,
        };
        let Cut { sequences: range, targets, .. } = cut;
        Pass { sequences: &sequences[range.clone()], on_policy: &on_policy[range], targets, way }
    };
    cuts.into_iter().map(pass).collect()
}

impl<'a, B: Backend> Way<'a, B> {
    fn on_policy(sequences: &'a [Option<OnPolicy<'a>>], cache: Option<&'a Recording<B>>) -> Self {
        let slots = sequences.iter().map(|sequence| sequence.as_ref()?.slots).collect();
        match (cache, slots) {
            (Some(cache), Some(slots)) => Self::Cached { cache, slots },
            _ => Self::OnPolicy,
        }
    }
}

impl<'a, B: Backend> Pass<'a, B> {
    /// Its scores before the loss, and its tape where that is to wait for the backward pass.
    pub fn forward(&self, model: &Model<B>, temperature: f32) -> (Scores, Option<Tape<'a, B>>) {
        match self.way {
            Way::Cached { .. } | Way::OnPolicy => (self.sampled(), None),
            Way::Forward(keep) => {
                let (scores, tape) = model.forward(self.packed(), temperature, keep);
                (scores, Some(tape))
            }
            Way::ScoreOnly => (model.score(&self.packed(), temperature), None),
        }
    }

    /// The tape of a pass that has kept none, made for the backward pass that follows; and its scores once more.
    pub fn tape(&self, model: &Model<B>, temperature: f32, limits: &PassLimits) -> (Scores, Tape<'a, B>) {
        let packed = self.packed();
        match &self.way {
            Way::Cached { cache, slots } => model.recall(packed, temperature, cache, slots),
            Way::OnPolicy | Way::Forward(_) | Way::ScoreOnly => {
                let keep = limits.keep_one(&model.layout, packed.token_count());
                model.forward(packed, temperature, keep)
            }
        }
    }

    fn packed(&self) -> Packed {
        Packed::new(self.sequences)
    }

    /// The scores of on-policy sequences.
    fn sampled(&self) -> Scores {
        let mut scores = Scores::default();
        self.on_policy.iter().flatten().for_each(|sequence| scores.extend(sequence.scores.clone()));
        scores
    }
}

/// Where a minibatch is cut.
struct Cut {
    sequences: Range<usize>,
    targets: Range<usize>,
    tokens: usize,
    idle: bool,
}

/// Micro-batches that are idle as a whole or not at all, in order.
fn cut(Minibatch { sequences, idle, .. }: Minibatch<'_>, limit: usize) -> Vec<Cut> {
    let mut rest = idle;
    let units: Vec<(Unit, bool)> = units(sequences)
        .into_iter()
        .map(|unit| {
            let (own, others) = rest.split_at(unit.sequences);
            rest = others;
            (unit, own.iter().all(|&idle| idle))
        })
        .collect();
    let mut cuts = Vec::new();
    let (mut sequence, mut target) = (0, 0);
    for alike in units.chunk_by(|a, b| a.1 == b.1) {
        let idle = alike[0].1;
        let alike: Vec<Unit> = alike.iter().map(|&(unit, _)| unit).collect();
        for Unit { sequences: count, tokens } in micro_batches(&alike, limit) {
            let range = sequence..sequence + count;
            let targets: usize = sequences[range.clone()].iter().map(Sequence::target_count).sum();
            cuts.push(Cut { sequences: range, targets: target..target + targets, tokens, idle });
            sequence += count;
            target += targets;
        }
    }
    cuts
}

/// Consecutive units whose tokens together are at most `limit`, or a single larger one; returns the sum of each.
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

    #[test]
    fn micro_batches_hold_what_fits() {
        let split = |units: &[(usize, usize)], limit| {
            let units: Vec<Unit> =
                units.iter().map(|&(sequences, tokens)| Unit { sequences, tokens }).collect();
            micro_batches(&units, limit)
                .iter()
                .map(|batch| (batch.sequences, batch.tokens))
                .collect::<Vec<_>>()
        };
        assert_eq!(split(&[(1, 3), (1, 3), (1, 3), (1, 3)], 6), [(2, 6), (2, 6)]);
        assert_eq!(split(&[(1, 3), (1, 3), (1, 3), (1, 3)], 7), [(2, 6), (2, 6)]);
        assert_eq!(split(&[(2, 9), (8, 1), (1, 1), (3, 9)], 2), [(2, 9), (9, 2), (3, 9)]);
        assert_eq!(split(&[(1, 1), (1, 2), (1, 3)], 100), [(3, 6)]);
        assert!(split(&[], 5).is_empty());
    }
}
