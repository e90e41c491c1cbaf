//! Weights in Hugging Face directories: safetensors files, alone or sharded behind an index, read
//! through a memory map and written atomically.

mod read;
mod write;

pub use read::Checkpoint;
pub use write::{
    Tensor, WeightDtype, WriteOptions, Writer, write_checkpoint, write_checkpoint_files, write_tensors,
};

/// The weights of a checkpoint in one file.
const SINGLE_FILE: &str = "model.safetensors";
/// Which shard holds which tensor.
const INDEX_FILE: &str = "model.safetensors.index.json";
/// Bytes of the little-endian length that opens a safetensors file.
const HEADER_LENGTH_BYTES: usize = 8;
/// Elements converted at a time between f32 and a file's own type: fits the first-level cache.
const CONVERSION_BLOCK: usize = 4096;
