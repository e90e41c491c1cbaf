//! Where metrics go.

mod error;
mod jsonl;
mod tensorboard;

pub use error::{Error, Result};
pub use jsonl::JsonlSink;
pub use tensorboard::TensorBoardSink;
