//! NVIDIA's driver: its GPUs, or why none can be used and what to do.

use super::calls::{Calls, DriverError};
use super::search::list;
use super::{Architecture, Error, Surroundings, Version, symbols};
use cudarc::driver::sys::{CUdevice_attribute, CUuuid};
use serde::Serialize;
use std::ffi::{c_char, c_int};
use std::path::Path;

/// Bytes that the name of a GPU may have.
const NAME: usize = 256;

/// The oldest CUDA version that a driver must support, as 525 does.
const OLDEST: Version = Version { major: 12, minor: Some(0) };

/// A working driver and its GPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Driver {
    /// The latest CUDA version that the driver supports: 13.0 for version 580.
    pub cuda: Version,
    /// The driver's version, such as 580.65.06, if known.
    pub release: Option<String>,
    /// The GPUs that this process may use, in the driver's order.
    pub gpus: Vec<GpuDescription>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuDescription {
    /// Such as NVIDIA H200.
    pub name: String,
    /// The GPU's name in every process, also in `nvidia-smi -L`; processes may number GPUs
    /// differently. A part of a GPU (MIG) has a UUID of its own.
    pub uuid: String,
    /// All of its memory.
    pub memory_bytes: u64,
    /// The architecture that code is compiled for.
    pub architecture: Architecture,
    /// Multiprocessors.
    pub processors: usize,
}

/// The reason why no driver can be used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoDriver {
    /// Whether the system shows an NVIDIA GPU at all.
    pub has_device: bool,
    /// The reason and the remedy, as a sentence.
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
    /// [`NoDriver`], when the driver is missing, is too old, fails, or shows no GPU.
    pub fn find(surroundings: &Surroundings) -> Result<Self, NoDriver> {
        Ok(Self::open(surroundings)?.0)
    }

    /// As [`find`](Self::find), with the driver's functions.
    pub(super) fn open(surroundings: &Surroundings) -> Result<(Self, Calls), NoDriver> {
        let traces = Traces::of(surroundings);
        let none = |why: String| NoDriver { has_device: traces.has_device, why };
        let library = symbols::open(Path::new("libcuda.so.1"))
            .map_err(|error| none(traces.without_library(&error)))?;
        let calls = Calls::load(library).map_err(|lack| {
            let named = traces.named();
            none(format!(
                "the NVIDIA driver{named} is too old ({lack}); install 525 or later, better 580 \
                 or later"
            ))
        })?;
        let failed = |error: DriverError| none(traces.refused(&error));
        // SAFETY: the only flag that there is, is 0.
        calls.check(unsafe { (calls.cuInit)(0) }).map_err(failed)?;
        let (mut number, mut count) = (0, 0);
        // SAFETY: the driver is initialised; it writes one number.
        calls.check(unsafe { (calls.cuDriverGetVersion)(&raw mut number) }).map_err(failed)?;
        let cuda = Version::of_driver(number);
        if cuda < OLDEST {
            return Err(none(format!(
                "the NVIDIA driver{} supports CUDA {cuda} only; install 525 or later, better 580 \
                 or later",
                traces.named()
            )));
        }
        // SAFETY: as above.
        calls.check(unsafe { (calls.cuDeviceGetCount)(&raw mut count) }).map_err(failed)?;
        let gpus: Result<Vec<_>, _> = (0..count).map(|ordinal| describe(&calls, ordinal)).collect();
        let gpus = gpus.map_err(failed)?;
        if gpus.is_empty() {
            return Err(failed(calls.failed(DriverError::NO_DEVICE)));
        }
        Ok((Self { cuda, release: traces.release, gpus }, calls))
    }
}

fn describe(calls: &Calls, ordinal: c_int) -> Result<GpuDescription, DriverError> {
    let (mut device, mut memory, mut name) = (0, 0, [0_u8; NAME]);
    // SAFETY: the driver is initialised, writes one number, and refuses unknown ordinals.
    calls.check(unsafe { (calls.cuDeviceGet)(&raw mut device, ordinal) })?;
    let room = c_int::try_from(NAME - 1).expect("a small number");
    // SAFETY: the driver has just named this device; it writes at most `room` bytes.
    calls.check(unsafe {
        (calls.cuDeviceGetName)(name.as_mut_ptr().cast::<c_char>(), room, device)
    })?;
    // SAFETY: as above; it writes one number.
    calls.check(unsafe { (calls.cuDeviceTotalMem_v2)(&raw mut memory, device) })?;
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: as above; it writes the 16 bytes of a UUID.
    calls.check(unsafe { (calls.cuDeviceGetUuid_v2)(&raw mut uuid, device) })?;
    let number = |attribute: CUdevice_attribute| {
        let mut value = 0;
        // SAFETY: as above.
        calls.check(unsafe {
            (calls.cuDeviceGetAttribute)(&raw mut value, attribute as u32, device)
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
    let name = String::from_utf8_lossy(&name[..length]).into_owned();
    Ok(GpuDescription {
        uuid: shown(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]), &name),
        name,
        memory_bytes: memory as u64,
        architecture: Architecture::new(
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        processors: number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
    })
}

/// A UUID as `nvidia-smi -L` shows it. The driver calls a part of a GPU such as
/// `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
fn shown(uuid: [u8; 16], name: &str) -> String {
    let kind = if name.contains(" MIG ") { "MIG" } else { "GPU" };
    let groups = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]];
    let hexadecimal =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    groups.into_iter().fold(kind.to_owned(), |said, group| format!("{said}-{}", hexadecimal(group)))
}

/// Signs of a GPU and its driver in the system, before the driver is asked.
struct Traces {
    /// A device of NVIDIA's on the bus, or its files in `/dev`.
    has_device: bool,
    /// The version of the driver's kernel module, which containers share.
    release: Option<String>,
}

impl Traces {
    fn of(surroundings: &Surroundings) -> Self {
        let read = |path: &str| std::fs::read_to_string(surroundings.system(path)).ok();
        let is_version = |word: &&str| {
            word.split('.').count() > 1 && word.split('.').all(|n| n.parse::<u32>().is_ok())
        };
        let texts = ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"]
            .into_iter()
            .filter_map(read);
        let release = texts
            .filter_map(|text| text.split_whitespace().find(is_version).map(str::to_owned))
            .next();
        // Display controllers (class 03) and accelerators (12) of the vendor 10de.
        let is_gpu = |device: &Path| {
            let read = |name: &str| std::fs::read_to_string(device.join(name)).unwrap_or_default();
            read("vendor").trim() == "0x10de"
                && ["0x03", "0x12"].iter().any(|class| read("class").starts_with(class))
        };
        let on_bus =
            list(&surroundings.system("/sys/bus/pci/devices")).iter().any(|device| is_gpu(device));
        Self { has_device: on_bus || surroundings.system("/dev/nvidiactl").exists(), release }
    }

    fn named(&self) -> String {
        self.release.as_ref().map(|release| format!(" {release}")).unwrap_or_default()
    }

    fn without_library(&self, error: &str) -> String {
        match (&self.release, self.has_device) {
            (Some(release), _) => format!(
                "the NVIDIA driver {release} runs on this machine, but its library is not here \
                 ({error}): start a container with \
                 the GPU (docker run --gpus all), elsewhere install the driver's libraries of \
                 the same version"
            ),
            (None, true) => {
                "an NVIDIA GPU is in this machine, but no driver: install version 580 or later \
                 (525 at least)"
                    .into()
            }
            (None, false) => "no NVIDIA GPU is in this machine".into(),
        }
    }

    fn refused(&self, failed: &DriverError) -> String {
        let what = match failed.code {
            DriverError::NO_DEVICE => {
                let hidden = "CUDA_VISIBLE_DEVICES hides all that there are, or this container \
                 was started without one";
                return format!(
                    "the NVIDIA driver{} shows no GPU: there is none, {hidden}",
                    self.named()
                );
            }
            DriverError::DRIVER_MISMATCH => {
                "its library and the part in the kernel differ in version; restart the machine \
                 after an update"
                    .to_owned()
            }
            DriverError::COMPATIBILITY => {
                "the forward-compatibility package does not go with this GPU; use the driver's \
                 own libcuda.so.1"
                    .to_owned()
            }
            DriverError::STUB_LIBRARY => {
                "the library that is found is the toolkit's stub; take its directory out of \
                 LD_LIBRARY_PATH"
                    .to_owned()
            }
            DriverError::NOT_READY => {
                "the system is not ready: on machines with NVSwitch the service \
                 nvidia-fabricmanager must run"
                    .to_owned()
            }
            _ => format!("{failed}; `nvidia-smi` may say more"),
        };
        format!("the NVIDIA driver{} cannot be used: {what}", self.named())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};
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

    /// The bytes are shown in their order in memory.
    #[test]
    fn a_uuid_is_shown_as_by_nvidia_smi() {
        let uuid: [u8; 16] = std::array::from_fn(|i| 0x11 * i as u8);
        assert_eq!(shown(uuid, "NVIDIA H200"), "GPU-00112233-4455-6677-8899-aabbccddeeff");
        let part = shown(uuid, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
        assert_eq!(part, "MIG-00112233-4455-6677-8899-aabbccddeeff");
    }

    /// Describes the GPUs of a machine with a driver; on any other machine, gives a sentence and
    /// does not panic.
    #[test]
    fn a_driver_or_a_sentence() {
        match Driver::find(&Surroundings::of_process()) {
            Ok(driver) => {
                assert!(
                    driver
                        .gpus
                        .iter()
                        .all(|gpu| gpu.memory_bytes > 0 && gpu.architecture.major > 0)
                );
                let uuids: BTreeSet<_> = driver.gpus.iter().map(|gpu| &gpu.uuid).collect();
                assert_eq!(uuids.len(), driver.gpus.len(), "{uuids:?}");
            }
            Err(none) => {
                assert!(none.why.len() > 20 && none.why.contains("NVIDIA"), "{}", none.why);
            }
        }
    }
}
