//! The limits of training passes, and the tapes that fit in them.

use isentrope_kernels::Backend;
use isentrope_model::{Layout, Model, TapeKind};

/// Limits of a pass. No bit of the gradient depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLimits {
    /// Most tokens in one pass; a single larger unit of sequences has a pass of its own.
    pub micro_batch_tokens: usize,
    /// Bytes for the tapes of all passes, which forward passes keep for backward passes.
    pub tape_bytes: usize,
    /// Tokens whose activations can be cached from sampling to the update.
    pub activation_slots: usize,
    /// Whether all passes of an update go backward through a layer before any enters the one below.
    /// Then all their tapes exist at once, and gradients may be complete layer by layer.
    pub by_layer: bool,
    /// Whether the inputs of blocks wait in the host's memory, if passes go by layer.
    pub offloads_inputs: bool,
    /// Whether each rank has its slice of the weights alone while an update learns. Then passes go
    /// by layer forward as well, and no activations are cached.
    pub weights_in_slices: bool,
}

/// One of an update's passes.
#[derive(Clone, Copy, Debug)]
pub struct PassSize {
    /// Its tokens.
    pub tokens: usize,
    /// Whether it goes forward before the loss and is expected to go backward.
    pub waits: bool,
    /// Whether it is expected not to go backward.
    pub is_idle: bool,
}

/// The tape of one of an update's passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassTape {
    /// The forward pass before the loss makes it, and it waits for the backward pass.
    Waiting(TapeKind),
    /// A forward pass after the loss makes it, right before the backward pass.
    Later(TapeKind),
}

impl PassLimits {
    /// The numbers of an update's passes that go backward together: each by itself, or by layer all
    /// of them. If there are none, there is still a last set.
    pub fn sets(&self, passes: usize) -> Vec<usize> {
        if self.by_layer || passes == 0 { vec![passes] } else { vec![1; passes] }
    }

    /// The limits of passes beside tapes of this many bytes.
    pub fn beside(self, tapes: usize) -> Self {
        Self { tape_bytes: self.tape_bytes.saturating_sub(tapes), ..self }
    }

    /// Most tokens that may wait between two blocks at once, with no tape, in the memory of tapes.
    pub fn tokens_between_blocks(&self, model: &Model) -> usize {
        self.tape_bytes / model.layout.input_bytes(&*model.backend, 1).max(1)
    }

    /// The tape of passes that go backward together, right after they went forward: all
    /// activations, or the least if these do not fit. The plan has room for the least. It is
    /// nothing between them, because a pass that is larger than planned needs more memory beside
    /// its tape.
    pub fn tape_kind_of_set(&self, model: &Model, tokens: usize) -> TapeKind {
        if self.offloads_inputs {
            return TapeKind::OffloadedBlockInputs;
        }
        let all = model.layout.tape_bytes_per_token(&*model.backend, TapeKind::Activations);
        match tokens.saturating_mul(all) <= self.tape_bytes {
            true => TapeKind::Activations,
            false => TapeKind::BlockInputs,
        }
    }

    /// The tapes of an update's passes, which go forward in order, wait for the loss, and go
    /// backward in order; a tape is freed behind its backward pass. By layer, all tapes exist until
    /// the last pass has been made.
    ///
    /// If all tapes that are to wait fit, they keep as many blocks as fit. Otherwise the first
    /// passes have the smallest tape, and the rest make theirs after the loss. A pass that is
    /// expected to be idle has the smallest tape should it go backward after all.
    pub fn tapes(
        &self,
        backend: &dyn Backend,
        layout: &Layout,
        passes: &[PassSize],
    ) -> Vec<PassTape> {
        if self.offloads_inputs {
            let kind = TapeKind::OffloadedBlockInputs;
            let tape = |pass: &PassSize| match pass.waits {
                true => PassTape::Waiting(kind),
                false => PassTape::Later(kind),
            };
            return passes.iter().map(tape).collect();
        }
        let bytes = TapeBytes::of(backend, layout);
        let waits = |pass: &PassSize| pass.waits || (self.by_layer && !pass.is_idle);
        let waiting = passes.iter().filter(|pass| waits(pass)).map(|pass| pass.tokens);
        let waiting = waiting.fold(0, usize::saturating_add);
        // A pass with a later tape needs room beside the tapes that wait for passes behind it.
        let later = passes.iter().filter(|pass| !waits(pass)).map(|pass| pass.tokens).max();
        let mut room = self.tape_bytes.saturating_sub(bytes.of_tape(later.unwrap_or(0), 0));
        let of_all = bytes.most_blocks(waiting, room).or(self.by_layer.then_some(0));
        let mut kept: Vec<Option<usize>> = vec![None; passes.len()];
        let wait = passes.iter().zip(&mut kept).filter(|(pass, _)| waits(pass));
        match of_all {
            Some(blocks) => {
                room = room.saturating_sub(bytes.of_tape(waiting, blocks));
                for (PassSize { tokens, .. }, kept) in wait {
                    // The first passes keep one block more.
                    let more = bytes.one_more(*tokens, blocks).filter(|&more| more <= room);
                    room -= more.unwrap_or(0);
                    *kept = Some(blocks + usize::from(more.is_some()));
                }
            }
            None => {
                for (PassSize { tokens, .. }, kept) in wait {
                    let Some(rest) = room.checked_sub(bytes.of_tape(*tokens, 0)) else { break };
                    (room, *kept) = (rest, Some(0));
                }
            }
        }
        let mut waiting = 0_usize;
        let mut tapes: Vec<PassTape> = Vec::with_capacity(passes.len());
        for (PassSize { tokens, waits, .. }, kept) in passes.iter().zip(kept).rev() {
            tapes.push(match kept {
                Some(blocks) => {
                    waiting = waiting.saturating_add(bytes.of_tape(*tokens, blocks));
                    let kind = bytes.kind(blocks);
                    if *waits { PassTape::Waiting(kind) } else { PassTape::Later(kind) }
                }
                None if self.by_layer => PassTape::Later(bytes.kind(0)),
                None => {
                    let room = self.tape_bytes.saturating_sub(waiting);
                    PassTape::Later(bytes.kind(bytes.most_blocks(*tokens, room).unwrap_or(0)))
                }
            });
        }
        tapes.reverse();
        tapes
    }
}

/// Bytes of a tape for one token, by the number of last blocks that it keeps whole.
struct TapeBytes(Vec<usize>);

impl TapeBytes {
    fn of(backend: &dyn Backend, layout: &Layout) -> Self {
        let of = |blocks| layout.tape_bytes_per_token(backend, TapeKind::LastBlocks(blocks));
        Self((0..=layout.block_count()).map(of).collect())
    }

    /// The bytes of a tape that keeps this many blocks.
    fn of_tape(&self, tokens: usize, blocks: usize) -> usize {
        tokens.saturating_mul(self.0[blocks])
    }

    /// The further bytes of a tape that keeps one block more; none if it keeps all.
    fn one_more(&self, tokens: usize, blocks: usize) -> Option<usize> {
        let more = self.0.get(blocks + 1)? - self.0[blocks];
        Some(tokens.saturating_mul(more))
    }

    /// The most blocks that a tape in `room` bytes keeps; none if not even the inputs fit.
    fn most_blocks(&self, tokens: usize, room: usize) -> Option<usize> {
        self.0.partition_point(|bytes| tokens.saturating_mul(*bytes) <= room).checked_sub(1)
    }

    fn kind(&self, blocks: usize) -> TapeKind {
        match blocks {
            0 => TapeKind::BlockInputs,
            all if all == self.0.len() - 1 => TapeKind::Activations,
            some => TapeKind::LastBlocks(some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{cpu, layout};

    /// Whatever the room and the passes: the tapes that exist at the same time fit, if the least
    /// tape of each pass does, and more room never keeps less.
    #[test]
    fn tapes_that_exist_together_fit() {
        let (cpu, layout) = (cpu(), layout());
        let blocks = layout.block_count();
        let per_token = |kind| layout.tape_bytes_per_token(&cpu, kind);
        let kept = |kind| match kind {
            TapeKind::Activations => blocks,
            TapeKind::LastBlocks(last) => last,
            TapeKind::BlockInputs | TapeKind::OffloadedBlockInputs => 0,
        };
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut mixed, mut partly) = (0, 0);
        for _ in 0..300 {
            let passes: Vec<PassSize> = (0..1 + random(8))
                .map(|_| {
                    let (tokens, waits) = (random(50), random(3) > 0);
                    PassSize { tokens, waits, is_idle: !waits && random(2) > 0 }
                })
                .collect();
            let most = passes.iter().map(|pass| pass.tokens).max().unwrap_or(0);
            let least = most * per_token(TapeKind::BlockInputs);
            let all: usize = passes.iter().map(|pass| pass.tokens).sum();
            let mut before = 0;
            for part in 0..=20 {
                let tape_bytes = least + all * per_token(TapeKind::Activations) * part / 18;
                let limits = PassLimits {
                    micro_batch_tokens: 50,
                    tape_bytes,
                    activation_slots: 0,
                    by_layer: false,
                    offloads_inputs: false,
                    weights_in_slices: false,
                };
                let tapes = limits.tapes(&cpu, &layout, &passes);
                assert_eq!(tapes.len(), passes.len());
                let by_layer = PassLimits { by_layer: true, ..limits };
                let together = by_layer.tapes(&cpu, &layout, &passes).into_iter().zip(&passes);
                let together: usize = together
                    .map(|(tape, pass)| match tape {
                        PassTape::Waiting(kind) | PassTape::Later(kind) => {
                            assert_eq!(pass.waits, matches!(tape, PassTape::Waiting(_)));
                            assert!(!pass.is_idle || kind == TapeKind::BlockInputs);
                            if pass.is_idle { 0 } else { pass.tokens * per_token(kind) }
                        }
                    })
                    .sum();
                let busy = passes.iter().filter(|pass| !pass.is_idle);
                let inputs = busy.map(|pass| pass.tokens).sum::<usize>();
                let inputs = inputs * per_token(TapeKind::BlockInputs);
                assert!(together <= tape_bytes.max(inputs), "{passes:?} by layer");
                let held = |pass: &PassSize, kind| pass.tokens * per_token(kind);
                let mut waiting = 0;
                for (pass, tape) in passes.iter().zip(&tapes).rev() {
                    let own = match *tape {
                        PassTape::Waiting(kind) => {
                            assert!(pass.waits);
                            waiting += held(pass, kind);
                            0
                        }
                        PassTape::Later(kind) => held(pass, kind),
                    };
                    assert!(waiting + own <= tape_bytes, "{passes:?} {tapes:?}");
                }
                // A tape that waits saves a forward pass, and once more the blocks that it keeps.
                let saved = |(pass, tape): (&PassSize, &PassTape)| match *tape {
                    PassTape::Waiting(kind) => pass.tokens * (blocks + kept(kind)),
                    PassTape::Later(_) => 0,
                };
                let now: usize = passes.iter().zip(&tapes).map(saved).sum();
                assert!(now >= before, "{passes:?} {tapes:?}");
                before = now;
                let has = |wanted: fn(&PassTape) -> bool| tapes.iter().any(wanted);
                partly +=
                    usize::from(has(|t| matches!(t, PassTape::Waiting(TapeKind::LastBlocks(_)))));
                let waits = passes.iter().filter(|pass| pass.waits).count();
                let made = tapes.iter().filter(|t| matches!(t, PassTape::Waiting(_))).count();
                mixed += usize::from(made > 0 && made < waits);
            }
        }
        assert!(mixed > 20 && partly > 20, "{mixed} {partly}");
    }
}
