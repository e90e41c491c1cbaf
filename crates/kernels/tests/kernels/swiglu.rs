//! SwiGLU against the reference.

use crate::reference;
use crate::support::{assert_close, blank, cpu, download, noise, upload, wide};
use isentrope_kernels::Backend;

/// Gates from -300 to 300, so that the sigmoid reaches 0 and 1.
fn gate_up(features: usize, tokens: usize) -> Vec<f32> {
    let mut x = noise(1, tokens * 2 * features);
    for (i, x) in x.iter_mut().enumerate().filter(|(i, _)| (i / features).is_multiple_of(2)) {
        *x *= [1.0, 4.0, 40.0, 200.0][i % 4];
    }
    x
}

#[test]
fn forward_and_backward() {
    let cpu = cpu();
    for features in [1, 7, 16, 17, 61, 65, 130] {
        for tokens in [0, 1, 5, 6, 7, 13, 100, 1000] {
            let what = format!("{features} features, {tokens} tokens");
            let (x, dy) = (gate_up(features, tokens), noise(2, tokens * features));
            let want: Vec<f64> =
                x.chunks(2 * features).flat_map(|row| reference::swiglu(&wide(row))).collect();
            let want_dx: Vec<f64> = x
                .chunks(2 * features)
                .zip(dy.chunks(features))
                .flat_map(|(row, dy)| reference::swiglu_backward(&wide(row), &wide(dy)))
                .collect();
            let mut device_x = upload(cpu, 2 * features, &x);
            let mut y = blank(cpu, tokens, features);
            cpu.swiglu(features, &device_x, &mut y, tokens);
            assert_close(&format!("y of {what}"), &download(&y, dy.len()), &want, 5e-7);
            let mut dy = upload(cpu, features, &dy);
            cpu.swiglu_backward(features, &mut dy, &mut device_x, tokens);
            assert_close(&format!("y again of {what}"), &download(&dy, want.len()), &want, 5e-7);
            assert_close(&format!("gradient of {what}"), &download(&device_x, x.len()), &want_dx, 1e-6);
        }
    }
}
