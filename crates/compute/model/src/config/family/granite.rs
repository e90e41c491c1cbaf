//! Granite 3: Llama's block with factors.

use super::{Family, FamilyScales, PLAIN, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "Granite",
    model_type: "granite",
    architecture: "GraniteForCausalLM",
    defaults: SHARED,
    scales: FamilyScales::Multipliers,
    ..PLAIN
};
