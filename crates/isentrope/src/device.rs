//! The device that commands compute on: the only place that names one.

use anyhow::{Result, anyhow};
use isentrope_kernels::{Cpu, Isa, thread_count};

/// What models run on.
pub type Device = Cpu;

/// What is said of a device.
pub struct Description {
    /// The instruction set that it computes with.
    pub instruction_set: String,
    /// Those that it could compute with.
    pub available: Vec<String>,
    /// Its threads.
    pub threads: usize,
}

/// What manifests and `doctor` say of the device.
pub fn describe(device: &Device) -> Description {
    Description {
        instruction_set: device.isa().to_string(),
        available: Isa::available().iter().map(ToString::to_string).collect(),
        threads: device.threads(),
    }
}

/// The device as environment and flags say.
pub fn open(threads: Option<usize>) -> Result<Device> {
    let isa = Isa::from_env().map_err(anyhow::Error::msg)?;
    let flag = if threads.is_some() { "--threads: " } else { "" };
    let threads = thread_count(threads).map_err(|e| anyhow!("{flag}{e}"))?;
    Device::new(isa, threads).map_err(anyhow::Error::msg)
}
