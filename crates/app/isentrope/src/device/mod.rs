//! The device that commands compute on. Only this module distinguishes devices.

mod choice;
mod contained;
mod links;
mod shapes;

pub use choice::{DeviceFlag, DeviceRequest, LocalRank, request, requested};
pub use contained::{Failed, contained};
pub use links::{bandwidth, connect};
pub use shapes::check_shapes;

use crate::gpus::{AboutGpu, Gpus, NoGpu, OpenGpu};
use crate::memory::Memory;
use crate::messages;
use anyhow::{Result, anyhow, bail};
use choice::GpuChoice;
use isentrope_cuda::{Cuda, DataSheet, Dtype, Layer, Products, Replays, self_test};
use isentrope_kernels::{Backend, Cpu, Isa, Linear, thread_count};
use isentrope_model::{Layout, ModelConfig};
use isentrope_ranks::World;
use isentrope_train::settings::{DeviceKind, NumberType};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The GPUs of this process, which `main` is given.
static GPUS: OnceLock<Box<dyn Gpus>> = OnceLock::new();

/// A device that is ready to compute.
#[derive(Clone)]
pub struct Device {
    computes: Computes,
    dtype: NumberType,
    /// The number of ranks, this one included, that share the device's memory; [`settle`] sets it
    /// for a GPU.
    sharers: usize,
}

#[derive(Clone)]
enum Computes {
    Cpu(Arc<Cpu>),
    Gpu { backend: Arc<Cuda>, index: usize, about: AboutGpu },
}

/// Sets the GPUs of this process, before the first command asks.
pub fn set_gpus(gpus: Box<dyn Gpus>) {
    let _ = GPUS.set(gpus); // a process has one program
}

fn gpus() -> &'static dyn Gpus {
    &**GPUS.get_or_init(|| Box::new(crate::gpus::NvidiaGpus))
}

/// The CPU, with the number of threads from the flag or the environment.
pub fn cpu(threads: Option<usize>) -> Result<Cpu> {
    let (isa, threads) = host(threads)?;
    Cpu::new(isa, threads).map_err(anyhow::Error::msg)
}

/// The host's instruction set and number of threads, from the flag and the environment.
fn host(threads: Option<usize>) -> Result<(Isa, usize)> {
    Ok((Isa::from_env().map_err(anyhow::Error::msg)?, self::threads(threads)?))
}

/// The number of threads: the flag's, else the environment's, else one per core.
///
/// # Errors
/// When it is out of range, with the name of the flag or the variable.
pub fn threads(flag: Option<usize>) -> Result<usize> {
    let named = if flag.is_some() { "--threads: " } else { "" };
    thread_count(flag).map_err(|error| anyhow!("{named}{error}"))
}

/// Opens a device for numbers of a type, which `setting` has chosen, `device.dtype` or `--dtype`.
///
/// # Errors
/// When the device cannot be used, fails its self-test, or does not compute with such numbers; when
/// the host's number of threads or instruction set is wrong, whatever the device.
pub fn open(
    request: DeviceRequest,
    setting: &str,
    dtype: NumberType,
    threads: Option<usize>,
    rank: LocalRank,
) -> Result<Device> {
    host(threads)?;
    let on_cpu = || {
        let computes = Computes::Cpu(Arc::new(cpu(threads)?));
        Ok(Device { computes, dtype, sharers: rank.of })
    };
    let f32_alone = |why: &str, remedy: &str| {
        anyhow!(
            "{setting} is bf16, and only a GPU computes with bf16: {why}; {remedy}, or set \
             {setting} to f32"
        )
    };
    if request.kind == DeviceKind::Cpu {
        return match dtype {
            NumberType::F32 => on_cpu(),
            NumberType::Bf16 => {
                Err(f32_alone("the device is the CPU", "compute on a GPU (--device cuda)"))
            }
        };
    }
    match open_gpu(&request, rank) {
        Ok((OpenGpu { device, about }, index)) => {
            let kept = match dtype {
                NumberType::F32 => Dtype::F32,
                NumberType::Bf16 => Dtype::Bf16,
            };
            // Draws on the host have the bits of every instruction set.
            let backend = Arc::new(Cuda::new(device, kept));
            let tested = contained(|| self_test(&backend).map_err(anyhow::Error::msg));
            // A device without the memory for a test of some megabytes fails later, at its real
            // work, with a better message.
            let lacks = |wrong: &anyhow::Error| {
                wrong.downcast_ref::<Failed>().is_some_and(Failed::lacks_memory)
            };
            if let Some(wrong) = tested.err().filter(|wrong| !lacks(wrong)) {
                let wrong = format!(
                    "GPU {index}, {}, fails the self-test: {wrong}; please report it",
                    about.name
                );
                if request.kind == DeviceKind::Cuda || dtype == NumberType::Bf16 {
                    bail!("{wrong}; --device cpu and f32 do without it");
                }
                if rank.speaks {
                    messages::note(&format!("computing on the CPU: {wrong}"));
                }
                return on_cpu();
            }
            let computes = Computes::Gpu { backend, index, about };
            Ok(Device { computes, dtype, sharers: 1 })
        }
        Err(NoGpu { why, .. }) if request.kind == DeviceKind::Cuda => {
            bail!(
                "no GPU can be used: {why}; `isentrope doctor` says more, and --device cpu does \
                 without"
            )
        }
        Err(NoGpu { why, .. }) if dtype == NumberType::Bf16 => Err(f32_alone(
            &format!("none can be used here: {why}"),
            "see `isentrope doctor` (--install-cuda fetches libraries that are missing)",
        )),
        Err(NoGpu { is_amiss, why }) => {
            if is_amiss && rank.speaks {
                messages::note(&format!(
                    "computing on the CPU, since no GPU can be used: {why}; --device cpu says \
                     that this is wanted"
                ));
            }
            on_cpu()
        }
    }
}

/// Opens every usable GPU if GPUs are requested and none is named, one for each process; else the
/// one device. Notes say why a GPU is left out.
///
/// # Errors
/// As [`open`].
pub fn open_all(
    request: DeviceRequest,
    threads: Option<usize>,
) -> Result<Vec<(DeviceRequest, Device)>> {
    let first = open(request, "device.dtype", NumberType::F32, threads, LocalRank::ALONE)?;
    let Computes::Gpu { index, .. } = first.computes else { return Ok(vec![(request, first)]) };
    let count = gpus().count().unwrap_or(1);
    if count == 1 || request.index != GpuChoice::Any {
        return Ok(vec![(request, first)]);
    }
    let mut all = vec![(DeviceRequest::gpu(index), first)];
    // The GPUs before it cannot be used.
    for other in (index + 1..count).map(DeviceRequest::gpu) {
        match open(other, "device.dtype", NumberType::F32, threads, LocalRank::ALONE) {
            Ok(device) => all.push((other, device)),
            Err(error) => {
                messages::note(&format!("{other} is left out: {}", crate::sentence(&error)));
            }
        }
    }
    Ok(all)
}

/// Finds by UUID how many ranks share this rank's GPU, because a launcher may show each rank only
/// one GPU. All ranks must call it.
///
/// # Errors
/// When ranks cannot be asked.
pub fn settle(device: &mut Device, world: &World) -> Result<()> {
    let own = match &device.computes {
        Computes::Gpu { about, .. } => about.uuid.as_str(),
        Computes::Cpu(_) => "",
    };
    let all = world.gather(own.as_bytes())?;
    if !own.is_empty() {
        device.sharers = all.iter().filter(|uuid| uuid[..] == *own.as_bytes()).count();
    }
    Ok(())
}

/// Opens the requested GPU, or the one for this rank on its machine; also returns its number. A
/// single process takes the first usable GPU.
fn open_gpu(request: &DeviceRequest, rank: LocalRank) -> Result<(OpenGpu, usize), NoGpu> {
    let count = gpus().count()?;
    let index = match request.index {
        GpuChoice::Any => rank.number % count,
        GpuChoice::Named(index) => index,
    };
    if index >= count {
        let why = format!("there is no GPU {index}, the driver shows {count}, counted from 0");
        return Err(NoGpu { is_amiss: true, why });
    }
    let why = match gpus().open(index) {
        Ok(gpu) => return Ok((gpu, index)),
        Err(why) => why,
    };
    // Several ranks would have to agree on a replacement.
    if request.index == GpuChoice::Any && rank.of == 1 {
        for other in (0..count).filter(|other| *other != index) {
            if let Ok(gpu) = gpus().open(other) {
                return Ok((gpu, other));
            }
        }
    }
    Err(NoGpu { is_amiss: true, why })
}

impl Device {
    /// Calls `job` with the device's backend.
    ///
    /// # Errors
    /// The job's; that the GPU has failed or has too little memory, which ends the job.
    pub fn run<T>(&self, job: impl FnOnce(Arc<dyn Backend>) -> Result<T>) -> Result<T> {
        match &self.computes {
            Computes::Cpu(cpu) => job(cpu.clone()),
            Computes::Gpu { backend, .. } => contained(|| job(backend.clone())),
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match &self.computes {
            Computes::Cpu(_) => "CPU".into(),
            Computes::Gpu { backend, .. } => backend.device().name(),
        }
    }

    /// The data sheet of a known GPU, and the type it computes with.
    pub fn data_sheet(&self) -> Option<(&'static DataSheet, Dtype)> {
        match &self.computes {
            Computes::Cpu(_) => None,
            Computes::Gpu { backend, about, .. } => {
                Some((DataSheet::of_name(&about.name)?, backend.dtype()))
            }
        }
    }

    /// Waits until the device is idle.
    pub fn settle(&self) {
        if let Computes::Gpu { backend, .. } = &self.computes {
            backend.device().synchronize();
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
            Computes::Gpu { backend, .. } => backend.free_memory(),
        }
    }

    /// This process's share of the free bytes, or of `most` bytes if that is less.
    pub fn available(&self, most: usize) -> usize {
        self.free_memory().min(most) / self.sharers
    }

    /// Limits a GPU's memory pool to `most` bytes, because others may share the memory.
    pub fn keep_within(&self, most: usize) {
        if let Computes::Gpu { backend, .. } = &self.computes {
            backend.keep_within(most);
        }
    }

    /// The error of a run that does not fit, with the GPU's name, and a remedy if the CPU keeps the
    /// same numbers.
    pub fn unfitting(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        let error = error.into();
        let Computes::Gpu { backend, index, .. } = &self.computes else { return error };
        let remedy = match self.dtype {
            NumberType::F32 => {
                "; on the CPU (--device cpu) it has the machine's memory, and the same bits"
            }
            NumberType::Bf16 => "",
        };
        anyhow!("{error} (on cuda:{index}, {}){remedy}", backend.device().name())
    }

    /// Refuses a model whose shapes are larger than the device computes with.
    ///
    /// # Errors
    /// A sentence that names the key of config.json in the model's directory.
    pub fn check_shapes(&self, dir: &Path, config: &ModelConfig) -> Result<()> {
        if self.is_gpu() { check_shapes(dir, config) } else { Ok(()) }
    }

    /// The products of a model on a GPU that computes with bf16: own kernels or the library. The
    /// gradient is computed for at most `rows` tokens at a time (0 without one). Call it before the
    /// model is loaded, since comparing takes memory.
    pub fn products(&self, layout: &Layout, config: &ModelConfig, rows: usize) -> Option<Products> {
        let Computes::Gpu { backend, .. } = &self.computes else { return None };
        if self.dtype != NumberType::Bf16 {
            return None;
        }
        let of_blocks = layout.linear_layers().into_iter().map(|(shape, adds)| (shape, Some(adds)));
        let of_adapters = layout.adapter_layers().map(|(shape, _)| (shape, None));
        let layers = of_blocks.chain(of_adapters).map(|(shape, adds)| Layer { shape, adds });
        let layers: Vec<Layer> = layers.collect();
        let head = Linear { inputs: config.hidden_size, outputs: config.vocab_size };
        Some(backend.examine_products(&layers, head, rows))
    }

    /// The name of the device's arithmetic. Devices with the same name compute the same bits.
    pub fn arithmetic(&self) -> &'static str {
        match (&self.computes, self.dtype) {
            (Computes::Gpu { backend, .. }, NumberType::Bf16) => {
                bf16_arithmetic(backend.device().limits().capability)
            }
            _ => "f32",
        }
    }

    /// Its entry in manifests.
    pub fn manifest(&self) -> Value {
        let gradients = "do not depend on micro-batches"; // docs/concepts/numerics.md, of every arithmetic
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

    /// How a GPU has launched its decoding steps so far, for manifests. None on the CPU.
    pub fn steps_manifest(&self) -> Option<Value> {
        let Computes::Gpu { backend, .. } = &self.computes else { return None };
        let Replays { captured, replayed, launched, refused } = backend.replays();
        Some(json!({
            "captured": captured,
            "launched_as_one": replayed,
            "launched_one_by_one": launched,
            "refused": refused,
        }))
    }

    /// A heading that names the GPU. None on the CPU.
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

/// The name of the bf16 arithmetic of GPUs of this compute capability: how their tensor cores add
/// (docs/concepts/numerics.md).
pub fn bf16_arithmetic(capability: (u32, u32)) -> &'static str {
    if capability.0 >= 9 { "bf16-t16" } else { "bf16-t8" }
}
