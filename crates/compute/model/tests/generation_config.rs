//! `generation_config.json` with values right, wrong and missing.

use std::fs;
use std::path::Path;

use crate::common::directory;
use isentrope_model::generation_config::{GenerationConfig, eos_tokens};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Error, Result};

fn read(files: &[(&str, &str)]) -> Result<GenerationConfig> {
    let files: Vec<_> = files.iter().map(|&(name, text)| (name, text.as_bytes())).collect();
    GenerationConfig::read(directory(&files).path())
}

#[test]
fn reads_what_a_model_ships() {
    let config = r#"{
        "bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
        "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0, "max_length": 4096,
        "max_new_tokens": null, "transformers_version": "4.37.0"
    }"#;
    let expected = GenerationConfig {
        eos_token_ids: vec![151_645, 151_643],
        do_sample: Some(true),
        temperature: Some(0.7),
        top_p: Some(0.8),
        top_k: Some(20),
        min_p: Some(0.0),
        repetition_penalty: Some(1.05),
        not_acted_on: vec![],
    };
    assert_eq!(
        read(&[("generation_config.json", config), ("config.json", "{}")]).unwrap(),
        expected
    );
}

#[test]
fn token_ids_fall_back_to_the_model_config() {
    let model = ("config.json", r#"{"eos_token_id": 2, "bos_token_id": 1, "temperature": "hot"}"#);
    let expected = GenerationConfig { eos_token_ids: vec![2], ..GenerationConfig::default() };
    assert_eq!(read(&[model]).unwrap(), expected);
    assert_eq!(
        read(&[("generation_config.json", "{}"), model]).unwrap(),
        GenerationConfig::default()
    );
    assert_eq!(read(&[]).unwrap(), GenerationConfig::default());
    for (text, tokens) in [
        (r#"{"text_config": {"eos_token_id": 1}}"#, vec![1]),
        (r#"{"text_config": {"eos_token_id": 1}, "eos_token_id": [1, 106]}"#, vec![1, 106]),
    ] {
        assert_eq!(read(&[("config.json", text)]).unwrap().eos_token_ids, tokens);
    }
}

#[test]
fn wrong_values_name_file_and_key() {
    for (key, values) in [
        ("eos_token_id", &["-2", "\"2\"", "[1, 2.5]", "{}", "4294967296", "true"][..]),
        ("do_sample", &["1", "\"true\""]),
        ("temperature", &["-0.1", "1e-300", "1e-40", "\"1\"", "[]"]),
        ("top_p", &["1.01", "-0.5"]),
        ("top_k", &["-1", "1.5"]),
        ("min_p", &["2", "-1"]),
        ("repetition_penalty", &["0", "-1"]),
    ] {
        for value in values {
            let error = read(&[("generation_config.json", &format!(r#"{{"{key}": {value}}}"#))])
                .unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, Error::Invalid { .. }), "{key}: {value}");
            assert!(message.contains(&format!("generation_config.json: {key} ")), "{message}");
        }
    }
}

#[test]
fn keys_that_are_not_acted_on_are_named_where_they_change_something() {
    let not_acted_on = |text: &str| read(&[("generation_config.json", text)]).unwrap().not_acted_on;
    let neutral = r#"{"typical_p": 1, "no_repeat_ngram_size": 0, "suppress_tokens": [], "num_beams": 1,
        "sequence_bias": null, "min_length": 0, "use_cache": true, "temperature": 0.6}"#;
    assert!(not_acted_on(neutral).is_empty(), "{neutral}");
    let changing = r#"{"suppress_tokens": [3], "typical_p": 0.9, "no_repeat_ngram_size": 3, "stop_strings": "x",
        "forced_eos_token_id": 0}"#;
    let expected = [
        "typical_p",
        "no_repeat_ngram_size",
        "suppress_tokens",
        "forced_eos_token_id",
        "stop_strings",
    ];
    assert_eq!(not_acted_on(changing), expected);
}

#[test]
fn responses_end_at_the_files_tokens_and_at_the_tokenizers() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizer/byte-bpe");
    let (generation, model) = ("generation_config.json", "config.json");
    // Its <eos> is 1, its vocabulary goes to 322.
    for (file, text, with_tokenizer, alone) in [
        (generation, "{}", Ok(&[1][..]), Ok(&[][..])),
        (generation, r#"{"eos_token_id": -1}"#, Ok(&[1]), Ok(&[])),
        (generation, r#"{"eos_token_id": [-1, 321]}"#, Ok(&[321, 1]), Ok(&[321])),
        (generation, r#"{"eos_token_id": [1, 322]}"#, Ok(&[1, 322]), Ok(&[1, 322])),
        (model, r#"{"eos_token_id": 2}"#, Ok(&[2, 1]), Ok(&[2])),
        (generation, r#"{"eos_token_id": [1, 323]}"#, Err("has 323"), Err("vocabulary of 323")),
        (generation, r#"{"eos_token_id": 4294967295}"#, Err("has 4294967295"), Err("take it out")),
        (model, r#"{"eos_token_id": 400}"#, Err("has 400"), Err("has 400")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            fs::copy(fixture.join(name), dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join(file), text).unwrap();
        let tokenizer = Tokenizer::read(dir.path()).unwrap().unwrap();
        for (tokenizer, expected) in [(Some(&tokenizer), with_tokenizer), (None, alone)] {
            match (eos_tokens(dir.path(), 323, tokenizer), expected) {
                (Ok(tokens), Ok(expected)) => assert_eq!(tokens, expected, "{text}"),
                (Err(error), Err(part)) => {
                    let message = error.to_string();
                    assert!(message.contains(&format!("/{file}: eos_token_id has ")), "{message}");
                    assert!(message.contains(part), "{message}");
                }
                (got, expected) => panic!("{text}: {got:?} instead of {expected:?}"),
            }
        }
    }
}
