//! Chains that other warps bring the numbers of have the CPU's bits, wherever they end: gradients
//! of biases and of norms' weights.

use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{Backend, Buffer, Cpu, Grouped, Isa, Kind, Linear, Role};
use proptest::prelude::*;
use std::sync::Arc;

/// Gradients of so many rows, each of groups of features with other numbers beside them, go on from
/// what there is.
#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    layout: Grouped,
    /// x and dy one after another, then what there is.
    numbers: Vec<f32>,
}

fn case() -> impl Strategy<Value = Case> {
    // Steps come 128 at a time.
    let rows = prop_oneof![0..12_usize, 126..131_usize, 254..259_usize, 1..700_usize];
    (rows, 0..3_usize, 1..20_usize, 1..40_usize).prop_flat_map(|(rows, offset, groups, features)| {
        // As many steps whatever the groups.
        let rows = rows.div_ceil(groups);
        let layout = Grouped { stride: offset + groups * features, offset, groups, features };
        // A sum of zeros keeps its sign only if nothing else is added.
        let number = prop_oneof![3 => -2.0..2.0_f32, 1 => Just(-0.0_f32)];
        let zeros = Just(vec![-0.0_f32; (2 * rows + 1) * layout.stride]);
        let numbers =
            prop_oneof![4 => prop::collection::vec(number, (2 * rows + 1) * layout.stride), 1 => zeros];
        numbers.prop_map(move |numbers| Case { rows, layout, numbers })
    })
}

impl Case {
    /// The bits of what a backend goes on to.
    fn on(&self, backend: &dyn Backend) -> Vec<Vec<u32>> {
        let Self { rows, layout, .. } = *self;
        let (x, rest) = self.numbers.split_at(rows * layout.stride);
        let (dy, before) = rest.split_at(rows * layout.stride);
        let activation = |numbers: &[f32]| {
            let mut buffer = backend.buffer(Role::Activation(rows, layout.stride));
            backend.write(&mut buffer, 0, numbers);
            buffer
        };
        let vector = |role: fn(Kind) -> Role, numbers: &[f32]| {
            let kind = Kind::Vector(numbers.len());
            let mut buffer = backend.allocate(role(kind)).unwrap();
            backend.pack(kind, 0, numbers, &mut buffer);
            buffer
        };
        let bits = |buffer: &Buffer, len: usize| {
            let mut numbers = vec![0.0; backend.numbers(Kind::Vector(len))];
            backend.read_numbers(buffer, 0, &mut numbers);
            numbers.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        };
        let (x, dy, mut dx) = (activation(x), activation(dy), activation(x));
        let mut db = vector(Role::Gradient, before);
        backend.linear_backward_bias(
            Linear { inputs: 1, outputs: layout.stride },
            &dy,
            &mut db,
            rows,
        );
        let weight = vector(Role::Weight, &before[..layout.features]);
        let mut dw = vector(Role::Gradient, &before[..layout.features]);
        backend.rms_norm_backward(layout, 1e-5, &x, &weight, Some(&dy), &mut dx, &mut dw, rows);
        vec![bits(&db, layout.stride), bits(&dw, layout.features)]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chains_have_the_bits_of_the_cpu(case in case(), seed in any::<u64>()) {
        let settings = Settings { seed, workers: 1, ..Settings::default() };
        let cuda = Cuda::new(Arc::new(Emulator::new(settings)), Dtype::F32);
        let cpu = Cpu::new(Isa::available()[0], 1).unwrap();
        prop_assert_eq!(case.on(&cuda), case.on(&cpu));
    }
}
