//! Numerics on flat buffers.
