//! RMSNorm against the reference, on whole rows and on groups inside rows.

use crate::arithmetic::groups::{assert_groups, in_groups, starts};
use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close, wide};
use crate::device::{Device, Trial, vector, vector_gradient};
use crate::properties;
use isentrope_kernels::{Grouped, RmsNorm, Role};

properties!(forward, backward);

const EPS: f32 = 1e-5;
const SHIFTS: [f32; 2] = [0.0, 1.0];

/// The factors of these weights, in f64.
fn factors(weights: &[f32], shift: f32) -> Vec<f64> {
    wide(weights).iter().map(|w| w + f64::from(shift)).collect()
}

fn cases() -> Vec<(Grouped, usize)> {
    let whole = [1, 2, 7, 16, 17, 61, 65, 130, 1000].map(Grouped::rows);
    let grouped = [
        Grouped { stride: 70, offset: 3, groups: 3, features: 10 },
        Grouped { stride: 64, offset: 0, groups: 4, features: 16 },
        Grouped { stride: 300, offset: 80, groups: 2, features: 80 },
        Grouped { stride: 11, offset: 10, groups: 1, features: 1 },
    ];
    let layouts = whole.into_iter().chain(grouped);
    layouts.flat_map(|layout| [0, 1, 6, 13, 100, 1000].map(|rows| (layout, rows))).collect()
}

/// Inputs whose first group is all zeros, where eps alone counts.
fn inputs(device: &Device<'_>, layout: Grouped, rows: usize) -> Vec<f32> {
    let mut x = in_groups(device, 1, layout, rows);
    if let Some(at) = starts(layout, rows).next() {
        x[at..at + layout.features].fill(0.0);
    }
    x
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for ((layout, rows), shift) in cases().into_iter().zip(SHIFTS.into_iter().cycle()) {
        let (x, w) = (inputs(device, layout, rows), device.noise(vector(layout.features), 2));
        let role = Role::Activation(rows, layout.stride);
        let mut y = device.blank(role);
        let (device_x, device_w) =
            (device.upload(role, &x), device.upload(vector(layout.features), &w));
        device.rms_norm(layout, RmsNorm { eps: EPS, shift }, &device_x, &device_w, &mut y, rows);
        let want: Vec<f64> = starts(layout, rows)
            .flat_map(|at| {
                let group = wide(&x[at..at + layout.features]);
                reference::rms_norm(&group, &factors(&w, shift), f64::from(EPS))
            })
            .collect();
        let what = format!("{layout:?}, shift {shift}, {rows} rows");
        assert_groups(&what, layout, rows, device.download(role, &y), &want, tolerance.rms_norm);
    }
}

fn backward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for ((layout, rows), shift) in cases().into_iter().zip(SHIFTS.into_iter().cycle()) {
        let (x, dy, dx_before) = (
            inputs(device, layout, rows),
            in_groups(device, 3, layout, rows),
            in_groups(device, 4, layout, rows),
        );
        let (w, dw_before) = (
            device.noise(vector(layout.features), 2),
            device.noise(vector_gradient(layout.features), 5),
        );
        let (mut want_dx, mut want_sum) = (Vec::new(), Vec::new());
        let mut want_dw = wide(&dw_before);
        for at in starts(layout, rows) {
            let group = at..at + layout.features;
            let (dx, dw) = reference::rms_norm_backward(
                &wide(&x[group.clone()]),
                &factors(&w, shift),
                f64::from(EPS),
                &wide(&dy[group.clone()]),
            );
            want_sum.extend(dx.iter().zip(&dx_before[group]).map(|(d, &b)| d + f64::from(b)));
            want_dx.extend(dx);
            want_dw.iter_mut().zip(dw).for_each(|(sum, d)| *sum += d);
        }
        let (role, dw_role) =
            (Role::Activation(rows, layout.stride), vector_gradient(layout.features));
        let upload = |x: &[f32]| device.upload(role, x);
        let (device_x, device_dy) = (upload(&x), upload(&dy));
        let device_w = device.upload(vector(layout.features), &w);
        let norm = RmsNorm { eps: EPS, shift };
        for added in [false, true] {
            let what = format!("{layout:?}, shift {shift}, {rows} rows, added: {added}");
            let before = if added { &dx_before } else { &dy };
            let mut dx = upload(before);
            let mut dw = device.upload(dw_role, &dw_before);
            let dy = added.then_some(&device_dy);
            let (x, w, dw_of) = (&device_x, &device_w, Some(&mut dw));
            device.rms_norm_backward(layout, norm, x, w, dy, &mut dx, dw_of, rows);
            let (dx, want) = (device.download(role, &dx), if added { &want_sum } else { &want_dx });
            // The weights' gradient changes nothing about the inputs'.
            let mut alone = upload(before);
            device.rms_norm_backward(layout, norm, x, w, dy, &mut alone, None, rows);
            assert_bits(&format!("without dw, {what}"), &device.download(role, &alone), &dx);
            let what_dx = format!("dx of {what}");
            assert_groups(&what_dx, layout, rows, dx, want, tolerance.rms_norm_gradient);
            let dw = device.download(dw_role, &dw);
            assert_close(
                &format!("dw of {what}"),
                &dw,
                &want_dw,
                tolerance.rms_norm_weight_gradient,
            );
        }
    }
}
