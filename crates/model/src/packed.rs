//! Whole sequences packed end to end, without padding, for training and scoring.

use isentrope_kernels::{PAGE, Run};

/// A sequence whose tokens from `score_from` on are to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// All tokens.
    pub tokens: &'a [u32],
    /// Index of the first token that is a target; the token before it is the first that predicts. 0 is taken
    /// as 1: nothing predicts the first token.
    pub score_from: usize,
}

impl Sequence<'_> {
    /// How many of its tokens are scored.
    pub fn target_count(&self) -> usize {
        self.tokens.len().saturating_sub(self.first_target())
    }

    fn first_target(&self) -> usize {
        self.score_from.max(1)
    }
}

/// Sequences of one micro-batch. Results come one per target, in order of sequences and of tokens in them. A batch
/// without targets is allowed: it has no results and adds nothing to a gradient.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Inputs: every token of each sequence but its last.
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) runs: Vec<Run>,
    /// Numbers of consecutive pages, for a cache that holds this batch alone.
    pub(crate) table: Vec<u32>,
    /// Rows that predict a target.
    pub(crate) rows: Vec<u32>,
    pub(crate) targets: Vec<u32>,
}

impl Packed {
    /// Packs sequences. One without targets takes no room.
    pub fn new(sequences: &[Sequence<'_>]) -> Self {
        let mut packed = Self {
            tokens: Vec::new(),
            positions: Vec::new(),
            runs: Vec::new(),
            table: Vec::new(),
            rows: Vec::new(),
            targets: Vec::new(),
        };
        for sequence in sequences {
            let from = sequence.first_target();
            if sequence.target_count() == 0 {
                continue;
            }
            let inputs = sequence.tokens.len() - 1;
            let row = packed.tokens.len();
            let first_page = packed.table.len();
            packed.table.extend((first_page..first_page + inputs.div_ceil(PAGE)).map(|p| p as u32));
            packed.runs.push(Run { row, len: inputs, position: 0, pages: first_page..packed.table.len() });
            packed.tokens.extend_from_slice(&sequence.tokens[..inputs]);
            packed.positions.extend(0..inputs as u32);
            packed.rows.extend((row + from - 1..row + inputs).map(|r| r as u32));
            packed.targets.extend_from_slice(&sequence.tokens[from..]);
        }
        packed
    }

    /// Tokens that go through the model.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Targets, and so results.
    pub fn target_count(&self) -> usize {
        self.targets.len()
    }
}
