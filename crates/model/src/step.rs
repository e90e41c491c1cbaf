//! Steps of sequences in the making: prefill and decoding are the same pass, over however many rows of however many
//! sequences.

use crate::block::Rows;
use crate::kv_cache::KvCache;
use crate::model::Model;
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

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.runs.clear();
        self.table.clear();
        self.wanted.clear();
    }
}

impl<B: Backend> Model<B> {
    /// Runs a step and returns the final hidden states (normed) of the wanted rows, `[wanted, hidden]`.
    /// The keys and values of all rows are in the cache afterwards.
    ///
    /// # Panics
    /// When a token is outside the vocabulary (see [`check_tokens`](Self::check_tokens)), a run has fewer pages than its
    /// positions need, or a page is not in the cache.
    pub fn step(&self, step: &Step, cache: &mut KvCache<B>) -> B::Buffer {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let tokens = step.tokens.len();
        let positions = step.positions.iter().max().map_or(0, |&p| p as usize + 1);
        let rope = self.rope.up_to(b, positions);
        let rows = Rows { positions: &step.positions, runs: &step.runs, table: &step.table, rope: &rope };
        let mut x = b.buffer(tokens * s.hidden);
        b.embed(s.table, &self.weights[self.layout.embedding], &step.tokens, &mut x);
        for (block, cache) in self.layout.blocks.iter().zip(&mut cache.layers) {
            self.block_forward(block, &mut x, &rows, cache, false);
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
