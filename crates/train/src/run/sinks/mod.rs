//! Where metrics go.

mod jsonl;
mod tensorboard;

pub use jsonl::JsonlSink;
pub use tensorboard::TensorBoardSink;
