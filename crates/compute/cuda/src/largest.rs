//! The largest shapes that the kernels take, on every GPU.

use crate::attention::MOST_FEATURES;
use crate::delta_rule;

/// The largest shapes that kernels take. They follow from registers, shared memory and the number
/// of blocks in a launch's second dimension. Published models are far below all of them, except for
/// the features of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestShapes {
    /// Features of a head.
    pub head_dim: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Features of the residual stream, between the two halves of an MLP, or of all heads together.
    pub features: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Features of a query, a key or a value of linear attention.
    pub delta_dim: usize,
}

/// See [`LargestShapes`].
pub const LARGEST_SHAPES: LargestShapes = LargestShapes {
    head_dim: MOST_FEATURES,
    kv_heads: MOST_BLOCKS,
    // Layers that are computed together have up to three times as many outputs.
    features: 1 << 20,
    vocabulary: 1 << 21,
    delta_dim: delta_rule::MOST_FEATURES,
};

/// Most blocks of a launch in its second dimension.
const MOST_BLOCKS: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Purpose;

    /// The least shared memory of GPUs of these architectures, less two KiB for the kernels' static
    /// arrays.
    const SHARED: u32 = (99 - 2) << 10;

    #[test]
    fn the_largest_shapes_are_within_what_launches_may_have() {
        let LargestShapes { features, vocabulary, delta_dim, .. } = LARGEST_SHAPES;
        // Products have a tile of 64 outputs in the second dimension.
        assert!((3 * features).max(vocabulary).div_ceil(64) <= MOST_BLOCKS);
        // Draws need the most shared memory: 8 bytes for each 256 tokens, and for each 512.
        assert!(Purpose::Draws.shared(vocabulary) <= SHARED);
        assert!(delta_rule::gradient_shared(delta_dim, delta_dim) <= SHARED);
    }
}
