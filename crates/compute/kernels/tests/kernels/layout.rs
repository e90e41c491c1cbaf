//! Bytes of the CPU's buffers. The conformance tests check their content.

use crate::support::cpu;
use isentrope_kernels::{Attention, Backend, CpuBuffer, Kind, Linear, Role};

#[test]
fn buffers_take_the_bytes_that_are_told() {
    let (cpu, matrix) = (cpu(), Kind::Matrix(Linear { inputs: 3, outputs: 61 }));
    let shape = Attention { heads: 4, kv_heads: 2, head_dim: 10, window: None, scale: 1.0 };
    for (role, floats) in [
        (Role::Activation(5, 7), 35),
        (Role::OffloadedActivation(5, 7), 35),
        (Role::Exact(0, 7), 0),
        (Role::Weight(Kind::Vector(61)), 61),
        (Role::Gradient(matrix), 3 * 64),
        (Role::Moment(100), 100),
        (Role::OffloadedMoment(100), 100),
        (Role::Cache { shape, layers: 3, pages: 5 }, 3 * 5 * 2 * 16 * (10 + 16)),
    ] {
        let buffer = cpu.allocate(role).unwrap();
        let held = buffer.of::<CpuBuffer>().len();
        assert_eq!((cpu.bytes(role), held), (4 * floats, floats), "{role:?}");
    }
}
