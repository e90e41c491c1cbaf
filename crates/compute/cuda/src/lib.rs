//! NVIDIA GPUs as a backend: the operations of `isentrope_kernels::Backend`, as CUDA kernels of our
//! own.
//!
//! [`Device`] is the GPU as operations see it: memory and launches. Kernels are CUDA C++ in
//! `kernels/`; `device.h` there has every hardware instruction that they use. [`Kernel`] is a
//! kernel on the Rust side, and `catalog.rs` lists them. [`Cuda`] is the backend; it keeps elements
//! as one of two [`Dtype`]s.

mod adamw;
mod attention;
mod backend;
mod batch;
mod buffer;
mod catalog;
mod counted_memory;
mod cuda;
mod data_sheets;
mod delta_rule;
mod delta_runs;
mod device;
mod draw;
mod dtype;
mod elementwise;
mod experts;
mod failure;
pub mod gpu;
mod head;
mod host_pool;
mod index;
mod kernels;
mod largest;
mod layout;
mod linear;
mod links;
mod logits_blocks;
mod norm;
mod operation;
mod parts;
mod planning;
mod pool;
mod products;
mod replay;
mod rounding;
mod rows;
mod self_test;
mod split_weights;
mod splits;
mod stream;
mod transfer;
mod uploaded;

pub use batch::CudaBatch;
pub use buffer::CudaBuffer;
pub use catalog::{FUNCTIONS, SOURCES};
pub use cuda::Cuda;
pub use data_sheets::{DATA_SHEETS, DataSheet};
pub use device::{Device, Fetch, Graph, HostMemory, Limits, Memory, MemoryInfo, Product};
pub use draw::{CudaDrawing, CudaTokens};
pub use dtype::Dtype;
pub use failure::DeviceFailure;
pub use head::CudaStatistics;
pub use index::CudaIndex;
pub use kernels::{
    Argument, ArgumentKind, Arguments, Dim, Function, Grid, HEADERS, Kernel, Launch, Pointer,
    Source,
};
pub use largest::{LARGEST_SHAPES, LargestShapes};
pub use operation::{Operation, carry_out};
pub use planning::PlanningDevice;
pub use products::{Layer, ProductKind, Products};
pub use replay::Replays;
pub use self_test::self_test;
