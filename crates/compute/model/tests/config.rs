//! Files config.json of every family and version, and malformed ones.

use std::fs;

use crate::common::directory;
use isentrope_kernels::{DeltaRule, Router};
use isentrope_model::config::Scales;
use isentrope_model::rope::RopeScaling;
use isentrope_model::{Error, ModelConfig, Rope};
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
    let (old, new) = (read(&old).unwrap(), read(&new).unwrap());
    assert_eq!(ModelConfig { json: old.json.clone(), ..new }, old);
    assert_eq!(old.rope.theta, 1e6);
    assert!(matches!(old.rope.scaling, RopeScaling::Yarn { factor: 4.0, .. }));
}

/// Defaults of transformers 5.24 for a config.json with only its `model_type`.
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
    let [phi3, smollm3] = [bare("phi3"), bare("smollm3")];
    assert_eq!(sizes(&phi3), (32_064, 8192, 32, 96, 4096));
    assert_eq!((phi3.hidden_size, phi3.layers, phi3.rms_norm_eps), (3072, 32, 1e-5));
    assert_eq!(sizes(&smollm3), (128_256, 11_008, 4, 128, 32_768));
    assert_eq!((smollm3.hidden_size, smollm3.layers, smollm3.heads), (2048, 36, 16));
    assert!(smollm3.tie_word_embeddings && !phi3.tie_word_embeddings);
    assert_eq!(smollm3.rope, Rope::new(128, 2e6, RopeScaling::Default));
    let [olmo2, olmo3] = [bare("olmo2"), bare("olmo3")];
    assert_eq!(sizes(&olmo2), (50_304, 11_008, 32, 128, 2048));
    assert_eq!((olmo2.rms_norm_eps, olmo2.sliding_window[0]), (1e-5, None));
    assert_eq!(sizes(&olmo3), sizes(&olmo2));
    let plain = Rope::new(128, 500_000.0, RopeScaling::Default);
    assert_eq!((&olmo3.rope, olmo3.window_rope.as_ref()), (&plain, Some(&plain)));
    let gemma3 = bare("gemma3_text");
    assert_eq!(sizes(&gemma3), (262_208, 9216, 4, 256, 131_072));
    assert_eq!((gemma3.hidden_size, gemma3.layers, gemma3.heads), (2304, 26, 8));
    assert_eq!((gemma3.scales.scores, gemma3.scales.embeddings), (0.0625, Some(48.0)));
    assert!(gemma3.tie_word_embeddings && gemma3.rms_norm().shift == 1.0);
    assert_eq!(gemma3.rope, Rope::new(256, 1e6, RopeScaling::Default));
    assert_eq!(gemma3.window_rope, Some(Rope::new(256, 1e4, RopeScaling::Default)));
    let is_full = |layer: usize| gemma3.sliding_window[layer].is_none();
    assert_eq!((0..26).filter(|&layer| is_full(layer)).collect::<Vec<_>>(), [5, 11, 17, 23]);
    let qwen3_5 = bare("qwen3_5_text");
    assert_eq!(sizes(&qwen3_5), (248_320, 12_288, 4, 256, 32_768));
    assert_eq!((qwen3_5.hidden_size, qwen3_5.layers, qwen3_5.heads), (4096, 32, 16));
    assert_eq!((qwen3_5.rope.still_pairs, qwen3_5.rms_norm().shift), (96, 1.0));
    let rule = DeltaRule {
        key_heads: 16,
        value_heads: 32,
        key_dim: 128,
        value_dim: 128,
        taps: 4,
        eps: 1e-6,
    };
    assert_eq!(qwen3_5.delta, Some(rule));
    let full = (0..32).filter(|&layer| !qwen3_5.is_linear[layer]);
    assert!(full.eq([3, 7, 11, 15, 19, 23, 27, 31]));
    let [qwen3_moe, olmoe] = [bare("qwen3_moe"), bare("olmoe")];
    assert_eq!(sizes(&qwen3_moe), (151_936, 768, 4, 64, 32_768));
    assert_eq!((qwen3_moe.hidden_size, qwen3_moe.layers, qwen3_moe.heads), (2048, 24, 32));
    assert_eq!(sizes(&olmoe), (50_304, 2048, 16, 128, 4096));
    assert_eq!((olmoe.hidden_size, olmoe.layers, olmoe.rms_norm_eps), (2048, 16, 1e-5));
    for (config, experts) in [(&qwen3_moe, 128), (&olmoe, 64)] {
        assert_eq!(config.experts, Some(Router { experts, chosen: 8, normalised: false }));
    }
    let qwen3_5_moe = bare("qwen3_5_moe_text");
    assert_eq!(sizes(&qwen3_5_moe), (248_320, 512, 2, 256, 32_768));
    assert_eq!((qwen3_5_moe.hidden_size, qwen3_5_moe.layers, qwen3_5_moe.heads), (2048, 40, 16));
    let router = Router { experts: 256, chosen: 8, normalised: true };
    assert_eq!((qwen3_5_moe.experts, qwen3_5_moe.shared_expert), (Some(router), Some(512)));
    assert_eq!((qwen3_5_moe.delta, &qwen3_5_moe.rope), (qwen3_5.delta, &qwen3_5.rope));
    assert_eq!((qwen2.experts, qwen3_moe.shared_expert), (None, None));
    for config in [qwen2, mistral, olmo2] {
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
    let phi3 = json!({"model_type": "phi3", "attention_bias": true});
    assert_eq!(biases(phi3).unwrap(), (false, false, false));
}

#[test]
fn layers_that_rotate_are_listed_or_counted() {
    let smollm3 = |patch: Value| {
        let base = json!({"model_type": "smollm3", "num_hidden_layers": 5});
        read(&with(base, &patch)).map(|config| (config.rotated, config.sliding_window))
    };
    let (yes, no) = (true, false);
    let rotated = |patch: Value| smollm3(patch).unwrap().0;
    assert_eq!(rotated(json!({})), [yes, yes, yes, no, yes]);
    assert_eq!(rotated(json!({"no_rope_layer_interval": 2})), [yes, no, yes, no, yes]);
    // A list may be longer than the model has layers, and prevails.
    let list = json!({"no_rope_layers": [0, 1, 1, 0, 1, 0], "no_rope_layer_interval": 2});
    assert_eq!(rotated(list.clone()), [no, yes, yes, no, yes]);
    let windows = with(list, &json!({"use_sliding_window": true, "sliding_window": 9}));
    assert_eq!(smollm3(windows).unwrap().1, [Some(9), None, None, Some(9), None]);
    for list in [json!([1, 1]), json!([1, 1, 1, 2, 1]), json!("all"), json!([1, 1, 1, true, 1])] {
        let error = smollm3(json!({"no_rope_layers": list})).unwrap_err().to_string();
        assert!(error.contains("no_rope_layers is") && error.contains("5 layers"), "{error}");
    }
    assert!(smollm3(json!({"no_rope_layer_interval": 0})).is_err());
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
    // transformers reads no max_window_layers for experts.
    let experts = |used| json!({"model_type": "qwen3_moe", "use_sliding_window": used});
    assert_eq!(qwen(with(experts(true), &json!({"max_window_layers": 3}))), [wide; 4]);
    assert_eq!(qwen(experts(false)), [full; 4]);
    assert_eq!(windows(json!({"model_type": "mistral", "sliding_window": 9})), [wide; 4]);
    assert_eq!(
        windows(json!({"model_type": "mistral", "sliding_window": 9, "layer_types": types})),
        [wide, full, full, wide]
    );
    assert_eq!(windows(json!({"model_type": "llama", "sliding_window": 9})), [full; 4]);
    let olmo3 = json!({"model_type": "olmo3", "sliding_window": 9});
    assert_eq!(windows(olmo3.clone()), [wide, wide, wide, full]);
    assert_eq!(windows(with(olmo3, &json!({"layer_types": types}))), [wide, full, full, wide]);
    let none = json!({"model_type": "olmo3", "sliding_window": null});
    assert!(read(&none).unwrap_err().to_string().contains("sliding_window is null"));
}

/// Both spellings of OLMo 3: layers without a window are stretched, those with one are not.
#[test]
fn layers_with_a_window_have_their_own_angles() {
    let olmo3 = |patch: &Value| read(&with(json!({"model_type": "olmo3"}), patch));
    let yarn = json!({
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
        "attention_factor": 1.2
    });
    let old = json!({"rope_scaling": yarn, "rope_theta": 3e5});
    let base = json!({"rope_theta": 3e5, "rope_type": "default"});
    let by_type = json!({
        "full_attention": with(yarn, &json!({"rope_theta": 3e5})), "sliding_attention": base
    });
    let new = json!({"rope_parameters": by_type});
    for spelling in [&old, &new] {
        let config = olmo3(spelling).unwrap();
        assert!(matches!(config.rope.scaling, RopeScaling::Yarn { factor: 8.0, .. }));
        assert_eq!(config.rope.theta, 3e5);
        assert_eq!(config.window_rope, Some(Rope::new(128, 3e5, RopeScaling::Default)));
        assert_eq!(config.context(), 65_536);
    }
    // As Gemma 3 is published: the context is stated as it is stretched.
    let gemma3 = json!({
        "model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "rope_local_base_freq": 300.0, "num_hidden_layers": 4, "sliding_window_pattern": 2
    });
    let config = read(&gemma3).unwrap();
    assert!(matches!(config.rope.scaling, RopeScaling::Linear { factor: 8.0 }));
    assert_eq!(config.window_rope, Some(Rope::new(256, 300.0, RopeScaling::Default)));
    assert_eq!(config.context(), 131_072);
    let window = Some(4096);
    assert_eq!(config.sliding_window, [window, None, window, None]);
    for (patch, named) in [
        (with(old.clone(), &new), "rope_scaling stands beside rope_parameters"),
        (json!({"rope_parameters": base}), "rope_parameters has no object full_attention"),
        (
            json!({"rope_parameters": {"full_attention": base, "sliding_attention": {"rope_type": "dynamic"}}}),
            "rope_parameters.sliding_attention.rope_type \"dynamic\"",
        ),
    ] {
        let error = olmo3(&patch).expect_err(named).to_string();
        assert!(error.contains(named), "{patch}: {error}");
    }
}

/// As google/gemma-3-4b-it has it: what the text model leaves out has its class's defaults.
#[test]
fn text_models_of_multimodal_ones_are_read_on_their_own() {
    let text = json!({
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024
    });
    let whole = json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255_999,
        "eos_token_id": [1, 106], "model_type": "gemma3", "text_config": text,
        "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152}
    });
    let mut config = read(&whole).unwrap();
    let remarks = std::mem::take(&mut config.remarks);
    assert!(remarks[0].contains("only the text model is used"), "{remarks:?}");
    assert_eq!((config.hidden_size, config.layers, config.vocab_size), (2560, 34, 262_208));
    assert_eq!((config.context(), config.sliding_window[5]), (131_072, None));
    let own = with(
        text,
        &json!({
            "architectures": ["Gemma3ForCausalLM"], "torch_dtype": "bfloat16",
            "eos_token_id": [1, 106]
        }),
    );
    assert_eq!(Value::Object(config.json.clone()), own);
    assert_eq!(read(&own).unwrap(), config);
    let untied = with(whole, &json!({"tie_word_embeddings": false}));
    assert!(!read(&untied).unwrap().tie_word_embeddings);
}

/// As microsoft/Phi-4-mini-instruct has it, without the numbers of its factors.
#[test]
fn first_features_of_a_head_may_turn_alone_and_contexts_end_where_angles_change() {
    let scaling = json!({
        "type": "longrope", "short_factor": vec![1.0; 48], "long_factor": vec![2.0; 48]
    });
    let phi4_mini = json!({
        "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 24,
        "num_key_value_heads": 8, "partial_rotary_factor": 0.75, "rope_scaling": scaling,
        "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096,
        "sliding_window": 262_144
    });
    let config = read(&phi4_mini).unwrap();
    assert_eq!((config.rope.inv_freq.len(), config.rope.pairs(), config.context()), (48, 64, 4096));
    let plain = Rope::new(96, 10_000.0, RopeScaling::Default);
    assert_eq!(config.rope.inv_freq, plain.inv_freq);
    let factor = (1.0 + 32f64.ln() / 4096f64.ln()).sqrt() as f32;
    assert_eq!(config.rope.attention_factor, factor);
    let (cos, sin) = config.rope.table(7..8);
    assert_eq!((cos.len(), &cos[48..], &sin[48..]), (64, &[1.0; 16][..], &[0.0; 16][..]));
    assert_eq!(cos[0], 7f64.cos() as f32 * factor);
    // Up to this context, that is the whole model.
    let short = with(phi4_mini, &json!({"max_position_embeddings": 4096}));
    assert_eq!(read(&short).unwrap().rope.attention_factor, 1.0);

    let yarn = json!({
        "rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16_384,
        "rope_theta": 1e6, "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0
    });
    let ministral = json!({"model_type": "ministral3", "rope_parameters": yarn});
    let config = read(&ministral).unwrap();
    assert_eq!((config.context(), config.rope.attention_factor), (16_384, 1.0));
}

#[test]
fn granite_4_rotates_if_it_says_so() {
    let rotated = |patch: Value| {
        let base = json!({
            "model_type": "granitemoehybrid", "num_hidden_layers": 2, "num_local_experts": 0,
            "layer_types": ["attention", "full_attention"], "shared_intermediate_size": 77
        });
        let config = read(&with(base, &patch)).unwrap();
        assert_eq!((config.intermediate_size, config.sliding_window), (77, vec![None; 2]));
        config.rotated
    };
    assert_eq!(rotated(json!({"position_embedding_type": "rope"})), [true; 2]);
    assert_eq!(rotated(json!({"position_embedding_type": "nope"})), [false; 2]);
    assert_eq!(rotated(json!({})), [false; 2]);
}

/// As in Granite 3.
#[test]
fn multipliers_are_factors() {
    let granite = |patch: Value| {
        read(&with(json!({"model_type": "granite"}), &patch)).map(|config| config.scales)
    };
    let none = Scales { scores: 1.0, embeddings: None, branches: None, hidden: None };
    assert_eq!(granite(json!({})).unwrap(), none);
    let published = json!({
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
        "residual_multiplier": 0.22
    });
    let (embeddings, branches, hidden) = (Some(12.0), Some(0.22), Some(0.125));
    let scales = Scales { scores: 0.015_625, embeddings, branches, hidden };
    assert_eq!(granite(published).unwrap(), scales);
    assert!(
        granite(json!({"logits_scaling": 0})).unwrap_err().to_string().contains("scaling is 0")
    );
    assert!(granite(json!({"scale_emb": 2})).unwrap_err().to_string().contains("scale_emb"));
}

/// Every refusal is one sentence that names the file and the key.
#[test]
fn refusals_name_the_key() {
    let yarn = |patch: Value| {
        let base = json!({"rope_type": "yarn", "factor": 2.0});
        json!({"rope_scaling": with(base, &patch)})
    };
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0});
    let experts =
        |patch: Value| with(json!({"model_type": "qwen3_moe", "architectures": null}), &patch);
    let hybrid = |patch: Value| {
        let base = json!({"model_type": "qwen3_5_text", "architectures": null});
        with(with(base, &json!({"num_hidden_layers": 2, "full_attention_interval": 2})), &patch)
    };
    let cases = [
        (json!({"model_type": "gemma2"}), "model_type \"gemma2\""),
        (json!({"model_type": null}), "model_type is missing"),
        (
            json!({"architectures": ["Qwen2ForRewardModel"]}),
            "architectures has \"Qwen2ForRewardModel\"",
        ),
        (json!({"architectures": "Qwen2ForCausalLM"}), "architectures is"),
        (json!({"hidden_act": "gelu"}), "hidden_act \"gelu\""),
        (
            json!({"quantization_config": {"quant_method": "awq"}}),
            "quantization_config.quant_method \"awq\" is not supported (\"fp8\" is): take the model",
        ),
        (
            json!({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}),
            "\"modelopt\" (NVFP4)",
        ),
        (json!({"quantization_config": {"load_in_4bit": true}}), "quant_method \"none\""),
        (json!({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}), "fmt \"e5m2\""),
        (
            json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 0]}}),
            "quantization_config.weight_block_size is [128,0]",
        ),
        (json!({"quantization_config": 8}), "quantization_config is not an object"),
        (json!({"text_config": []}), "text_config is not an object"),
        (
            json!({"text_config": {"model_type": "qwen2_5_vl_text"}}),
            "text_config.model_type \"qwen2_5_vl_text\" is not supported",
        ),
        (
            json!({"text_config": {"model_type": "gemma3_text", "vocab_size": 0}}),
            "text_config.vocab_size is 0",
        ),
        (json!({"num_experts": 8}), "num_experts is not supported"),
        (json!({"num_local_experts": 8}), "num_local_experts is not supported"),
        (experts(json!({"num_experts": 4})), "num_experts_per_tok is 8, more than the 4 experts"),
        (experts(json!({"num_experts": 9, "num_local_experts": 8})), "num_local_experts is 8"),
        (experts(json!({"num_experts": 1025})), "num_experts is 1025, not a whole number from 1"),
        (
            experts(json!({"num_experts": 1024, "num_hidden_layers": 65})),
            "num_experts is 1024, too many for 65 layers",
        ),
        (experts(json!({"moe_intermediate_size": 1 << 18})), "moe_intermediate_size 262144 times"),
        (experts(json!({"num_experts_per_tok": 0})), "num_experts_per_tok is 0"),
        (experts(json!({"decoder_sparse_step": 2})), "decoder_sparse_step is 2"),
        (experts(json!({"mlp_only_layers": [0]})), "mlp_only_layers is [0]"),
        (experts(json!({"clip_qkv": 8.0, "model_type": "olmoe"})), "clip_qkv"),
        (hybrid(json!({"linear_key_head_dim": 24})), "linear_key_head_dim is 24; multiples of 16"),
        (hybrid(json!({"linear_num_value_heads": 24})), "linear_num_value_heads is 24, not a"),
        (hybrid(json!({"linear_value_head_dim": 1 << 21})), "linear_value_head_dim"),
        (hybrid(json!({"linear_conv_kernel_dim": 1})), "linear_conv_kernel_dim is 1"),
        (hybrid(json!({"attn_output_gate": false})), "attn_output_gate is false"),
        (hybrid(json!({"layer_types": ["mamba", "mamba"]})), "layer_types has \"mamba\""),
        (
            hybrid(json!({"layer_types": ["linear_attention", "linear_attention"]})),
            "has no full_attention",
        ),
        (hybrid(json!({"layer_types": ["full_attention"]})), "layer_types has 1 entries for 2"),
        (hybrid(json!({"num_experts": 8})), "num_experts is not supported"),
        (json!({"attn_logit_softcapping": 50.0}), "attn_logit_softcapping"),
        (json!({"logits_scaling": 8.0}), "logits_scaling"),
        (json!({"no_rope_layers": [1, 0]}), "no_rope_layers"),
        (json!({"vocab_size": 0}), "vocab_size is 0"),
        (json!({"vocab_size": u64::MAX}), "vocab_size"),
        (json!({"hidden_size": "1536"}), "hidden_size"),
        (json!({"hidden_size": 1537}), "hidden_size is 1537"),
        (json!({"num_hidden_layers": 1_000_000_000}), "num_hidden_layers"),
        (json!({"num_key_value_heads": 5}), "num_key_value_heads is 5"),
        (json!({"head_dim": 7}), "head_dim is 7"),
        (json!({"head_dim": 16_777_216}), "head_dim"),
        (json!({"intermediate_size": 1.5}), "intermediate_size is 1.5"),
        (json!({"rms_norm_eps": 0.0}), "rms_norm_eps"),
        (json!({"tie_word_embeddings": "yes"}), "tie_word_embeddings"),
        (json!({"max_position_embeddings": 0}), "max_position_embeddings"),
        (json!({"rope_theta": 1}), "rope_theta"),
        (json!({"rope_theta": 1e200}), "rope_theta"),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor is 0.5"),
        (json!({"rope_scaling": 2.0}), "rope_scaling"),
        (
            json!({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}),
            "rope_scaling.short_factor is not a list of 64",
        ),
        (
            json!({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]}}),
            "rope_scaling.short_factor is not a list of 64",
        ),
        (
            json!({"rope_scaling": {"rope_type": "longrope", "short_factor": [0]}}),
            "rope_scaling.short_factor is [0], not a list of numbers",
        ),
        (
            json!({
                "rope_scaling": {"rope_type": "longrope", "original_max_position_embeddings": 1}
            }),
            "original_max_position_embeddings is 1",
        ),
        (json!({"rope_scaling": {"rope_type": "dynamic"}}), "rope_scaling.rope_type \"dynamic\""),
        (
            json!({"model_type": "ministral3", "architectures": null, "rope_theta": 1e6}),
            "rope_parameters is missing",
        ),
        (
            json!({"model_type": "granitemoehybrid", "architectures": null}),
            "layer_types is missing; Granite 4",
        ),
        (
            json!({
                "model_type": "granitemoehybrid", "architectures": null, "num_hidden_layers": 2,
                "layer_types": ["attention", "mamba"]
            }),
            "layer_types has \"mamba\"",
        ),
        (
            json!({
                "model_type": "granitemoehybrid", "architectures": null, "num_local_experts": 64
            }),
            "num_local_experts is not supported",
        ),
        (
            json!({"model_type": "phi3", "architectures": null, "partial_rotary_factor": 0.001}),
            "partial_rotary_factor is 0.001: 0 of 128 features",
        ),
        (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling.factor is missing"),
        (json!({"rope_scaling": {"type": "linear", "factor": 0}}), "rope_scaling.factor is 0"),
        (
            json!({"rope_parameters": {"rope_type": "linear", "factor": 1e300}}),
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
            json!({"rope_parameters": {"full_attention": {}}}),
            "rope_parameters differs by layer type",
        ),
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
        (json!({"use_bidirectional_attention": true}), "use_bidirectional_attention"),
        (
            json!({"model_type": "gemma3_text", "architectures": null, "hidden_activation": "silu"}),
            "hidden_activation \"silu\"",
        ),
        (
            json!({"model_type": "gemma3_text", "architectures": null, "query_pre_attn_scalar": 0}),
            "query_pre_attn_scalar is 0",
        ),
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
    let error = ModelConfig::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("has no config.json; the directory of a model holds"), "{error}");
    let absent = ModelConfig::read(&dir.path().join("absent"));
    assert!(matches!(absent, Err(Error::File(isentrope_files::Error::Io { .. }))));
    fs::create_dir(dir.path().join("config.json")).unwrap();
    assert!(matches!(ModelConfig::read(dir.path()), Err(Error::Invalid { .. })));
}
