//! `generation_config.json` with values right, wrong and missing.

use std::fs;
use std::path::Path;

use isentrope_model::generation_config::GenerationConfig;
use isentrope_model::{Error, Result};

fn read(files: &[(&str, &str)]) -> Result<GenerationConfig> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    GenerationConfig::read(dir.path())
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
        bos_token_id: Some(151_643),
        pad_token_id: Some(151_643),
        do_sample: Some(true),
        temperature: Some(0.7),
        top_p: Some(0.8),
        top_k: Some(20),
        min_p: Some(0.0),
        repetition_penalty: Some(1.05),
        max_new_tokens: None,
        max_length: Some(4096),
    };
    assert_eq!(read(&[("generation_config.json", config), ("config.json", "{}")]).unwrap(), expected);
}

#[test]
fn token_ids_fall_back_to_the_model_config() {
    let model = (
        "config.json",
        r#"{"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": -1, "temperature": "hot"}"#,
    );
    let expected =
        GenerationConfig { eos_token_ids: vec![2], bos_token_id: Some(1), ..GenerationConfig::default() };
    assert_eq!(read(&[model]).unwrap(), expected);
    assert_eq!(read(&[("generation_config.json", "{}"), model]).unwrap(), GenerationConfig::default());
    assert_eq!(read(&[]).unwrap(), GenerationConfig::default());
}

#[test]
fn wrong_values_name_file_and_key() {
    for (key, values) in [
        ("eos_token_id", &["-1", "\"2\"", "[1, 2.5]", "{}", "4294967296", "true"][..]),
        ("bos_token_id", &["-1", "[1]"]),
        ("pad_token_id", &["-2", "\"x\""]),
        ("do_sample", &["1", "\"true\""]),
        ("temperature", &["-0.1", "\"1\"", "[]"]),
        ("top_p", &["1.01", "-0.5"]),
        ("top_k", &["-1", "1.5"]),
        ("min_p", &["2", "-1"]),
        ("repetition_penalty", &["0", "-1"]),
        ("max_new_tokens", &["-5", "1e3"]),
        ("max_length", &["\"long\""]),
    ] {
        for value in values {
            let error = read(&[("generation_config.json", &format!(r#"{{"{key}": {value}}}"#))]).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, Error::Invalid { .. }), "{key}: {value}");
            assert!(message.contains(&format!("generation_config.json: `{key}` must be ")), "{message}");
        }
    }
}

#[test]
fn malformed_files_are_errors() {
    for text in
        ["", "{", "[]", r#"{"temperature": NaN}"#, r#"{"temperature": 1e999}"#, "\u{0}", &"[".repeat(10_000)]
    {
        let message = read(&[("generation_config.json", text)]).unwrap_err().to_string();
        assert!(message.contains("generation_config.json: "), "{message}");
    }
    assert!(GenerationConfig::read(Path::new("/dev/null/none")).is_err());
}
