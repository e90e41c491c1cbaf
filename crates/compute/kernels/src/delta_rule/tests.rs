//! The layer against f64 loops, its gradient against differences, and its bits.

use super::*;
use crate::batch::{HostBatch, PAGE};
use crate::simd::{Isa, Kernel, Simd};
use crate::threads::{Threads, Workers};

const SHAPE: DeltaRule =
    DeltaRule { key_heads: 2, value_heads: 4, key_dim: 16, value_dim: 80, taps: 3, eps: 1e-6 };

/// Evenly spread numbers in [-1, 1).
fn noise(seed: usize, len: usize) -> Vec<f32> {
    let word = |i: usize| ((i + 977 * seed) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = |x: u64| (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    (0..len).map(|i| mixed(word(i)) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Weights, each in a vector of its own.
fn weights(shape: DeltaRule) -> DeltaWeights<Vec<f32>> {
    let conv = noise(1, shape.channels() * shape.taps);
    let mut packed = vec![0.0; shape.convolution().packed_len()];
    shape.convolution().pack(0, &conv, &mut packed);
    DeltaWeights {
        conv: packed,
        a_log: noise(2, shape.value_heads),
        dt_bias: noise(3, shape.value_heads),
        norm: noise(4, shape.value_dim),
    }
}

fn slices(weights: &DeltaWeights<Vec<f32>>) -> DeltaWeights<&[f32]> {
    let DeltaWeights { conv, a_log, dt_bias, norm } = weights;
    DeltaWeights { conv, a_log, dt_bias, norm }
}

/// Runs of these lengths: those at `prompts` begin sequences, the others continue the last of them.
fn batch(runs: &[(usize, bool)], states: Vec<u32>) -> CheckedBatch {
    let mut host = HostBatch::default();
    let mut prompt = 0;
    for &(len, begins) in runs {
        let row = host.tokens.len();
        host.tokens.extend(vec![0; len]);
        let position = if begins { 0 } else { prompt };
        host.runs.push(Run { row, len, position, pages: 0..0 });
        prompt = if begins { len } else { prompt };
    }
    host.states = states;
    CheckedBatch::new(&host, &[], PAGE)
}

fn workers(isa: Isa, threads: usize) -> Workers {
    Workers { isa, threads: Threads::new(threads).unwrap() }
}

fn outputs(workers: &Workers, shape: DeltaRule, mixed: &[f32], batch: &CheckedBatch) -> Vec<f32> {
    let weights = weights(shape);
    let mut out = vec![0.0; batch.host().rows() * shape.value_features()];
    forward(workers, shape, slices(&weights), mixed, batch, None, &mut out);
    out
}

/// The outputs of one sequence in f64, by the formulas of the module's head.
fn reference(shape: DeltaRule, weights: &DeltaWeights<Vec<f32>>, mixed: &[f32]) -> Vec<f64> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (dim, values, row) = (shape.key_dim, shape.value_dim, shape.row());
    let at = |t: usize, i: usize| f64::from(mixed[t * row + i]);
    let mut conv = vec![0.0; shape.channels() * shape.taps];
    shape.convolution().unpack(0, &weights.conv, &mut conv);
    let active = |t: usize, channel: usize| -> f64 {
        let tap = |j: usize| {
            let from = (t + j).checked_sub(shape.taps - 1)?;
            Some(f64::from(conv[channel * shape.taps + j]) * at(from, channel))
        };
        let sum: f64 = (0..shape.taps).filter_map(tap).sum();
        sum * sigmoid(sum)
    };
    let unit = |t: usize, first: usize, scale: f64| -> Vec<f64> {
        let x: Vec<f64> = (first..first + dim).map(|channel| active(t, channel)).collect();
        let norm = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        x.iter().map(|x| x / norm * scale).collect()
    };
    let rows = mixed.len() / row;
    let mut out = vec![0.0; rows * shape.value_features()];
    for head in 0..shape.value_heads {
        let key_head = head * shape.key_heads / shape.value_heads;
        let mut matrix = vec![0.0; dim * values];
        for t in 0..rows {
            let q = unit(t, key_head * dim, (dim as f64).powf(-0.5));
            let k = unit(t, (shape.key_heads + key_head) * dim, 1.0);
            let [z, b, a] = shape.gates_of(head);
            let x = at(t, a) + f64::from(weights.dt_bias[head]);
            let decay = (-f64::from(weights.a_log[head]).exp() * x.exp().ln_1p()).exp();
            let mut o = vec![0.0; values];
            for (c, o) in o.iter_mut().enumerate() {
                let v = active(t, 2 * shape.key_features() + head * values + c);
                let read: f64 = (0..dim).map(|i| decay * matrix[i * values + c] * k[i]).sum();
                for i in 0..dim {
                    let s = &mut matrix[i * values + c];
                    *s = decay * *s + k[i] * sigmoid(at(t, b)) * (v - read);
                    *o += q[i] * *s;
                }
            }
            let mean = o.iter().map(|o| o * o).sum::<f64>() / values as f64;
            for (c, o) in o.iter().enumerate() {
                let gate = at(t, z + c) * sigmoid(at(t, z + c));
                let normed = o / (mean + f64::from(shape.eps)).sqrt();
                out[t * shape.value_features() + head * values + c] =
                    normed * f64::from(weights.norm[c]) * gate;
            }
        }
    }
    out
}

/// The logarithm of the first head's decay where its place in a row has `a`.
fn log_decay(weights: &DeltaWeights<Vec<f32>>, a: f32) -> f32 {
    struct OfRow<'a>(&'a token::Weights, &'a [f32]);
    impl Kernel for OfRow<'_> {
        type Output = f32;
        #[inline(always)]
        unsafe fn run<S: Simd>(self) -> f32 {
            // SAFETY: the first head's weights and a whole row are there.
            unsafe { token::Gates::of::<S>(SHAPE, self.0, self.1.as_ptr(), 0).log_decay }
        }
    }
    let mut row = vec![0.0; SHAPE.row()];
    row[SHAPE.gates_of(0)[2]] = a;
    let weights = slices(weights).map(<[f32]>::as_ptr);
    // SAFETY: the instruction set is available.
    unsafe { Isa::available()[0].run(OfRow(&weights, &row)) }
}

#[test]
fn outputs_are_those_of_f64() {
    let mixed = noise(5, 40 * SHAPE.row());
    let ours =
        outputs(&workers(Isa::available()[0], 2), SHAPE, &mixed, &batch(&[(40, true)], vec![]));
    let expected = reference(SHAPE, &weights(SHAPE), &mixed);
    for (ours, expected) in ours.iter().zip(expected) {
        assert!((f64::from(*ours) - expected).abs() < 2e-5, "{ours} {expected}");
    }
    // The decay of long memories, whose logarithm is far below the rounding of 1.
    for a in [-20.0, -15.0, -3.0, 0.0, 4.0, 20.0] {
        let weights = DeltaWeights { a_log: vec![0.5], dt_bias: vec![0.25], ..weights(SHAPE) };
        let exact = -0.5_f64.exp() * (f64::from(a) + 0.25).exp().ln_1p();
        let ours = f64::from(log_decay(&weights, a));
        assert!((ours / exact - 1.0).abs() < 1e-6, "{a}: {ours} {exact}");
    }
}

/// A sequence in steps that keep its state has the bits of one pass; so has one that continues
/// another's rows.
#[test]
fn steps_and_continued_runs_have_the_bits_of_one_pass() {
    let mixed = noise(6, 45 * SHAPE.row());
    let of_rows = |rows: Range<usize>| &mixed[rows.start * SHAPE.row()..rows.end * SHAPE.row()];
    let weights = weights(SHAPE);
    for (isa, threads) in Isa::available().into_iter().zip([2, 1, 3, 1]) {
        let workers = workers(isa, threads);
        let whole = outputs(&workers, SHAPE, &mixed, &batch(&[(45, true)], vec![]));
        assert!(
            whole == outputs(&workers, SHAPE, &mixed, &batch(&[(2, true), (43, false)], vec![]))
        );
        let mut states = vec![f32::NAN; 3 * SHAPE.state()];
        let mut stepped = Vec::new();
        let mut first = 0;
        for len in [1, 1, 2, 20, 1, 20] {
            let mut host = batch(&[(len, true)], vec![1]).host().clone();
            host.runs[0].position = first;
            let batch = CheckedBatch::new(&host, &[], PAGE);
            let mut out = vec![0.0; len * SHAPE.value_features()];
            let rows = of_rows(first..first + len);
            let states = Some(&mut states[..]);
            forward(&workers, SHAPE, slices(&weights), rows, &batch, states, &mut out);
            stepped.extend(out);
            first += len;
        }
        assert!(stepped == whole, "{isa}");
    }
}

/// Every gradient along a random direction against the difference of f32 outputs, in two sequences
/// of which one is continued twice; longer than a segment, and shorter than the convolution.
#[test]
fn gradients_are_slopes() {
    let runs = [(37, true), (1, true), (35, false), (3, false)];
    let batch = batch(&runs, vec![]);
    let rows = batch.host().rows();
    let (mixed, dy) = (noise(7, rows * SHAPE.row()), noise(8, rows * SHAPE.value_features()));
    let workers = workers(Isa::available()[0], 3);
    let base = weights(SHAPE);
    let loss = |weights: &DeltaWeights<Vec<f32>>, mixed: &[f32]| -> f64 {
        let mut out = vec![0.0; rows * SHAPE.value_features()];
        forward(&workers, SHAPE, slices(weights), mixed, &batch, None, &mut out);
        out.iter().zip(&dy).map(|(y, d)| f64::from(*y) * f64::from(*d)).sum()
    };
    let mut d_mixed = vec![f32::NAN; mixed.len()];
    let mut d = base.clone().map(|weight| vec![0.0; weight.len()]);
    let DeltaWeights { conv, a_log, dt_bias, norm } = &mut d;
    let to = DeltaWeights { conv: &mut conv[..], a_log, dt_bias, norm };
    backward(&workers, SHAPE, slices(&base), &mixed, &batch, &dy, &mut d_mixed, Some(to));

    let step = 1.0 / 512.0;
    let check = |what: &str, gradient: &[f32], at: &dyn Fn(f32) -> f64, direction: &[f32]| {
        // Richardson: the error of central differences falls with the fourth power of the step.
        let slope = |h: f32| (at(h) - at(-h)) / (2.0 * f64::from(h));
        let difference = (4.0 * slope(step) - slope(2.0 * step)) / 3.0;
        let along: f64 =
            gradient.iter().zip(direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let size = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        assert!((along - difference).abs() < 4e-3 * size, "{what}: {along} {difference} {size}");
    };
    let moved = |x: &[f32], direction: &[f32], h: f32| -> Vec<f32> {
        x.iter().zip(direction).map(|(x, d)| x + h * d).collect()
    };
    for seed in 20..24 {
        let direction = noise(seed, mixed.len());
        let at = |h: f32| loss(&base, &moved(&mixed, &direction, h));
        check("mixed", &d_mixed, &at, &direction);
        let at = |which: usize, direction: &[f32], h: f32| {
            let mut number = 0;
            let weights = base.clone().map(|weight| {
                number += 1;
                if number - 1 == which { moved(&weight, direction, h) } else { weight }
            });
            loss(&weights, &mixed)
        };
        for (which, gradient) in [&d.conv, &d.a_log, &d.dt_bias, &d.norm].into_iter().enumerate() {
            let direction = noise(seed + 40, gradient.len());
            let at = |h: f32| at(which, &direction, h);
            check(["conv", "a_log", "dt_bias", "norm"][which], gradient, &at, &direction);
        }
    }
}
