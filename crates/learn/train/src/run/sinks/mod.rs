//! The files that metrics are written to.

mod appended_file;
mod jsonl;
mod tensorboard;

pub use jsonl::JsonlSink;
pub use tensorboard::TensorBoardSink;
