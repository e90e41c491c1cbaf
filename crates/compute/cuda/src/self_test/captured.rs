//! Launches captured as one graph.

use super::{compare, noise, parameter, read, rows};
use crate::cuda::Cuda;
use isentrope_kernels::{Backend, Kind, Linear, ReplayKey, Role};
use std::sync::Arc;

const SHAPE: Linear = Linear { inputs: 35, outputs: 71 };
const ROWS: usize = 5;
/// Number of steps: one is launched kernel by kernel, the next is captured and launched as one, the
/// third is launched as one again.
const STEPS: usize = 3;

/// Two launches, one by one and as a graph; the second launch needs the first one's result. A
/// device that captures nothing launches them one by one each time.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn steps(backend: &Cuda) -> Result<(), String> {
    let backend = &Cuda::new(Arc::clone(backend.device()), backend.dtype());
    let (Linear { inputs, outputs }, kind) = (SHAPE, Kind::Matrix(SHAPE));
    let x = rows(backend, &noise(25, ROWS * inputs), inputs);
    let weights = parameter(backend, Role::Weight(kind), kind, &noise(26, inputs * outputs));
    let others = [noise(27, ROWS * outputs), noise(28, ROWS * inputs)];
    let mut y = rows(backend, &others[0], outputs);
    let mut dx = Some(rows(backend, &others[1], inputs));
    let mut made = |replayed: bool| {
        backend.write(&mut y, 0, &others[0]);
        dx.iter_mut().for_each(|dx| backend.write(dx, 0, &others[1]));
        let mut launch = || {
            let mut dx = dx.take().expect("a step ends before the next one begins");
            backend.linear(SHAPE, &x, &weights, None, &mut y, ROWS);
            backend.linear_backward_input(SHAPE, &y, &weights, &mut dx, ROWS);
            dx
        };
        let made = if replayed {
            let (model, rows, wanted, cached_rows, slots, pages, positions) =
                (0, ROWS, ROWS, 0, 0, 0, 0);
            backend.run_step(
                ReplayKey { model, rows, wanted, cached_rows, slots, pages, positions },
                &mut launch,
            )
        } else {
            launch()
        };
        read(backend, dx.insert(made), ROWS * inputs)
    };
    let want = made(false);
    (0..STEPS).try_for_each(|_| compare("a step that is launched as one", &made(true), &want))
}
