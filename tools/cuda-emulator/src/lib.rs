//! CUDA kernels on a CPU, for tests: the same sources, with everything that can go wrong on a GPU
//! made to go wrong.
//!
//! [`Emulator`] is a [`Device`](isentrope_cuda::Device). A file of kernels is compiled by g++ when
//! it is first launched, with the emulator's half of `device.h`; threads of a block run on fibers,
//! in an order that a seed decides. CONTRIBUTING.md lists what it can find and what it cannot.
#![allow(unsafe_code, reason = "fibers, signals, memory by address, and kernels in C++")]

mod calls;
mod collective;
mod copies;
mod emulator;
mod failure;
mod fiber;
mod library_stream;
mod memory;
mod order;
mod races;
mod random;
mod region;
mod shared;
mod tensor_core;
mod trap;
mod unit;
mod work;
mod worker;

pub use emulator::{Emulator, Settings};
pub use failure::{LaunchFailure, Mistake};
pub use tensor_core::TensorCore;
