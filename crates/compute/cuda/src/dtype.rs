//! The type of the numbers in a buffer.

/// The type in which activations, weights, keys and values are kept. Inside operations everything
/// is f32. Gradients, moments and exact buffers are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// f32, with the arithmetic of the CPU, to the last bit, and its order of numbers in buffers.
    F32,
    /// bf16, with products by the tensor core. Weights are a bf16 and a 16-bit rest, together an
    /// exact f32.
    Bf16,
}
