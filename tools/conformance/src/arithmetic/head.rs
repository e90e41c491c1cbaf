//! The head against the reference: log-probs, exact entropies and their gradients.

use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close, indices, masks, noise, wide};
use crate::device::{Device, Trial, gradient, weights};
use crate::properties;
use isentrope_kernels::{EntropySlopes, HeadScores, Linear, Role, SamplingMasks};

properties!(
    forward,
    backward,
    backward_through_masks,
    scores_of_extreme_logits,
    tails_of_large_vocabularies_are_not_swallowed,
    entropies_with_closed_forms,
    gradients_of_extreme_logits,
    masks_of_extreme_logits,
    slopes_of_entropies,
    slopes_of_extreme_entropies,
    steps_of_the_head_change_entropies_by_their_slopes,
    no_rows
);

fn shapes_and_rows() -> impl Iterator<Item = (Linear, usize, f32)> {
    let shapes = [(5, 1), (7, 2), (17, 61), (64, 64), (65, 130), (130, 1000)];
    shapes.into_iter().flat_map(|(inputs, outputs)| {
        let shape = Linear { inputs, outputs };
        [1, 5, 6, 13, 100]
            .into_iter()
            .flat_map(move |rows| [1.0, 0.7].map(|temperature| (shape, rows, temperature)))
    })
}

/// Weights small enough that probabilities spread over the vocabulary.
fn spread(device: &Device<'_>, shape: Linear) -> Vec<f32> {
    let small = noise(2, shape.inputs * shape.outputs)
        .into_iter()
        .map(|w| w / (shape.inputs as f32).sqrt());
    device.seen(weights(shape), small.collect())
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for (shape, rows, temperature) in shapes_and_rows() {
        let role = Role::Activation(rows, shape.inputs);
        let (x, w) = (device.noise(role, 1), spread(device, shape));
        let targets = indices(3, rows, shape.outputs);
        let logits =
            reference::linear(&wide(&x), &wide(&w), &vec![0.0; shape.outputs], shape.inputs);
        let (x, packed) = (device.upload(role, &x), device.upload(weights(shape), &w));
        let masks = masks(&targets, shape.outputs);
        let index = device.index(&targets);
        let mut statistics =
            device.head(shape, &x, &packed, index, masks.clone().into(), temperature);
        let HeadScores { logprobs, entropies, mut log_masses } = device.scores(&mut statistics);
        assert_eq!((logprobs.len(), entropies.len()), (rows, rows));
        assert_eq!(log_masses.len(), if masks.is_whole() { 0 } else { rows }, "none without masks");
        log_masses.resize(rows, 0.0);
        for (r, logits) in logits.chunks(shape.outputs).enumerate() {
            let want = reference::log_softmax(logits, f64::from(temperature));
            let what = format!("row {r} of {rows}, {shape:?}, temperature {temperature}");
            // A log-prob is a difference of logits: its error is absolute.
            let error = f64::from(logprobs[r]) - want[targets[r] as usize];
            assert!(error.abs() < tolerance, "{what}: log-prob off by {error:.1e}");
            let error = f64::from(entropies[r]) - reference::entropy(&want);
            assert!(error.abs() < tolerance, "{what}: entropy off by {error:.1e}");
            let error = f64::from(log_masses[r]) - reference::log_mass(&want, masks.of(r));
            assert!(error.abs() < tolerance, "{what}: log-mass off by {error:.1e}");
            if shape.outputs == 1 {
                assert_eq!((logprobs[r], entropies[r]), (0.0, 0.0), "{what}: a certainty");
            }
        }
    }
}

fn backward(trial: &Trial) {
    gradients(trial, |_, _| SamplingMasks::default());
}

fn backward_through_masks(trial: &Trial) {
    gradients(trial, masks);
}

fn gradients(trial: &Trial, masks: fn(&[u32], usize) -> SamplingMasks) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for (shape, rows, temperature) in shapes_and_rows() {
        let Linear { inputs, outputs } = shape;
        let role = Role::Activation(rows, inputs);
        let (x, w, targets) =
            (device.noise(role, 1), spread(device, shape), indices(3, rows, outputs));
        let (a, b, c) = (noise(4, rows), noise(5, rows), noise(7, rows));
        let (masks, before) = (masks(&targets, outputs), device.noise(gradient(shape), 6));
        let (device_x, packed) = (device.upload(role, &x), device.upload(weights(shape), &w));
        let index = device.index(&targets);
        let statistics =
            device.head(shape, &device_x, &packed, index, masks.clone().into(), temperature);
        let (mut dx, mut dw) = (device.blank(role), device.upload(gradient(shape), &before));
        device.head_backward(shape, &device_x, &packed, &statistics, &a, &b, &c, &mut dx, &mut dw);

        let logits = reference::linear(&wide(&x), &wide(&w), &vec![0.0; outputs], inputs);
        let d_logits: Vec<f64> = (0..rows)
            .flat_map(|r| {
                let row = &logits[r * outputs..][..outputs];
                let by = [a[r], b[r], c[r]].map(f64::from);
                let target = targets[r] as usize;
                reference::head_backward(row, f64::from(temperature), target, masks.of(r), by)
            })
            .collect();
        let (want_dx, mut want_dw, _) =
            reference::linear_backward(&wide(&x), &wide(&w), &d_logits, inputs);
        want_dw.iter_mut().zip(&before).for_each(|(d, &b)| *d += f64::from(b));
        let what = format!("{rows} rows, {shape:?}, temperature {temperature}");
        let dw = device.download(gradient(shape), &dw);
        assert_close(&format!("dw of {what}"), &dw, &want_dw, tolerance.head_gradient);
        let dx = device.download(role, &dx);
        if outputs == 1 {
            // Nothing can change a certainty.
            let noise = tolerance.head_gradient_noise;
            assert!(dx.iter().all(|&d| f64::from(d).abs() < noise), "dx of {what}");
        } else {
            assert_close(&format!("dx of {what}"), &dx, &want_dx, tolerance.head_gradient);
        }
    }
}

/// Logits whose probabilities underflow, overflow or vanish, with and without a part beyond whole
/// vectors.
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

/// Log-probs of `targets`, and entropy, where the logits of a row are its weights.
fn scores_of_logits(
    device: &Device<'_>,
    logits: &[f32],
    targets: &[u32],
    temperature: f32,
) -> (Vec<f32>, Vec<f32>) {
    let (shape, role) =
        (Linear { inputs: 1, outputs: logits.len() }, Role::Activation(targets.len(), 1));
    let (x, packed) =
        (device.upload(role, &vec![1.0; targets.len()]), device.upload(weights(shape), logits));
    device.scores_of(shape, &x, &packed, targets, temperature)
}

fn scores_of_extreme_logits(trial: &Trial) {
    let tolerance = trial.tolerance().extreme_scores;
    for device in trial.devices() {
        for logits in extreme_logits() {
            let logits = device.seen(weights(Linear { inputs: 1, outputs: logits.len() }), logits);
            // All tokens, or those at both ends.
            let last = logits.len() as u32;
            let targets: Vec<u32> =
                (0..last.min(61)).chain(last.saturating_sub(20).max(61)..last).collect();
            for temperature in [1.0, 0.7, 2.0] {
                if logits.iter().any(|&z| (z / temperature).abs() == f32::INFINITY && z.is_finite())
                {
                    continue; // beyond f32 before anything is computed
                }
                let (logprobs, entropies) =
                    scores_of_logits(&device, &logits, &targets, temperature);
                let want = reference::log_softmax(&wide(&logits), f64::from(temperature));
                for entropy in entropies {
                    let error = f64::from(entropy) - reference::entropy(&want);
                    assert!(
                        error.abs() < tolerance,
                        "entropy {entropy} off by {error:.1e}: {:?}",
                        &logits[..7]
                    );
                    assert!(entropy >= -1e-6);
                }
                for (&target, got) in targets.iter().zip(logprobs) {
                    let (got, want) = (f64::from(got), want[target as usize]);
                    let want = if want < f64::from(f32::MIN) { f64::NEG_INFINITY } else { want };
                    assert!(
                        got == want || (got - want).abs() < tolerance * want.abs().max(1.0),
                        "{got} for {want}"
                    );
                }
            }
        }
    }
}

/// A peak, and a tail of 152 thousand tokens each too unlikely to show beside it, which together
/// count.
fn tails_of_large_vocabularies_are_not_swallowed(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().extreme_scores);
    for background in [-17.4, -16.0, -14.0, -12.0] {
        let mut logits = vec![background; 152_064];
        logits[7] = 0.0;
        let logits = device.seen(weights(Linear { inputs: 1, outputs: logits.len() }), logits);
        let want = reference::log_softmax(&wide(&logits), 1.0);
        let (logprobs, entropies) = scores_of_logits(device, &logits, &[7], 1.0);
        for (got, want) in [(logprobs[0], want[7]), (entropies[0], reference::entropy(&want))] {
            assert!(
                (f64::from(got) - want).abs() < tolerance,
                "{got} instead of {want} before {background}"
            );
        }
    }
}

fn entropies_with_closed_forms(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for n in [1usize, 2, 16, 61, 1000, 152_064] {
        let (_, entropies) = scores_of_logits(device, &vec![-4.25; n], &[0], 1.0);
        let error = f64::from(entropies[0]) - (n as f64).ln();
        assert!(error.abs() < tolerance, "uniform over {n}: {}", entropies[0]);
    }
    let mut one_hot = vec![-200.0; 1000];
    one_hot[321] = 0.0;
    assert_eq!(
        scores_of_logits(device, &one_hot, &[321], 1.0),
        (vec![0.0], vec![0.0]),
        "a certainty"
    );
}

/// The gradient of certain, and of impossible, tokens stays finite.
fn gradients_of_extreme_logits(trial: &Trial) {
    let (device, tolerance) = (trial.device(), trial.tolerance().head_gradient);
    for logits in extreme_logits().into_iter().filter(|l| l.iter().all(|z| z.is_finite())) {
        let shape = Linear { inputs: 1, outputs: logits.len() };
        let logits = device.seen(weights(shape), logits);
        let role = Role::Activation(1, 1);
        let (x, packed) = (device.upload(role, &[1.0]), device.upload(weights(shape), &logits));
        for target in [0, 3, logits.len() as u32 - 1] {
            for (a, b, c) in [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (-2.5, 1e3, 0.0), (1.0, 0.0, -1.0)]
            {
                // A token without probability in f32 has no share of it. A test of its own shows
                // that such masks do no harm.
                let apart = logits.iter().any(|z| z.abs() > 1e3);
                if apart && c != 0.0 {
                    continue;
                }
                // The target and its neighbour, however unlikely both are.
                let mut masks = SamplingMasks::default();
                masks.push(&[target.max(1) - 1, target.max(1)]);
                let index = device.index(&[target]);
                let statistics = device.head(shape, &x, &packed, index, masks.clone().into(), 1.0);
                let (mut dx, mut dw) = (device.blank(role), device.zeros(gradient(shape)));
                device.head_backward(
                    shape,
                    &x,
                    &packed,
                    &statistics,
                    &[a],
                    &[b],
                    &[c],
                    &mut dx,
                    &mut dw,
                );
                let (by, b) = ([a, b, c].map(f64::from), f64::from(b));
                let (logits, target) = (wide(&logits), target as usize);
                let want = reference::head_backward(&logits, 1.0, target, masks.of(0), by);
                // An entropy has an error of its own, and its coefficient multiplies that.
                for (got, want) in device.download(gradient(shape), &dw).into_iter().zip(want) {
                    let error = (f64::from(got) - want).abs();
                    assert!(
                        error < tolerance * (1.0 + b),
                        "{got} instead of {want}: {:?}",
                        &logits[..7]
                    );
                }
            }
        }
    }
}

/// Log-masses, and gradients through masks, stay finite where what is kept has become impossible,
/// all of it or some.
fn masks_of_extreme_logits(trial: &Trial) {
    for device in trial.devices() {
        for logits in extreme_logits() {
            let shape = Linear { inputs: 1, outputs: logits.len() };
            let logits = device.seen(weights(shape), logits);
            let role = Role::Activation(1, 1);
            let (x, packed) = (device.upload(role, &[1.0]), device.upload(weights(shape), &logits));
            // If a mask cuts beside a peak, each target is another case; the others are alike.
            let is_beside_a_peak = |&target: &u32| {
                let around =
                    target.saturating_sub(2) as usize..logits.len().min(target as usize + 2);
                logits[around].windows(2).any(|pair| pair[0] != pair[1])
            };
            let targets = 1..logits.len().min(61) as u32;
            let (beside, alike): (Vec<u32>, Vec<u32>) = targets.partition(is_beside_a_peak);
            for target in beside.into_iter().chain(trial.some(alike)) {
                // A logit of -inf is none that a token could have been drawn with: beside one that
                // has another.
                let mut kept = vec![target - 1, target];
                if kept.iter().all(|&token| logits[token as usize] == f32::NEG_INFINITY) {
                    kept.push(logits.iter().rposition(|&z| z > f32::NEG_INFINITY).unwrap() as u32);
                    kept.sort_unstable();
                }
                let mut masks = SamplingMasks::default();
                masks.push(&kept);
                let index = device.index(&[target]);
                let mut statistics = device.head(shape, &x, &packed, index, masks.into(), 1.0);
                let HeadScores { log_masses, .. } = device.scores(&mut statistics);
                let (mut dx, mut dw) = (device.blank(role), device.zeros(gradient(shape)));
                device.head_backward(
                    shape,
                    &x,
                    &packed,
                    &statistics,
                    &[1.0],
                    &[0.5],
                    &[-1.0],
                    &mut dx,
                    &mut dw,
                );
                let dw = device.download(gradient(shape), &dw);
                assert!(
                    log_masses[0].is_finite()
                        && log_masses[0] < 1e-3
                        && dw.iter().all(|d| d.is_finite()),
                    "log-mass {}, gradient {dw:?} of {kept:?}: {:?}",
                    log_masses[0],
                    &logits[..7]
                );
            }
        }
    }
}

/// The scores of a pass that goes back, to the last bit, and slopes as in mathematics.
fn slopes_of_entropies(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for (shape, rows, temperature) in shapes_and_rows() {
        let role = Role::Activation(rows, shape.inputs);
        let (x, w) = (device.noise(role, 1), spread(device, shape));
        let targets = indices(3, rows, shape.outputs);
        let logits =
            reference::linear(&wide(&x), &wide(&w), &vec![0.0; shape.outputs], shape.inputs);
        let (x, packed) = (device.upload(role, &x), device.upload(weights(shape), &w));
        let index = || device.index(&targets);
        for masks in [SamplingMasks::default(), masks(&targets, shape.outputs)] {
            let EntropySlopes { scores, slopes } =
                device.entropy_slopes(shape, &x, &packed, &index(), &masks, temperature);
            let mut statistics =
                device.head(shape, &x, &packed, index(), masks.clone().into(), temperature);
            let want = device.scores(&mut statistics);
            assert_bits("log-probs", &scores.logprobs, &want.logprobs);
            assert_bits("entropies", &scores.entropies, &want.entropies);
            assert_bits("log-masses", &scores.log_masses, &want.log_masses);
            assert_eq!(slopes.len(), rows);
            for (r, logits) in logits.chunks(shape.outputs).enumerate() {
                let target = targets[r] as usize;
                let want =
                    reference::entropy_slope(logits, f64::from(temperature), target, masks.of(r));
                let error = f64::from(slopes[r]) - want;
                let what = format!("row {r} of {rows}, {shape:?}, temperature {temperature}");
                assert!(error.abs() < tolerance, "{what}: slope {want} off by {error:.1e}");
            }
        }
    }
}

fn slopes_of_extreme_entropies(trial: &Trial) {
    let tolerance = trial.tolerance().extreme_scores;
    for device in trial.devices() {
        let slopes_of = |logits: &[f32], targets: &[u32], masks: &SamplingMasks| {
            let shape = Linear { inputs: 1, outputs: logits.len() };
            let role = Role::Activation(targets.len(), 1);
            let x = device.upload(role, &vec![1.0; targets.len()]);
            let packed = device.upload(weights(shape), logits);
            device.entropy_slopes(shape, &x, &packed, &device.index(targets), masks, 1.0).slopes
        };
        for logits in extreme_logits() {
            let logits = device.seen(weights(Linear { inputs: 1, outputs: logits.len() }), logits);
            let targets: Vec<u32> = (0..logits.len().min(61) as u32).collect();
            let whole = SamplingMasks::default();
            for (target, got) in (0..).zip(slopes_of(&logits, &targets, &whole)) {
                let want = reference::entropy_slope(&wide(&logits), 1.0, target, &[]);
                let error = f64::from(got) - want;
                assert!(
                    error.abs() < tolerance,
                    "slope {want} off by {error:.1e}: {:?}",
                    &logits[..7]
                );
            }
            // Masks that keep impossible tokens among others: the result need only be finite.
            let kept = |&target: &u32| [target.saturating_sub(1), target.max(1)];
            let mut masks = SamplingMasks::default();
            targets.iter().for_each(|target| masks.push(&kept(target)));
            let possible =
                |target: &u32| kept(target).iter().any(|&t| logits[t as usize].is_finite());
            let slopes = slopes_of(&logits, &targets, &masks);
            for (target, slope) in targets.iter().zip(slopes).filter(|(target, _)| possible(target))
            {
                assert!(slope.is_finite(), "slope {slope} of {target}: {:?}", &logits[..7]);
            }
        }
        // Where all tokens are alike, or one is certain, no step changes the entropy.
        for n in [1usize, 2, 16, 61, 1000] {
            let [slope] = slopes_of(&vec![-4.25; n], &[0], &SamplingMasks::default())[..] else {
                panic!()
            };
            assert!(f64::from(slope).abs() < tolerance, "{slope} of {n} equal tokens");
        }
    }
}

/// The head's weights take a step along the gradient of one row's log-prob, and a step back. The
/// row's logits over temperature then move along their own gradient, |x|^2 / T^2 times as far, and
/// the entropy by its slope.
fn steps_of_the_head_change_entropies_by_their_slopes(trial: &Trial) {
    let (device, shape) = (&trial.device(), Linear { inputs: 17, outputs: 61 });
    let role = Role::Activation(1, shape.inputs);
    let w = spread(device, shape);
    let (mut got, mut want) = (Vec::new(), Vec::new());
    for (seed, temperature) in (1..40).zip([1.0f32, 0.7].into_iter().cycle()) {
        let x = device.noise(role, seed);
        let target = indices(seed, 1, shape.outputs);
        let masks =
            if seed % 2 == 0 { SamplingMasks::default() } else { masks(&target, shape.outputs) };
        let (x, packed) = (device.upload(role, &x), device.upload(weights(shape), &w));
        let found = |weights: &[f32]| {
            let packed = device.upload(self::weights(shape), weights);
            let EntropySlopes { scores, slopes } = device.entropy_slopes(
                shape,
                &x,
                &packed,
                &device.index(&target),
                &masks,
                temperature,
            );
            (f64::from(scores.entropies[0]), f64::from(slopes[0]))
        };
        let index = device.index(&target);
        let statistics = device.head(shape, &x, &packed, index, masks.clone().into(), temperature);
        let (mut dx, mut dw) = (device.blank(role), device.zeros(gradient(shape)));
        let by = ([1.0], [0.0], [-1.0]);
        device.head_backward(
            shape,
            &x,
            &packed,
            &statistics,
            &by.0,
            &by.1,
            &by.2,
            &mut dx,
            &mut dw,
        );
        let dw = device.download(gradient(shape), &dw);
        let x = wide(&device.download(role, &x));
        let far = reference::dot(&x, &x) / f64::from(temperature * temperature);
        // A step in logits over temperature: rounding and the third order both stay small.
        let step = 5.0 * trial.tolerance().derivative_step;
        let after = |step: f64| {
            let moved = w.iter().zip(&dw).map(|(w, d)| w + (step / far) as f32 * d).collect();
            found(&device.seen(weights(shape), moved)).0
        };
        got.push(((after(step) - after(-step)) / (2.0 * step)) as f32);
        want.push(found(&w).1);
    }
    assert_close("slopes", &got, &want, trial.tolerance().derivatives);
}

fn no_rows(trial: &Trial) {
    let (device, shape) = (trial.device(), Linear { inputs: 3, outputs: 61 });
    let before = device.noise(gradient(shape), 1);
    let (packed, mut dw) =
        (device.upload(weights(shape), &before), device.upload(gradient(shape), &before));
    let role = Role::Activation(0, 3);
    let none = device.blank(role);
    let masks = SamplingMasks::default().into();
    let mut statistics = device.head(shape, &none, &packed, device.index(&[]), masks, 1.0);
    let HeadScores { logprobs, entropies, .. } = device.scores(&mut statistics);
    assert!(logprobs.is_empty() && entropies.is_empty());
    let whole = SamplingMasks::default();
    let EntropySlopes { scores, slopes } =
        device.entropy_slopes(shape, &none, &packed, &device.index(&[]), &whole, 1.0);
    assert!(scores.logprobs.is_empty() && slopes.is_empty());
    device.head_backward(
        shape,
        &none,
        &packed,
        &statistics,
        &[],
        &[],
        &[],
        &mut device.blank(role),
        &mut dw,
    );
    assert_bits("dw", &device.download(gradient(shape), &dw), &before);
}
