//! Shared by the integration tests: the tiny checkpoints, and hand-made safetensors files.

use std::fs;
use std::path::{Path, PathBuf};

pub const ORACLES: [&str; 6] =
    ["llama-mha", "llama3", "mistral-sliding", "qwen2-tied", "qwen2-untied", "qwen3"];

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
    assert!(names.len() >= 19, "fixtures are missing");
    names
}

/// A safetensors file with this header and data, whatever they say of each other.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A directory that holds these files.
pub fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}
