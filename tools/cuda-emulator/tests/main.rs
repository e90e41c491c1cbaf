//! The emulated device against kernels with planted mistakes, its own promises and published
//! measurements of hardware. Each file here is a module below.

mod device;
mod patches;
mod planted;
mod tensor_core;
