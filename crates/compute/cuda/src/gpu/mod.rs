//! The GPU itself: NVIDIA's driver and libraries, which are looked for at run time.
//!
//! Only this module uses cudarc. It is not needed to build the program, and it does not panic
//! without a driver or a library: it returns a [`Result`] with a sentence that says what to do.
//!
//! - The GPU: `driver` lists the GPUs, or says why none can be used; `device` launches in a
//!   `stream` on its `memory`; a `graph` is many launches in one; `fetch` copies bytes to the host,
//!   which waits for them alone by an `event`; `timeline` measures the GPU's work for traces.
//! - `nvrtc`: compiles CUDA C++ to machine code, and keeps machine code on disk.
//! - `cublas`: products by cuBLASLt, with algorithms that a comparison with chains has found right.
//! - `nccl`: moves bytes between the GPUs of ranks.
//! - `search`: finds NVRTC, cuBLASLt and NCCL, and tells why a copy is taken or not.
//! - `install`: fetches the first two.

#![allow(
    unsafe_code,
    reason = "functions of the driver and of libraries that are loaded at run time"
)]

mod architecture;
mod calls;
pub(crate) mod cublas;
mod device;
mod driver;
mod error;
mod event;
mod fetch;
mod graph;
mod install;
mod memory;
mod nccl;
mod nvrtc;
mod search;
mod stream;
mod symbols;
mod timeline;
mod version;

pub use architecture::Architecture;
pub use cublas::Blas;
pub use device::Gpu;
pub use driver::{Driver, GpuDescription, NoDriver};
pub use error::Error;
pub use install::{Installation, Installer, Package, Progress};
pub use nccl::{Communicator, Nccl, Transfer, UniqueId};
pub use nvrtc::{Compiled, KernelCache, Nvrtc, Source};
pub use search::{Candidate, LibraryName, LibraryPlace, Outcome, Search, Surroundings};
pub use version::Version;
