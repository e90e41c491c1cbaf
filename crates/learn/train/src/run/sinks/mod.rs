//! The files that metrics are written to.

mod jsonl;
mod tensorboard;

pub use jsonl::JsonlSink;
pub use tensorboard::TensorBoardSink;
