//! Phi-3, Phi-4, Phi-4-mini and what shares their shape.

use super::{AttentionBias, Defaults, Family, Modules, PLAIN, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Phi 3",
    model_type: "phi3",
    architecture: "Phi3ForCausalLM",
    defaults: Defaults {
        vocab_size: 32_064,
        hidden_size: 3072,
        intermediate_size: 8192,
        rms_norm_eps: 1e-5,
        max_position_embeddings: 4096,
        ..SHARED
    },
    attention_bias: AttentionBias::Never,
    windows: Windows::Always,
    turned_share: Some(1.0),
    modules: Modules {
        qkv: Some("self_attn.qkv_proj"),
        gate_up: Some("mlp.gate_up_proj"),
        down: "mlp.down_proj",
    },
    ..PLAIN
};
