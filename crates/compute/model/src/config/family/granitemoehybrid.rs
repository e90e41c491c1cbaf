//! Granite 4 without experts and without layers of Mamba: Granite 3 under other names.

use super::{Defaults, Family, FamilyScales, Modules, PLAIN, Rotated, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Granite 4",
    model_type: "granitemoehybrid",
    architecture: "GraniteMoeHybridForCausalLM",
    defaults: Defaults { intermediate_size: 1024, ..SHARED },
    intermediate_size: "shared_intermediate_size",
    scales: FamilyScales::Multipliers,
    windows: Windows::NeverAsListed,
    rotated: Rotated::IfRope,
    modules: Modules {
        qkv: None,
        gate_up: Some("shared_mlp.input_linear"),
        down: "shared_mlp.output_linear",
    },
    ..PLAIN
};
