//! OLMo 3: OLMo 2 with windows in three of four layers, whose positions are not stretched.

use super::{BranchNorms, Defaults, Family, PLAIN, QkNorm, SHARED, WindowRope, Windows};

const THETA: f64 = 500_000.0;

pub(super) static FAMILY: Family = Family {
    name: "OLMo 3",
    model_type: "olmo3",
    architecture: "Olmo3ForCausalLM",
    defaults: Defaults {
        vocab_size: 50_304,
        rms_norm_eps: 1e-5,
        rope_theta: THETA,
        sliding_window: Some(4096),
        ..SHARED
    },
    norms: BranchNorms::Behind,
    qk_norm: Some(QkNorm::Whole),
    windows: Windows::AllButEvery { key: None, interval: 4 },
    window_rope: Some(WindowRope { key: "rope_theta", theta: THETA }),
    ..PLAIN
};
