//! Rotary position embedding against the reference.

use crate::arithmetic::groups::{assert_groups, in_groups, starts};
use crate::arithmetic::reference;
use crate::data::{indices, wide};
use crate::device::Trial;
use crate::properties;
use isentrope_kernels::{Grouped, Role, Turn};

properties!(both_directions, no_rows_need_no_tables);

const POSITIONS: usize = 300;

fn angle(position: u32, i: usize, half: usize) -> f64 {
    f64::from(position) * 10_000f64.powf(-(i as f64) / half as f64)
}

fn both_directions(trial: &Trial) {
    let device = trial.device();
    for (groups, features, offset, spare) in [
        (1, 2, 0, 0),
        (3, 10, 5, 4),
        (2, 16, 0, 16),
        (4, 24, 1, 0),
        (5, 64, 128, 64),
        (2, 80, 0, 3),
    ] {
        let layout =
            Grouped { stride: offset + groups * features + spare, offset, groups, features };
        let half = features / 2;
        let table = |f: fn(f64) -> f64| -> Vec<f32> {
            (0..POSITIONS * half)
                .map(|n| f(angle((n / half) as u32, n % half, half)) as f32)
                .collect()
        };
        let exact = Role::Exact(POSITIONS, half);
        let (cos, sin) =
            (device.upload(exact, &table(f64::cos)), device.upload(exact, &table(f64::sin)));
        for rows in [1, 5, 7, 100, 1000] {
            let mut at_positions = indices(1, rows, POSITIONS);
            at_positions[rows - 1] = POSITIONS as u32 - 1;
            let role = Role::Activation(rows, layout.stride);
            let x = in_groups(&device, 2, layout, rows);
            for (turn, sign) in [(Turn::Forward, 1.0), (Turn::Backward, -1.0)] {
                let mut turned = device.upload(role, &x);
                let positions = device.positions(&at_positions);
                device.rope(layout, &mut turned, &cos, &sin, &positions, turn);
                let mut want = Vec::new();
                for at in starts(layout, rows) {
                    let position = at_positions[at / layout.stride];
                    let angles: Vec<f64> =
                        (0..half).map(|i| sign * angle(position, i, half)).collect();
                    want.extend(reference::rope(&wide(&x[at..at + features]), &angles));
                }
                let what = format!("{layout:?}, {rows} rows, {turn:?}");
                let got = device.download(role, &turned);
                assert_groups(&what, layout, rows, got, &want, trial.tolerance().rope);
            }
        }
    }
}

fn no_rows_need_no_tables(trial: &Trial) {
    let device = trial.device();
    let mut x = device.blank(Role::Activation(0, 8));
    let none = device.zeros(Role::Exact(0, 4));
    device.rope(Grouped::rows(8), &mut x, &none, &none, &device.positions(&[]), Turn::Forward);
    device.download(Role::Activation(0, 8), &x);
}
