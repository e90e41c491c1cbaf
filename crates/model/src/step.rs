//! Steps of sequences in the making: prefill and decoding are the same pass, over however many rows of however many
//! sequences.

use crate::block::Rows;
use crate::kv_cache::KvCache;
use crate::model::Model;
use crate::recording::{Recorded, Recording};
use isentrope_kernels::{Backend, Linear, Run};

/// The rows of one step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Position of each row in its sequence.
    pub positions: Vec<u32>,
    /// Rows that are consecutive positions of one sequence.
    pub runs: Vec<Run>,
    /// Page numbers that the runs refer to.
    pub table: Vec<u32>,
    /// Rows whose next token is wanted, ascending.
    pub wanted: Vec<u32>,
    /// Rows whose activations are to be recorded.
    recorded: Recorded,
}

impl Step {
    /// Adds rows for `tokens` of a sequence, from `position` on, whose pages (from its beginning) are `pages`. Wants the
    /// next token after the last if `wanted`. A sequence has at most one run in a step, and no run writes to a page that
    /// others hold.
    ///
    /// # Panics
    /// When there are no tokens.
    pub fn push(&mut self, tokens: &[u32], position: usize, pages: &[u32], wanted: bool) {
        assert!(!tokens.is_empty(), "a run without tokens");
        let (row, first_page) = (self.tokens.len(), self.table.len());
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((position..position + tokens.len()).map(|p| p as u32));
        self.table.extend_from_slice(pages);
        self.runs.push(Run { row, len: tokens.len(), position, pages: first_page..self.table.len() });
        if wanted {
            self.wanted.push((row + tokens.len() - 1) as u32);
        }
    }

    /// Has the rows pushed last recorded in `slots`, one for each.
    ///
    /// # Panics
    /// When there are not as many rows.
    pub fn record(&mut self, slots: &[u32]) {
        let rows = self.runs.last().map_or(0..0, |run| run.row..run.row + run.len);
        assert_eq!(rows.len(), slots.len(), "one slot for each row");
        self.recorded.rows.extend(rows.map(|row| row as u32));
        self.recorded.slots.extend(slots);
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.runs.clear();
        self.table.clear();
        self.wanted.clear();
        self.recorded.rows.clear();
        self.recorded.slots.clear();
    }
}

impl<B: Backend> Model<B> {
    /// Runs a step and returns the final hidden states (normed) of the wanted rows, `[wanted, hidden]`.
    /// The keys and values of all rows are in the cache afterwards, and what is to be recorded is in the recording.
    ///
    /// # Panics
    /// When a token is outside the vocabulary (see [`check_tokens`](Self::check_tokens)), a run has fewer pages than its
    /// positions need, a page is not in the cache, or there are rows to be recorded and no recording with their slots.
    pub fn step(
        &self,
        step: &Step,
        cache: &mut KvCache<B>,
        mut recording: Option<&mut Recording<B>>,
    ) -> B::Buffer {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let tokens = step.tokens.len();
        let rope = self.rope.up_to(b, step.positions.iter().max().map_or(0, |&p| p as usize + 1));
        let Step { positions, runs, table, recorded, .. } = step;
        assert!(recording.is_some() || recorded.rows.is_empty(), "rows are to be recorded");
        recording.take_if(|_| recorded.rows.is_empty());
        let rows = Rows { positions, runs, stored: runs, table, rope: &rope };
        let mut x = b.buffer(tokens * s.hidden);
        b.embed(s.table, &self.weights[self.layout.embedding], &step.tokens, &mut x);
        for (i, (block, cache)) in self.layout.blocks.iter().zip(&mut cache.layers).enumerate() {
            if let Some(recording) = &mut recording {
                recording.store_input(self, i, &x, recorded);
            }
            let internals = self.block_forward(block, &mut x, &rows, cache, recording.is_some());
            if let (Some(recording), Some(internals)) = (&mut recording, internals) {
                recording.store_internals(self, i, &internals, recorded);
            }
        }
        if let Some(recording) = recording {
            recording.store_last(self, &x, recorded);
        }
        let wanted = step.wanted.len();
        let mut last = b.buffer(wanted * s.hidden);
        b.gather_rows(s.hidden, &x, &step.wanted, &mut last);
        let mut normed = b.buffer(wanted * s.hidden);
        self.norm(&last, self.layout.norm, &mut normed, wanted);
        normed
    }

    /// Logits of rows of hidden states: `[rows, vocabulary]`.
    pub fn logits(&self, hidden: &B::Buffer, rows: usize, logits: &mut B::Buffer) {
        let head = &self.weights[self.layout.head];
        self.backend.linear(self.layout.shapes.table, hidden, head, None, logits, rows);
    }

    /// The shape of the head.
    pub fn head_shape(&self) -> Linear {
        self.layout.shapes.table
    }
}
