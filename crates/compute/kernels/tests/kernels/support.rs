//! A backend and buffers that the tests share.

use isentrope_kernels::{Backend, Buffer, Cpu, Isa, Kind, Linear, Role};
use std::sync::OnceLock;

/// The fastest instruction set, two threads.
pub fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(Isa::available()[0], 2).unwrap())
}

/// Activations of zeros.
pub fn zeros(rows: usize, features: usize) -> Buffer {
    cpu().allocate(Role::Activation(rows, features)).unwrap()
}

/// Weights of zeros.
pub fn no_weights(shape: Linear) -> Buffer {
    cpu().allocate(Role::Weight(Kind::Matrix(shape))).unwrap()
}
