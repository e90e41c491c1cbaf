//! OLMo 2: norms behind the branches, and of all queries and all keys together.

use super::{BranchNorms, Defaults, Family, PLAIN, QkNorm, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "OLMo 2",
    model_type: "olmo2",
    architecture: "Olmo2ForCausalLM",
    defaults: Defaults { vocab_size: 50_304, rms_norm_eps: 1e-5, ..SHARED },
    norms: BranchNorms::Behind,
    qk_norm: Some(QkNorm::Whole),
    ..PLAIN
};
