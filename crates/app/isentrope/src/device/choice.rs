//! The device to compute on: a flag, the environment or the recipe names it.

use anyhow::{Context, Result};
use clap::Args;
use isentrope_train::settings::DeviceKind;
use std::fmt;
use std::str::FromStr;

/// The variable that names the device if no flag does.
const VARIABLE: &str = "ISENTROPE_DEVICE";

/// The flag of every command that computes.
#[derive(Args, Default)]
pub struct DeviceFlag {
    /// Computes there: auto (a GPU where one can be used, else the CPU), cpu, cuda, or one of
    /// several GPUs as cuda:1
    /// [default: ISENTROPE_DEVICE, else the recipe's device.kind, else auto]. The bits of f32 do not depend on it
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceRequest>,
}

/// A device as flags name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Its kind.
    pub kind: DeviceKind,
    /// Which of them.
    pub index: GpuChoice,
}

/// Which GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuChoice {
    /// The first GPU; with several ranks on a machine, rank 0 has the first, rank 1 the next, and
    /// so on.
    #[default]
    Any,
    /// This one, counted from 0.
    Named(usize),
}

/// The place of this process among the job's processes on its machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalRank {
    /// Its number, from 0.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// Whether this process prints the job's messages.
    pub speaks: bool,
}

impl LocalRank {
    /// The rank of a process that is alone.
    pub const ALONE: Self = Self { number: 0, of: 1, speaks: true };
}

impl DeviceRequest {
    /// The GPU of this number.
    pub const fn gpu(index: usize) -> Self {
        Self { kind: DeviceKind::Cuda, index: GpuChoice::Named(index) }
    }
}

impl From<DeviceKind> for DeviceRequest {
    fn from(kind: DeviceKind) -> Self {
        Self { kind, index: GpuChoice::Any }
    }
}

/// As flags name it.
impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.index) {
            (DeviceKind::Auto, _) => f.write_str("auto"),
            (DeviceKind::Cpu, _) => f.write_str("cpu"),
            (DeviceKind::Cuda, GpuChoice::Any) => f.write_str("cuda"),
            (DeviceKind::Cuda, GpuChoice::Named(index)) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for DeviceRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = match text {
            "auto" => DeviceKind::Auto,
            "cpu" => DeviceKind::Cpu,
            "cuda" => DeviceKind::Cuda,
            _ => {
                let index = text.strip_prefix("cuda:").and_then(|index| index.parse().ok());
                let index = index
                    .ok_or("a device is auto, cpu, cuda or cuda:N, the GPU N counted from 0")?;
                return Ok(Self::gpu(index));
            }
        };
        Ok(kind.into())
    }
}

/// The device that the flag names, else the environment, else the recipe.
///
/// # Errors
/// When the variable names no device.
pub fn request(flag: &DeviceFlag, recipe: DeviceKind) -> Result<DeviceRequest> {
    Ok(requested(flag)?.unwrap_or(recipe.into()))
}

/// The device that the flag or else the environment names, whatever recipes say.
///
/// # Errors
/// When the variable names no device.
pub fn requested(flag: &DeviceFlag) -> Result<Option<DeviceRequest>> {
    match (flag.device, std::env::var_os(VARIABLE)) {
        (Some(device), _) => Ok(Some(device)),
        (None, Some(text)) if !text.is_empty() => {
            let text = text.to_string_lossy(); // no device has a name that is not UTF-8
            let request = text.parse().map_err(anyhow::Error::msg);
            request.map(Some).with_context(|| format!("{VARIABLE} is {text:?}"))
        }
        (None, _) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        let parsed = |text: &str| text.parse::<DeviceRequest>();
        assert_eq!(parsed("auto"), Ok(DeviceRequest::default()));
        assert_eq!(parsed("cuda:3").unwrap().index, GpuChoice::Named(3));
        for name in ["auto", "cpu", "cuda", "cuda:0", "cuda:12"] {
            assert_eq!(parsed(name).unwrap().to_string(), name);
        }
        assert_eq!(parsed("cuda"), Ok(DeviceKind::Cuda.into()));
        for wrong in ["", "CPU", "gpu", "cuda:", "cuda:-1", "cuda:a", "cuda:99999999999999999999"] {
            assert!(parsed(wrong).unwrap_err().contains("cuda:N"), "{wrong}");
        }
    }
}
