//! The files of a repository that make up a model.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::id::is_plain_path;
use crate::{Error, Result};

/// Files besides the weights, fetched if the repository has them.
pub(crate) const COMPANIONS: [&str; 11] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

/// Folder of named chat templates other than the default.
const TEMPLATES: &str = "additional_chat_templates/";

/// Weights in one file.
pub(crate) const SINGLE: &str = "model.safetensors";

/// Map from tensors to shards, for weights in several files.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Largest index read, in bytes.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Form of the weights.
#[derive(Debug, PartialEq)]
pub(crate) enum Weights {
    Single,
    Sharded,
}

/// The [`COMPANIONS`] and chat templates among `names`.
pub(crate) fn companions(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| {
        COMPANIONS.contains(name) || (name.starts_with(TEMPLATES) && name.ends_with(".jinja"))
    })
}

/// The form of the weights among `names`, or why none can be used. A single file wins over shards,
/// as in transformers.
pub(crate) fn weights(names: &[String]) -> Result<Weights, String> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if !has("config.json") {
        return Err("not a model that can be loaded: the repository has no config.json".into());
    }
    if has(SINGLE) {
        return Ok(Weights::Single);
    }
    if has(INDEX) {
        return Ok(Weights::Sharded);
    }
    let ending =
        |ends: &[&str]| names.iter().find(|name| ends.iter().any(|end| name.ends_with(end)));
    Err(if let Some(name) = ending(&[".bin", ".pt", ".pth"]) {
        format!(
            "the weights are Python pickles ({name}), which can run code when they are read; a revision or a \
             conversion in safetensors is needed"
        )
    } else if let Some(name) = ending(&[".safetensors", ".gguf"]) {
        format!("the repository has {name} but no {SINGLE} or {INDEX}")
    } else {
        format!("the repository has no weights ({SINGLE} or {INDEX})")
    })
}

/// The shards that the index at `path` names, sorted.
pub(crate) fn shards(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = isentrope_files::read_regular(path, MAX_INDEX_BYTES);
    let bytes = bytes.map_err(|error| Error::io(path, error.into()))?;
    let index: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::invalid(path, format!("not valid JSON: {error}")))?;
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::invalid(path, "weight_map is missing or not an object"))?;
    map.iter()
        .map(|(tensor, shard)| match shard.as_str() {
            Some(shard) if is_plain_path(shard) && !shard.contains('/') => Ok(shard.to_owned()),
            _ => Err(Error::invalid(
                path,
                format!("weight_map.{tensor}: {shard} is not a file name"),
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_single_file_wins_over_shards_and_unusable_weights_are_named() {
        assert_eq!(weights(&names(&["config.json", SINGLE, INDEX])), Ok(Weights::Single));
        assert_eq!(
            weights(&names(&["config.json", "consolidated.safetensors", INDEX])),
            Ok(Weights::Sharded)
        );
        for (list, word) in [
            (&["model.safetensors"][..], "config.json"),
            (&["config.json"], "no weights"),
            (&["config.json", "pytorch_model.bin"], "pytorch_model.bin"),
            (&["config.json", "consolidated.safetensors"], "consolidated.safetensors"),
        ] {
            let why = weights(&names(list)).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn other_files_are_no_companions() {
        let list = names(&[
            "README.md",
            "config.json",
            "additional_chat_templates/tool_use.jinja",
            "onnx/config.json",
            "training_args.bin",
            "tokenizer.json",
        ]);
        let taken: Vec<_> = companions(&list).collect();
        assert_eq!(
            taken,
            ["config.json", "additional_chat_templates/tool_use.jinja", "tokenizer.json"]
        );
    }
}
