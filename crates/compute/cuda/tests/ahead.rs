//! If warps other than the adding one load a chain's terms, the chain has the CPU's bits at every
//! length: gradients of biases and of norms' weights.

use crate::support::{Results, Trial, cpu, seeded};
use isentrope_cuda::Dtype;
use isentrope_kernels::{Backend, Grouped, Kind, Linear, RmsNorm, Role};
use proptest::prelude::*;

/// Gradients over several rows, added to earlier values. Each row has groups of features, with
/// other values around them.
#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    layout: Grouped,
    /// x, then dy, then the values that gradients are added to.
    numbers: Vec<f32>,
}

fn case() -> impl Strategy<Value = Case> {
    // Steps are loaded 128 at a time.
    let rows = prop_oneof![0..12_usize, 126..131_usize, 254..259_usize, 1..700_usize];
    (rows, 0..3_usize, 1..20_usize, 1..40_usize).prop_flat_map(
        |(rows, offset, groups, features)| {
            // The number of steps is the same for every number of groups.
            let rows = rows.div_ceil(groups);
            let layout = Grouped { stride: offset + groups * features, offset, groups, features };
            // A sum of negative zeros keeps its sign only if nothing else is added.
            let number = prop_oneof![3 => -2.0..2.0_f32, 1 => Just(-0.0_f32)];
            let len = (2 * rows + 1) * layout.stride;
            let zeros = Just(vec![-0.0_f32; len]);
            let numbers = prop_oneof![4 => prop::collection::vec(number, len), 1 => zeros];
            numbers.prop_map(move |numbers| Case { rows, layout, numbers })
        },
    )
}

impl Case {
    /// The gradients by a backend.
    fn on(&self, backend: &dyn Backend) -> Results {
        let (Self { rows, layout, .. }, mut t) = (self.clone(), Trial::new(backend));
        let (x, rest) = self.numbers.split_at(rows * layout.stride);
        let (dy, before) = rest.split_at(rows * layout.stride);
        let (all, some) = (Kind::Vector(layout.stride), Kind::Vector(layout.features));
        let [x, dy, mut dx] = [x, dy, x].map(|numbers| t.rows_of(numbers, layout.stride));
        let mut db = t.parameter_of(Role::Gradient, all, before);
        let shape = Linear { inputs: 1, outputs: layout.stride };
        backend.linear_backward_bias(shape, &dy, &mut db, rows);
        let weight = t.parameter_of(Role::Weight, some, &before[..layout.features]);
        let mut dw = t.parameter_of(Role::Gradient, some, &before[..layout.features]);
        backend.rms_norm_backward(
            layout,
            RmsNorm::plain(1e-5),
            &x,
            &weight,
            Some(&dy),
            &mut dx,
            Some(&mut dw),
            rows,
        );
        t.push_numbers("db", all, &db);
        t.push_numbers("dw", some, &dw);
        t.results
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chains_have_the_bits_of_the_cpu(case in case(), seed in any::<u64>()) {
        prop_assert_eq!(case.on(&seeded(Dtype::F32, seed)), case.on(&cpu()));
    }
}
