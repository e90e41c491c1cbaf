//! The device that commands compute on: the only place that tells devices apart.

mod choice;
mod contained;

pub use choice::{DeviceFlag, Seat, Wanted, wanted};
pub use contained::Failed;

use crate::gpus::{AboutGpu, Gpus, NoGpu, OpenGpu};
use crate::memory::Memory;
use crate::messages;
use anyhow::{Result, anyhow, bail};
use choice::Index;
use contained::contained;
use isentrope_cuda::{AnyDevice, Cuda, Device as _, Dtype, self_test};
use isentrope_kernels::{Backend, Cpu, Isa, thread_count};
use isentrope_train::settings::{DeviceKind, NumberType};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// The GPUs of this process, which `main` is given.
static GPUS: OnceLock<Box<dyn Gpus>> = OnceLock::new();

/// What is done on a device, whichever it is.
pub trait Job {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<B: Backend>(self, backend: Arc<B>, device: &Device) -> Result<Self::Output>;
}

/// A device that is ready to compute.
#[derive(Clone)]
pub struct Device {
    computes: Computes,
    dtype: NumberType,
    /// Ranks that share it, this one among them.
    sharers: usize,
}

#[derive(Clone)]
enum Computes {
    Cpu(Arc<Cpu>),
    Gpu { backend: Arc<Cuda<AnyDevice>>, index: usize, about: AboutGpu },
}

/// Says which GPUs there are, before the first command asks.
pub fn set_gpus(gpus: Box<dyn Gpus>) {
    let _ = GPUS.set(gpus); // a process has one program
}

fn gpus() -> &'static dyn Gpus {
    &**GPUS.get_or_init(|| Box::new(crate::gpus::NvidiaGpus))
}

/// The CPU, with as many threads as flag and environment say.
pub fn cpu(threads: Option<usize>) -> Result<Cpu> {
    let isa = Isa::from_env().map_err(anyhow::Error::msg)?;
    let flag = if threads.is_some() { "--threads: " } else { "" };
    let threads = thread_count(threads).map_err(|e| anyhow!("{flag}{e}"))?;
    Cpu::new(isa, threads).map_err(anyhow::Error::msg)
}

/// Opens a device. `dtype` is a type of numbers with the name of what sets it, `device.dtype` or `--dtype`.
///
/// # Errors
/// When the device cannot be used, fails its self-test, or does not compute with such numbers.
pub fn open(
    wanted: Wanted,
    (setting, dtype): (&str, NumberType),
    threads: Option<usize>,
    seat: Seat,
) -> Result<Device> {
    let on_cpu = || Ok(Device { computes: Computes::Cpu(Arc::new(cpu(threads)?)), dtype, sharers: seat.of });
    let f32_alone = |why: &str, remedy: &str| {
        anyhow!(
            "{setting} is bf16, and only a GPU computes with bf16: {why}; {remedy}, or set {setting} to f32"
        )
    };
    if wanted.kind == DeviceKind::Cpu {
        return match dtype {
            NumberType::F32 => on_cpu(),
            NumberType::Bf16 => Err(f32_alone("the device is the CPU", "compute on a GPU (--device cuda)")),
        };
    }
    match open_gpu(&wanted, seat) {
        Ok((OpenGpu { device, about }, index, sharers)) => {
            let kept = match dtype {
                NumberType::F32 => Dtype::F32,
                NumberType::Bf16 => Dtype::Bf16,
            };
            // What is drawn on the host has the bits of every instruction set.
            let backend = Arc::new(Cuda::new(Arc::new(device), kept));
            if let Err(wrong) = contained(|| self_test(&backend).map_err(anyhow::Error::msg)) {
                let wrong =
                    format!("GPU {index}, {}, fails the self-test: {wrong}; please report it", about.name);
                if wanted.kind == DeviceKind::Cuda || dtype == NumberType::Bf16 {
                    bail!("{wrong}; --device cpu and f32 do without it");
                }
                if seat.speaks {
                    messages::note(&format!("computing on the CPU: {wrong}"));
                }
                return on_cpu();
            }
            Ok(Device { computes: Computes::Gpu { backend, index, about }, dtype, sharers })
        }
        Err(NoGpu { why, .. }) if wanted.kind == DeviceKind::Cuda => {
            bail!("no GPU can be used: {why}; `isentrope doctor` says more, and --device cpu does without")
        }
        Err(NoGpu { why, .. }) if dtype == NumberType::Bf16 => Err(f32_alone(
            &format!("none can be used here: {why}"),
            "see `isentrope doctor` (--install-cuda fetches libraries that are missing)",
        )),
        Err(NoGpu { is_amiss, why }) => {
            if is_amiss && seat.speaks {
                messages::note(&format!(
                    "computing on the CPU, since no GPU can be used: {why}; --device cpu says that this is wanted"
                ));
            }
            on_cpu()
        }
    }
}

/// The GPU that is wanted or that this rank's seat comes to, its number, and how many ranks of this machine share it.
fn open_gpu(wanted: &Wanted, seat: Seat) -> Result<(OpenGpu, usize, usize), NoGpu> {
    let count = gpus().count()?;
    let (index, sharers) = match wanted.index {
        Index::Any => (seat.place % count, seat.sharers(count)),
        Index::Named(index) => (index, seat.of),
    };
    if index >= count {
        let why = format!("there is no GPU {index}, the driver shows {count}, counted from 0");
        return Err(NoGpu { is_amiss: true, why });
    }
    match gpus().open(index) {
        Ok(gpu) => Ok((gpu, index, sharers)),
        Err(why) => Err(NoGpu { is_amiss: true, why }),
    }
}

impl Device {
    /// Does a job on it.
    ///
    /// # Errors
    /// The job's; that the GPU has failed or has too little memory, which ends jobs on it.
    pub fn run<J: Job>(&self, job: J) -> Result<J::Output> {
        match &self.computes {
            Computes::Cpu(cpu) => job.run(Arc::clone(cpu), self),
            Computes::Gpu { backend, .. } => {
                let backend = Arc::clone(backend);
                contained(|| job.run(backend, self))
            }
        }
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self.computes, Computes::Gpu { .. })
    }

    /// Bytes of its memory that are free.
    pub fn free_memory(&self) -> usize {
        match &self.computes {
            Computes::Cpu(_) => usize::try_from(Memory::now().available).unwrap_or(usize::MAX),
            Computes::Gpu { backend, .. } => backend.device().memory_info().free,
        }
    }

    /// Bytes that this process may take of what is free, or of so many if that is less: others may share the device.
    pub fn available(&self, most: usize) -> usize {
        self.free_memory().min(most) / self.sharers
    }

    /// What does not fit, with what would on a GPU whose numbers the CPU keeps too.
    pub fn unfitting(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        let error = error.into();
        if self.is_gpu() && self.dtype == NumberType::F32 {
            return anyhow!(
                "{error}; on the CPU (--device cpu) it has the machine's memory, and the same bits"
            );
        }
        error
    }

    /// Which bits it computes: whatever has the same name computes the same.
    pub fn arithmetic(&self) -> &'static str {
        match (&self.computes, self.dtype) {
            (Computes::Gpu { backend, .. }, NumberType::Bf16) => {
                bf16_arithmetic(backend.device().limits().capability)
            }
            _ => "f32",
        }
    }

    /// What manifests say of it.
    pub fn manifest(&self) -> Value {
        let gradients = "do not depend on micro-batches"; // docs/numerics.md, of every arithmetic
        let mut said =
            json!({ "dtype": self.dtype, "arithmetic": self.arithmetic(), "gradients": gradients });
        match &self.computes {
            Computes::Cpu(_) => said["kind"] = "cpu".into(),
            Computes::Gpu { backend, index, about, .. } => {
                let (major, minor) = backend.device().limits().capability;
                said["kind"] = "cuda".into();
                said["index"] = (*index).into();
                said["gpu"] = json!(about);
                said["capability"] = format!("{major}.{minor}").into();
                said["products"] = match (self.dtype, &about.cublaslt) {
                    (NumberType::Bf16, Some(_)) => {
                        "cuBLASLt, where its bits are those of own kernels; else these".into()
                    }
                    _ => "own kernels".into(),
                };
            }
        }
        said
    }

    /// A line for people, of a GPU alone.
    pub fn heading(&self) -> Option<String> {
        match &self.computes {
            Computes::Cpu(_) => None,
            Computes::Gpu { backend, index, .. } => {
                let name = backend.device().name();
                Some(format!("computing on cuda:{index}, {name}, in {}", self.dtype))
            }
        }
    }
}

/// The name of what a GPU of this compute capability computes with bf16: the sums of its tensor cores (docs/numerics.md).
pub fn bf16_arithmetic(capability: (u32, u32)) -> &'static str {
    if capability.0 >= 9 { "bf16-t16" } else { "bf16-t8" }
}
