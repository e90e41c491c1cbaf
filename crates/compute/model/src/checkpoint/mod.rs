//! Weights in Hugging Face directories: safetensors files, alone or sharded behind an index, read
//! through a memory map and written atomically.

mod fingerprint;
mod read;
mod stored;
mod write;

pub use fingerprint::Fingerprint;
pub use read::Checkpoint;
pub(crate) use write::{COMPANIONS, copy_companions, write_json, write_safetensors};
pub use write::{
    MAX_SHARD_BYTES, Tensor, WeightDtype, WriteOptions, Writer, tensor_files, write_checkpoint,
    write_checkpoint_files, write_tensors,
};

/// Name of a checkpoint's only file.
const SINGLE_FILE: &str = "model.safetensors";
/// Map from tensors to shards.
const INDEX_FILE: &str = "model.safetensors.index.json";
/// Bytes of the little-endian header length at the start of a safetensors file.
const HEADER_LENGTH_BYTES: usize = 8;
/// Elements converted at a time between f32 and a file's type; they fit the first-level cache.
const CONVERSION_BLOCK: usize = 4096;
