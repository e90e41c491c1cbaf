//! `manifest.json`: which model, seed and settings a directory's results were made with.

use super::setting_changes::of_benchmark;
use crate::error::{Error, Result};
use isentrope_files::read_regular;
use isentrope_rollout::Sampling;
use isentrope_settings::differences;
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file's name.
pub(super) const MANIFEST: &str = "manifest.json";

/// Largest manifest that is read, in bytes.
const MAX_MANIFEST: u64 = 64 << 20;

/// The manifest of a directory that holds results.
pub(super) fn read_manifest(dir: &Path) -> Result<Option<Value>> {
    let path = dir.join(MANIFEST);
    match read_regular(&path, MAX_MANIFEST).map_err(io::Error::from) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&path, e)),
        Ok(text) => match serde_json::from_slice::<Value>(&text) {
            Ok(value) if value["benchmarks"].is_object() => Ok(Some(value)),
            _ => {
                Err(Error::invalid(&path, "it is not the manifest of an evaluation; name another directory"))
            }
        },
    }
}

/// How the responses to a benchmark with these settings are drawn, in words; none where they do not tell.
pub(super) fn decoding_of(settings: &Value) -> Option<String> {
    let number = |key: &str| settings[key].as_f64().map(|number| number as f32);
    let off = Sampling::default();
    let sampling = Sampling {
        temperature: number("temperature")?,
        top_k: settings["top_k"].as_u64().map_or(off.top_k, |k| k as usize),
        top_p: number("top_p").unwrap_or(off.top_p),
        min_p: number("min_p").unwrap_or(off.min_p),
        ..off
    };
    Some(sampling.decoding())
}

/// The manifest `before`, with the benchmarks that `now` adds.
///
/// # Errors
/// [`Error::Refused`] with every difference, when the two do not agree.
pub(super) fn merged(dir: &Path, mut before: Value, now: Value) -> Result<Value> {
    let mut changes = Vec::new();
    for (key, value) in now.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            // The path may be another if the files' contents are the same.
            ("model", model) => {
                differences("model", &before["model"]["sha256"], &model["sha256"], &mut changes);
            }
            ("benchmarks", Value::Object(benchmarks)) => {
                for (name, settings) in benchmarks {
                    match before["benchmarks"].get(name) {
                        Some(known) => of_benchmark(name, known, settings, &mut changes),
                        None => before["benchmarks"][name] = settings.clone(),
                    }
                }
            }
            _ => differences(key, &before[key], value, &mut changes),
        }
    }
    if changes.is_empty() {
        return Ok(before);
    }
    Err(Error::Refused(format!(
        "{} holds results of another model or other settings: {}; name another directory with --out, or remove it",
        dir.display(),
        changes.join(", ")
    )))
}
