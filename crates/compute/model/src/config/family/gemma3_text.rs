//! The text models of Gemma 3.

use super::{
    BranchNorms, Defaults, Family, FamilyScales, PLAIN, QkNorm, SHARED, WindowRope, Windows,
};
use isentrope_kernels::Gate;

pub(super) static FAMILY: Family = Family {
    name: "Gemma 3",
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    defaults: Defaults {
        vocab_size: 262_208,
        hidden_size: 2304,
        intermediate_size: 9216,
        layers: 26,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        max_position_embeddings: 131_072,
        tie_word_embeddings: true,
        rope_theta: 1e6,
        sliding_window: Some(4096),
        ..SHARED
    },
    norms: BranchNorms::Around,
    norm_shift: 1.0,
    qk_norm: Some(QkNorm::Heads),
    gate: Gate::GeluTanh,
    scales: FamilyScales::Roots(256.0),
    windows: Windows::AllButEvery { key: Some("sliding_window_pattern"), interval: 6 },
    window_rope: Some(WindowRope { key: "rope_local_base_freq", theta: 10_000.0 }),
    ..PLAIN
};
