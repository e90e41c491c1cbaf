//! `manifest.json`: the model, seed, date, arithmetic and settings of a directory's results.

use super::setting_changes::{of_all_benchmarks, of_benchmark};
use crate::error::{Error, Result};
use isentrope_files::read_regular;
use isentrope_model::chat_template::Date;
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
            _ => Err(Error::invalid(
                &path,
                "it is not the manifest of an evaluation; name another directory",
            )),
        },
    }
}

/// The date in the prompts, if a directory holds results of a chat template that asks for one.
pub(super) fn date_of(dir: &Path) -> Result<Option<Date>> {
    let manifest = read_manifest(dir)?.unwrap_or_default();
    let date = manifest.get("date").map(|date| date.as_str().unwrap_or_default().parse());
    date.transpose().map_err(|what| Error::invalid(&dir.join(MANIFEST), format!("date: {what}")))
}

/// How the responses to a benchmark with these settings are drawn, in words; none if the settings
/// do not say.
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
pub(super) fn merged(dir: &Path, mut before: Value, now: &Value) -> Result<Value> {
    let mut changes = Vec::new();
    // Models with the same files are the same, whatever their paths.
    differences("model", &before["model"]["sha256"], &now["model"]["sha256"], &mut changes);
    of_all_benchmarks(&before, now, &mut changes);
    for (name, settings) in now["benchmarks"].as_object().into_iter().flatten() {
        match before["benchmarks"].get(name) {
            Some(known) => of_benchmark(name, known, settings, &mut changes),
            None => before["benchmarks"][name] = settings.clone(),
        }
    }
    if changes.is_empty() {
        return Ok(before);
    }
    Err(Error::Refused(format!(
        "{} holds results of another model or other settings: {}; name another directory with \
         --out, or remove it",
        dir.display(),
        changes.join(", ")
    )))
}
