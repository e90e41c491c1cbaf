//! Steps of growing sequences: prefill and decoding are the same pass, over any number of rows of
//! any number of sequences.

use crate::activation_cache::{ActivationCache, CachedRows};
use crate::block::{CacheLayer, Rows};
use crate::kv_cache::KvCache;
use crate::layout::Mixer;
use crate::model::Model;
use crate::rope_table::Rotations;
use isentrope_kernels::{
    Backend, Buffer, Draw, Drawn, DrawnTokens, HostBatch, NO_SLOT, QueuedDraws, ReplayKey,
};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The rows of one step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    batch: HostBatch,
    /// Rows whose next token is wanted, ascending.
    pub wanted: Vec<u32>,
    /// Rows whose activations are to be cached.
    cached_rows: CachedRows,
}

impl Step {
    /// Adds rows for `tokens` of a sequence, from `position` on, whose pages (from its beginning)
    /// are `pages`. Wants the next token after the last if `wanted`. A sequence has at most one run
    /// in a step, and no run writes to a page that others hold.
    ///
    /// # Panics
    /// When there are no tokens.
    pub fn push(&mut self, tokens: &[u32], position: usize, pages: &[u32], wanted: bool) {
        assert!(!tokens.is_empty(), "a run without tokens");
        self.batch.push(tokens, position, pages);
        if wanted {
            self.wanted.push(self.batch.rows() as u32 - 1);
        }
    }

    /// Adds a row for a drawn token that the host may not know yet: that of draw number `draw`
    /// among those that [`Model::step_after`] gets. The next token is wanted.
    pub fn push_drawn(&mut self, draw: usize, position: usize, pages: &[u32]) {
        self.batch.push_drawn(draw, position, pages);
        self.wanted.push(self.batch.rows() as u32 - 1);
    }

    /// Gives the last pushed rows the sequence's recurrent state, in models that have one: it is
    /// read unless they begin the sequence, and replaced. No two runs have one state.
    pub fn go_on_from_state(&mut self, state: Option<u32>) {
        self.batch.states.extend(state);
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// The rows pushed last.
    pub fn last_rows(&self) -> Range<usize> {
        self.batch.runs.last().map_or(0..0, |run| run.row..run.row + run.len)
    }

    /// Marks the last pushed rows to have their activations cached in `slots`, one for each.
    ///
    /// # Panics
    /// When there are not as many rows.
    pub fn cache_activations(&mut self, slots: &[u32]) {
        let rows = self.last_rows();
        assert_eq!(rows.len(), slots.len(), "one slot for each row");
        self.cached_rows.rows.extend(rows.map(|row| row as u32));
        self.cached_rows.slots.extend(slots);
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.wanted.clear();
        self.cached_rows.rows.clear();
        self.cached_rows.slots.clear();
    }

    /// The step with padding: its counts of rows are rounded up as the backend
    /// [asks](Backend::round_up_rows). Padding rows are in no run, and their results are not used.
    fn padded(&self, backend: &dyn Backend) -> Cow<'_, Self> {
        let [rows, wanted, cached] = [self.rows(), self.wanted.len(), self.cached_rows.rows.len()];
        let [more_rows, more_wanted, more_cached] =
            [rows, wanted, cached].map(|count| backend.round_up_rows(count) - count);
        if more_rows + more_wanted + more_cached == 0 {
            return Cow::Borrowed(self);
        }
        let mut step = self.clone();
        step.batch.tokens.resize(rows + more_rows, 0);
        step.wanted.resize(wanted + more_wanted, 0);
        step.cached_rows.rows.resize(cached + more_cached, 0);
        step.cached_rows.slots.resize(cached + more_cached, NO_SLOT);
        Cow::Owned(step)
    }

    /// Whether each sequence has one row, as in decoding. Such steps repeat, and equal ones have
    /// equal [`ReplayKey`]s. (A chunk of a prompt may have one row too.)
    fn is_decoding(&self) -> bool {
        self.batch.runs.iter().all(|run| run.len == 1)
    }
}

impl Model {
    /// Runs a step and returns the final hidden states (normed) of the wanted rows, `[wanted,
    /// hidden]`, in a buffer that may have more rows. The keys and values of all rows are in the
    /// cache afterwards, and marked activations in the activation cache.
    ///
    /// # Panics
    /// When a token is outside the vocabulary (see [`check_tokens`](Self::check_tokens)), a run has
    /// fewer pages than its positions need, a page is not in the cache, or there are rows to be
    /// cached and no activation cache with their slots.
    pub fn step(
        &self,
        step: &Step,
        cache: &mut KvCache,
        activation_cache: Option<&mut ActivationCache>,
    ) -> Buffer {
        self.step_after(None, step, cache, activation_cache)
    }

    /// Like [`step`](Self::step), with rows for tokens of `drawn`, which the host may not know yet.
    ///
    /// # Panics
    /// As [`step`](Self::step), and when a row is for a draw that `drawn` does not have.
    pub fn step_after(
        &self,
        drawn: Option<&DrawnTokens>,
        step: &Step,
        cache: &mut KvCache,
        activation_cache: Option<&mut ActivationCache>,
    ) -> Buffer {
        assert!(
            activation_cache.is_some() || step.cached_rows.rows.is_empty(),
            "rows are to be cached"
        );
        let mut activation_cache = activation_cache.filter(|_| !step.cached_rows.rows.is_empty());
        let rope = self.rope.up_to(&*self.backend, step.batch.positions());
        // A step of experts brings their choice to the host, and cannot be replayed.
        if step.is_decoding() && self.config.experts.is_none() {
            let step = &*step.padded(&*self.backend);
            let key = self.replay_key(step, rope.positions, cache, activation_cache.as_deref());
            // The clone keeps the table alive through the step, even if another replaces it.
            self.backend.run_step(key, &mut || {
                self.advance(drawn, step, rope.clone(), cache, activation_cache.as_deref_mut())
            })
        } else {
            self.advance(drawn, step, rope, cache, activation_cache)
        }
    }

    /// Tells apart decoding steps whose operations or buffers have different shapes.
    fn replay_key(
        &self,
        step: &Step,
        positions: usize,
        cache: &KvCache,
        activation_cache: Option<&ActivationCache>,
    ) -> ReplayKey {
        ReplayKey {
            model: self.number,
            rows: step.rows(),
            wanted: step.wanted.len(),
            cached_rows: step.cached_rows.rows.len(),
            slots: activation_cache.map_or(0, ActivationCache::slots),
            pages: cache.pages(),
            positions,
        }
    }

    fn advance(
        &self,
        drawn: Option<&DrawnTokens>,
        step: &Step,
        rope: Arc<Rotations>,
        cache: &mut KvCache,
        activation_cache: Option<&mut ActivationCache>,
    ) -> Buffer {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let rows =
            &Rows { count: step.rows(), batch: b.upload_drawn_batch(&step.batch, drawn), rope };
        let cached_rows = activation_cache.as_ref().map(|_| step.cached_rows.upload(b));
        let mut activation_cache = activation_cache.zip(cached_rows.as_ref());
        let mut stream = self.embedded(rows);
        for (i, block) in self.layout.blocks.iter().enumerate() {
            if let Some((activation_cache, cached_rows)) = &mut activation_cache {
                activation_cache.store_input(b, i, &stream.x, cached_rows);
            }
            let layer = CacheLayer {
                cache: &mut cache.buffer,
                layer: block.cache_layer,
                states: match block.mixer {
                    Mixer::Attention(_) => None,
                    Mixer::Delta(_) => Some(&mut cache.states[block.cache_layer]),
                },
            };
            let internals =
                self.block_forward(i, &mut stream, rows, layer, activation_cache.is_some());
            if let (Some((activation_cache, cached_rows)), Some(internals)) =
                (&mut activation_cache, internals)
            {
                activation_cache.store_internals(b, i, &internals, cached_rows);
            }
        }
        if let Some((activation_cache, cached_rows)) = activation_cache {
            activation_cache.store_last(b, &stream.x, cached_rows);
        }
        let wanted = step.wanted.len();
        let mut last = self.activations(wanted, s.hidden);
        b.copy_rows(&stream.x, &b.upload_index(&step.wanted), &mut last);
        self.normed(&last, wanted)
    }

    /// Draws tokens from rows of final hidden states, `[rows, hidden]`; None if logits are not
    /// finite.
    pub fn draw(&self, hidden: &Buffer, draws: &[Draw]) -> Vec<Option<Drawn>> {
        let head = &self.weights[self.layout.head];
        self.backend.draw(self.layout.shapes.vocabulary, hidden, head, draws)
    }

    /// Begins to draw from rows of final hidden states. Returns the tokens on the device, and the
    /// draws to be [read](Self::drawn). No draw
    /// [departs](isentrope_kernels::Adjustments::departs).
    pub fn begin_draw(&self, hidden: &Buffer, draws: &[Draw]) -> (DrawnTokens, QueuedDraws) {
        let head = &self.weights[self.layout.head];
        self.backend.begin_draw(self.layout.shapes.vocabulary, hidden, head, draws)
    }

    /// The draws; `None` for logits that are not finite.
    pub fn drawn(&self, drawing: QueuedDraws) -> Vec<Option<Drawn>> {
        self.backend.read_draws(drawing)
    }

    /// An empty buffer for rows of final hidden states.
    pub fn hidden(&self, rows: usize) -> Buffer {
        self.activations(rows, self.layout.shapes.hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_kernels::{Cpu, Isa};
    use std::path::Path;

    /// A decoding step: each sequence's position, and the sizes that the step is asked for.
    #[derive(Clone)]
    struct Case {
        positions: Vec<usize>,
        wanted: usize,
        cached_rows: u32,
        slots: usize,
        pages: usize,
    }

    fn key(model: &Model, case: &Case) -> ReplayKey {
        let mut step = Step::default();
        for (i, &position) in case.positions.iter().enumerate() {
            let pages = vec![0; KvCache::pages_for(model, position + 1)];
            step.push(&[7 * i as u32], position, &pages, i < case.wanted);
            if (i as u32) < case.cached_rows {
                step.cache_activations(&[i as u32]);
            }
        }
        assert!(step.is_decoding());
        let cache = KvCache::new(model, case.pages).unwrap();
        let activation_cache = ActivationCache::new(model, case.slots).unwrap();
        let activation_cache = Some(&activation_cache).filter(|_| case.cached_rows > 0);
        let positions = model.rope.up_to(&*model.backend, step.batch.positions()).positions;
        model.replay_key(&step, positions, &cache, activation_cache)
    }

    #[test]
    fn steps_of_other_shapes_have_other_keys() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models/qwen3");
        let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
        let [model, other] = [(); 2].map(|()| Model::load(&dir, cpu.clone()).unwrap());
        let base =
            Case { positions: vec![3, 20, 9], wanted: 3, cached_rows: 2, slots: 5, pages: 8 };
        let first = key(&model, &base);
        // A chunk of a prompt may also be one row, without a next token to draw, and some rows are
        // not cached.
        for case in [
            Case { positions: vec![3, 20], wanted: 2, ..base.clone() },
            Case { wanted: 2, ..base.clone() },
            Case { cached_rows: 1, ..base.clone() },
            Case { cached_rows: 0, ..base.clone() },
            Case { slots: 6, ..base.clone() },
            Case { pages: 9, ..base.clone() },
        ] {
            assert_ne!(key(&model, &case), first);
        }
        assert_ne!(key(&other, &base), first, "two models share a backend");
        let later = Case { positions: vec![4, 21, 40], ..base.clone() };
        assert_eq!(key(&model, &later), first, "the next tokens are a step of the same shapes");
        let longer = Case { positions: vec![3, 20, 300], ..base };
        assert_ne!(key(&model, &longer), first, "more positions take more cosines and sines");
    }
}
