//! The fused head against the reference: log-probabilities, exact entropies and their gradients.

use crate::reference;
use crate::support::{
    assert_bits, assert_close, blank, cpu, download, every_cpu, indices, no_gradient, noise, pack,
    pack_gradient,
};
use crate::support::{unpack_gradient, upload, wide, zeros};
use isentrope_kernels::{Backend, Distribution, Linear, ln};

fn cases() -> impl Iterator<Item = (Linear, usize, f32)> {
    let shapes = [(5, 1), (7, 2), (17, 61), (64, 64), (65, 130), (130, 1000)];
    shapes.into_iter().flat_map(|(inputs, outputs)| {
        let shape = Linear { inputs, outputs };
        [1, 5, 6, 13, 100]
            .into_iter()
            .flat_map(move |rows| [1.0, 0.7].map(|temperature| (shape, rows, temperature)))
    })
}

/// Weights small enough that probabilities spread over the vocabulary.
fn weights(shape: Linear) -> Vec<f32> {
    noise(2, shape.inputs * shape.outputs).into_iter().map(|w| w / (shape.inputs as f32).sqrt()).collect()
}

#[test]
fn forward() {
    let cpu = cpu();
    for (shape, rows, temperature) in cases() {
        let (x, w, targets) =
            (noise(1, rows * shape.inputs), weights(shape), indices(3, rows, shape.outputs));
        let logits = reference::linear(&wide(&x), &wide(&w), &vec![0.0; shape.outputs], shape.inputs);
        let x = upload(cpu, shape.inputs, &x);
        let mut statistics = cpu.head(shape, &x, &pack(cpu, shape, &w), cpu.index(&targets), temperature);
        let (logprobs, entropies) = cpu.scores(&mut statistics);
        assert_eq!((logprobs.len(), entropies.len()), (rows, rows));
        for (r, logits) in logits.chunks(shape.outputs).enumerate() {
            let want = reference::log_softmax(logits, f64::from(temperature));
            let what = format!("row {r} of {rows}, {shape:?}, temperature {temperature}");
            // A log-probability is a difference of logits: its error is absolute.
            let error = f64::from(logprobs[r]) - want[targets[r] as usize];
            assert!(error.abs() < 3e-6, "{what}: log-probability off by {error:.1e}");
            let error = f64::from(entropies[r]) - reference::entropy(&want);
            assert!(error.abs() < 3e-6, "{what}: entropy off by {error:.1e}");
            if shape.outputs == 1 {
                assert_eq!((logprobs[r], entropies[r]), (0.0, 0.0), "{what}: a certainty");
            }
        }
    }
}

#[test]
fn backward() {
    let cpu = cpu();
    for (shape, rows, temperature) in cases() {
        let Linear { inputs, outputs } = shape;
        let (x, w, targets) = (noise(1, rows * inputs), weights(shape), indices(3, rows, outputs));
        let (a, b, before) = (noise(4, rows), noise(5, rows), noise(6, inputs * outputs));
        let (device_x, packed) = (upload(cpu, inputs, &x), pack(cpu, shape, &w));
        let statistics = cpu.head(shape, &device_x, &packed, cpu.index(&targets), temperature);
        let (mut dx, mut dw) = (blank(cpu, rows, inputs), pack_gradient(cpu, shape, &before));
        cpu.head_backward(shape, &device_x, &packed, &statistics, &a, &b, &mut dx, &mut dw);

        let logits = reference::linear(&wide(&x), &wide(&w), &vec![0.0; outputs], inputs);
        let d_logits: Vec<f64> = (0..rows)
            .flat_map(|r| {
                let row = &logits[r * outputs..][..outputs];
                let (a, b) = (f64::from(a[r]), f64::from(b[r]));
                reference::head_backward(row, f64::from(temperature), targets[r] as usize, a, b)
            })
            .collect();
        let (want_dx, mut want_dw, _) = reference::linear_backward(&wide(&x), &wide(&w), &d_logits, inputs);
        want_dw.iter_mut().zip(&before).for_each(|(d, &b)| *d += f64::from(b));
        let what = format!("{rows} rows, {shape:?}, temperature {temperature}");
        assert_close(&format!("dw of {what}"), &unpack_gradient(cpu, shape, &dw), &want_dw, 5e-6);
        let dx = download(&dx, rows * inputs);
        if outputs == 1 {
            // Nothing can change a certainty.
            assert!(dx.iter().all(|d| d.abs() < 1e-6), "dx of {what}");
        } else {
            assert_close(&format!("dx of {what}"), &dx, &want_dx, 5e-6);
        }
    }
}

/// Logits whose probabilities underflow, overflow or vanish, with and without a part beyond whole vectors.
fn extreme_logits() -> Vec<Vec<f32>> {
    let with = |len: usize, background: f32, peaks: &[(usize, f32)]| {
        let mut logits = vec![background; len];
        peaks.iter().for_each(|&(i, z)| logits[i] = z);
        logits
    };
    let mut all = Vec::new();
    for len in [16, 17, 61, 1000] {
        all.extend([
            with(len, -100.0, &[(3, 60.0)]),
            with(len, -3e4, &[(len - 1, 3e4)]),
            with(len, -3e38, &[(0, 3e38)]),
            with(len, 3e38, &[]),
            with(len, -3e38, &[]),
            with(len, 0.0, &[(5, 12.0)]),
            with(len, 0.0, &[(5, 87.0), (6, 87.0)]),
            with(len, f32::NEG_INFINITY, &[(2, 1.0)]),
            with(len, f32::NEG_INFINITY, &[(2, 1.0), (len - 2, 0.0), (len - 1, -1.0)]),
            with(len, 1e-40, &[(1, -1e-40)]),
        ]);
    }
    all
}

#[test]
fn distributions_of_extreme_logits() {
    for cpu in every_cpu() {
        for logits in extreme_logits() {
            for temperature in [1.0, 0.7, 2.0] {
                let d = Distribution::of(cpu.isa(), &logits, temperature);
                if logits.iter().any(|&z| (z / temperature).abs() == f32::INFINITY && z.is_finite()) {
                    continue; // beyond f32 before anything is computed
                }
                let want = reference::log_softmax(&wide(&logits), f64::from(temperature));
                let error = f64::from(d.entropy) - reference::entropy(&want);
                // A thousand terms below the spacing of floats around their sum: each may lose half of it.
                assert!(error.abs() < 5e-6, "entropy {} off by {error:.1e}: {:?}", d.entropy, &logits[..7]);
                assert!(d.entropy >= -1e-6);
                for (&z, want) in logits.iter().zip(want) {
                    let got = f64::from(d.logprob(z, temperature));
                    let want = if want < f64::from(f32::MIN) { f64::NEG_INFINITY } else { want };
                    assert!(
                        got == want || (got - want).abs() < 5e-6 * want.abs().max(1.0),
                        "{got} for {want}"
                    );
                }
            }
        }
    }
}

/// A peak, and a tail of 152 thousand tokens each too unlikely to show beside it, which together count.
#[test]
fn tails_of_large_vocabularies_are_not_swallowed() {
    for background in [-17.4, -16.0, -14.0, -12.0] {
        let mut logits = vec![background; 152_064];
        logits[7] = 0.0;
        let want = reference::log_softmax(&wide(&logits), 1.0);
        let d = Distribution::of(cpu().isa(), &logits, 1.0);
        for (got, want) in [(d.logprob(0.0, 1.0), want[7]), (d.entropy, reference::entropy(&want))] {
            assert!((f64::from(got) - want).abs() < 5e-6, "{got} instead of {want} before {background}");
        }
    }
}

#[test]
fn entropies_with_closed_forms() {
    let cpu = cpu();
    for n in [1usize, 2, 16, 61, 1000, 152_064] {
        let d = Distribution::of(cpu.isa(), &vec![-4.25; n], 1.0);
        assert!((f64::from(d.entropy) - (n as f64).ln()).abs() < 1e-6, "uniform over {n}: {}", d.entropy);
        assert_eq!((d.max, d.log_sum), (-4.25, ln(n as f32)));
    }
    let mut one_hot = vec![-200.0; 1000];
    one_hot[321] = 0.0;
    let certain = Distribution { max: 0.0, log_sum: 0.0, entropy: 0.0 };
    assert_eq!(Distribution::of(cpu.isa(), &one_hot, 1.0), certain);
}

/// A row whose logits are its weights: the gradient of certain, and of impossible, tokens stays finite.
#[test]
fn gradients_of_extreme_logits() {
    let cpu = cpu();
    for logits in extreme_logits().into_iter().filter(|l| l.iter().all(|z| z.is_finite())) {
        let shape = Linear { inputs: 1, outputs: logits.len() };
        let (x, packed) = (upload(cpu, 1, &[1.0]), pack(cpu, shape, &logits));
        for target in [0, 3, logits.len() as u32 - 1] {
            for (a, b) in [(1.0, 0.0), (0.0, 1.0), (-2.5, 1e3)] {
                let statistics = cpu.head(shape, &x, &packed, cpu.index(&[target]), 1.0);
                let (mut dx, mut dw) = (blank(cpu, 1, 1), no_gradient(cpu, shape));
                cpu.head_backward(shape, &x, &packed, &statistics, &[a], &[b], &mut dx, &mut dw);
                let want = reference::head_backward(
                    &wide(&logits),
                    1.0,
                    target as usize,
                    f64::from(a),
                    f64::from(b),
                );
                // Entropy is exact to 1e-6, and its coefficient multiplies that.
                for (got, want) in unpack_gradient(cpu, shape, &dw).into_iter().zip(want) {
                    let error = (f64::from(got) - want).abs();
                    assert!(
                        error < 5e-6 * (1.0 + f64::from(b)),
                        "{got} instead of {want}: {:?}",
                        &logits[..7]
                    );
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "assertion")]
fn a_target_beyond_the_vocabulary_is_refused() {
    let (cpu, shape) = (cpu(), Linear { inputs: 2, outputs: 5 });
    cpu.head(shape, &zeros(cpu, 1, 2), &no_gradient(cpu, shape), cpu.index(&[5]), 1.0);
}

#[test]
fn no_rows() {
    let (cpu, shape) = (cpu(), Linear { inputs: 3, outputs: 61 });
    let before = noise(1, 183);
    let (packed, mut dw) = (pack(cpu, shape, &before), pack_gradient(cpu, shape, &before));
    let none = blank(cpu, 0, 3);
    let mut statistics = cpu.head(shape, &none, &packed, cpu.index(&[]), 1.0);
    let (logprobs, entropies) = cpu.scores(&mut statistics);
    assert!(logprobs.is_empty() && entropies.is_empty());
    cpu.head_backward(shape, &none, &packed, &statistics, &[], &[], &mut blank(cpu, 0, 3), &mut dw);
    assert_bits("dw", &unpack_gradient(cpu, shape, &dw), &before);
}
