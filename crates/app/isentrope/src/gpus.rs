//! The GPUs that the program may compute on: the machine's, or emulated ones in tests.

use isentrope_cuda::gpu::{Driver, Gpu, Nccl, Surroundings};
use isentrope_cuda::{Device, SOURCES};
use serde::Serialize;
use std::sync::Arc;

/// Finds and opens GPUs.
pub trait Gpus: Send + Sync {
    /// The number of GPUs, at least one.
    ///
    /// # Errors
    /// Why no GPU can be used.
    fn count(&self) -> Result<usize, NoGpu>;

    /// Opens one of them, counted from 0.
    ///
    /// # Errors
    /// A sentence that says why it cannot be used, and what to do.
    fn open(&self, index: usize) -> Result<OpenGpu, String>;

    /// The library that moves bytes between GPUs of several ranks.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn nccl(&self) -> Result<Nccl, String>;
}

/// Why there is no GPU to compute on.
#[derive(Clone, Debug)]
pub struct NoGpu {
    /// Whether the machine seems to have a GPU that cannot be used; then the user is warned.
    pub is_amiss: bool,
    /// A sentence.
    pub why: String,
}

/// A GPU that is ready to compute.
pub struct OpenGpu {
    /// The device that launches kernels.
    pub device: Arc<dyn Device>,
    /// Its description in manifests.
    pub about: AboutGpu,
}

/// The description of a GPU in manifests.
#[derive(Clone, Debug, Serialize)]
pub struct AboutGpu {
    /// Such as NVIDIA H200.
    pub name: String,
    /// The GPU's UUID, as `nvidia-smi -L` shows it.
    pub uuid: String,
    /// The driver's version.
    pub driver: Option<String>,
    /// The version of CUDA that the driver supports.
    pub cuda: Option<String>,
    /// The version of NVRTC, which has compiled the kernels.
    pub nvrtc: Option<String>,
    /// cuBLASLt's version, if loaded. It computes only bf16 products where its bits equal ours.
    pub cublaslt: Option<String>,
}

/// The NVIDIA GPUs of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NvidiaGpus;

impl Gpus for NvidiaGpus {
    fn count(&self) -> Result<usize, NoGpu> {
        let surroundings = Surroundings::of_process();
        let hidden = std::env::var("CUDA_VISIBLE_DEVICES")
            .is_ok_and(|list| matches!(list.trim(), "" | "-1"));
        let driver = Driver::find(&surroundings)
            .map_err(|none| NoGpu { is_amiss: none.has_device && !hidden, why: none.why })?;
        Ok(driver.gpus.len())
    }

    fn open(&self, index: usize) -> Result<OpenGpu, String> {
        let surroundings = Surroundings::of_process();
        let driver = Driver::find(&surroundings).map_err(|none| none.why)?;
        let gpu = Gpu::open(index, &surroundings, SOURCES).map_err(|error| error.to_string())?;
        let described = driver.gpus.get(index).ok_or("the driver does not show it any more")?;
        let about = AboutGpu {
            name: described.name.clone(),
            uuid: described.uuid.clone(),
            driver: driver.release,
            cuda: Some(driver.cuda.to_string()),
            nvrtc: Some(gpu.nvrtc_version().to_string()),
            cublaslt: gpu.blas().map(|blas| blas.version().to_string()),
        };
        Ok(OpenGpu { device: Arc::new(gpu), about })
    }

    fn nccl(&self) -> Result<Nccl, String> {
        let (found, search) = Nccl::search(&Surroundings::of_process());
        found.ok_or_else(|| search.missing())
    }
}
