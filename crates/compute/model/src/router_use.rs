//! How routers have spread tokens over their experts.

use isentrope_kernels::Routing;
use serde::{Deserialize, Serialize};

/// Entropies are summed in these fractions of a nat, as integers: so the sum does not depend on the
/// order of micro-batches, shards and ranks.
const FRACTIONS: f64 = (1 << 24) as f64;

/// Choices of experts and entropies of routers, over some tokens in every block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterUse {
    /// By block.
    blocks: Vec<BlockUse>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct BlockUse {
    /// The number of choices of each expert, `[experts]`.
    choices: Vec<u64>,
    tokens: u64,
    /// Sum over tokens, in [`FRACTIONS`].
    entropy: u64,
}

impl RouterUse {
    /// Counts the tokens in these rows of a block's batch, a row as often as it is listed.
    pub(crate) fn count(&mut self, block: usize, routing: &Routing, rows: &[u32]) {
        let router = routing.routes.router;
        self.blocks.resize(self.blocks.len().max(block + 1), BlockUse::default());
        let BlockUse { choices, tokens, entropy } = &mut self.blocks[block];
        choices.resize(router.experts, 0);
        *tokens += rows.len() as u64;
        for row in rows.iter().map(|&row| row as usize) {
            for &expert in &routing.routes.experts[row * router.chosen..][..router.chosen] {
                choices[expert as usize] += 1;
            }
            *entropy += (f64::from(routing.entropies[row]) * FRACTIONS).round() as u64;
        }
    }

    /// Adds the use by other tokens.
    pub fn add(&mut self, other: &Self) {
        self.blocks.resize(self.blocks.len().max(other.blocks.len()), BlockUse::default());
        for (sum, more) in self.blocks.iter_mut().zip(&other.blocks) {
            sum.choices.resize(sum.choices.len().max(more.choices.len()), 0);
            sum.choices.iter_mut().zip(&more.choices).for_each(|(sum, more)| *sum += more);
            sum.tokens += more.tokens;
            sum.entropy += more.entropy;
        }
    }

    /// The entropy of the experts' probabilities, in nats: the mean over tokens and blocks. None
    /// without tokens.
    pub fn entropy(&self) -> Option<f64> {
        let sums = self.blocks.iter().fold((0, 0), |(entropy, tokens), block| {
            (entropy + u128::from(block.entropy), tokens + u128::from(block.tokens))
        });
        (sums.1 > 0).then(|| sums.0 as f64 / FRACTIONS / sums.1 as f64)
    }

    /// The choices of the busiest expert over those that each expert of its block would have if all
    /// were chosen equally often: the largest of any block. None without tokens.
    pub fn largest_load(&self) -> Option<f64> {
        let load = |block: &BlockUse| {
            let all: u64 = block.choices.iter().sum();
            let largest = block.choices.iter().max().copied().filter(|_| all > 0)?;
            Some(largest as f64 * block.choices.len() as f64 / all as f64)
        };
        self.blocks.iter().filter_map(load).reduce(f64::max)
    }

    /// The share of experts, of all blocks, that no token went to. None without tokens.
    pub fn unused(&self) -> Option<f64> {
        let used: Vec<bool> = self
            .blocks
            .iter()
            .filter(|block| block.tokens > 0)
            .flat_map(|block| block.choices.iter().map(|&choices| choices > 0))
            .collect();
        let unused = used.iter().filter(|used| !**used).count();
        (!used.is_empty()).then(|| unused as f64 / used.len() as f64)
    }
}
