//! The device that a run computes on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where the run computes, and what it keeps numbers as (docs/guides/gpus.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSettings {
    /// The device, where neither `--device` nor `ISENTROPE_DEVICE` says. It does not change a
    /// result: numbers kept as f32 have the same bits on all, and bf16 is computed by GPUs alone.
    pub kind: DeviceKind,
    /// The type of activations, keys and values, and of the operands of products. Unlike `kind`, it
    /// decides the bits of the run.
    pub dtype: NumberType,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// An NVIDIA GPU where one can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, or an error that says why none can be used.
    Cuda,
}

/// A type that numbers are kept as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NumberType {
    /// Single precision: the arithmetic of the CPU, which GPUs repeat to the last bit.
    #[default]
    F32,
    /// bfloat16, with products on the GPU's tensor cores: much faster there, and nowhere else.
    /// Weights, gradients and moments stay exact f32. Each generation of GPUs has its own bits.
    Bf16,
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}
