//! Tokenizers compared with transformers on the same files (`fixtures/tokenizer/make.py`), and
//! malformed ones.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::tokenizer_of;
use isentrope_model::Error;
use isentrope_model::tokenizer::Tokenizer;
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMES: [&str; 7] =
    ["character", "byte-bpe", "byte-fallback", "gemma", "llama3", "qwen3.5", "tekken"];

const DECODERS: [&str; 9] = [
    "null",
    r#"{"type": "Fuse"}"#,
    r#"{"type": "ByteFallback"}"#,
    r#"{"type": "WordPiece", "prefix": "t", "cleanup": true}"#,
    r#"{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}"#,
    r#"{"type": "BPEDecoder", "suffix": "o"}"#,
    r#"{"type": "CTC", "pad_token": "a", "word_delimiter_token": "▁", "cleanup": true}"#,
    r#"{"type": "Sequence", "decoders": [{"type": "Fuse"},
        {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]}"#,
    r#"{"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}"#,
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizer").join(name)
}

fn read(name: &str) -> Tokenizer {
    Tokenizer::read(&fixture(name)).unwrap().unwrap()
}

fn expected(name: &str) -> Value {
    let all: Value = serde_json::from_slice(&fs::read(fixture("expected.json")).unwrap()).unwrap();
    all[name].clone()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn stream(tokenizer: &Tokenizer, ids: &[u32], skip_special: bool) -> Vec<String> {
    let mut stream = tokenizer.decode_stream(skip_special);
    let mut pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    pieces.push(stream.finish().unwrap());
    pieces
}

#[test]
fn encodes_and_decodes_as_transformers_does() {
    for name in NAMES {
        let (tokenizer, expected) = (read(name), expected(name));
        assert_eq!(tokenizer.vocab_size() as u64, expected["vocab_size"].as_u64().unwrap());
        for role in ["bos", "eos", "pad"] {
            let id = tokenizer.special_id(&format!("{role}_token")).map(u64::from);
            assert_eq!(id, expected[role].as_u64(), "{name} {role}");
        }
        for case in expected["encode"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            assert_eq!(tokenizer.encode(text, true).unwrap(), ids(&case["ids"]), "{name} {text:?}");
            assert_eq!(
                tokenizer.encode(text, false).unwrap(),
                ids(&case["plain"]),
                "{name} {text:?}"
            );
        }
        for case in expected["decode"].as_array().unwrap() {
            let ids = ids(&case["ids"]);
            assert_eq!(
                tokenizer.decode(&ids, false).unwrap(),
                case["text"].as_str().unwrap(),
                "{name} {ids:?}"
            );
            assert_eq!(
                tokenizer.decode(&ids, true).unwrap(),
                case["skipped"].as_str().unwrap(),
                "{name} {ids:?}"
            );
            assert_eq!(
                stream(&tokenizer, &ids, false).concat(),
                case["text"].as_str().unwrap(),
                "{name} {ids:?}"
            );
        }
    }
}

/// The byte-fallback tokenizer, as Llama 2's files are, with this change.
fn changed(change: impl FnOnce(&mut Value)) -> Tokenizer {
    let file = fs::read(fixture("byte-fallback/tokenizer.json")).unwrap();
    let mut file: Value = serde_json::from_slice(&file).unwrap();
    change(&mut file);
    tokenizer_of(&file.to_string()).unwrap()
}

#[test]
fn a_text_that_goes_on_is_encoded_as_in_the_whole() {
    let metaspace = |scheme: &str| {
        let scheme = Value::from(scheme);
        changed(move |file| {
            file["normalizer"] = Value::Null;
            file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        })
    };
    let (prepend, always, first) = (read("byte-fallback"), metaspace("always"), metaspace("first"));
    for tokenizer in [&prepend, &always, &first] {
        for (before, text) in [
            ("a", "two"),
            ("a", " two"),
            ("a\n", "two one"),
            ("", "two"),
            ("<s>", "two"),
            ("<s>a</s>", "two"),
            ("<s> a", "two </s><s> a </s>one"),
            ("a", "</s>"),
            ("a", "</s>two"),
            ("a", ""),
        ] {
            let whole = tokenizer.encode(&format!("{before}{text}"), false).unwrap();
            let mut parts = tokenizer.encode(before, false).unwrap();
            parts.extend(tokenizer.encode_after(before, text).unwrap());
            assert_eq!(parts, whole, "{before:?} and {text:?}");
        }
    }
    let token = |text: &str| prepend.token_id(text).unwrap();
    assert_eq!(prepend.encode("a", false).unwrap(), [token("▁a")]);
    assert_ne!(prepend.encode("two", false).unwrap(), prepend.encode_after("a", "two").unwrap());
    // Other tokenizers mark no beginning, so nothing changes.
    for name in ["character", "byte-bpe", "gemma"] {
        let tokenizer = read(name);
        for text in ["two", " two", "12", "\n"] {
            assert_eq!(
                tokenizer.encode_after("3 5 1", text).unwrap(),
                tokenizer.encode(text, false).unwrap()
            );
        }
    }
}

#[test]
fn a_stream_waits_for_whole_characters_only() {
    let tokenizer = read("byte-bpe");
    let text = "a🙂b";
    let tokens = tokenizer.encode(text, false).unwrap();
    let pieces = stream(&tokenizer, &tokens, true);
    assert_eq!(pieces.concat(), text);
    assert_eq!(pieces[0], "a");
    assert!(pieces.iter().all(|piece| !piece.contains('\u{FFFD}')));
    assert_eq!(pieces.last().unwrap(), "");
}

/// A byte-level tokenizer of single characters, with changes to its model and a normalizer.
fn few_characters(characters: &str, suffix: &Value, normalizer: &Value) -> Tokenizer {
    let spelled = |c: char| if c == ' ' { 'Ġ' } else { c };
    let vocabulary: serde_json::Map<String, Value> = characters
        .chars()
        .zip(0..)
        .map(|(c, id)| (spelled(c).to_string(), Value::from(id)))
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": false});
    let file = json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": byte_level, "decoder": byte_level,
        "normalizer": normalizer,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "end_of_word_suffix": suffix},
    });
    tokenizer_of(&file.to_string()).unwrap()
}

/// Changes by a normalizer are intended, and a loss is reported in the user's spelling.
#[test]
fn losses_differ_from_changes_of_a_normalizer() {
    let normalizer = json!({"type": "Sequence", "normalizers": [
        {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "-"}, "content": ""}
    ]});
    let tokenizer = few_characters("abc", &Value::Null, &normalizer);
    assert_eq!(tokenizer.encode("A-b", false).unwrap(), [0, 1]);
    assert_eq!(tokenizer.take_dropped(), None);
    assert_eq!(tokenizer.encode("A-bÄcÖ", false).unwrap(), [0, 1, 2]);
    assert_eq!(
        tokenizer.take_dropped().unwrap(),
        "no token stands for 'Ä' (U+00C4), which is lost, as is 1 more character"
    );
    assert_eq!(tokenizer.take_dropped(), None);
    // A character may have a token only at the end of a word.
    let tokenizer = few_characters("abc", &json!("</w>"), &Value::Null);
    tokenizer.encode("ab", false).unwrap();
    assert!(tokenizer.take_dropped().unwrap().contains("lost"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Piece by piece or all at once, any tokens give the same text: valid or not, special or
    /// unknown.
    #[test]
    fn a_stream_adds_up_to_the_whole(which in 0..NAMES.len(), picks in prop::collection::vec(0..1000u32, 0..80), skip: bool) {
        let tokenizer = read(NAMES[which]);
        let size = tokenizer.vocab_size() as u32 + 1;
        let ids: Vec<u32> = picks.into_iter().map(|pick| pick % size).collect();
        let whole = tokenizer.decode(&ids, skip).unwrap();
        prop_assert_eq!(stream(&tokenizer, &ids, skip).concat(), whole);
    }

    /// Checks every kind of decoder. The picks prefer the few tokens of text over the 256 of bytes.
    #[test]
    fn a_stream_adds_up_with_any_decoder(
        decoder in prop::sample::select(&DECODERS[..]),
        ids in prop::collection::vec(prop_oneof![0..3u32, 3..259u32, 259..271u32, 259..271u32], 0..60),
    ) {
        let tokenizer = changed(|file| file["decoder"] = serde_json::from_str(decoder).unwrap());
        let whole = tokenizer.decode(&ids, true).unwrap();
        prop_assert_eq!(stream(&tokenizer, &ids, true).concat(), whole);
    }

    /// With a vocabulary of a few characters and no unknown token, the other characters are left
    /// out; the first is reported, with the number of further ones.
    #[test]
    fn nothing_is_left_out_in_silence(text in "[a-e1-3é ]{0,30}") {
        let tokenizer = few_characters("abc12 ", &Value::Null, &Value::Null);
        let (kept, lost): (String, String) = text.chars().partition(|c| "abc12 ".contains(*c));
        let ids = tokenizer.encode(&text, false).unwrap();
        prop_assert_eq!(tokenizer.decode(&ids, false).unwrap(), kept);
        let more = match lost.chars().count() {
            0 | 1 => String::new(),
            2 => ", as is 1 more character".to_owned(),
            all => format!(", as are {} more characters", all - 1),
        };
        let told = lost
            .chars()
            .next()
            .map(|lost| format!("no token stands for {lost:?} (U+{:04X}), which is lost{more}", lost as u32));
        prop_assert_eq!(tokenizer.take_dropped(), told);
    }

    /// Tokenizers with all bytes or an unknown token lose nothing.
    #[test]
    fn what_spells_everything_loses_nothing(which in 0..NAMES.len(), text in any::<String>(), special: bool) {
        let tokenizer = read(NAMES[which]);
        prop_assert!(tokenizer.encode(&text, special).is_ok());
        prop_assert_eq!(tokenizer.take_dropped(), None);
    }
}

#[test]
fn wrong_values_within_a_valid_file_are_errors() {
    let original: Value =
        serde_json::from_slice(&fs::read(fixture("byte-bpe/tokenizer.json")).unwrap()).unwrap();
    for (pointer, value) in [
        ("/model/merges", r#"[["a", "zz"]]"#),
        ("/model/merges", r#"["a"]"#),
        ("/model/vocab", "{}"),
        ("/model/type", r#""Oracle""#),
        ("/model/vocab", "3"),
        ("/decoder/type", r#""Sequence""#),
        ("/post_processor/special_tokens", "{}"),
    ] {
        let mut changed = original.clone();
        *changed.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
        let error = tokenizer_of(&changed.to_string()).expect_err(pointer);
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    for text in ["", "[]", "null", &"[".repeat(100_000), "{\"version\": \"1.0\"}"] {
        assert!(tokenizer_of(text).is_err());
    }
}

#[test]
fn a_directory_without_a_tokenizer_is_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Tokenizer::read(dir.path()).unwrap().is_none());
    fs::write(dir.path().join("vocab.json"), "{}").unwrap();
    assert!(Tokenizer::read(dir.path()).unwrap().is_none());
    fs::write(dir.path().join("merges.txt"), "").unwrap();
    let error = Tokenizer::read(dir.path()).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. }) && error.to_string().contains("save_pretrained"),
        "{error}"
    );
    fs::create_dir(dir.path().join("tokenizer.json")).unwrap();
    assert!(Tokenizer::read(dir.path()).is_err());
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let file = fs::File::create(dir.path().join("tokenizer_config.json")).unwrap();
    file.set_len(1 << 40).unwrap();
    fs::copy(fixture("character/tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    assert!(Tokenizer::read(dir.path()).unwrap_err().to_string().contains("larger than the limit"));
}

#[test]
fn special_tokens_come_from_both_files() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::copy(fixture("byte-bpe/tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    write(
        "tokenizer_config.json",
        r#"{"bos_token": null, "eos_token": {"content": "<|im_end|>"}, "unk_token": "fox"}"#,
    );
    write(
        "special_tokens_map.json",
        r#"{"bos_token": "<bos>", "pad_token": {"content": "<none such>"}}"#,
    );
    let tokenizer = Tokenizer::read(dir.path()).unwrap().unwrap();
    let special = tokenizer.special_tokens();
    assert_eq!(special.get("bos_token"), None);
    assert_eq!(special.get("eos_token"), Some("<|im_end|>"));
    assert_eq!(special.get("pad_token"), Some("<none such>"));
    assert_eq!(tokenizer.special_id("pad_token"), None);
    assert_eq!(tokenizer.special_id("eos_token"), tokenizer.token_id("<|im_end|>"));
    for wrong in ["1", "[]", "{}", r#"{"content": 1}"#] {
        write("tokenizer_config.json", &format!(r#"{{"eos_token": {wrong}}}"#));
        let error = Tokenizer::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tokenizer_config.json: `eos_token`"), "{error}");
    }
}

#[test]
fn tokens_without_a_row_are_named() {
    let tokenizer = read("byte-bpe");
    let size = tokenizer.vocab_size();
    let model = Path::new("model.safetensors");
    tokenizer.check_against(size, model).unwrap();
    tokenizer.check_against(size + 64, model).unwrap();
    assert_eq!(tokenizer.token_id("<think>"), Some(size as u32 - 1));
    let error = tokenizer.check_against(size - 1, model).unwrap_err().to_string();
    assert!(error.starts_with("model.safetensors: ") && error.contains("\"<think>\""), "{error}");
}
