//! Gated linear units against the reference.

use crate::arithmetic::reference;
use crate::data::{assert_close, noise, wide};
use crate::device::Trial;
use crate::properties;
use isentrope_kernels::{Gate, Role};

properties!(forward_and_backward);

/// Gates from -300 to 300, so that the sigmoid reaches 0 and 1.
fn gate_up(features: usize, tokens: usize) -> Vec<f32> {
    let mut x = noise(1, tokens * 2 * features);
    for (i, x) in x.iter_mut().enumerate().filter(|(i, _)| (i / features).is_multiple_of(2)) {
        *x *= [1.0, 4.0, 40.0, 200.0][i % 4];
    }
    x
}

fn forward_and_backward(trial: &Trial) {
    let (device, tolerance) = (trial.device(), trial.tolerance());
    let by = [Gate::Silu, Gate::GeluTanh].into_iter().cycle();
    for features in [1, 7, 16, 17, 61, 65, 130] {
        for (tokens, by) in [0, 1, 5, 6, 7, 13, 100, 1000, 1000].into_iter().zip(by.clone()) {
            let what = format!("{by:?}, {features} features, {tokens} tokens");
            let (x_role, y_role) =
                (Role::Activation(tokens, 2 * features), Role::Activation(tokens, features));
            let (x, dy) = (device.seen(x_role, gate_up(features, tokens)), device.noise(y_role, 2));
            let want: Vec<f64> =
                x.chunks(2 * features).flat_map(|row| reference::glu(by, &wide(row))).collect();
            let want_dx: Vec<f64> = x
                .chunks(2 * features)
                .zip(dy.chunks(features))
                .flat_map(|(row, dy)| reference::glu_backward(by, &wide(row), &wide(dy)))
                .collect();
            let mut device_x = device.upload(x_role, &x);
            let mut y = device.blank(y_role);
            device.glu(by, features, &device_x, &mut y, tokens);
            let forward = tolerance.glu;
            assert_close(&format!("y of {what}"), &device.download(y_role, &y), &want, forward);
            let mut dy = device.upload(y_role, &dy);
            device.glu_backward(by, features, &mut dy, &mut device_x, tokens);
            assert_close(
                &format!("y again of {what}"),
                &device.download(y_role, &dy),
                &want,
                forward,
            );
            let gradient = device.download(x_role, &device_x);
            assert_close(
                &format!("gradient of {what}"),
                &gradient,
                &want_dx,
                tolerance.glu_gradient,
            );
        }
    }
}
