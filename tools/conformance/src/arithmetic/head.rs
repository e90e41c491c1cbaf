//! The head against the reference: log-probs, exact entropies and their gradients.

use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close, indices, masks, noise, wide};
use crate::device::{Device, Trial, gradient, weights};
use crate::properties;
use isentrope_kernels::{
    Buffer, EntropySlopes, HeadScores, HeadStatistics, Linear, Role, SamplingMasks, TeacherRows,
};

properties!(
    forward,
    backward,
    backward_through_masks,
    scores_of_extreme_logits,
    tails_of_large_vocabularies_are_not_swallowed,
    entropies_with_closed_forms,
    gradients_of_extreme_logits,
    masks_of_extreme_logits,
    divergences_from_a_teacher,
    divergences_of_extreme_logits,
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

/// Rows of hidden states below a head.
struct Rows<'a> {
    device: &'a Device<'a>,
    shape: Linear,
    x: Vec<f32>,
    weights: Vec<f32>,
    targets: Vec<u32>,
    masks: SamplingMasks,
    temperature: f32,
    on_device: [Buffer; 2],
}

impl<'a> Rows<'a> {
    fn new(
        device: &'a Device<'a>,
        shape: Linear,
        [x, weights]: [Vec<f32>; 2],
        targets: &[u32],
        masks: SamplingMasks,
        temperature: f32,
    ) -> Self {
        let role = Role::Activation(targets.len(), shape.inputs);
        let on_device = [device.upload(role, &x), device.upload(self::weights(shape), &weights)];
        let targets = targets.to_vec();
        Self { device, shape, x, weights, targets, masks, temperature, on_device }
    }

    /// Noise, and weights small enough that probabilities spread over the vocabulary.
    fn spread(
        device: &'a Device<'a>,
        (shape, rows, temperature): (Linear, usize, f32),
        masks: fn(&[u32], usize) -> SamplingMasks,
    ) -> Self {
        let x = device.noise(Role::Activation(rows, shape.inputs), 1);
        let targets = indices(3, rows, shape.outputs);
        let masks = masks(&targets, shape.outputs);
        Self::new(device, shape, [x, spread(device, shape)], &targets, masks, temperature)
    }

    /// One row for each target; every row has these logits.
    fn of_logits(
        device: &'a Device<'a>,
        logits: &[f32],
        targets: &[u32],
        masks: SamplingMasks,
        temperature: f32,
    ) -> Self {
        let shape = Linear { inputs: 1, outputs: logits.len() };
        let numbers = [vec![1.0; targets.len()], logits.to_vec()];
        Self::new(device, shape, numbers, targets, masks, temperature)
    }

    fn statistics(&self) -> HeadStatistics {
        let ([x, packed], targets) = (&self.on_device, self.device.upload_index(&self.targets));
        let masks = self.masks.clone().into();
        self.device.head(self.shape, x, packed, targets, masks, self.temperature, None)
    }

    fn scores(&self) -> HeadScores {
        self.device.scores(&mut self.statistics())
    }

    fn slopes(&self) -> EntropySlopes {
        let ([x, packed], targets) = (&self.on_device, self.device.upload_index(&self.targets));
        let masks = self.masks.clone().into();
        self.device.entropy_slopes(self.shape, x, packed, targets, masks, self.temperature)
    }

    /// The gradients of hidden states and, going on from `before`, of weights.
    fn gradients(&self, [a, b, c]: [&[f32]; 3], before: &[f32]) -> [Vec<f32>; 2] {
        let (device, shape, [x, packed]) = (self.device, self.shape, &self.on_device);
        let role = Role::Activation(self.targets.len(), shape.inputs);
        let (mut dx, mut dw) = (device.blank(role), device.upload(gradient(shape), before));
        let statistics = self.statistics();
        device.head_backward(shape, x, packed, &statistics, a, b, c, None, &mut dx, Some(&mut dw));
        [device.download(role, &dx), device.download(gradient(shape), &dw)]
    }

    /// The gradient of weights by coefficients of a single row.
    fn weight_gradient(&self, by: [f32; 3]) -> Vec<f32> {
        let [a, b, c] = by.map(|x| [x]);
        let [_, dw] = self.gradients([&a, &b, &c], &vec![0.0; self.weights.len()]);
        dw
    }

    /// Logits in f64, by the definition.
    fn logits(&self) -> Vec<f64> {
        let Linear { inputs, outputs } = self.shape;
        reference::linear(&wide(&self.x), &wide(&self.weights), &vec![0.0; outputs], inputs)
    }

    /// A row's description, for messages.
    fn what(&self, row: usize) -> String {
        let (rows, shape, temperature) = (self.targets.len(), self.shape, self.temperature);
        format!("row {row} of {rows}, {shape:?}, temperature {temperature}")
    }
}

/// Weights small enough that probabilities spread over the vocabulary.
fn spread(device: &Device<'_>, shape: Linear) -> Vec<f32> {
    let small = noise(2, shape.inputs * shape.outputs)
        .into_iter()
        .map(|w| w / (shape.inputs as f32).sqrt());
    device.seen(weights(shape), small.collect())
}

/// No masks.
fn whole(_: &[u32], _: usize) -> SamplingMasks {
    SamplingMasks::default()
}

/// Masks of one row each.
fn mask_of(kept: &[u32]) -> SamplingMasks {
    let mut masks = SamplingMasks::default();
    masks.push(kept);
    masks
}

#[track_caller]
fn assert_near(what: &str, got: f32, want: f64, tolerance: f64) {
    let error = f64::from(got) - want;
    assert!(error.abs() < tolerance, "{what}: {want} off by {error:.1e}");
}

fn forward(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for case in shapes_and_rows() {
        let rows = Rows::spread(device, case, masks);
        let HeadScores { logprobs, entropies, mut log_masses } = rows.scores();
        let count = rows.targets.len();
        assert_eq!((logprobs.len(), entropies.len()), (count, count));
        let masses = if rows.masks.is_whole() { 0 } else { count };
        assert_eq!(log_masses.len(), masses, "none without masks");
        log_masses.resize(count, 0.0);
        for (r, logits) in rows.logits().chunks(rows.shape.outputs).enumerate() {
            let want = reference::log_softmax(logits, f64::from(rows.temperature));
            let what = rows.what(r);
            // A log-prob is a difference of logits: its error is absolute.
            let of_target = want[rows.targets[r] as usize];
            assert_near(&format!("log-prob of {what}"), logprobs[r], of_target, tolerance);
            let entropy = reference::entropy(&want);
            assert_near(&format!("entropy of {what}"), entropies[r], entropy, tolerance);
            let mass = reference::log_mass(&want, rows.masks.of(r));
            assert_near(&format!("log-mass of {what}"), log_masses[r], mass, tolerance);
            if rows.shape.outputs == 1 {
                assert_eq!((logprobs[r], entropies[r]), (0.0, 0.0), "{what}: a certainty");
            }
        }
    }
}

fn backward(trial: &Trial) {
    gradients(trial, whole);
}

fn backward_through_masks(trial: &Trial) {
    gradients(trial, masks);
}

fn gradients(trial: &Trial, masks: fn(&[u32], usize) -> SamplingMasks) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for case @ (shape, count, temperature) in shapes_and_rows() {
        let rows = Rows::spread(device, case, masks);
        let by = [4, 5, 7].map(|seed| noise(seed, count));
        let before = device.noise(gradient(shape), 6);
        let [dx, dw] = rows.gradients(by.each_ref().map(Vec::as_slice), &before);

        let d_logits: Vec<f64> = rows
            .logits()
            .chunks(shape.outputs)
            .enumerate()
            .flat_map(|(r, row)| {
                let by = [0, 1, 2].map(|i| f64::from(by[i][r]));
                let target = rows.targets[r] as usize;
                let temperature = f64::from(temperature);
                reference::head_backward(row, temperature, target, rows.masks.of(r), by)
            })
            .collect();
        let (want_dx, mut want_dw, _) = reference::linear_backward(
            &wide(&rows.x),
            &wide(&rows.weights),
            &d_logits,
            shape.inputs,
        );
        want_dw.iter_mut().zip(&before).for_each(|(d, &b)| *d += f64::from(b));
        let what = format!("{count} rows, {shape:?}, temperature {temperature}");
        assert_close(&format!("dw of {what}"), &dw, &want_dw, tolerance.head_gradient);
        if shape.outputs == 1 {
            // Nothing can change a certainty.
            let noise = tolerance.head_gradient_noise;
            assert!(dx.iter().all(|&d| f64::from(d).abs() < noise), "dx of {what}");
        } else {
            assert_close(&format!("dx of {what}"), &dx, &want_dx, tolerance.head_gradient);
        }
    }
}

/// The reverse KL to a teacher of another width, whose head may have more tokens, and the gradient
/// of it and of all other scores.
fn divergences_from_a_teacher(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance());
    for (number, case) in shapes_and_rows().enumerate() {
        let (shape, count, temperature) = case;
        let rows = Rows::spread(device, case, masks);
        let its =
            Linear { inputs: 9 + number % 5, outputs: shape.outputs + [0, 1, 70][number % 3] };
        let hidden = device.noise(Role::Activation(count, its.inputs), 11);
        let head = spread(device, its);
        let [on_device, packed] =
            [(Role::Activation(count, its.inputs), &hidden), (weights(its), &head)]
                .map(|(role, numbers)| device.upload(role, numbers));
        let teacher = TeacherRows { hidden: &on_device, weights: &packed, shape: its };
        let none = vec![0.0; its.outputs];
        let of_teacher = reference::linear(&wide(&hidden), &wide(&head), &none, its.inputs);
        let of_teacher = of_teacher.chunks(its.outputs).map(|row| &row[..shape.outputs]);

        let by = [4, 5, 7, 8].map(|seed| noise(seed, count));
        let [a, b, c, e] = by.each_ref().map(Vec::as_slice);
        let ([x, weights], targets) = (&rows.on_device, device.upload_index(&rows.targets));
        let kept = rows.masks.clone().into();
        let statistics = device.head(shape, x, weights, targets, kept, temperature, Some(teacher));
        let divergences = device.divergences(&statistics);
        let role = Role::Activation(count, shape.inputs);
        let (mut dx, mut dw) = (device.blank(role), device.zeros(gradient(shape)));
        let (taught, wanted) = (Some((teacher, e)), Some(&mut dw));
        device.head_backward(shape, x, weights, &statistics, a, b, c, taught, &mut dx, wanted);

        let temperature = f64::from(temperature);
        let mut d_logits = Vec::new();
        for (r, (row, its)) in rows.logits().chunks(shape.outputs).zip(of_teacher).enumerate() {
            let [own, theirs] = [row, its].map(|of| reference::log_softmax(of, temperature));
            let want = reference::divergence(&own, &theirs);
            let what = format!("reverse KL of {}", rows.what(r));
            assert_near(&what, divergences[r], want, tolerance.scores);
            let by = by.each_ref().map(|by| f64::from(by[r]));
            let (target, kept) = (rows.targets[r] as usize, rows.masks.of(r));
            let [a, b, c, e] = by;
            let others = reference::head_backward(row, temperature, target, kept, [a, b, c]);
            let of_kl = reference::divergence_backward(row, its, temperature);
            d_logits.extend(others.iter().zip(of_kl).map(|(other, of_kl)| other + e * of_kl));
        }
        let [dx, dw] = [device.download(role, &dx), device.download(gradient(shape), &dw)];
        let (x, w) = (wide(&rows.x), wide(&rows.weights));
        let (want_dx, want_dw, _) = reference::linear_backward(&x, &w, &d_logits, shape.inputs);
        if shape.outputs > 1 {
            let what = format!("of {count} rows, {shape:?}, temperature {temperature}");
            assert_close(&format!("dx {what}"), &dx, &want_dx, tolerance.head_gradient);
            assert_close(&format!("dw {what}"), &dw, &want_dw, tolerance.head_gradient);
        }
    }
}

/// Whatever the logits, agreement is worth exactly nothing, and nothing is not a number.
fn divergences_of_extreme_logits(trial: &Trial) {
    for device in trial.devices() {
        for logits in extreme_logits() {
            let logits = seen(&device, logits);
            let rows = Rows::of_logits(&device, &logits, &[2], SamplingMasks::default(), 1.0);
            let [x, packed] = &rows.on_device;
            let mut other = logits.clone();
            other.reverse();
            let other = seen(&device, other);
            let other = device.upload(weights(rows.shape), &other);
            for (its, agrees) in [(packed, true), (&other, false)] {
                let teacher = TeacherRows { hidden: x, weights: its, shape: rows.shape };
                let targets = device.upload_index(&[2]);
                let masks = SamplingMasks::default().into();
                let statistics =
                    device.head(rows.shape, x, packed, targets, masks, 1.0, Some(teacher));
                let divergence = device.divergences(&statistics)[0];
                let mut dw = device.zeros(gradient(rows.shape));
                let mut dx = device.blank(Role::Activation(1, 1));
                let (zero, taught) = ([0.0], Some((teacher, &[0.3][..])));
                device.head_backward(
                    rows.shape,
                    x,
                    packed,
                    &statistics,
                    &zero,
                    &zero,
                    &[],
                    taught,
                    &mut dx,
                    Some(&mut dw),
                );
                let dw = device.download(gradient(rows.shape), &dw);
                if agrees {
                    assert_eq!(divergence, 0.0);
                    assert!(dw.iter().all(|&d| d == 0.0), "{dw:?}");
                } else {
                    assert!(divergence >= -1e-6, "{divergence}");
                    assert!(dw.iter().all(|d| d.is_finite()), "{:?}: {dw:?}", &logits[..7]);
                }
            }
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

/// Extreme logits as the device sees them.
fn seen(device: &Device<'_>, logits: Vec<f32>) -> Vec<f32> {
    device.seen(weights(Linear { inputs: 1, outputs: logits.len() }), logits)
}

fn scores_of_extreme_logits(trial: &Trial) {
    let tolerance = trial.tolerance().extreme_scores;
    for device in trial.devices() {
        for logits in extreme_logits() {
            let logits = seen(&device, logits);
            // All tokens of a small vocabulary, else the tokens at both ends.
            let last = logits.len() as u32;
            let targets: Vec<u32> =
                (0..last.min(61)).chain(last.saturating_sub(20).max(61)..last).collect();
            for temperature in [1.0, 0.7, 2.0] {
                if logits.iter().any(|&z| (z / temperature).abs() == f32::INFINITY && z.is_finite())
                {
                    continue; // beyond f32 before anything is computed
                }
                let masks = SamplingMasks::default();
                let rows = Rows::of_logits(&device, &logits, &targets, masks, temperature);
                let HeadScores { logprobs, entropies, .. } = rows.scores();
                let want = reference::log_softmax(&wide(&logits), f64::from(temperature));
                let what = format!("entropy: {:?}", &logits[..7]);
                for entropy in entropies {
                    assert_near(&what, entropy, reference::entropy(&want), tolerance);
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

/// The log-prob and the entropy of one target in a row with these logits.
fn score(device: &Device<'_>, logits: &[f32], target: u32) -> (f32, f32) {
    let rows = Rows::of_logits(device, logits, &[target], SamplingMasks::default(), 1.0);
    let HeadScores { logprobs, entropies, .. } = rows.scores();
    (logprobs[0], entropies[0])
}

/// A peak, and a tail of 152 thousand tokens each too unlikely to show beside it, which together
/// count.
fn tails_of_large_vocabularies_are_not_swallowed(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().extreme_scores);
    for background in [-17.4, -16.0, -14.0, -12.0] {
        let mut logits = vec![background; 152_064];
        logits[7] = 0.0;
        let logits = seen(device, logits);
        let want = reference::log_softmax(&wide(&logits), 1.0);
        let (logprob, entropy) = score(device, &logits, 7);
        let what = format!("before {background}");
        assert_near(&what, logprob, want[7], tolerance);
        assert_near(&what, entropy, reference::entropy(&want), tolerance);
    }
}

fn entropies_with_closed_forms(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for n in [1usize, 2, 16, 61, 1000, 152_064] {
        let (_, entropy) = score(device, &vec![-4.25; n], 0);
        assert_near("uniform", entropy, (n as f64).ln(), tolerance);
    }
    let mut one_hot = vec![-200.0; 1000];
    one_hot[321] = 0.0;
    assert_eq!(score(device, &one_hot, 321), (0.0, 0.0), "a certainty");
}

/// The gradient of certain, and of impossible, tokens stays finite.
fn gradients_of_extreme_logits(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().head_gradient);
    for logits in extreme_logits().into_iter().filter(|l| l.iter().all(|z| z.is_finite())) {
        let logits = seen(device, logits);
        for target in [0, 3, logits.len() as u32 - 1] {
            for by in [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-2.5, 1e3, 0.0], [1.0, 0.0, -1.0]] {
                // A token without probability in f32 has no share of it. Another test shows that
                // such masks do no harm.
                if logits.iter().any(|z| z.abs() > 1e3) && by[2] != 0.0 {
                    continue;
                }
                // The target and its neighbour, however unlikely both are.
                let masks = mask_of(&[target.max(1) - 1, target.max(1)]);
                let rows = Rows::of_logits(device, &logits, &[target], masks, 1.0);
                let wide_by = by.map(f64::from);
                let kept = rows.masks.of(0);
                let want =
                    reference::head_backward(&wide(&logits), 1.0, target as usize, kept, wide_by);
                let what = format!("{:?}", &logits[..7]);
                // The coefficient also multiplies the entropy's own error.
                for (got, want) in rows.weight_gradient(by).into_iter().zip(want) {
                    assert_near(&what, got, want, tolerance * (1.0 + wide_by[1]));
                }
            }
        }
    }
}

/// Log-masses, and gradients through masks, stay finite if some or all of the kept tokens have
/// become impossible.
fn masks_of_extreme_logits(trial: &Trial) {
    for device in trial.devices() {
        for logits in extreme_logits() {
            let logits = seen(&device, logits);
            // If a mask ends beside a peak, each target is a case of its own. All other targets are
            // alike.
            let is_beside_a_peak = |&target: &u32| {
                let around =
                    target.saturating_sub(2) as usize..logits.len().min(target as usize + 2);
                logits[around].windows(2).any(|pair| pair[0] != pair[1])
            };
            let targets = 1..logits.len().min(61) as u32;
            let (beside, alike): (Vec<u32>, Vec<u32>) = targets.partition(is_beside_a_peak);
            for target in beside.into_iter().chain(trial.some(alike)) {
                // A token with a logit of -inf is never drawn, so at least one kept token has
                // another logit.
                let mut kept = vec![target - 1, target];
                if kept.iter().all(|&token| logits[token as usize] == f32::NEG_INFINITY) {
                    kept.push(logits.iter().rposition(|&z| z > f32::NEG_INFINITY).unwrap() as u32);
                    kept.sort_unstable();
                }
                let rows = Rows::of_logits(&device, &logits, &[target], mask_of(&kept), 1.0);
                let mass = rows.scores().log_masses[0];
                let dw = rows.weight_gradient([1.0, 0.5, -1.0]);
                assert!(
                    mass.is_finite() && mass < 1e-3 && dw.iter().all(|d| d.is_finite()),
                    "log-mass {mass}, gradient {dw:?} of {kept:?}: {:?}",
                    &logits[..7]
                );
            }
        }
    }
}

/// The scores have the bits of a pass with a backward pass, and the slopes follow the definition.
fn slopes_of_entropies(trial: &Trial) {
    let (device, tolerance) = (&trial.device(), trial.tolerance().scores);
    for case @ (_, _, temperature) in shapes_and_rows() {
        for masks in [whole, masks] {
            let rows = Rows::spread(device, case, masks);
            let (EntropySlopes { scores, slopes }, want) = (rows.slopes(), rows.scores());
            assert_bits("log-probs", &scores.logprobs, &want.logprobs);
            assert_bits("entropies", &scores.entropies, &want.entropies);
            assert_bits("log-masses", &scores.log_masses, &want.log_masses);
            assert_eq!(slopes.len(), rows.targets.len());
            for (r, logits) in rows.logits().chunks(rows.shape.outputs).enumerate() {
                let (target, kept) = (rows.targets[r] as usize, rows.masks.of(r));
                let want = reference::entropy_slope(logits, f64::from(temperature), target, kept);
                assert_near(&format!("slope of {}", rows.what(r)), slopes[r], want, tolerance);
            }
        }
    }
}

fn slopes_of_extreme_entropies(trial: &Trial) {
    let tolerance = trial.tolerance().extreme_scores;
    for device in trial.devices() {
        let slopes_of = |logits: &[f32], targets: &[u32], masks: SamplingMasks| {
            Rows::of_logits(&device, logits, targets, masks, 1.0).slopes().slopes
        };
        for logits in extreme_logits() {
            let logits = seen(&device, logits);
            let targets: Vec<u32> = (0..logits.len().min(61) as u32).collect();
            let what = format!("slope: {:?}", &logits[..7]);
            for (target, got) in (0..).zip(slopes_of(&logits, &targets, SamplingMasks::default())) {
                let want = reference::entropy_slope(&wide(&logits), 1.0, target, &[]);
                assert_near(&what, got, want, tolerance);
            }
            // Masks that keep impossible tokens among others: the result need only be finite.
            let kept = |&target: &u32| [target.saturating_sub(1), target.max(1)];
            let mut masks = SamplingMasks::default();
            targets.iter().for_each(|target| masks.push(&kept(target)));
            let possible =
                |target: &u32| kept(target).iter().any(|&t| logits[t as usize].is_finite());
            let slopes = slopes_of(&logits, &targets, masks);
            for (target, slope) in targets.iter().zip(slopes).filter(|(target, _)| possible(target))
            {
                assert!(slope.is_finite(), "slope {slope} of {target}: {what}");
            }
        }
        // If all tokens are alike, or one is certain, no step changes the entropy.
        for n in [1usize, 2, 16, 61, 1000] {
            let slopes = slopes_of(&vec![-4.25; n], &[0], SamplingMasks::default());
            assert_near("equal tokens", slopes[0], 0.0, tolerance);
        }
    }
}

/// The head's weights take a step along the gradient of one row's log-prob, and a step back. The
/// row's logits over temperature then move along their own gradient, |x|^2 / T^2 times as far, and
/// the entropy by its slope.
fn steps_of_the_head_change_entropies_by_their_slopes(trial: &Trial) {
    let (device, shape) = (&trial.device(), Linear { inputs: 17, outputs: 61 });
    let w = spread(device, shape);
    let (mut got, mut want) = (Vec::new(), Vec::new());
    for (seed, temperature) in (1..40).zip([1.0f32, 0.7].into_iter().cycle()) {
        let x = device.noise(Role::Activation(1, shape.inputs), seed);
        let target = indices(seed, 1, shape.outputs);
        let masks = if seed % 2 == 0 { whole } else { masks }(&target, shape.outputs);
        let rows = |weights: Vec<f32>| {
            Rows::new(device, shape, [x.clone(), weights], &target, masks.clone(), temperature)
        };
        let dw = rows(w.clone()).weight_gradient([1.0, 0.0, -1.0]);
        let far = reference::dot(&wide(&x), &wide(&x)) / f64::from(temperature * temperature);
        // A step in logits over temperature: rounding and the third order both stay small.
        let step = 5.0 * trial.tolerance().derivative_step;
        let after = |step: f64| {
            let moved = w.iter().zip(&dw).map(|(w, d)| w + (step / far) as f32 * d).collect();
            f64::from(rows(device.seen(weights(shape), moved)).slopes().scores.entropies[0])
        };
        got.push(((after(step) - after(-step)) / (2.0 * step)) as f32);
        want.push(f64::from(rows(w.clone()).slopes().slopes[0]));
    }
    assert_close("slopes", &got, &want, trial.tolerance().derivatives);
}

fn no_rows(trial: &Trial) {
    let (device, shape) = (&trial.device(), Linear { inputs: 3, outputs: 61 });
    let before = device.noise(gradient(shape), 1);
    let numbers = [Vec::new(), device.noise(weights(shape), 1)];
    let rows = Rows::new(device, shape, numbers, &[], SamplingMasks::default(), 1.0);
    let (scores, EntropySlopes { scores: again, slopes }) = (rows.scores(), rows.slopes());
    assert!(scores.logprobs.is_empty() && scores.entropies.is_empty());
    assert!(again.logprobs.is_empty() && slopes.is_empty());
    let [_, dw] = rows.gradients([&[], &[], &[]], &before);
    assert_bits("dw", &dw, &before);
}
