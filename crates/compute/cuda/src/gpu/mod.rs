//! The GPU itself: NVIDIA's driver and libraries, which are looked for at run time.
//!
//! The only code that names cudarc. Nothing here is needed to build the program, and nothing panics
//! where no driver or library is: whatever may be missing is a [`Result`] with a sentence that says
//! what to do.
//!
//! - Here, the GPU: `driver` says which there are, or why none can be used; `device` launches in
//!   a `stream` on its `memory`; `graph` has launches that are made one, `fetch` bytes that the
//!   host waits for alone, by an `event`; `timeline` says when the GPU did what it was asked.
//! - `nvrtc`: CUDA C++ to machine code, and that on disk.
//! - `cublas`: products by cuBLASLt, by those of its algorithms that a comparison with chains has
//!   found right.
//! - `search`: where NVRTC and cuBLASLt are, and why which copy is taken.
//! - `install`: fetches them.

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
pub use nvrtc::{Compiled, KernelCache, Nvrtc, Source, Usage};
pub use search::{Candidate, LibraryName, LibraryPlace, Outcome, Search, Surroundings};
pub use version::Version;
