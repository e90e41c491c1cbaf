//! The GPU itself: NVIDIA's driver and libraries, which are looked for at run time.
//!
//! The only code that names cudarc. Nothing here is needed to build the program, and nothing panics
//! where no driver or library is: whatever may be missing is a [`Result`] with a sentence that says
//! what to do.
//!
//! - `driver`: which GPUs there are, or why none can be used.
//! - `libraries`: where NVRTC and cuBLASLt are, and why which copy is taken; `install` fetches
//!   them.
//! - `device`: memory and launches; `graph`: launches that are made one.
//! - `fetch`: bytes that the host waits for alone, by an `event`.
//! - `timeline`: when the GPU did what it was asked, for traces.
//! - `blas`: products by cuBLASLt; `algorithms`: which of its algorithms may, by what is `compared`
//!   with chains.
//! - `compile`: CUDA C++ to machine code by NVRTC; `cache` keeps that on disk.

#![allow(
    unsafe_code,
    reason = "functions of the driver and of libraries that are loaded at run time"
)]

mod algorithms;
mod architecture;
mod blas;
mod cache;
mod calls;
pub(crate) mod chain;
mod compared;
mod compile;
mod device;
mod driver;
mod error;
mod event;
mod fetch;
mod graph;
mod install;
mod libraries;
mod places;
mod symbols;
mod timeline;
mod version;

pub use architecture::Architecture;
pub use blas::Blas;
pub use cache::KernelCache;
pub use compile::{Compiled, Nvrtc, Source, Usage};
pub use device::{Gpu, GpuMemory};
pub use driver::{Driver, GpuDescription, NoDriver};
pub use error::Error;
pub use fetch::GpuFetch;
pub use graph::GpuGraph;
pub use install::{Installed, Installer, Package, Progress};
pub use libraries::{Candidate, LibraryName, Outcome, Search};
pub use places::{Place, Surroundings};
pub use version::Version;
