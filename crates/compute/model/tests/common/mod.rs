//! Shared by the integration tests: the tiny checkpoints, and hand-made safetensors files.

use std::fs;
use std::path::{Path, PathBuf};

use isentrope_model::Result;
use isentrope_model::tokenizer::Tokenizer;

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Directory of a tiny checkpoint saved by transformers.
pub fn oracle(name: &str) -> PathBuf {
    fixtures().join("models").join(name)
}

/// The names of all such checkpoints.
pub fn oracles() -> Vec<String> {
    let entries = fs::read_dir(fixtures().join("models")).unwrap().map(|entry| entry.unwrap());
    let checkpoints = entries.filter(|entry| entry.path().join("config.json").exists());
    let mut names: Vec<String> =
        checkpoints.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 18, "fixtures are missing");
    names
}

/// The tokenizer of this tokenizer.json.
pub fn tokenizer_of(json: &str) -> Result<Tokenizer> {
    let dir = directory(&[("tokenizer.json", json.as_bytes())]);
    Tokenizer::read(dir.path()).map(Option::unwrap)
}

/// A safetensors file with this header and data, whatever they say of each other.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A directory that holds these files.
pub fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}
