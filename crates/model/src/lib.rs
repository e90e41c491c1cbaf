//! One decoder for every supported family: Hugging Face directories in and out, tokenizer and chat template,
//! forward and backward.

mod error;

pub use error::{Error, Result};
