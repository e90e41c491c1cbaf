//! The files of a repository that make up a model.

use crate::{Names, Result, gguf};

/// Files besides the weights, fetched if the repository has them.
const COMPANIONS: [&str; 12] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/tool_use.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

/// Weights in one file.
const SINGLE: &str = "model.safetensors";

/// Map from tensors to shards, for weights in several files.
const INDEX: &str = "model.safetensors.index.json";

/// The files of a model to fetch.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Parts {
    /// All but the weights.
    Description,
    All,
}

/// Chooses the files of a model, or says why it cannot be used.
pub(crate) fn select(names: Names<'_>, parts: Parts) -> Result<Vec<String>, String> {
    let (all, is_whole) = match names {
        Names::All(names) => (names, true),
        Names::Cached(names) => (names, false),
    };
    let has = |wanted: &str| all.iter().any(|name| name == wanted);
    let gguf = all.iter().find(|name| name.ends_with(gguf::ENDING));
    if let (false, Some(name)) = (all.iter().any(|name| name.ends_with(".safetensors")), gguf) {
        return Err(format!(
            "the repository has only GGUF weights ({name}); take the model that they were made from"
        ));
    }
    if !has("config.json") {
        return Err("not a model that can be loaded: the repository has no config.json".into());
    }
    // Some models come without a tokenizer, but then all names are known.
    if !is_whole && !has("tokenizer.json") {
        return Err("tokenizer.json is missing".into());
    }
    let weights = weights(all, is_whole)?;
    let mut chosen: Vec<&str> = COMPANIONS.into_iter().filter(|name| has(name)).collect();
    if parts == Parts::All {
        chosen.extend(weights);
    }
    Ok(chosen.into_iter().map(str::to_owned).collect())
}

/// The files of the weights, or why none can be used. A single file wins over shards, as in
/// transformers.
fn weights(names: &[String], is_whole: bool) -> Result<Vec<&str>, String> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(SINGLE) {
        return Ok(vec![SINGLE]);
    }
    if has(INDEX) {
        // Mistral keeps a second copy of the weights in its own form, which the index leaves out.
        let is_shard =
            |name: &&str| shard_count(name).is_some() && !name.starts_with("consolidated");
        let shards: Vec<&str> = names.iter().map(String::as_str).filter(is_shard).collect();
        return match shards.first().and_then(|name| shard_count(name)) {
            None => Err(format!("there is {INDEX}, and no shard of the weights")),
            Some(count) if !is_whole && shards.len() < count => {
                Err(format!("{} of {count} shards of the weights are there", shards.len()))
            }
            _ => Ok([&[INDEX], &shards[..]].concat()),
        };
    }
    let ending =
        |ends: &[&str]| names.iter().find(|name| ends.iter().any(|end| name.ends_with(end)));
    Err(if let Some(name) = ending(&[".bin", ".pt", ".pth"]) {
        format!(
            "the weights are Python pickles ({name}), which can run code when they are read; a \
             revision or a conversion in safetensors is needed"
        )
    } else if let Some(name) = ending(&[".safetensors"]) {
        format!("the repository has {name} but no {SINGLE} or {INDEX}")
    } else {
        format!("the repository has no weights ({SINGLE} or {INDEX})")
    })
}

/// The number of shards by the name of one, `model-00001-of-00002.safetensors`.
fn shard_count(name: &str) -> Option<usize> {
    let (_, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    count.parse().ok().filter(|_| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: [&str; 2] =
        ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

    #[test]
    fn a_model_is_its_companions_and_its_weights() {
        let others = [
            "README.md",
            "onnx/config.json",
            "training_args.bin",
            "consolidated.safetensors",
            "consolidated-00001-of-00003.safetensors",
        ];
        let whole = |weights: &[&str]| {
            let names: Vec<String> = ["config.json", "tokenizer.json"]
                .iter()
                .chain(&others)
                .chain(weights)
                .map(|&name| name.to_owned())
                .collect();
            let chosen = select(Names::All(&names), Parts::All).unwrap();
            chosen.join(" ").strip_prefix("config.json tokenizer.json ").unwrap().to_owned()
        };
        assert_eq!(whole(&[SINGLE, INDEX, SHARDS[0], SHARDS[1]]), SINGLE);
        let sharded = format!("{INDEX} {} {}", SHARDS[0], SHARDS[1]);
        assert_eq!(whole(&[INDEX, SHARDS[0], SHARDS[1]]), sharded);
        let converted = "pytorch_model-00001-of-00001.safetensors";
        assert_eq!(whole(&[INDEX, converted]), format!("{INDEX} {converted}"));
    }

    #[test]
    fn models_that_cannot_be_used_are_refused() {
        for (is_whole, list, word) in [
            (true, &["model.safetensors"][..], "config.json"),
            (true, &["config.json"], "no weights"),
            (true, &["config.json", "pytorch_model.bin"], "pytorch_model.bin"),
            (true, &["README.md", "m.Q4_K_M.gguf"], "only GGUF weights (m.Q4_K_M.gguf)"),
            (true, &["config.json", "consolidated.safetensors"], "consolidated.safetensors"),
            (false, &["config.json", SINGLE], "tokenizer.json"),
            (false, &["config.json", "tokenizer.json", INDEX, SHARDS[0]], "1 of 2 shards"),
            (false, &["config.json", "tokenizer.json", INDEX], "no shard"),
        ] {
            let names: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
            let names = if is_whole { Names::All(&names) } else { Names::Cached(&names) };
            let why = select(names, Parts::All).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
