//! The memory of a gradient of linear attention, against its plan.

use super::MOMENT;
use crate::equal_to_cpu::{delta_kinds, delta_rule};
use crate::support::{Trial, caught, emulated};
use isentrope_cuda::Dtype;
use isentrope_cuda_emulator::Settings;
use isentrope_kernels::{Backend, DeltaRule, Role, Work};

/// Two runs are computed at a time, of more that begin sequences and of more that continue them.
#[test]
fn a_gradient_of_linear_attention_takes_what_is_planned() {
    let (key_heads, value_heads, dim) = (8, 64, 16);
    let shape =
        DeltaRule { key_heads, value_heads, key_dim: dim, value_dim: dim, taps: 4, eps: 1e-6 };
    let runs = [(9, true), (2, false), (1, false), (3, false), (2, true), (1, true)];
    let rows: usize = runs.iter().map(|(len, _)| len).sum();
    let on = |memory| {
        let cuda = emulated(Dtype::F32, Settings { memory, ..Settings::default() });
        delta_rule(&mut Trial::new(&cuda), shape, &runs);
        cuda
    };
    let cuda = on(1 << 30);
    let parameter = |kind| cuda.bytes(Role::Weight(kind)) + cuda.bytes(Role::Gradient(kind));
    let row = 4 * (2 * shape.row() + 2 * shape.value_features());
    let buffers = rows * row + delta_kinds(shape).map(parameter).iter().sum::<usize>();
    let planned = cuda.workspace(Work::DeltaGradient(shape, rows));
    on(planned + buffers + MOMENT);
    assert!(caught(|| on(planned * 2 / 3 + buffers)).is_err(), "two thirds are enough");
}
