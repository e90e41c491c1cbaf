//! Tokenizers that expand a text, or claim far more than the file holds. None takes much memory.

use std::time::{Duration, Instant};

use crate::common::tokenizer_of;
use isentrope_model::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// A tokenizer of the characters of a prompt, with some parts replaced.
fn read(changes: Value) -> Result<Tokenizer, String> {
    let vocabulary: serde_json::Map<String, Value> =
        "ab ▁é".chars().zip(1..).map(|(c, id)| (c.to_string(), Value::from(id))).collect();
    let mut file = json!({
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false, "single_word": false,
            "lstrip": false, "rstrip": false}],
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "a"},
    });
    for (key, value) in changes.as_object().unwrap() {
        match (key.strip_prefix("model."), &mut file) {
            (Some(key), file) => file["model"][key] = value.clone(),
            (None, file) => file[key] = value.clone(),
        }
    }
    read_text(&file.to_string())
}

fn read_text(file: &str) -> Result<Tokenizer, String> {
    tokenizer_of(file).map_err(|e| e.to_string())
}

fn replace(pattern: Value, content: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": content})
}

fn added(content: &str) -> Value {
    json!([{"id": 9, "content": content, "special": false, "normalized": true, "single_word": false,
        "lstrip": false, "rstrip": false}])
}

/// Equal stages of a part.
fn several(kind: &str, key: &str, stage: &Value, count: usize) -> Value {
    json!({kind: {"type": "Sequence", key: vec![stage; count]}})
}

fn in_time<T>(call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    assert!(start.elapsed() < Duration::from_secs(20), "takes {:?}", start.elapsed());
    result
}

#[test]
#[ignore = "deep: runs tokenizers to their limits"]
fn stages_that_multiply_the_text_are_stopped() {
    let string = |text: &str| json!({"String": text});
    let regex = |text: &str| json!({"Regex": text});
    let pair = replace(string("a"), "aa");
    let long = replace(regex("."), &"a".repeat(1000));
    let empty = replace(regex(""), &"b".repeat(1000));
    let prepend = json!({"type": "Prepend", "prepend": "a".repeat(1000)});
    let bytes = json!({"type": "ByteLevel"});
    let around = |c: char| json!({"type": "Metaspace", "replacement": c, "prepend_scheme": "always", "split": false});
    let each = json!({"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false});
    let mut prefixes = vec![each];
    prefixes.extend(('A'..'u').map(around));
    let text = "aé".repeat(10_000);
    for (name, changes) in [
        ("pairs", several("normalizer", "normalizers", &pair, 60)),
        ("long texts", several("normalizer", "normalizers", &long, 6)),
        ("one long text", json!({"normalizer": long})),
        ("long texts between characters", json!({"normalizer": empty})),
        ("byte-level alphabets", several("normalizer", "normalizers", &bytes, 60)),
        (
            "prefixes of pieces",
            json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": prefixes}}),
        ),
        (
            "a list within a list",
            json!({"normalizer": {"type": "Sequence", "normalizers": [
            several("normalizer", "normalizers", &pair, 60)["normalizer"]]}}),
        ),
        ("a long prefix to each piece", several("normalizer", "normalizers", &prepend, 60)),
    ] {
        let tokenizer = in_time(|| read(changes)).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Between added tokens each piece is normalized on its own.
        let text = if name.ends_with("each piece") { "é<s>".repeat(10_000) } else { text.clone() };
        let error = in_time(|| tokenizer.encode(&text, true)).unwrap_err().to_string();
        assert!(
            error.contains("tokenizer makes") || error.contains("normalizer makes"),
            "{name}: {error}"
        );
        assert!(error.contains("many times as much of the text"), "{name}: {error}");
    }
    for (name, decoder) in [
        ("pairs", several("decoder", "decoders", &pair, 60)),
        ("long texts", several("decoder", "decoders", &long, 6)),
        ("long texts between characters", json!({"decoder": empty})),
        (
            "word ends",
            several("decoder", "decoders", &json!({"type": "BPEDecoder", "suffix": ""}), 60),
        ),
    ] {
        let tokenizer = read(decoder).unwrap_or_else(|e| panic!("{name}: {e}"));
        let error = in_time(|| tokenizer.decode(&[1; 20_000], false)).unwrap_err().to_string();
        assert!(error.contains("the decoder makes many times"), "{name}: {error}");
    }
}

#[test]
fn what_real_tokenizers_do_passes() {
    let stages = json!({"type": "Sequence", "normalizers": [
        {"type": "NFKC"}, {"type": "Prepend", "prepend": "▁"}, replace(json!({"String": " "}), "▁"),
        replace(json!({"Regex": " {2,}"}), "▁▁▁▁▁▁▁▁▁▁▁▁"),
    ]});
    let tokenizer =
        read(json!({"normalizer": stages, "decoder": replace(json!({"String": "▁"}), " ")}))
            .unwrap();
    for text in ["", "a", " ", "a b", "\u{FDFA}", &" ".repeat(100_000), &"\u{FDFA}".repeat(10_000)]
    {
        let ids = tokenizer.encode(text, true).unwrap();
        assert!(tokenizer.decode(&ids, false).is_ok(), "{text:.20}");
    }
    let short =
        read(json!({"normalizer": replace(json!({"String": "a"}), &"b".repeat(1000))})).unwrap();
    assert_eq!(short.encode("a", false).unwrap().len(), 1000);
}

#[test]
fn files_that_ask_for_too_much_are_refused() {
    let long = "a".repeat(5000);
    let template = |single: Value, ids: usize| {
        json!({"post_processor": {"type": "TemplateProcessing", "single": single,
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": vec![0; ids], "tokens": vec!["<s>"; ids]}}}})
    };
    let the_text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let special = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    assert!(read(template(json!([special, the_text]), 1)).is_ok());
    let mut nested = json!({"type": "Lowercase"});
    for _ in 0..40 {
        nested = json!({"type": "Sequence", "normalizers": [nested]});
    }
    let charsmap = |base64: &str| json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64}});
    for (changes, what) in [
        (template(json!([the_text, the_text]), 1), "repeats the text"),
        (template(json!(vec![special.clone(); 300]), 1), "more than 256 entries"),
        (template(json!([special, the_text]), 100_000), "more than 256 entries"),
        (json!({"normalizer": nested}), "nests more than 16 deep"),
        (
            several("normalizer", "normalizers", &json!({"type": "Lowercase"}), 300),
            "more than 256 entries",
        ),
        (json!({"normalizer": replace(json!({"String": "a"}), &long)}), "more than 1024 bytes"),
        (
            json!({"decoder": {"type": "WordPiece", "prefix": long, "cleanup": true}}),
            "more than 1024 bytes",
        ),
        (
            json!({"normalizer": replace(json!({"Regex": "a".repeat(1 << 20)}), "b")}),
            "`Regex` has more than 65536 bytes",
        ),
        (json!({"model.unk_token": long}), "`model.unk_token` of more than 64 bytes"),
        (json!({"model.continuing_subword_prefix": long}), "continuing_subword_prefix"),
        (json!({"model.end_of_word_suffix": long}), "end_of_word_suffix"),
        (json!({"model.max_input_chars_per_word": 999_999}), "max_input_chars_per_word"),
        (json!({"model.vocab": {long.clone(): 1}}), "token 1 has more than 4096 bytes"),
        (json!({"added_tokens": added(&long)}), "an added token of more than 4096 bytes"),
        (
            json!({"added_tokens": added(&"a".repeat(4000)),
                "normalizer": several("n", "normalizers", &replace(json!({"String": "a"}), "aa"), 60)["n"]}),
            "an added token",
        ),
        (charsmap("/////w=="), "cut short"),
        (charsmap("AAAAgAAA"), "cut short"),
        (charsmap(""), "cut short"),
    ] {
        let start: String = changes.to_string().chars().take(80).collect();
        let error = in_time(|| read(changes)).unwrap_err();
        assert!(error.contains(what) && error.len() < 500, "{start}: {error}");
    }
    // A file keeps padding and truncation of its last use.
    let padded = json!({"padding": {"strategy": {"Fixed": 999_999_999_999_u64}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}});
    assert_eq!(read(padded).unwrap().encode("a", true).unwrap(), [1]);
    assert!(read_text(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err());
    assert!(read_text(&r#"{"normalizer": "#.repeat(100_000)).is_err());
}

#[test]
fn a_key_that_occurs_twice_is_refused() {
    let model = r#""model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}"#;
    assert!(read_text(&format!(r#"{{"version": "1.0", "added_tokens": [], {model}}}"#)).is_ok());
    for twice in [
        format!(
            r#"{{"version": "1.0", {model}, "normalizer": null, "normalizer": {{"type": "Lowercase"}}}}"#
        ),
        format!(
            r#"{{"version": "1.0", {model}, "normalizer": {{"type": "NFC", "type": "Lowercase"}}}}"#
        ),
        format!(r#"{{"version": "1.0", {model}, {model}}}"#),
    ] {
        let error = read_text(&twice).unwrap_err();
        assert!(error.contains("twice") || error.contains("duplicate"), "{error}");
    }
}
