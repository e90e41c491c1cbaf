//! Compares the kinds of two models. Only a model of the same kind can continue from another's
//! weights, or be its reference.

use crate::error::{Error, Result};
use isentrope_model::ModelConfig;
use std::fs;
use std::path::Path;

/// The configuration and tokenizer of a model: with equal ones, two models share tokens and shapes
/// of weights.
pub(crate) struct ModelKind {
    config: ModelConfig,
    tokenizer: Vec<u8>,
}

impl ModelKind {
    /// Reads them from a model directory.
    pub(crate) fn of(dir: &Path) -> Result<Self> {
        // Keys of config.json that mean nothing to this program are not compared, nor is the form
        // in which weights are stored.
        let mut config = ModelConfig::read(dir)?;
        config.json.clear();
        config.remarks.clear();
        Ok(Self { config, tokenizer: tokenizer_of(dir)? })
    }

    /// The first file in which another model differs, if one does.
    pub(crate) fn differs_in(&self, other: &Self) -> Option<&'static str> {
        if self.config != other.config {
            return Some("config.json");
        }
        (self.tokenizer != other.tokenizer).then_some("tokenizer.json")
    }
}

/// The contents of tokenizer.json in a directory.
pub(crate) fn tokenizer_of(dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join("tokenizer.json");
    fs::read(&path).map_err(|e| Error::io(&path, e))
}
