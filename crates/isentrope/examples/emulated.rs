//! The program with an emulated GPU as `cuda:0`, for tests alone: its kernels run on the CPU, and slowly.
//!
//! `ISENTROPE_EMULATED_MEMORY` is the GPU's memory in KiB (2 GiB without it); `none` says that no GPU is there.

use isentrope::gpus::{AboutGpu, Gpus, NoGpu, OpenGpu};
use isentrope_cuda::AnyDevice;
use isentrope_cuda_emulator::{Emulator, Settings};
use std::process::ExitCode;

/// One GPU that is not there.
struct OneEmulated {
    /// Bytes of memory; none without a GPU.
    memory: Option<usize>,
}

impl Gpus for OneEmulated {
    fn count(&self) -> Result<usize, NoGpu> {
        let none = || NoGpu { is_amiss: true, why: "the emulated GPU was taken away".into() };
        self.memory.map(|_| 1).ok_or_else(none)
    }

    fn open(&self, _: usize) -> Result<OpenGpu, String> {
        let memory = self.memory.ok_or("there is no emulated GPU")?;
        let device = AnyDevice::new(Emulator::new(Settings { memory, ..Settings::default() }));
        let about =
            AboutGpu { name: "emulated".into(), driver: None, cuda: None, nvrtc: None, cublaslt: None };
        Ok(OpenGpu { device, about })
    }
}

/// Bytes of memory where nothing is said.
const MEMORY: usize = 2 << 30;

fn main() -> ExitCode {
    let memory = match std::env::var("ISENTROPE_EMULATED_MEMORY") {
        Ok(text) if text == "none" => None,
        Ok(text) => Some(text.parse::<usize>().map_or(MEMORY, |kib| kib << 10)),
        Err(_) => Some(MEMORY),
    };
    isentrope::main(Box::new(OneEmulated { memory }))
}
