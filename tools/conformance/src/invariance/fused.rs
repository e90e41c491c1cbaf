//! Operations that a backend may compute at once have the bits of their parts.

use crate::data::{POISON, assert_bits};
use crate::device::{Device, Trial, vector, weights, width};
use crate::properties;
use isentrope_kernels::{
    Attention, Buffer, DeviceBatch, Gate, Grouped, HeadNorms, HostBatch, Linear, LowRank, RmsNorm,
    Role, Run, Turn,
};

properties!(gated_products, adapted_products, normed_products, queries_keys_and_values);

fn gated_products(trial: &Trial) {
    for device in trial.devices() {
        for (inputs, features, rows) in
            [(1, 1, 1), (70, 17, 5), (40, 16, 65), (133, 50, 83), (64, 96, 3), (40, 230, 130)]
        {
            for (bias, by) in [(false, Gate::Silu), (true, Gate::Silu), (true, Gate::GeluTanh)] {
                let shape = Linear { inputs, outputs: 2 * features };
                let [both, one] =
                    [2 * features, features].map(|features| Role::Activation(rows, features));
                let (x, w) = (
                    device.upload_noise(Role::Activation(rows, inputs), 1),
                    device.upload_noise(weights(shape), 2),
                );
                let bias = bias.then(|| device.upload_noise(vector(shape.outputs), 3));
                let (mut gate_up, mut want) = (device.blank(both), device.blank(one));
                device.linear(shape, &x, &w, bias.as_ref(), &mut gate_up, rows);
                device.glu(by, features, &gate_up, &mut want, rows);
                let want = device.download(one, &want);
                let (mut kept, mut y) = (device.blank(both), device.blank(one));
                let (of_bias, keep) = (bias.as_ref(), Some(&mut kept));
                device.linear_glu(shape, by, &x, &w, of_bias, keep, &mut y, rows);
                let what = format!("{shape:?}, {by:?}, {rows} rows, on {}", device.name());
                assert_bits(&what, &device.download(one, &y), &want);
                let (kept, gate_up) =
                    (device.download(both, &kept), device.download(both, &gate_up));
                assert_bits(&format!("both halves of {what}"), &kept, &gate_up);
                let mut y = device.blank(one);
                device.linear_glu(shape, by, &x, &w, bias.as_ref(), None, &mut y, rows);
                assert_bits(&format!("nothing kept of {what}"), &device.download(one, &y), &want);
            }
        }
    }
}

fn adapted_products(trial: &Trial) {
    for device in trial.devices() {
        for (inputs, features, ranks, rows) in
            [(1, 1, 1, 1), (70, 17, 3, 5), (133, 50, 48, 83), (64, 96, 16, 3), (40, 230, 70, 130)]
        {
            let shape = Linear { inputs, outputs: 2 * features };
            let (down, up) = (
                Linear { inputs, outputs: ranks },
                Linear { inputs: ranks, outputs: shape.outputs },
            );
            let [both, one, thin] =
                [shape.outputs, features, ranks].map(|features| Role::Activation(rows, features));
            let x = device.upload_noise(Role::Activation(rows, inputs), 1);
            let [w, a, b] = [(shape, 2), (down, 3), (up, 4)]
                .map(|(shape, seed)| device.upload_noise(weights(shape), seed));
            let scales = device.upload_noise(Role::Exact(1, ranks), 5);
            let adapter = LowRank { down, a: &a, scales: &scales, up, b: &b };
            let mut reduced = device.blank(thin);
            device.linear(down, &x, &a, None, &mut reduced, rows);
            device.scale_rows(&scales, &mut reduced, rows);
            let mut alone = device.blank(thin);
            device.reduce(adapter, &x, &mut alone, rows);
            let what = format!("{shape:?}, {ranks} ranks, {rows} rows, on {}", device.name());
            let want = device.download(thin, &reduced);
            assert_bits(&format!("reduced, {what}"), &device.download(thin, &alone), &want);
            for (bias, adds) in [(false, false), (true, false), (false, true), (true, true)] {
                let bias = bias.then(|| device.upload_noise(vector(shape.outputs), 6));
                let [mut want, mut y] = [(); 2].map(|()| device.upload_noise(both, 7));
                if adds {
                    device.linear_add(shape, &x, &w, bias.as_ref(), &mut want, rows);
                } else {
                    device.linear(shape, &x, &w, bias.as_ref(), &mut want, rows);
                }
                device.linear_add(up, &reduced, &b, None, &mut want, rows);
                device.linear_adapted(shape, &x, &w, bias.as_ref(), adapter, &mut y, rows, adds);
                let numbers = device.download(both, &want);
                assert_bits(&what, &device.download(both, &y), &numbers);
                if !adds {
                    let [mut gated, mut of_adapted] = [(); 2].map(|()| device.blank(one));
                    let (by, bias) = (Gate::Silu, bias.as_ref());
                    device.glu(by, features, &want, &mut gated, rows);
                    let mut kept = device.blank(both);
                    device.linear_adapted_glu(
                        shape,
                        by,
                        &x,
                        &w,
                        bias,
                        adapter,
                        &mut kept,
                        &mut of_adapted,
                        rows,
                    );
                    let gated = device.download(one, &gated);
                    assert_bits(
                        &format!("gated, {what}"),
                        &device.download(one, &of_adapted),
                        &gated,
                    );
                    assert_bits(
                        &format!("both halves of {what}"),
                        &device.download(both, &kept),
                        &numbers,
                    );
                }
            }
        }
    }
}

fn normed_products(trial: &Trial) {
    for device in trial.devices() {
        for (inputs, outputs, rows) in [(1, 1, 1), (40, 72, 5), (133, 50, 83)] {
            let shape = Linear { inputs, outputs };
            let role = Role::Activation(rows, outputs);
            let x = device.upload_noise(Role::Activation(rows, inputs), 1);
            let w = device.upload_noise(weights(shape), 2);
            let [bias, weight] = [3, 4].map(|seed| device.upload_noise(vector(outputs), seed));
            let norm = RmsNorm { eps: 1e-5, shift: 1.0 };
            let [mut sum, mut y] = [(); 2].map(|()| device.upload_noise(role, 5));
            let [mut want, mut normed] = [(); 2].map(|()| device.blank(role));
            device.linear_add(shape, &x, &w, Some(&bias), &mut sum, rows);
            let whole = Grouped::rows(outputs);
            device.rms_norm(whole, norm, &sum, &weight, &mut want, rows);
            let bias = Some(&bias);
            device.linear_add_norm(shape, &x, &w, bias, &mut y, norm, &weight, &mut normed, rows);
            let what = format!("{shape:?}, {rows} rows, on {}", device.name());
            assert_bits(&what, &device.download(role, &y), &device.download(role, &sum));
            let (normed, want) = (device.download(role, &normed), device.download(role, &want));
            assert_bits(&format!("normed, {what}"), &normed, &want);
        }
    }
}

/// A sequence, another one that continues it on a page of its own, and a row in no sequence.
fn shared_beginning(page: usize) -> HostBatch {
    let (first, more) = (page + 4, 7);
    let run = |row, len, position, pages| Run { row, len, position, pages };
    HostBatch {
        tokens: vec![0; first + more + 1],
        runs: vec![run(0, first, 0, 0..2), run(first, more, first, 2..4)],
        copied: vec![run(page, 4, page, 2..4)],
        pages: vec![3, 1, 3, 2],
        states: Vec::new(),
    }
}

/// Rows as attention sees them, and attention's outputs, which depend on the cache.
fn attended(
    device: &Device<'_>,
    shape: Attention,
    qkv: Buffer,
    prepare: impl FnOnce(&mut Buffer, &DeviceBatch, &mut Buffer),
) -> [Vec<f32>; 2] {
    let host = shared_beginning(device.page_positions());
    let batch = device.upload_batch(&host);
    let mut cache = device.buffer(Role::Cache { shape, layers: 2, pages: 4 });
    device.fill(&mut cache, POISON);
    let mut qkv = qkv;
    prepare(&mut qkv, &batch, &mut cache);
    let [row, out] = [shape.row(), width(shape)].map(|width| Role::Activation(host.rows(), width));
    let mut outputs = device.blank(out);
    device.attention(shape, &qkv, &batch, &cache, 1, &mut outputs);
    [device.download(row, &qkv), device.download(out, &outputs)]
}

fn queries_keys_and_values(trial: &Trial) {
    let rows = shared_beginning(trial.page()).rows();
    for device in trial.devices() {
        for (heads, kv_heads, head_dim) in
            [(1, 1, 2), (4, 2, 10), (3, 1, 64), (6, 3, 34), (1, 1, 130)]
        {
            let shape = Attention { heads, kv_heads, head_dim, window: None, scale: 0.3 };
            let row = Role::Activation(rows, shape.row());
            let angles = Role::Exact(rows, head_dim / 2);
            let (cos, sin) = (&device.upload_noise(angles, 1), &device.upload_noise(angles, 2));
            let (queries, keys) = (
                &device.upload_noise(vector(head_dim), 3),
                &device.upload_noise(vector(head_dim), 4),
            );
            let (raw, norm) = (&device.upload_noise(row, 5), RmsNorm { eps: 1e-5, shift: 1.0 });
            for normed in [false, true] {
                let [qkv, want] = [(); 2]
                    .map(|()| if normed { device.blank(row) } else { device.upload_noise(row, 5) });
                let want = attended(&device, shape, want, |qkv, batch, cache| {
                    if normed {
                        device.copy_first_rows(raw, qkv, rows);
                        device.rms_norm(shape.query_heads(), norm, raw, queries, qkv, rows);
                        device.rms_norm(shape.key_heads(), norm, raw, keys, qkv, rows);
                    }
                    device.rope(shape.turned_heads(), qkv, cos, sin, batch, Turn::Forward);
                    device.store_kv(shape, qkv, batch, cache, 1);
                });
                let got = attended(&device, shape, qkv, |qkv, batch, cache| {
                    let norms = normed.then_some(HeadNorms { raw, rows, queries, keys, norm });
                    device.prepare_qkv(shape, norms, (cos, sin), qkv, batch, cache, 1);
                });
                for (what, (got, want)) in ["rows", "outputs"].iter().zip(got.iter().zip(&want)) {
                    let what = format!("{what}, {shape:?}, normed {normed}, on {}", device.name());
                    assert_bits(&what, got, want);
                }
            }
        }
    }
}
