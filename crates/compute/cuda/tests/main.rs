//! The CUDA backend on an emulated device and on devices that compute nothing, its kernels through
//! NVIDIA's compiler, and the tables of docs/guides/gpus.md. The contract that any backend keeps is
//! in `conformance`.

#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![allow(clippy::print_stdout, reason = "tests say how they went, and which say nothing")]

mod ahead;
mod attention_bits;
mod attention_reference;
mod batches;
mod counting;
mod equal_to_cpu;
mod guide;
mod install;
mod launches;
mod links;
mod mutations;
mod nvrtc;
mod on_gpu;
mod parts;
#[path = "../../../../tools/cuda-emulator/tests/patches/mod.rs"]
mod patches;
mod plans;
mod products;
mod qwen2;
mod replay;
mod self_test;
mod signatures;
mod support;
mod updates;
mod watched;
mod weights;
