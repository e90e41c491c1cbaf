//! RMSNorm against the reference, on whole rows and on groups inside rows.

use crate::reference;
use crate::support::{POISON, assert_close, blank, cpu, download, noise, upload, vector, wide, zeros};
use isentrope_kernels::{Backend, Grouped};

const EPS: f32 = 1e-5;

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

/// Where the groups of all rows start, in order.
fn starts(layout: Grouped, rows: usize) -> impl Iterator<Item = usize> {
    let Grouped { stride, offset, groups, features } = layout;
    (0..rows).flat_map(move |r| (0..groups).map(move |g| r * stride + offset + g * features))
}

/// Noise in the groups, poison between them; the first group is all zeros, where eps alone counts.
fn in_groups(seed: u64, layout: Grouped, rows: usize) -> Vec<f32> {
    let data = noise(seed, rows * layout.stride);
    let mut spread = vec![POISON; data.len()];
    for (i, at) in starts(layout, rows).enumerate() {
        let group = at..at + layout.features;
        spread[group.clone()].copy_from_slice(&data[group.clone()]);
        if i == 0 && seed == 1 {
            spread[group].fill(0.0);
        }
    }
    spread
}

/// Compares the groups with `want`, a group after another, and sees that nothing between them was written.
fn assert_groups(what: &str, layout: Grouped, rows: usize, got: &[f32], want: &[f64], tolerance: f64) {
    let mut between = vec![true; got.len()];
    let mut groups = Vec::new();
    for at in starts(layout, rows) {
        between[at..at + layout.features].fill(false);
        groups.extend_from_slice(&got[at..at + layout.features]);
    }
    assert!(
        (0..got.len()).all(|i| !between[i] || got[i].to_bits() == POISON.to_bits()),
        "{what}: wrote between groups"
    );
    assert_close(what, &groups, want, tolerance);
}

#[test]
fn forward() {
    let cpu = cpu();
    for (layout, rows) in cases() {
        let (x, w) = (in_groups(1, layout, rows), noise(2, layout.features));
        let mut y = blank(cpu, rows, layout.stride);
        cpu.rms_norm(layout, EPS, &upload(cpu, layout.stride, &x), &vector(cpu, &w), &mut y, rows);
        let want: Vec<f64> = starts(layout, rows)
            .flat_map(|at| {
                reference::rms_norm(&wide(&x[at..at + layout.features]), &wide(&w), f64::from(EPS))
            })
            .collect();
        let what = format!("{layout:?}, {rows} rows");
        assert_groups(&what, layout, rows, &download(&y, x.len()), &want, 5e-7);
    }
}

#[test]
fn backward() {
    let cpu = cpu();
    for (layout, rows) in cases() {
        let (x, dy, dx_before) =
            (in_groups(1, layout, rows), in_groups(3, layout, rows), in_groups(4, layout, rows));
        let (w, dw_before) = (noise(2, layout.features), noise(5, layout.features));
        let (mut want_dx, mut want_sum) = (Vec::new(), Vec::new());
        let mut want_dw = wide(&dw_before);
        for at in starts(layout, rows) {
            let group = at..at + layout.features;
            let (dx, dw) = reference::rms_norm_backward(
                &wide(&x[group.clone()]),
                &wide(&w),
                f64::from(EPS),
                &wide(&dy[group.clone()]),
            );
            want_sum.extend(dx.iter().zip(&dx_before[group]).map(|(d, &b)| d + f64::from(b)));
            want_dx.extend(dx);
            want_dw.iter_mut().zip(dw).for_each(|(sum, d)| *sum += d);
        }
        let upload = |x: &[f32]| upload(cpu, layout.stride, x);
        let (device_x, device_w, device_dy) = (upload(&x), vector(cpu, &w), upload(&dy));
        for added in [false, true] {
            let what = format!("{layout:?}, {rows} rows, added: {added}");
            let mut dx = upload(if added { &dx_before } else { &dy });
            let mut dw = vector(cpu, &dw_before);
            let dy = added.then_some(&device_dy);
            cpu.rms_norm_backward(layout, EPS, &device_x, &device_w, dy, &mut dx, &mut dw, rows);
            let (dx, want) = (download(&dx, x.len()), if added { &want_sum } else { &want_dx });
            assert_groups(&format!("dx of {what}"), layout, rows, &dx, want, 3e-6);
            assert_close(&format!("dw of {what}"), &download(&dw, layout.features), &want_dw, 4e-6);
        }
    }
}

#[test]
#[should_panic(expected = "overlap")]
fn rows_that_overlap_are_refused() {
    let cpu = cpu();
    let layout = Grouped { stride: 15, offset: 0, groups: 2, features: 8 };
    cpu.rms_norm(layout, EPS, &zeros(cpu, 6, 15), &zeros(cpu, 1, 8), &mut zeros(cpu, 6, 15), 3);
}
