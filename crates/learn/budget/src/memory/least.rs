//! The least memory that a run needs, and the memory of its updates.

use super::{Demand, ENOUGH_SEQUENCES, LOSS_BYTES, OVERHEAD, PROCESS_BYTES, TeacherBytes};
use isentrope_kernels::Backend;
use isentrope_model::{Layout, SHARING_TOKENS, TapeKind};

/// The phases that take turns with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Update,
    Sampling,
    Scoring,
    /// Weights that ranks share are whole, to be loaded or saved.
    Loading,
}

/// The memory of updates beside weights, gradients and moments.
pub(super) struct Updates<'a> {
    backend: &'a dyn Backend,
    layout: &'a Layout,
    /// The bytes of an update that do not depend on its passes and are there beside them.
    pub whole: usize,
    /// Bytes of the embedding's gradient if it comes when all passes have left the blocks; 0 if it
    /// is there beside them.
    embedded: usize,
    /// The smallest kind of tape.
    pub least_kind: TapeKind,
    /// Its bytes for each token.
    pub least_tape: usize,
    /// Tokens of an update.
    pub tokens: usize,
    /// Sequences of a rank.
    sequences: usize,
    /// Least tokens of a pass: one sequence's, or all of several sequences that share a prompt.
    pub least_tokens: usize,
    /// Tokens of a rank, whose tapes must exist at once if gradients are complete layer by layer; 0
    /// if they are not.
    pub together: usize,
    /// The bytes of the optimizer, after the passes.
    optimizer: usize,
    /// The teacher's memory.
    teacher: TeacherBytes,
    /// Whether the loss has the exact divergence from it.
    is_taught: bool,
}

impl<'a> Updates<'a> {
    pub fn new(backend: &'a dyn Backend, layout: &'a Layout, demand: Demand) -> Self {
        let tokens = demand.trained.saturating_mul(demand.longest_trained);
        let least_tokens = demand.longest_trained.max(SHARING_TOKENS.min(tokens));
        // Shares of the tokens are even to one unit of sequences.
        let of_rank = tokens.div_ceil(demand.sets.ranks).saturating_add(least_tokens).min(tokens);
        let goes_by_layer = demand.sets.goes_by_layer();
        let together = if goes_by_layer { of_rank } else { 0 };
        let loss = demand.loss_tokens.saturating_mul(LOSS_BYTES);
        let loss = loss.saturating_add(demand.process_tokens.saturating_mul(PROCESS_BYTES));
        let embedded = layout.embedded_bytes(backend, of_rank);
        // By layer one model has its rows, until the end of its accumulation.
        let (rows, embedded) = match goes_by_layer {
            true => (0, embedded),
            false => (embedded.saturating_mul(demand.sets.trained()), 0),
        };
        // Gradients come from other devices while passes go on.
        let linked = demand.sets.linked_bytes(backend, layout);
        let least_kind = match demand.sets.offloads_inputs {
            true => TapeKind::OffloadedBlockInputs,
            false => TapeKind::BlockInputs,
        };
        // The teacher's rows stay with the tapes that wait.
        let taught = demand.teacher.row.saturating_mul(demand.waiting_tokens.max(together));
        Self {
            backend,
            layout,
            whole: loss.saturating_add(rows).saturating_add(linked).saturating_add(taught),
            embedded,
            least_kind,
            least_tape: layout.tape_bytes_per_token(backend, least_kind),
            tokens,
            sequences: demand.trained.div_ceil(demand.sets.ranks),
            least_tokens,
            together,
            optimizer: demand.sets.update_bytes(backend, layout),
            teacher: demand.teacher,
            is_taught: demand.is_taught,
        }
    }

    /// Bytes besides the tape, in passes of `pass` tokens.
    pub fn working(&self, pass: usize) -> usize {
        let of_passes = self.layout.working_bytes_per_token(self.backend).saturating_mul(pass);
        let of_passes = of_passes.saturating_add(self.head(pass)).saturating_add(self.input(pass));
        // The teacher of an exact divergence comes before the tapes.
        let of_teacher = if self.is_taught { self.teacher.pass(pass) } else { 0 };
        let of_passes = of_passes.max(of_teacher).saturating_add(self.rows(pass));
        of_passes.max(self.embedded).saturating_add(self.whole).max(self.optimizer)
    }

    /// Bytes of the head's logits in passes of `pass` tokens.
    pub fn head(&self, pass: usize) -> usize {
        match self.is_taught {
            true => self.layout.taught_head_bytes(self.backend, pass),
            false => self.layout.head_bytes(self.backend, pass),
        }
    }

    /// Bytes of the teacher's rows of a pass of `pass` tokens, once more while they are joined.
    pub fn rows(&self, pass: usize) -> usize {
        self.teacher.row.saturating_mul(2).saturating_mul(pass)
    }

    /// Bytes of a block's input that is back from the host's memory, in passes of `pass` tokens; 0
    /// if inputs wait on the device.
    pub fn input(&self, pass: usize) -> usize {
        match self.least_kind {
            TapeKind::OffloadedBlockInputs => self.layout.input_bytes(self.backend, pass),
            _ => 0,
        }
    }

    /// Bytes of the host's memory for the inputs of blocks in passes of `pass` tokens; 0 if they
    /// wait on the device.
    pub fn offloaded(&self, pass: usize) -> usize {
        if self.least_kind != TapeKind::OffloadedBlockInputs {
            return 0;
        }
        // Two neighbours have more tokens together than a pass may have, but where the first has a
        // signal or cached activations and the second has not, or a shard ends.
        let full = self.together.div_ceil(pass.max(1)).saturating_mul(2).saturating_add(2);
        let passes = full.saturating_add(self.sequences);
        let [one, all] =
            [1, self.together].map(|tokens| self.layout.offloaded_bytes(self.backend, tokens));
        // Each input of each pass may take a part of a block more.
        let blocks = all.saturating_add(one.saturating_mul(passes));
        blocks.checked_next_multiple_of(self.backend.host_slab()).unwrap_or(usize::MAX)
    }

    /// Bytes with the smallest tapes, in passes of `pass` tokens. The teacher's passes, which have
    /// no tape, come before the others.
    pub fn least_of(&self, pass: usize) -> usize {
        let tapes = pass.max(self.together).saturating_mul(self.least_tape);
        self.working(pass).saturating_add(tapes).max(self.teacher.pass(pass))
    }
}

/// Bytes of a pass over `tokens` tokens that only scores; 0 if the run has no such pass.
pub(super) fn scoring(
    backend: &dyn Backend,
    layout: &Layout,
    demand: Demand,
    tokens: usize,
) -> usize {
    if demand.scored > 0 { layout.working_bytes(backend, tokens) } else { 0 }
}

/// Least tokens of a pass that only scores.
pub(super) fn least_scored(demand: Demand) -> usize {
    demand.scored.max(SHARING_TOKENS)
}

/// The least memory that works, with one concurrent response and one sequence per pass.
#[derive(Clone, Copy)]
pub(super) struct Least {
    /// Weights, gradients and moments on the device.
    pub sets: [usize; 3],
    /// Weights beside these while no update learns.
    pub whole: usize,
    /// The memory to load, save and change such weights.
    pub changing: usize,
    /// The bytes that attention and linear layers take beside their buffers.
    pub of_blocks: usize,
    /// The bytes that stay in all phases.
    pub fixed: usize,
    /// The largest of the phases that take turns, each as small as possible. The gradient counts as
    /// part of updates.
    pub one: usize,
    /// Tokens that it works on.
    pub tokens: usize,
    /// The phase that needs the most.
    pub phase: Phase,
}

impl Least {
    pub fn of(backend: &dyn Backend, layout: &Layout, demand: Demand) -> Self {
        let mut sets = demand.sets.bytes(backend, layout);
        sets[0] = sets[0].saturating_add(demand.teacher.weights);
        let [weights, gradient, moments] = sets;
        let updates = Updates::new(backend, layout, demand);
        // While weights are loaded, one parameter has all its remainders, in memory that is a
        // layer's gradient later.
        let update = gradient.saturating_add(updates.least_of(updates.least_tokens));
        let pages = layout.pages_of_sequence(backend, demand.longest_sampled);
        let pages = pages.max(layout.least_pages(backend));
        let keys_and_values = pages.saturating_mul(layout.cache_page_bytes(backend));
        let logits = layout.draw_bytes(backend, demand.sampled.min(ENOUGH_SEQUENCES));
        let sampling = if demand.sampled > 0 { keys_and_values.saturating_add(logits) } else { 0 };
        let whole = demand.sets.whole_bytes(backend, layout);
        let changing = demand.sets.changing_bytes(backend, layout);
        let [sampling, loading] = [sampling, changing].map(|beside| whole.saturating_add(beside));
        let scored = least_scored(demand);
        let scoring = whole.saturating_add(scoring(backend, layout, demand, scored));
        let (one, tokens, phase) = (update, updates.least_tokens, Phase::Update)
            .max((sampling, demand.longest_sampled, Phase::Sampling))
            .max((loading, 0, Phase::Loading))
            .max((scoring, scored, Phase::Scoring));
        // Every phase needs workspace, and a device keeps memory that it once had.
        let longest = demand.longest_sampled.max(demand.longest_trained).max(demand.scored);
        let of_blocks = layout.block_bytes(backend, longest).max(demand.teacher.blocks);
        let fixed = [weights, moments, demand.kept_tokens, of_blocks]
            .into_iter()
            .fold(OVERHEAD, usize::saturating_add);
        Self { sets, whole, changing, of_blocks, fixed, one, tokens, phase }
    }

    /// All of it.
    pub fn bytes(&self) -> usize {
        self.fixed.saturating_add(self.one)
    }
}
