//! The device that commands compute on: the only place that names one.

use anyhow::{Result, anyhow};
use isentrope_kernels::{Cpu, Isa, thread_count};

/// What models run on.
pub type Device = Cpu;

/// The device as environment and flags say.
pub fn open(threads: Option<usize>) -> Result<Device> {
    let isa = Isa::from_env().map_err(anyhow::Error::msg)?;
    let flag = if threads.is_some() { "--threads: " } else { "" };
    let threads = thread_count(threads).map_err(|e| anyhow!("{flag}{e}"))?;
    Device::new(isa, threads).map_err(anyhow::Error::msg)
}
