//! The program with emulated GPUs, for tests alone: their kernels run on the CPU, and slowly.
//!
//! `ISENTROPE_EMULATED_GPUS` lists the GPUs that the process sees, by the part of their UUIDs
//! behind `GPU-`. Unset, there is one GPU, `0`; empty, there is none. `ISENTROPE_EMULATED_MEMORY`
//! is the memory of each in KiB (2 GiB without it). `ISENTROPE_EMULATED_FAULT`, such as
//! `1:adamw:3`, has GPU `1` fail at the third launch of a kernel. `ISENTROPE_EMULATED_NCCL` is the
//! path of `tools/nccl-loopback`, which moves bytes between ranks; without it they travel through
//! the hosts.

use isentrope::gpus::{AboutGpu, Gpus, NoGpu, OpenGpu};
use isentrope_cuda::gpu::Nccl;
use isentrope_cuda_emulator::{Emulator, Settings};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// GPUs that are not there.
struct Emulated {
    /// The part of each UUID behind `GPU-`.
    names: Vec<String>,
    /// Bytes of memory of each.
    memory: usize,
    fault: Option<Fault>,
}

/// A planted fault.
struct Fault {
    gpu: String,
    /// The kernel and the number of its launch.
    at: (&'static str, u64),
}

impl Fault {
    fn of(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (gpu, kernel) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let launch = parts.next()?.parse().ok()?;
        Some(Self { gpu, at: (kernel.leak(), launch) }) // the process has one
    }
}

impl Gpus for Emulated {
    fn count(&self) -> Result<usize, NoGpu> {
        match self.names.len() {
            0 => Err(NoGpu { is_amiss: true, why: "the emulated GPU was taken away".into() }),
            count => Ok(count),
        }
    }

    fn open(&self, index: usize) -> Result<OpenGpu, String> {
        let name = self.names.get(index).ok_or("there is no such emulated GPU")?;
        let fault = self.fault.as_ref().filter(|fault| fault.gpu == *name);
        let fails_at = fault.map(|fault| fault.at);
        let settings = Settings { memory: self.memory, fails_at, ..Settings::default() };
        let about = AboutGpu {
            name: "emulated".into(),
            uuid: format!("GPU-{name}"),
            driver: None,
            cuda: None,
            nvrtc: None,
            cublaslt: None,
        };
        Ok(OpenGpu { device: Arc::new(Emulator::new(settings)), about })
    }

    fn nccl(&self) -> Result<Nccl, String> {
        let path = std::env::var_os("ISENTROPE_EMULATED_NCCL").ok_or("no NCCL is emulated")?;
        Nccl::open(Path::new(&path)).map_err(|error| error.to_string())
    }
}

/// Default bytes of memory.
const MEMORY: usize = 2 << 30;

fn main() -> ExitCode {
    let names = std::env::var("ISENTROPE_EMULATED_GPUS").unwrap_or_else(|_| "0".into());
    let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let kib =
        std::env::var("ISENTROPE_EMULATED_MEMORY").ok().and_then(|text| text.parse::<usize>().ok());
    let memory = kib.map_or(MEMORY, |kib| kib << 10);
    let fault = std::env::var("ISENTROPE_EMULATED_FAULT").ok();
    let fault = fault.map(|text| Fault::of(&text).expect("GPU:KERNEL:LAUNCH"));
    isentrope::main(Box::new(Emulated { names, memory, fault }))
}
