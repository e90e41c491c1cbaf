//! NVIDIA's driver: which GPUs there are, or why none can be used and what to do.

use super::places::list;
use super::{Architecture, Error, Surroundings, Version, symbols};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use serde::Serialize;
use std::path::Path;

/// The oldest CUDA that a driver must support: that of 525.
const OLDEST: Version = Version { major: 12, minor: Some(0) };

/// A driver that works, and the GPUs that it shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Driver {
    /// The CUDA version that it supports, 13.0 for a driver of version 580.
    pub cuda: Version,
    /// What it calls itself, such as 580.65.06, where that can be told.
    pub release: Option<String>,
    /// The GPUs that this process may use, in the driver's order.
    pub gpus: Vec<GpuDescription>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuDescription {
    /// Such as NVIDIA H200.
    pub name: String,
    /// All of its memory.
    pub memory_bytes: u64,
    /// What code is compiled for it.
    pub architecture: Architecture,
    /// Multiprocessors.
    pub processors: usize,
}

/// Why there is no driver to work with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoDriver {
    /// Whether there is an NVIDIA GPU at all, as far as the system shows.
    pub has_device: bool,
    /// A sentence that says what to do.
    pub why: String,
}

impl From<NoDriver> for Error {
    fn from(none: NoDriver) -> Self {
        Self::Driver(none.why)
    }
}

impl Driver {
    /// Loads the driver and asks it for its GPUs.
    ///
    /// # Errors
    /// [`NoDriver`], when there is none, it is too old, it fails, or it shows no GPU.
    pub fn find(surroundings: &Surroundings) -> Result<Self, NoDriver> {
        let traces = Traces::of(surroundings);
        let none = |why: String| NoDriver { has_device: traces.has_device, why };
        // cudarc panics where there is no such library, so it is asked only when there is one.
        symbols::open(Path::new("libcuda.so.1")).map_err(|error| none(traces.without_library(&error)))?;
        let failed = |error: DriverError| none(traces.refused(error.0));
        result::init().map_err(failed)?;
        let mut number = 0;
        // SAFETY: the driver is there and initialised; it writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut number) }.result().map_err(failed)?;
        let cuda = Version::of_driver(number);
        if cuda < OLDEST {
            return Err(none(format!(
                "the NVIDIA driver{} supports CUDA {cuda} only; install 525 or later, better 580 or later",
                traces.named()
            )));
        }
        let count = result::device::get_count().map_err(failed)?;
        let gpus: Result<Vec<_>, _> = (0..count).map(describe).collect();
        let gpus = gpus.map_err(failed)?;
        if gpus.is_empty() {
            return Err(none(traces.refused(CUresult::CUDA_ERROR_NO_DEVICE)));
        }
        Ok(Self { cuda, release: traces.release, gpus })
    }
}

fn describe(ordinal: i32) -> Result<GpuDescription, DriverError> {
    let device = result::device::get(ordinal)?;
    // SAFETY: the device is one that the driver has just named.
    let attribute = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    let number = |which| attribute(which).map(|value| u32::try_from(value).unwrap_or(0));
    Ok(GpuDescription {
        name: result::device::get_name(device)?,
        // SAFETY: as above.
        memory_bytes: unsafe { result::device::total_mem(device) }? as u64,
        architecture: Architecture::new(
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        processors: number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
    })
}

/// What the system shows of a GPU and its driver before the driver is asked.
struct Traces {
    /// A device of NVIDIA's on the bus, or its files in `/dev`.
    has_device: bool,
    /// The kernel's part of the driver, which containers share.
    release: Option<String>,
}

impl Traces {
    fn of(surroundings: &Surroundings) -> Self {
        let read = |path: &str| std::fs::read_to_string(surroundings.system(path)).ok();
        let is_version =
            |word: &&str| word.split('.').count() > 1 && word.split('.').all(|n| n.parse::<u32>().is_ok());
        let texts =
            ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"].into_iter().filter_map(read);
        let release =
            texts.filter_map(|text| text.split_whitespace().find(is_version).map(str::to_owned)).next();
        // Display controllers (class 03) and accelerators (12) of the vendor 10de.
        let is_gpu = |device: &Path| {
            let read = |name: &str| std::fs::read_to_string(device.join(name)).unwrap_or_default();
            read("vendor").trim() == "0x10de"
                && ["0x03", "0x12"].iter().any(|class| read("class").starts_with(class))
        };
        let on_bus = list(&surroundings.system("/sys/bus/pci/devices")).iter().any(|device| is_gpu(device));
        Self { has_device: on_bus || surroundings.system("/dev/nvidiactl").exists(), release }
    }

    fn named(&self) -> String {
        self.release.as_ref().map(|release| format!(" {release}")).unwrap_or_default()
    }

    fn without_library(&self, error: &str) -> String {
        match (&self.release, self.has_device) {
            (Some(release), _) => format!(
                "the NVIDIA driver {release} runs on this machine, but its library is not here ({error}): start a container with \
                 the GPU (docker run --gpus all), elsewhere install the driver's libraries of the same version"
            ),
            (None, true) => {
                "an NVIDIA GPU is in this machine, but no driver: install version 580 or later (525 at least)"
                    .into()
            }
            (None, false) => "no NVIDIA GPU is in this machine".into(),
        }
    }

    fn refused(&self, code: CUresult) -> String {
        let what = match code {
            CUresult::CUDA_ERROR_NO_DEVICE => {
                let hidden = "CUDA_VISIBLE_DEVICES hides all that there are, or this container was started without one";
                return format!("the NVIDIA driver{} shows no GPU: there is none, {hidden}", self.named());
            }
            CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                "its library and the part in the kernel differ in version; restart the machine after an update".to_owned()
            }
            CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                "the forward-compatibility package does not go with this GPU; use the driver's own libcuda.so.1".to_owned()
            }
            CUresult::CUDA_ERROR_STUB_LIBRARY => {
                "the library that is found is the toolkit's stub; take its directory out of LD_LIBRARY_PATH".to_owned()
            }
            CUresult::CUDA_ERROR_SYSTEM_NOT_READY => {
                "the system is not ready: on machines with NVSwitch the service nvidia-fabricmanager must run".to_owned()
            }
            other => format!("{}; `nvidia-smi` may say more", told(other)),
        };
        format!("the NVIDIA driver{} cannot be used: {what}", self.named())
    }
}

/// The driver's own words for a code.
pub(super) fn told(code: CUresult) -> String {
    let words = DriverError(code).error_string().ok().map(|text| text.to_string_lossy().into_owned());
    words.unwrap_or_else(|| format!("{code:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::fs;

    fn traces(files: &[(&str, &str)]) -> Traces {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = root.path().to_owned();
        Traces::of(&Surroundings { root, home: None, variables: HashMap::new() })
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let nothing = traces(&[
            ("sys/bus/pci/devices/0/vendor", "0x8086\n"),
            ("sys/bus/pci/devices/0/class", "0x030000\n"),
        ]);
        assert!(!nothing.has_device);
        assert_eq!(nothing.without_library("x"), "no NVIDIA GPU is in this machine");
        let device = traces(&[
            ("sys/bus/pci/devices/0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0/class", "0x030200\n"),
        ]);
        assert!(device.has_device && device.without_library("x").contains("install version 580"));
        let container = traces(&[
            ("dev/nvidiactl", ""),
            (
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\n",
            ),
        ]);
        assert_eq!(container.release.as_deref(), Some("580.65.06"));
        assert!(container.without_library("not found").contains("--gpus all"));
        let other = traces(&[("sys/module/nvidia/version", "550.54.15\n")]);
        assert_eq!(other.release.as_deref(), Some("550.54.15"));
    }

    /// On a machine with a driver this describes its GPUs; on one without, it says so and does not panic.
    #[test]
    fn a_driver_or_a_sentence() {
        match Driver::find(&Surroundings::of_process()) {
            Ok(driver) => {
                assert!(driver.gpus.iter().all(|gpu| gpu.memory_bytes > 0 && gpu.architecture.major > 0));
            }
            Err(none) => assert!(none.why.len() > 20 && none.why.contains("NVIDIA"), "{}", none.why),
        }
    }
}
