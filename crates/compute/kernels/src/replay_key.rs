//! Keys of decoding steps.

/// Everything that determines the operations of a decoding step and the shapes of their buffers.
/// Steps with equal keys differ only in their input numbers and in the lengths of their sequences,
/// by which a backend's attention may divide its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplayKey {
    /// A number unique among the models of the process. It stands for the shapes of all layers.
    pub model: u64,
    /// Rows of the batch, each from another sequence.
    pub rows: usize,
    /// Rows whose next token is wanted.
    pub wanted: usize,
    /// Rows whose activations are cached.
    pub cached_rows: usize,
    /// Slots of the activation cache; 0 if no rows go there.
    pub slots: usize,
    /// Pages of the cache of keys and values.
    pub pages: usize,
    /// Positions of the rotary embedding's cosines and sines.
    pub positions: usize,
}
