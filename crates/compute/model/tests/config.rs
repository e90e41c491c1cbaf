//! Files config.json of every family and version, and malformed ones.

use std::fs;

use crate::common::{ORACLES, directory, oracle};
use isentrope_model::rope::RopeScaling;
use isentrope_model::{Error, ModelConfig, Rope};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(config: &Value) -> Result<ModelConfig, Error> {
    let dir = directory(&[("config.json", config.to_string().as_bytes())]);
    ModelConfig::read(dir.path())
}

/// `base` with the keys of `patch` set.
fn with(mut base: Value, patch: &Value) -> Value {
    for (key, value) in patch.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

/// The first lines of a published configuration, transformers 4 spelling.
fn qwen25_math() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "hidden_act": "silu", "hidden_size": 1536, "intermediate_size": 8960, "max_position_embeddings": 4096,
        "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 12, "num_hidden_layers": 28,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 10000, "sliding_window": 4096,
        "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "use_mrope": false,
        "use_sliding_window": false, "vocab_size": 151936
    })
}

#[test]
fn oracle_checkpoints() {
    for name in ORACLES {
        let config = ModelConfig::read(&oracle(name)).unwrap();
        let text = fs::read_to_string(oracle(name).join("config.json")).unwrap();
        let kept = serde_json::to_string_pretty(&config.json).unwrap();
        assert_eq!(kept, text.trim().replace("1e-06", "1e-6"), "{name}");
        assert_eq!(
            (
                config.vocab_size,
                config.hidden_size,
                config.intermediate_size,
                config.layers,
                config.heads
            ),
            (61, 32, 44, 2, 4)
        );
        assert_eq!(config.max_position_embeddings, 512);
        assert_eq!(config.rms_norm_eps, 1e-6);
        assert_eq!(config.kv_heads, if name == "llama-mha" { 4 } else { 2 }, "{name}");
        assert_eq!(config.head_dim, if name == "qwen3" { 16 } else { 8 }, "{name}");
        assert_eq!(
            config.tie_word_embeddings,
            ["llama3", "qwen2-tied", "qwen3"].contains(&name),
            "{name}"
        );
        assert_eq!(config.qkv_bias, name.starts_with("qwen2"), "{name}");
        assert_eq!(config.qk_norm, name == "qwen3", "{name}");
        assert!(!config.output_bias && !config.mlp_bias, "{name}");
        let window = if name == "mistral-sliding" { Some(6) } else { None };
        assert_eq!(config.sliding_window, [window; 2], "{name}");
        let theta = match name {
            "llama3" => 500_000.0,
            "qwen2-tied" | "qwen3" => 1_000_000.0,
            _ => 10_000.0,
        };
        assert_eq!(config.rope.theta(), theta, "{name}");
        assert_eq!(matches!(config.rope.scaling(), RopeScaling::Llama3 { .. }), name == "llama3");
    }
}

#[test]
fn both_spellings_are_one_config() {
    let scaling = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024});
    let old = with(qwen25_math(), &json!({"rope_theta": 1e6, "rope_scaling": scaling}));
    let mut new = qwen25_math();
    let keys = new.as_object_mut().unwrap();
    keys.remove("rope_theta");
    keys.remove("torch_dtype");
    let parameters = json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 1e6
    });
    let new = with(new, &json!({"dtype": "bfloat16", "rope_parameters": parameters}));
    let nested =
        json!({"full_attention": parameters, "sliding_attention": parameters, "other": null});
    let nested = with(new.clone(), &json!({"rope_parameters": nested}));

    let old = read(&old).unwrap();
    for other in [new, nested] {
        let other = read(&other).unwrap();
        assert_eq!(ModelConfig { json: old.json.clone(), ..other }, old);
    }
    assert_eq!(old.rope.theta(), 1e6);
    assert!(matches!(old.rope.scaling(), RopeScaling::Yarn { factor: 4.0, .. }));
}

#[test]
fn layer_types_may_not_rotate_differently() {
    let nested = json!({
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}
    });
    let error = read(&with(qwen25_math(), &json!({"rope_parameters": nested}))).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
    assert!(error.to_string().contains("between full_attention and sliding_attention"), "{error}");
}

/// Defaults of transformers 5.23 for a config.json with only its `model_type`.
#[test]
fn defaults_are_those_of_each_family() {
    let bare = |model_type: &str| read(&json!({"model_type": model_type})).unwrap();
    let sizes = |c: &ModelConfig| {
        (c.vocab_size, c.intermediate_size, c.kv_heads, c.head_dim, c.max_position_embeddings)
    };
    let qwen2 = bare("qwen2");
    assert_eq!(sizes(&qwen2), (151_936, 22_016, 32, 128, 32_768));
    assert_eq!(sizes(&bare("qwen3")), (151_936, 22_016, 32, 128, 32_768));
    assert_eq!(sizes(&bare("llama")), (32_000, 11_008, 32, 128, 2048));
    let mistral = bare("mistral");
    assert_eq!(sizes(&mistral), (32_000, 14_336, 8, 128, 131_072));
    assert_eq!(mistral.sliding_window, [Some(4096); 32]);
    assert_eq!(qwen2.sliding_window, [None; 32]);
    for config in [qwen2, mistral] {
        assert_eq!((config.hidden_size, config.layers, config.heads), (4096, 32, 32));
        assert!(!config.tie_word_embeddings);
        assert_eq!(config.rope, Rope::new(128, 10_000.0, RopeScaling::Default));
    }
}

#[test]
fn head_counts_may_be_null_or_derived() {
    let llama = |patch: Value| {
        let base = json!({"model_type": "llama", "hidden_size": 96, "num_attention_heads": 6});
        read(&with(base, &patch)).map(|config| (config.kv_heads, config.head_dim))
    };
    assert_eq!(llama(json!({})).unwrap(), (6, 16));
    assert_eq!(llama(json!({"num_key_value_heads": null, "head_dim": null})).unwrap(), (6, 16));
    assert_eq!(llama(json!({"num_key_value_heads": 3, "head_dim": 128})).unwrap(), (3, 128));
    assert!(llama(json!({"hidden_size": 100})).unwrap_err().to_string().contains("hidden_size"));
    // Mistral Nemo: heads that together are not the width of the model.
    let nemo = json!({"model_type": "mistral", "hidden_size": 5120, "head_dim": 128, "sliding_window": null});
    let nemo = read(&nemo).unwrap();
    assert_eq!((nemo.heads * nemo.head_dim, nemo.sliding_window[0]), (4096, None));
}

#[test]
fn biases_follow_the_family() {
    let biases = |config: Value| read(&config).map(|c| (c.qkv_bias, c.output_bias, c.mlp_bias));
    assert_eq!(biases(json!({"model_type": "qwen2"})).unwrap(), (true, false, false));
    assert_eq!(biases(json!({"model_type": "qwen3"})).unwrap(), (false, false, false));
    assert_eq!(
        biases(json!({"model_type": "qwen3", "attention_bias": true})).unwrap(),
        (true, true, false)
    );
    let llama = json!({"model_type": "llama", "attention_bias": true, "mlp_bias": true});
    assert_eq!(biases(llama).unwrap(), (true, true, true));
    assert!(biases(json!({"model_type": "mistral", "attention_bias": true})).is_err());
}

#[test]
fn windows_follow_the_family() {
    let windows = |config: Value| {
        read(&with(config, &json!({"num_hidden_layers": 4}))).unwrap().sliding_window
    };
    let qwen = |patch: Value| {
        let base = json!({"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 9});
        windows(with(base, &patch))
    };
    let (full, wide) = (None, Some(9));
    assert_eq!(qwen(json!({"max_window_layers": 3})), [full, full, full, wide]);
    assert_eq!(qwen(json!({"max_window_layers": 0, "use_sliding_window": false})), [full; 4]);
    assert_eq!(qwen(json!({"max_window_layers": 0, "sliding_window": null})), [full; 4]);
    assert_eq!(qwen(json!({})), [full; 4]);
    let types =
        json!(["sliding_attention", "full_attention", "full_attention", "sliding_attention"]);
    assert_eq!(qwen(json!({"layer_types": types})), [wide, full, full, wide]);
    assert_eq!(windows(json!({"model_type": "mistral", "sliding_window": 9})), [wide; 4]);
    assert_eq!(
        windows(json!({"model_type": "mistral", "sliding_window": 9, "layer_types": types})),
        [wide, full, full, wide]
    );
    assert_eq!(windows(json!({"model_type": "llama", "sliding_window": 9})), [full; 4]);
}

/// Every refusal is one sentence that names the file and the key.
#[test]
fn refusals_name_the_key() {
    let yarn = |patch: Value| {
        let base = json!({"rope_type": "yarn", "factor": 2.0});
        json!({"rope_scaling": with(base, &patch)})
    };
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0});
    let cases = [
        (json!({"model_type": "gemma2"}), "model_type \"gemma2\""),
        (json!({"model_type": null}), "model_type is missing"),
        (json!({"model_type": 7}), "model_type is 7"),
        (
            json!({"architectures": ["Qwen2ForRewardModel"]}),
            "architectures has \"Qwen2ForRewardModel\"",
        ),
        (json!({"architectures": "Qwen2ForCausalLM"}), "architectures is"),
        (json!({"hidden_act": "gelu"}), "hidden_act \"gelu\""),
        (json!({"quantization_config": {"quant_method": "awq"}}), "quantization_config"),
        (json!({"attn_logit_softcapping": 50.0}), "attn_logit_softcapping"),
        (json!({"attention_sinks": true}), "attention_sinks"),
        (json!({"num_experts": 8}), "num_experts"),
        (json!({"logits_scaling": 8.0}), "logits_scaling"),
        (json!({"mlp_bias": true}), "mlp_bias"),
        (json!({"vocab_size": 0}), "vocab_size is 0"),
        (json!({"vocab_size": -5}), "vocab_size is -5"),
        (json!({"vocab_size": 1e30}), "vocab_size"),
        (json!({"vocab_size": u64::MAX}), "vocab_size"),
        (json!({"hidden_size": "1536"}), "hidden_size"),
        (json!({"hidden_size": 1537}), "hidden_size is 1537"),
        (json!({"num_hidden_layers": 1_000_000_000}), "num_hidden_layers"),
        (json!({"num_key_value_heads": 5}), "num_key_value_heads is 5"),
        (json!({"num_key_value_heads": 0}), "num_key_value_heads"),
        (json!({"num_key_value_heads": 24}), "num_key_value_heads"),
        (json!({"head_dim": 7}), "head_dim is 7"),
        (json!({"head_dim": 16_777_216}), "head_dim"),
        (json!({"intermediate_size": 1.5}), "intermediate_size is 1.5"),
        (json!({"rms_norm_eps": 0.0}), "rms_norm_eps"),
        (json!({"rms_norm_eps": -1e-6}), "rms_norm_eps"),
        (json!({"tie_word_embeddings": "yes"}), "tie_word_embeddings"),
        (json!({"max_position_embeddings": 0}), "max_position_embeddings"),
        (json!({"rope_theta": 1}), "rope_theta"),
        (json!({"rope_theta": -10000.0}), "rope_theta"),
        (json!({"rope_theta": 1e200}), "rope_theta"),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor is 0.5"),
        (json!({"rope_scaling": 2.0}), "rope_scaling"),
        (
            json!({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}),
            "rope_scaling.rope_type \"longrope\"",
        ),
        (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling.factor is missing"),
        (json!({"rope_scaling": {"type": "linear", "factor": 0}}), "rope_scaling.factor is 0"),
        (
            json!({"rope_parameters": {"rope_type": "dynamic", "factor": 1e300}}),
            "rope_parameters.factor",
        ),
        (
            json!({"rope_scaling": {"mrope_section": [16, 24, 24], "type": "default"}}),
            "mrope_section",
        ),
        (json!({"rope_scaling": llama3}), "high_freq_factor"),
        (yarn(json!({"beta_fast": 1, "beta_slow": 32})), "beta_fast"),
        (yarn(json!({"truncate": 3})), "rope_scaling.truncate"),
        (yarn(json!({"original_max_position_embeddings": 0})), "original_max_position_embeddings"),
        (
            json!({"rope_parameters": {"full_attention": {"rope_type": "su"}}}),
            "full_attention.rope_type \"su\"",
        ),
        (json!({"rope_parameters": {"full_attention": {}, "factor": 2}}), "mixes"),
        (json!({"layer_types": ["full_attention"]}), "layer_types has 1 entries for 28"),
        (
            json!({"layer_types": ["linear_attention"], "num_hidden_layers": 1}),
            "\"linear_attention\"",
        ),
        (
            json!({"layer_types": ["sliding_attention"], "num_hidden_layers": 1}),
            "no sliding_window",
        ),
        (json!({"sliding_window": 0, "use_sliding_window": true}), "sliding_window is 0"),
    ];
    for (patch, named) in cases {
        let error = read(&with(qwen25_math(), &patch)).expect_err(named).to_string();
        assert!(error.contains("config.json: ") && error.contains(named), "{patch}: {error}");
        assert!(!error.contains('\n') && error.len() < 400, "{error}");
    }
    let llama = json!({"model_type": "llama", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]});
    assert!(read(&llama).unwrap_err().to_string().contains("layer_types"));
}

#[test]
fn neutral_values_of_foreign_keys_are_accepted() {
    let neutral = json!({
        "pretraining_tp": 1, "quantization_config": null, "attn_logit_softcapping": null, "logits_scaling": 1.0,
        "num_experts": 0, "partial_rotary_factor": 1.0, "rope_scaling": null, "rope_parameters": {},
        "some_future_key": {"a": [1, 2]}
    });
    let config = read(&with(qwen25_math(), &neutral)).unwrap();
    assert_eq!(config.family.model_type, "qwen2");
    assert_eq!(config.json["some_future_key"]["a"][1], 2);
}

#[test]
fn broken_files() {
    for bytes in [&b""[..], b"{", b"[]", b"\xff\xfe", b"{\"model_type\": NaN}"] {
        let dir = directory(&[("config.json", bytes)]);
        let error = ModelConfig::read(dir.path()).unwrap_err();
        assert!(
            matches!(error, Error::Invalid { .. }) && error.to_string().contains("config.json"),
            "{error}"
        );
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let dir = directory(&[("config.json", deep.as_bytes())]);
    assert!(matches!(ModelConfig::read(dir.path()), Err(Error::Invalid { .. })));
    let dir = directory(&[]);
    assert!(matches!(ModelConfig::read(dir.path()), Err(Error::Io { .. })));
    fs::create_dir(dir.path().join("config.json")).unwrap();
    assert!(matches!(ModelConfig::read(dir.path()), Err(Error::Invalid { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Damaged bytes are read or refused, and a refusal names the file.
    #[test]
    fn damaged_bytes_never_panic(
        name in prop::sample::select(&ORACLES[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
    ) {
        let mut bytes = fs::read(oracle(name).join("config.json")).unwrap();
        for (at, byte, is_digit) in edits {
            let byte = if is_digit { b'0' + byte % 10 } else { byte };
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let dir = directory(&[("config.json", &bytes)]);
        match ModelConfig::read(dir.path()) {
            Ok(config) => {
                let (cos, sin) = config.rope.table(0..3);
                prop_assert!(cos.iter().chain(&sin).all(|value| value.is_finite()));
            }
            Err(error) => prop_assert!(error.to_string().contains("config.json")),
        }
    }

    /// Any JSON value under any key is read or refused.
    #[test]
    fn odd_values_never_panic(
        key in prop::sample::select(vec![
            "vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta",
            "num_hidden_layers", "max_position_embeddings", "sliding_window", "max_window_layers", "layer_types",
            "rope_scaling", "rope_parameters", "rms_norm_eps", "original_max_position_embeddings",
        ]),
        value in prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            Just(json!([])), Just(json!({})), Just(json!([[1]])), Just(json!({"a": {"b": 1}})),
            (prop::sample::select(vec!["linear", "dynamic", "llama3", "yarn"]), any::<f64>(), any::<u32>())
                .prop_map(|(kind, factor, context)| json!({
                    "rope_type": kind, "factor": factor, "original_max_position_embeddings": context,
                    "low_freq_factor": factor / 2.0, "high_freq_factor": factor,
                })),
        ],
    ) {
        if let Err(error) = read(&with(qwen25_math(), &json!({key: value}))) {
            prop_assert!(error.to_string().contains("config.json"));
        }
    }
}
